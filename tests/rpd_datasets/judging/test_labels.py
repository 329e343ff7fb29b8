"""Strategy labels: their pairs, how far opinions agree, and labelling in two passes."""

import io
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parts.curated_folder import HashEmbedder
from parts.fake_tgi import FakeTGI
from parts.rows import write_rows
from rpd_datasets.cli import main
from rpd_datasets.judging.labels import Labels, agreement
from rpd_datasets.judging.metric_comparison import compare_metrics


def test_the_papers_confusion_matrix_gives_the_papers_figures():
    verdicts = [True] * 41 + [False] * 9 + [True] * 13 + [False] * 37 + [None]
    found = agreement([True] * 50 + [False] * 51, verdicts)
    assert (found["judged"], found["undecided"]) == (100, 1)
    figures = [found[name] for name in ("accuracy", "recall", "precision", "kappa")]
    assert figures == pytest.approx([0.78, 0.82, 41 / 54, 0.56])
    assert agreement([True, True], [True, True])["kappa"] is None  # nothing beyond chance is left


def test_pairs_count_only_where_both_passes_agree():
    labels = Labels.of(
        {"solutions": ["a", "b", "c"], "strategy_a": [0, 1, 1], "strategy_b": [0, 1, 2]}
    )
    assert labels.pairs() == [(0, 1, True), (0, 2, True)]
    assert Labels.of({"solutions": ["a", "b"]}) is None
    for column in ("strategy_a", "strategies"):
        assert Labels.of({"solutions": ["a", "b"], column: [0, 1]}).pairs() == [(0, 1, True)]


@given(
    st.lists(st.integers(0, 3), min_size=3, max_size=7),
    st.lists(st.integers(0, 3), min_size=7, max_size=7),
)
def test_the_choice_of_three_matters_when_some_three_fall_short_in_every_pass(first, second):
    second = second[: len(first)]
    for labels in (Labels((tuple(first),)), Labels((tuple(first), tuple(second)))):
        each = [
            any(
                not Labels((one,)).complete(triple, 3)
                for triple in itertools.combinations(range(len(first)), 3)
            )
            for one in labels.passes
        ]
        assert labels.choice_matters(3) == all(each)


ROWS = [
    {"problem": f"Problem {n}?", "solutions": ["We add them.", "We count up.", "We add\u2028all."]}
    for n in range(3)
]


def label(tmp_path, monkeypatch, typed, *options):
    file = write_rows(tmp_path / "rows.jsonl", ROWS)
    output = tmp_path / "labelled.jsonl"
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert main(["label", str(file), "--output", str(output), *options]) == 0
    with output.open() if output.exists() else io.StringIO() as lines:
        return [json.loads(line) for line in lines]


def test_a_person_labels_all_once_then_all_again_and_goes_on_where_she_stopped(
    tmp_path, monkeypatch, capsys
):
    first = label(tmp_path, monkeypatch, "1 2\n1 2 1\ns\nq\n")
    assert [row["strategy_a"] for row in first] == [[0, 1, 0]]
    assert "strategy_b" not in first[0]
    assert "That is 2 of 3" in capsys.readouterr().err
    # The two that are left, then one of the three again.
    second = label(tmp_path, monkeypatch, "1 1 1\n1 1 2\n1 1 1\nq\n", "--json")
    assert [row["problem"] for row in second] == [f"Problem {n}?" for n in range(3)]
    assert sum("strategy_b" in row for row in second) == 1
    capsys.readouterr()
    third = label(tmp_path, monkeypatch, "1 1 1\n1 1 1\n", "--json")
    assert all(row["strategy_b"] == [0, 0, 0] for row in third)
    result = json.loads(capsys.readouterr().out)
    assert (result["num_labelled_twice"], result["pairs"]) == (3, 9)
    assert result["agreement"] == pytest.approx(5 / 9)
    assert not list(tmp_path.glob("*.partial"))


def test_a_chat_model_labels_twice_and_says_how_far_it_is(tmp_path, monkeypatch, capsys):
    said = {"adding": [1, 3], "counting": [2]}
    entries = [{"name": name, "solutions": numbers} for name, numbers in said.items()]
    reply = json.dumps({"strategies": entries})
    with FakeTGI(reply=lambda body: reply) as server:
        judge = ["--judge", f"tgi:{server.url}", "--store", str(tmp_path / "store.sqlite")]
        rows = label(tmp_path, monkeypatch, "", *judge)
    assert all("strategy_b" in row for row in rows)
    said = capsys.readouterr().err
    assert "Labelling: 3 in" in said
    assert "Labelling in another order: 3 in" in said


def test_what_is_written_is_what_compare_metrics_reads(tmp_path, monkeypatch):
    rows = label(tmp_path, monkeypatch, "1 2 1\n" * 3 + "q\n")
    found = compare_metrics(rows, HashEmbedder(), "extractive", ["rpd"], num_bootstrap=10)
    assert (found.different, found.same) == (6, 3)
    # The steps that were shown were extractive ones: nothing may take them for a chat model's.
    assert {result.steps for result in found.results} == {"extractive"}
