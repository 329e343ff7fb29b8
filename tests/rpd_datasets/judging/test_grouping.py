"""Labelling in two passes: replies, orders, agreement, and the command by hand."""

from __future__ import annotations

import io
import json

import pytest

from rpd_datasets.cli import main
from rpd_datasets.judging.grouping import (
    StrategyGrouper,
    agreement_of_passes,
    label_problem,
    parse_groups,
)
from rpd_datasets.judging.judges import Judgement
from rpd_datasets.judging.labels import Labels
from rpd_metric.errors import ReplyError
from rpd_metric.inference.chat import ChatReply
from rpd_metric.inference.concurrency import run


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("//boxed_json{[1, 2]}", "wrong_count"),
        ("//boxed_json{[1, 2, x]}", "bad_verdict"),
        ("[1, 1, 2]", "no_envelope"),
    ],
)
def test_a_reply_that_does_not_give_each_solution_a_group_is_refused(reply, reason):
    with pytest.raises(ReplyError) as found:
        parse_groups(reply, 3)
    assert found.value.reason == reason


def test_the_second_pass_sees_another_order_and_comes_back_in_the_first():
    seen = []

    async def by_first_word(_problem, steps):
        seen.append([solution[0] for solution in steps])
        return Judgement(tuple(ord(solution[0][0]) for solution in steps))

    steps = [["a1"], ["a2"], ["b1"], ["c1"], ["b2"], ["a3"]]
    labels, reason = run(label_problem(by_first_word, "P", steps))
    assert reason is None
    assert seen[0] != seen[1]
    assert sorted(seen[0]) == sorted(seen[1])
    assert labels.passes == ((0, 0, 1, 2, 1, 0),) * 2


def test_a_problem_without_a_verdict_has_a_reason_and_no_labels():
    async def silent(_problem, _steps):
        return Judgement(None, "truncated")

    assert run(label_problem(silent, "P", [["a"], ["b"]])) == (None, "truncated")


def test_a_chat_model_is_shown_all_solutions_and_its_groups_are_read():
    requests = []

    class Chat:
        model = "grouper"

        async def __call__(self, request):
            requests.append(request)
            return ChatReply("Two methods.\n//boxed_json{[4, 4, 2]}", "stop")

    found = run(StrategyGrouper(Chat())("What is 2 + 2?", [["Add."], ["Sum up."], ["Guess."]]))
    assert found.value == (0, 0, 1)
    sent = requests[0].messages[-1]["content"]
    assert all(text in sent for text in ("What is 2 + 2?", "Solution 3", "Guess."))


def test_agreement_counts_pairs_of_both_passes():
    agreement = agreement_of_passes([Labels(((0, 0, 1), (0, 0, 1))), Labels(((0, 0), (0, 1)))])
    assert (agreement.judged, agreement.accuracy) == (4, 0.75)


ROWS = [
    {"problem": f"Problem {n}?", "solutions": ["We add them.", "We count up.", "We add all."]}
    for n in range(3)
]


def label(tmp_path, monkeypatch, typed, *options):
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    output = tmp_path / "labelled.jsonl"
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert main(["label", str(file), "--output", str(output), *options]) == 0
    lines = output.read_text().splitlines() if output.exists() else []
    return [json.loads(line) for line in lines]


def test_a_person_labels_twice_stops_and_goes_on_where_she_stopped(tmp_path, monkeypatch, capsys):
    first = label(tmp_path, monkeypatch, "1 2\n1 2 1\n1, 1, 1\nq\n")
    assert [row["strategy_a"] for row in first] == [[0, 1, 0]]
    assert first[0]["strategy_b"] == [0, 0, 0]
    assert "That is 2 of 3" in capsys.readouterr().err
    second = label(tmp_path, monkeypatch, "s\n1 1 1\n1 1 1\n", "--json")
    assert [row["problem"] for row in second] == ["Problem 0?", "Problem 2?"]
    result = json.loads(capsys.readouterr().out)
    assert (result["num_problems"], result["pairs"]) == (2, 6)
    assert result["skipped"] == {"skipped": 1}
    assert result["agreement"] == pytest.approx(4 / 6)


def test_what_is_written_is_what_compare_metrics_reads(tmp_path, monkeypatch):
    rows = label(tmp_path, monkeypatch, "1 2 1\n1 1 1\n" * 3)
    assert all(Labels.of(row) is not None for row in rows)
    assert {len(row["steps"]) for row in rows} == {3}
