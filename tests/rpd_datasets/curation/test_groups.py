"""Groups: a chat model sorts a problem's solutions by strategy, and its names travel with them."""

import json
import random
import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import datasets
import pytest

from parts.fake_tgi import FakeTGI, Fault
from parts.kill_loop import summary, write_problems
from parts.recorded_groups import SHARED, RecordedGroups, read_lines
from rpd_datasets import (
    CurationConfig,
    FilterConfig,
    curate_dataset,
    rpd_curate,
    select_problems,
    select_samples,
    to_sft,
)
from rpd_datasets.cli import main
from rpd_datasets.curation.folder import Journal
from rpd_datasets.curation.scoring import UNSCORED
from rpd_datasets.problem import Problem, strategy_labels
from rpd_metric.distance.groups import scores_by_groups
from rpd_metric.statistics.strategy_counts import effective_number

FILTERS = FilterConfig(min_solutions=2, require_complete=False)


def refused(body):
    """Summaries as ever, but no groups."""
    said = summary(body)
    return "I cannot say." if "strategies" in said else said


@pytest.fixture
def rows(tmp_path) -> Path:
    return write_problems(tmp_path / "rows.jsonl", 8, num_solutions=5)


@pytest.fixture
def settings(tmp_path):
    def make(server, **options) -> CurationConfig:
        values = {"num_problems": 4, "num_solutions": 3, "filters": FILTERS, **options}
        store = str(tmp_path / "replies.sqlite")
        return CurationConfig(summarizer=f"tgi:{server.url}", store=store, **values)

    return make


def test_problems_rank_by_strategies_and_solutions_are_one_of_each_in_turn(
    rows, tmp_path, settings
):
    with FakeTGI(reply=summary) as server:
        config = settings(server)
        curated = curate_dataset(rows, tmp_path / "out", config)
        ds = datasets.load_dataset("json", data_files=str(rows), split="train")
        mapped = ds.map(rpd_curate, fn_kwargs={"config": config})
        assert len(server.requests) == 8 * (5 + 1)
    scores = [json.loads(line) for line in (tmp_path / "out" / "scores.jsonl").open()]
    names = ("strategies", "groups_auroc", "problem_score")
    values = scores_by_groups(*([score[name] for score in scores] for name in names))
    best = sorted(range(8), key=lambda place: -values[place])
    assert [scores[place]["rank"] for place in best] == [0, 1, 2, 3, *[None] * 4]
    for row in curated.dataset:
        firsts = [one[0].split()[0] for one in row["steps"]]
        names = strategy_labels(row, 5)
        assert names == [f"{verb} first" for verb in firsts]
        assert row["num_strategies"] == effective_number(row["strategies"])
        assert len({names[index] for index in row["selected"]}) == min(3, len(set(names)))
    best = select_problems(mapped, 4)
    for column in ("problem", "selected", "strategies", "strategy_names", "problem_score"):
        assert best[column][:] == curated.dataset[column][:]
    # Beside the training rows, too, from a folder and from Python.
    assert to_sft(best)["strategy"][:] == curated.sft["strategy"][:]
    assert curated.sft["strategy"][0] == strategy_labels(best[0], 5)[best[0]["selected"][0]]
    # A budget goes to other strategies before it goes to the same one.
    for row in select_samples(mapped, 16):
        taken = [row["strategies"][index] for index in row["selected"]]
        assert len(set(taken)) == min(len(taken), len(row["strategy_names"]))


