"""Every problem and solution is accounted for: chosen, of a lower rank, or left out with why."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from rpd_datasets.account import outcome_lines
from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.curated import curate_dataset
from rpd_datasets.filters.candidates import FilterConfig
from rpd_datasets.filters.contamination import Contamination
from rpd_metric.reasons import with_option

WAYS = (
    "We factor the sum and read the value off: {}.",
    "Counting every case by hand on a table gives {}.",
    "By symmetry both halves are equal, and together they make {}.",
    "Induction on the number of terms leads to {}.",
)


def row(name: str, *solutions: Any, **more: Any) -> str:
    return json.dumps({"problem": f"How large is {name}?", "solutions": solutions, **more})


def four(n: int) -> list[str]:
    return [way.format(n) for way in WAYS]


DEFECTS = {
    "not JSON": "{",
    "no object": "[1]",
    "no problem": json.dumps({"solutions": four(1)}),
    "a null problem": json.dumps({"problem": None, "solutions": four(1)}),
    "no solutions": row("nothing"),
    "solutions without text": row("air", None, " ", 7),
    "one without text": row("half", *four(2), None),
    "copies": row("two", four(2)[0], four(2)[0]),
    "cut off": row("long", *(f"{one} So it is $\\boxed{{3" for one in four(3))),
    "wrong": row(
        "false", *(f"{one} The answer is {n}." for n, one in enumerate(four(3))), answer=9
    ),
    "one solution": row("one", four(4)[0]),
    "in a benchmark": row("known", *four(5)),
    "two usable": row("few", *four(6)[:2], four(6)[0]),
}


@pytest.mark.parametrize("least", [1, 3])
@pytest.mark.parametrize("problems", ["pieces", "random"])
def test_what_was_read_was_chosen_or_ranked_lower_or_left_out(least, problems, tmp_path):
    file = tmp_path / "rows.jsonl"
    good = [row(f"good {n}", *four(n)) for n in range(5)]
    file.write_text("\n".join([*good, *DEFECTS.values()]) + "\n")
    config = CurationConfig(
        problems=problems,
        num_problems=3,
        num_solutions=3,
        filters=FilterConfig(min_solutions=least),
    )
    known = Contamination({"bench": ["How large is known?"]})
    curated = curate_dataset(file, tmp_path / "out", config, contamination=known)
    counts, outcome = curated.manifest["counts"], curated.manifest["outcome"]
    lines = (curated.folder / "rejects.jsonl").read_text().splitlines()
    rejects = [json.loads(line) for line in lines]
    scores = [json.loads(line) for line in (curated.folder / "scores.jsonl").open()]

    unread = ("read", "group")
    gone = {one["where"] for one in rejects if one["solution_index"] is None}
    lost = {
        one["where"]
        for one in rejects
        if one["solution_index"] is None and one["stage"] not in unread
    }
    read = {one["where"] for one in scores} | lost
    assert counts["problems_read"] == len(read) == 12
    assert counts["problems_chosen"] == 3
    assert counts["problems_left_out"] == len(lost) == 6
    parts = ("problems_chosen", "problems_ranked_lower", "problems_left_out")
    assert counts["problems_read"] == sum(counts[part] for part in parts)
    # Every row was read as a problem, or is on the list.
    assert len(read | gone) == len(good) + len(DEFECTS)

    own = Counter(
        one["where"]
        for one in rejects
        if one["solution_index"] is not None and one["stage"] not in unread
    )
    for score in scores:
        left = score["num_solutions"] - own[score["where"]]
        assert score["num_usable"] == left or (score["where"] in gone and left >= 0)
    assert curated.summary is not None
    for unit in ("problem", "solution"):
        on_file = Counter(
            one["reason"]
            for one in rejects
            if (one["solution_index"] is None) == (unit == "problem")
        )
        assert outcome[f"{unit}s_left_out"] == dict(on_file)
    assert not [said for said in outcome["warnings"] if "could be chosen" in said]
    said = dict(outcome_lines(curated.manifest))["Problems left out"]
    assert "too_few_solutions 5 (--min-solutions)" in said
    assert "contaminated 1 (--decontaminate)" in said


def test_a_reason_names_the_option_that_brings_it_back():
    assert with_option("cut_off", 1000) == "cut_off 1,000 (--no-require-complete)"
    assert with_option("of another package", 2) == "of another package 2"
