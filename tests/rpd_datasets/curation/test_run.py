"""A whole run: complete or absent, resumable, repeatable, and readable by `load_dataset`."""

import sys

import datasets
import pytest

from parts.curate_rows import write_rows
from parts.kill_loop import contents
from parts.scripted import SentenceSteps, Stopped
from rpd_datasets import CurationConfig, FilterConfig, curate_dataset, rpd_curate, select_samples
from rpd_datasets.cli import main
from rpd_datasets.curation.models import Models
from rpd_datasets.tokens import token_counter
from rpd_metric.errors import OutputError
from rpd_metric.models.spec import load_embedder

FILTERS = FilterConfig(min_solutions=2, require_complete=False)


@pytest.fixture
def rows(tmp_path):
    return write_rows(tmp_path / "rows.jsonl", num_solutions=4)


def curate(rows, output, summarizer=None, *, overwrite=False, max_in_flight=1, **settings):
    choice = {"num_problems": 5, "num_solutions": 2, "filters": FILTERS, **settings}
    models = Models(
        summarizer or SentenceSteps(), load_embedder("minilm"), token_counter("estimate")
    )
    how = {"models": models, "overwrite": overwrite, "max_in_flight": max_in_flight}
    return curate_dataset(rows, output, CurationConfig(**choice), **how)


def test_an_interrupted_run_leaves_no_output_and_goes_on_where_it_stopped(rows, tmp_path):
    curate(rows, tmp_path / "undisturbed", max_in_flight=7)
    first = SentenceSteps(stop_at="Problem 7")
    with pytest.raises(Stopped):
        curate(rows, tmp_path / "out", first)
    assert not (tmp_path / "out").exists()
    second = SentenceSteps()
    curate(rows, tmp_path / "out", second)
    assert first.asked == [f"Problem {n}" for n in range(7)]
    assert second.asked == [f"Problem {n}" for n in range(7, 12)]
    assert contents(tmp_path / "out") == contents(tmp_path / "undisturbed")


def test_resuming_is_keyed_on_content_so_a_changed_input_is_scored_anew(rows, tmp_path):
    with pytest.raises(Stopped):
        curate(rows, tmp_path / "out", SentenceSteps(stop_at="Problem 7"))
    lines = rows.read_text().splitlines(keepends=True)
    rows.write_text(
        "".join(reversed(lines)).replace("So the answer is 3.", "So the answer is three.")
    )
    again = SentenceSteps()
    curate(rows, tmp_path / "out", again)
    assert sorted(again.asked) == sorted([f"Problem {n}" for n in range(7, 12)] + ["Problem 3"])


def test_overwrite_replaces_the_output_only_once_the_new_one_is_complete(rows, tmp_path):
    curate(rows, tmp_path / "out")
    before = contents(tmp_path / "out")
    with pytest.raises(Stopped):
        curate(rows, tmp_path / "out", SentenceSteps("Problem 3"), overwrite=True, num_problems=2)
    assert contents(tmp_path / "out") == before
    assert len(curate(rows, tmp_path / "out", overwrite=True, num_problems=2).dataset) == 2


def test_a_run_that_fails_says_what_it_leaves_and_a_report_leaves_nothing(rows, tmp_path, capsys):
    for name, options in (("curate", ["--output", str(tmp_path / "out")]), ("report", [])):
        assert main([name, str(rows), "--num-solutions", "9", *options]) == 1
        error = capsys.readouterr().err
        assert "no problem of" in error
        assert (f"{tmp_path / 'out.partial'} keeps the scores" in error) == (name == "curate")
        assert error.count(".partial") == (name == "curate")


def test_a_second_run_to_the_same_output_is_refused(rows, tmp_path):
    from filelock import FileLock

    (tmp_path / "out.partial").mkdir()
    with (
        FileLock(tmp_path / "out.partial" / "lock"),
        pytest.raises(OutputError, match="another run is writing"),
    ):
        curate(rows, tmp_path / "out")


@pytest.mark.parametrize("num_samples", [3, 12, 20, 99])
def test_a_budget_is_spent_over_all_problems_and_the_manifest_says_so(rows, tmp_path, num_samples):
    spent = {"num_samples": num_samples, "num_problems": num_samples, "num_solutions": 1}
    made = curate(rows, tmp_path / "out", **spent)
    # A budget of 12 reaches the 12 problems; a solution that is none of its own adds to none.
    assert len(made.dataset) == min(num_samples, 12)
    usable = sum(score.num_usable for score in made.summary.scores)
    assert made.summary.num_selected == min(num_samples, usable)
    scored = datasets.Dataset.from_json(str(rows)).map(
        rpd_curate, fn_kwargs={"config": CurationConfig(num_samples=1, filters=FILTERS)}
    )
    expected = select_samples(scored.to_list(), num_samples)
    assert {row["problem"]: row["selected"] for row in made.dataset} == {
        row["problem"]: row["selected"] for row in expected
    }
    found = made.manifest
    assert found["options"]["num_samples"] == num_samples
    assert found["outcome"]["asked_for"] == {
        "problems": len(made.dataset),
        "solutions": num_samples,
    }
    short = "solutions could be chosen"
    assert (short in " ".join(found["outcome"]["warnings"])) == (num_samples > usable)


def test_no_encoder_is_loaded_where_nothing_is_compared(rows, tmp_path, monkeypatch):
    """So that an installation without torch curates."""
    monkeypatch.setitem(sys.modules, "torch", None)
    config = CurationConfig(problems="random", solutions="random", filters=FILTERS)
    curated = curate_dataset(str(rows), tmp_path / "out", config)
    assert len(curated.summary.chosen) == 12
    assert curated.manifest["used"]["embedder"] is False