def test_names_are_on_the_card_the_page_and_the_terminal(rows, tmp_path, capsys):
    with FakeTGI(reply=summary) as server:
        line = ["curate", str(rows), "--summarizer", f"tgi:{server.url}", "--num-problems", "4"]
        line += ["--num-solutions", "3", "--store", str(tmp_path / "replies.sqlite")]
        line += ["-o", str(tmp_path / "out")]
        assert main(line) == 0
        assert len(server.requests) == 8 * (5 + 1)
    printed = " ".join(capsys.readouterr().out.split())
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    found = manifest["outcome"]["strategies"]
    assert (found["problems_sorted"], found["not_sorted"]) == (8, 0)
    assert 1 <= found["in_a_random_choice"] <= found["a_problem"] <= 3
    name = found["most_frequent"].partition(" (")[0]
    assert f": {name}" in printed
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"a problem {found['a_problem']:.3g}, in a random choice" in card
    assert "the strategies that the chat model names; tells strategies apart with" in card
    with FakeTGI(reply=summary) as server:
        line = ["score", str(rows), "--summarizer", f"tgi:{server.url}", "--distance", "rpd"]
        assert main([*line, "--store", str(tmp_path / "replies.sqlite"), "--json"]) == 0
        assert len(server.requests) == 0
    scored = json.loads(capsys.readouterr().out)
    assert all(sum(one["strategies"].values()) == 5 for one in scored["problems"])
    assert scored["strategies_a_problem"] > 1
    assert re.match("AUROC of `strategy` against its groups 0.[0-9]+ over", scored["reader"])
    assert main(["report", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "one of each strategy in turn, as the chat model sorted and named them" in page


def test_where_the_reply_cannot_be_used_the_distance_chooses_and_that_is_said(
    rows, tmp_path, settings
):
    with FakeTGI(reply=refused) as server:
        by_groups = curate_dataset(rows, tmp_path / "groups", settings(server))
        config = settings(server, problems="strategy", solutions="strategy")
        by_distance = curate_dataset(rows, tmp_path / "strategy", config)
    for column in ("problem", "selected", "distance_matrix"):
        assert by_groups.dataset[column][:] == by_distance.dataset[column][:]
    assert by_groups.dataset["num_strategies"][:] == [None] * 4
    assert by_groups.sft["strategy"][:] == [None] * 12
    outcome = by_groups.manifest["outcome"]
    assert (outcome["strategies"]["problems_sorted"], outcome["strategies"]["not_sorted"]) == (0, 8)
    (warning,) = [one for one in outcome["warnings"] if "strategies" in one]
    assert "strategies of 8 problems are not known: no_envelope (8)" in warning


def test_a_request_that_failed_is_made_again_by_the_next_run(rows, tmp_path, settings):
    """Not a reply that cannot be used: that one is stored, and was paid for."""
    refusals = [*[None] * 40, *[Fault.status(422)] * 8]  # of the groups
    with FakeTGI(reply=summary, faults=refusals) as server:
        first = curate_dataset(rows, tmp_path / "first", settings(server))
        assert first.summary.ungrouped == {"model_error": 8}
        again = curate_dataset(rows, tmp_path / "again", settings(server))
        assert len(server.requests) == 8 * 5 + 2 * 8
    assert again.summary.sorted_problems == 8
    # Nor does a run that goes on take the failure from its journal.
    problem = Problem("2 + 2?", ("4", "four"))
    with closing(Journal(tmp_path / "journal.sqlite", "", FILTERS)) as journal:
        for reason, known in (("model_error", False), ("no_envelope", True)):
            journal.put(journal.key(problem), replace(UNSCORED, ungrouped=reason).as_record())
            assert (journal.find(problem) is not None) == known


def readers(row):
    """What bad readers make of a problem, by name, in the order of its solutions."""
    rng, meant = random.Random(row["problem_id"]), row["strategy_a"]
    places = range(len(meant))
    length = sorted(places, key=lambda at: len(row["solutions"][at]))
    return {
        "random": [rng.randrange(3) for _ in places],
        "merging": [meant[0] if rng.random() < 0.9 else label for label in meant],
        "splitting": [10 + at if rng.random() < 0.9 else meant[at] for at in places],
        "by length": [length.index(at) // 2 for at in places],
        "everyone alone": list(places),
        "all one": [0 for _ in places],
    }


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.exists(), reason="needs the labelled sets in ../shared/data")
@pytest.mark.parametrize("name", readers({"problem_id": "", "strategy_a": [0], "solutions": [""]}))
def test_a_reader_that_does_not_see_strategy_decides_nothing_and_is_never_called_good(
    name, tmp_path, settings
):
    rows = read_lines(SHARED / "controlled.jsonl")
    replies = [
        {
            "problem_id": row["problem_id"],
            "order": list(range(len(row["solutions"]))),
            "groups": (groups := readers(row)[name]),
            "names": {str(group): f"strategy {group}" for group in groups},
        }
        for row in rows
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with FakeTGI(reply=RecordedGroups(rows, replies)) as server:
        config = settings(server, num_problems=11)
        curated = curate_dataset(path, tmp_path / "out", config)
        by_distance = replace(config, problems="strategy", solutions="strategy")
        without = curate_dataset(path, tmp_path / "without", by_distance)
    for column in ("problem", "selected"):
        assert curated.dataset[column][:] == without.dataset[column][:]
    outcome = curated.manifest["outcome"]
    assert outcome["better_than_random"]["answer"] == "not measured"
    assert "groups are not trusted" in outcome["better_than_random"]["why"]
    assert outcome["distance"]["name"] == "strategy"
    found = outcome["strategies"]
    assert found["reader_trusted"] == "no"
    assert (found["reader_auroc"] or 0) < found["reader_needs"]
    card = (tmp_path / "out" / "README.md").read_text()
    assert "good" not in card.lower()
    assert "one of each strategy in turn" not in card


@pytest.mark.skipif(not SHARED.exists(), reason="needs the labelled sets in ../shared/data")
def test_controlled_is_curated_by_the_strategies_that_were_meant(tmp_path, settings):
    with FakeTGI(reply=RecordedGroups.of_sets(SHARED)) as server:
        config = settings(server, num_problems=12, num_solutions=2)
        lines = (SHARED / "controlled.jsonl").read_text(encoding="utf-8").splitlines()
        path = tmp_path / "rows.jsonl"
        path.write_text("\n".join(lines[:12]) + "\n", encoding="utf-8")
        curated = curate_dataset(path, tmp_path / "out", config)
    for row in curated.dataset:
        meant = row["strategy_a"]
        pairs = [(i, j) for i in range(6) for j in range(i) if row["strategies"][i] is not None]
        for i, j in pairs:
            if row["strategies"][j] is not None:
                same = row["strategies"][i] == row["strategies"][j]
                assert same == (meant[i] == meant[j])
        assert len({meant[index] for index in row["selected"]}) == min(2, len(set(meant)))
    # The reader has earned its trust, and what judges its choice is another distance.
    outcome = curated.manifest["outcome"]
    found = outcome["strategies"]
    assert (found["reader_trusted"], found["reader_problems"]) == ("yes", 10)
    assert found["reader_auroc"] > 0.8 > found["reader_needs"]
    assert outcome["better_than_random"]["measure"] != "strategies"
