"""What is left out before scoring, and why."""

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parts.rows import read_lines, write_rows
from rpd_datasets.cli import main
from rpd_datasets.filters import candidates as options
from rpd_datasets.filters import pipeline
from rpd_datasets.filters.candidates import Candidates, Drops, Filter, FilterConfig
from rpd_datasets.filters.pipeline import Filtered, filter_problem
from rpd_datasets.problem import Problem
from rpd_metric.errors import InputError, PluginError
from rpd_metric.plugins import Registry

DONE = "Therefore the answer is ${}$."
ALL_OFF = FilterConfig(min_solutions=1, require_complete=False, drop_duplicates=False)


@dataclass(frozen=True)
class Words:
    """Counts words, so that lengths can be read off the texts."""

    name: str = "words"
    estimated: bool = False

    def __call__(self, text: str) -> int:
        return len(text.split())


def run(*solutions: str, config: FilterConfig = ALL_OFF, **extra: Any) -> Filtered:
    return filter_problem(Problem("p", solutions, extra, "a.jsonl:1"), config, Words())


def test_length_is_the_mean_over_all_solutions_the_limit_included():
    assert run("one two", "one two") == Filtered((0, 1), ("", ""), ("", ""), (2, 2))
    config = replace(ALL_OFF, max_mean_tokens=3)
    assert run("a b c d e", "a", config=config).remaining == (0, 1)
    filtered = run("a b c d e f g", "a", config=config)
    assert (filtered.remaining, filtered.problem_reason) == ((), "too_long")
    assert filtered.reasons == ("too_long", "too_long")


def test_a_text_too_short_to_have_been_cut_need_not_announce_an_answer():
    unfinished = "We add the two equations. " + "This term cancels. " * 15 + "Now we divide by"
    config = replace(ALL_OFF, require_complete=True)
    filtered = run("Expand both products", "It is \\boxed{4", unfinished, config=config)
    assert filtered.reasons == ("", "unclosed_box", "cut_off")


def test_equal_texts_are_kept_once_blank_space_aside():
    config = replace(ALL_OFF, drop_duplicates=True)
    filtered = run("a b", "c", " a\n\tb ", "A b", config=config)
    assert filtered.reasons == ("", "", "duplicate", "")
    assert filtered.details[2] == "The same text as solution 0."


@pytest.mark.parametrize(
    ("marks", "reasons"),
    [
        ([True, False, None], ("", "incorrect", "correctness_unknown")),
        (True, ("", "", "")),
        (["yes", 1, "Pass"], ("", "", "")),
        ([0.0, "-1", "incorrect"], ("incorrect",) * 3),
        (["maybe", 0.5, True], ("correctness_unknown", "correctness_unknown", "")),
        ([True, True], ("correctness_unknown",) * 3),
    ],
)
def test_only_solutions_marked_correct_stay(marks, reasons):
    config = replace(ALL_OFF, only_correct=True, correct_column="verified")
    assert run("a", "b", "c", config=config, verified=marks).reasons == reasons
    with pytest.raises(InputError, match=r"in one of verified, or .*; a\.jsonl:1 has only: good"):
        run("a", config=config, good=[True])


@pytest.mark.parametrize(
    ("said", "reasons"),
    [
        ({"finish_reason": ["stop", "length", None]}, ("", "cut_off", "")),
        ({"stop_reason": ["stop", "max_tokens", "stop"]}, ("", "cut_off", "")),
        ({"finish_reason": "length"}, ("cut_off",) * 3),
        ({"finish_reason": ["length"]}, ("",) * 3),  # of whom?
    ],
)
def test_a_reply_that_reached_its_limit_is_cut_off_however_it_ends(said, reasons):
    texts = [DONE.format(n) for n in range(3)]
    config = FilterConfig(min_solutions=1)
    assert run(*texts, config=config, **said).reasons == reasons


SOLUTIONS = st.lists(
    st.sampled_from([DONE.format(n) for n in range(3)] + ["Now we", "So $x$ is 4."]),
    min_size=1,
    max_size=8,
)


@given(solutions=SOLUTIONS, least=st.integers(1, 4))
def test_what_stays_and_what_goes_add_up_and_filtering_again_changes_nothing(solutions, least):
    config = FilterConfig(min_solutions=least)
    problem = Problem("p", tuple(solutions))
    filtered = filter_problem(problem, config, Words())

    kept = tuple(index for index, reason in enumerate(filtered.reasons) if not reason)
    assert kept == filtered.remaining
    assert (filtered.problem_reason is None) == (len(filtered.remaining) >= least)
    if kept:
        again = filter_problem(problem.take(kept), config, Words())
        assert again.remaining == tuple(range(len(kept)))


def test_a_filter_of_another_package_is_applied_to_what_ours_left(monkeypatch):
    def drop(candidates: Candidates, value: str) -> Drops:
        return {n: ("brackets", value) for n in candidates.left if n >= int(value)}

    # In the place of its entry point.
    made = Registry("filter", Filter, {"brackets": Filter(drop, "drops from VALUE on")})
    for module in (options, pipeline):
        monkeypatch.setattr(module, "FILTERS", made)

    config = FilterConfig(min_solutions=1, filters=("brackets=1",))
    filtered = run("It is $4$.", "It  is $4$.", "So it is $4$.", config=config)
    assert filtered.reasons == ("", "duplicate", "brackets")
    with pytest.raises(
        PluginError, match=r"filter 'brackets=x' failed: ValueError: invalid literal"
    ):
        run("It is $4$.", config=FilterConfig(filters=("brackets=x",)))
    with pytest.raises(InputError, match="unknown filter 'bracket'; did you mean 'brackets'"):
        FilterConfig(filters=("bracket",))


@pytest.mark.slow
def test_rpd_curate_applies_them_and_says_what_went(tmp_path):
    way = "We count on by {}. {} So the answer is ${}$."
    rows: list[Any] = [
        {"problem": f"How many are {n} and 1, counted one after the other by hand?"}
        | {"solutions": [way.format(at, "", n + 1) for at in range(3)], "answer": str(n + 1)}
        for n in (1, 2, 3)
    ]
    texts = rows[0]["solutions"]
    texts += [way.format(9, "There must be a mistake.", 2), way.format(8, "", 7)]
    key = Problem(rows[0]["problem"], tuple(texts)).key
    marks = [
        {"problem": key, "solution": at, "decision": mark}
        for at, mark in enumerate(("reject", "keep", "keep"))
    ]
    (tmp_path / "d.json").write_text(json.dumps({"format": 1, "decisions": marks}))
    bench = write_rows(tmp_path / "bench.jsonl", [{"question": rows[2]["problem"]}])
    file, out = write_rows(tmp_path / "rows.jsonl", rows), tmp_path / "out"
    command = ["curate", str(file), "-o", str(out), "--num-problems", "2", "--num-solutions", "2"]
    command += ["--decontaminate", str(bench), "--decisions", str(tmp_path / "d.json")]
    assert main([*command, "--soundness", "rules"]) == 0

    rejects = read_lines(out / "rejects.jsonl")
    assert sorted((row["reason"], row["solution_index"]) for row in rejects) == [
        ("admits_mistake", 3),
        ("contaminated", None),
        ("rejected_by_hand", 0),
        ("wrong_answer", 4),
    ]
    manifest = (out / "manifest.json").read_text()
    outcome = json.loads(manifest)["outcome"]
    left_out = outcome["solutions_left_out"]
    assert (left_out["wrong_answer"], left_out["admits_mistake"]) == (1, 1)
    assert str(tmp_path) not in manifest
