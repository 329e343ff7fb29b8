"""Wrong final answers: found by marks, by the reference, or by what most solutions say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rpd_datasets.cli import main
from rpd_datasets.filters import answer_checks as answers_module
from rpd_datasets.filters.answer_checks import AnswerChecker, reference_of
from rpd_datasets.filters.pipeline import FilterConfig, Filtered, filter_problem
from rpd_datasets.problem import Problem
from rpd_datasets.tokens import token_counter
from rpd_metric.errors import MissingExtraError
from rpd_metric.grading.answers import Verdict

PROBLEM = "What is one half of one?"
TEXTS = tuple(
    f"{text} So the answer is ${answer}$."
    for text, answer in (
        ("We cut it in two.", r"\frac{1}{2}"),
        ("Divide one by two.", "0.5"),
        ("We double it.", "2"),
        ("Halving leaves a half.", r"\dfrac12"),
    )
)
UNFINISHED = "We cut it in two and then"


def filtered(solutions: tuple[str, ...], extra: dict[str, Any], **options: Any) -> Filtered:
    config = FilterConfig(min_solutions=1, require_complete=False, **options)
    checker = AnswerChecker()
    try:
        problem = Problem(PROBLEM, solutions, extra, "rows:1")
        found = checker.check(problem, config.correct_column, config.answer_column)
        return filter_problem(problem, config, token_counter("estimate"), answers=found)
    finally:
        checker.close()


def test_answers_that_differ_from_the_reference_are_left_out_by_default():
    found = filtered((*TEXTS, UNFINISHED), {"expected_answer": "1/2"})
    assert found.kept == (0, 1, 3, 4)  # who names no answer is not wrong
    assert found.reasons[2] == "wrong_answer"
    assert "'expected_answer'" in found.details[2]


def test_marks_win_over_the_reference():
    extra = {"correctness_math_verify": [False, True, True, None], "answer": "1/2"}
    found = filtered(TEXTS, extra)
    assert found.kept == (1, 2, 3)
    assert found.reasons[0] == "incorrect"


@pytest.mark.parametrize("options", [{"keep_wrong": True}, {"answers": "any"}])
def test_wrong_answers_are_kept_where_that_is_wanted(options):
    assert filtered(TEXTS, {"answer": "1/2"}, **options).kept == (0, 1, 2, 3)


def test_a_majority_does_not_overrule_a_reference():
    assert filtered(TEXTS, {"answer": "2"}, answers="majority").kept == (2,)


def test_without_marks_or_reference_only_a_majority_can_leave_out():
    assert filtered(TEXTS, {}).kept == (0, 1, 2, 3)
    found = filtered((*TEXTS, UNFINISHED), {}, answers="majority")
    assert found.kept == (0, 1, 3)  # 1/2, 0.5 and \dfrac12 are one answer
    assert found.reasons[2:] == ("minority_answer", "", "no_answer")


def test_a_problem_without_a_most_frequent_answer_goes():
    found = filtered(TEXTS[1:3], {}, answers="majority")
    assert found.reasons == ("no_majority", "no_majority")
    assert found.problem_reason == "too_few_solutions"


def test_agreement_is_known_with_marks_too_and_then_takes_no_algebra(monkeypatch):
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("no process is needed")

    monkeypatch.setattr(answers_module, "Grader", refuse)
    problem = Problem(PROBLEM, TEXTS, {"correct": [True, True, False, True]})
    found = AnswerChecker().check(problem)
    assert (found.agrees, found.by, found.column) == ((True, True, False, True), "marks", "correct")


def test_what_is_no_answer_is_no_reference():
    for value in ("proof", "", None, True, ["5"], "Not found"):
        assert reference_of(Problem(PROBLEM, TEXTS, {"answer": value})) is None
    assert reference_of(Problem(PROBLEM, TEXTS, {"answer": 5.0})) == "5"
    long = "We cut it in two and then look at one of the halves, which is one half. " * 2
    assert reference_of(Problem(PROBLEM, TEXTS, {"answer": long + r"\boxed{1/2}"})) == "1/2"


def test_without_math_verify_a_reference_that_takes_algebra_names_the_extra(monkeypatch):
    def missing(*_: Any, **__: Any) -> None:
        raise MissingExtraError("grading mathematics", extra="grading", module="math_verify")

    monkeypatch.setattr(answers_module, "Grader", missing)
    checker = AnswerChecker()
    assert checker.check(Problem("2 + 2?", ("Answer: 4",), {"answer": "4"})).marks == (True,)
    with pytest.raises(MissingExtraError, match="grading"):
        checker.check(Problem(PROBLEM, TEXTS, {"answer": "1/2"}))


def test_answers_that_make_algebra_hang_cost_a_problem_two_timeouts(monkeypatch):
    asked: list[int] = []

    class Hanging:
        """Stands where processes that hang would be killed after seconds each."""

        def __init__(self, **_: Any) -> None:
            pass

        def grade(self, rows: list[tuple[str, str]]) -> list[Verdict]:
            asked.append(len(rows))
            return [Verdict.TIMED_OUT] * len(rows)

    monkeypatch.setattr(answers_module, "Grader", Hanging)
    texts = tuple(f"The answer is $x^{{{n}}}+1$." for n in range(2, 12))
    found = AnswerChecker().check(Problem(PROBLEM, texts))
    assert sum(asked) <= 3
    assert found.majority is False


def rows() -> list[dict[str, Any]]:
    answers = [("2", "2"), ("3", "3"), ("4", "5")]
    return [
        {
            "problem": f"What is {n} + 1?",
            "solutions": [
                f"We count on from {n}. So the answer is ${right}$.",
                f"One after {n} comes the next. The answer is ${right}$.",
                f"Add one to {n}, carry nothing. The answer is ${other}$.",
                f"It is {n} plus one. The answer is $99$.",
            ],
            "answer": right,
        }
        for n, (right, other) in enumerate(answers, start=1)
    ]


def write(path: Path, content: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in content))
    return str(path)


@pytest.mark.slow
def test_what_was_left_out_is_said_in_terminal_card_manifest_and_rejects(tmp_path, capsys):
    file = write(tmp_path / "rows.jsonl", rows())
    command = ["curate", file, "--num-problems", "3", "--num-solutions", "2"]
    assert main([*command, "--output", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "100.0% of the chosen, 66.7% of all candidates" in " ".join(said.split())
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["outcome"]["right"]["left_out"] == 4
    assert manifest["outcome"]["right"]["by"] == ["reference answers"]
    assert manifest["outcome"]["agreement"]["candidates_dissenting"] == 4
    card = (tmp_path / "out" / "README.md").read_text()
    assert "left out for their answer (--keep-wrong keeps them)" in card
    rejects = [json.loads(line) for line in (tmp_path / "out" / "rejects.jsonl").open()]
    assert [one["reason"] for one in rejects] == ["wrong_answer"] * 4

    assert main([*command, "--keep-wrong", "--output", str(tmp_path / "kept")]) == 0
    kept = json.loads((tmp_path / "kept" / "manifest.json").read_text())["outcome"]["right"]
    assert (kept["left_out"], kept["wrong_kept"]) == (0, True)
    assert "wrong ones were kept" in " ".join(capsys.readouterr().out.split())


def test_another_mark_is_another_problem_when_a_run_goes_on(tmp_path):
    from rpd_datasets.curation.folder import journal_key

    one, other = (
        Problem("p", ("a", "b"), {"correct": marks, "id": "x"})
        for marks in ([True, True], [True, False])
    )
    same = Problem("p", ("a", "b"), {"correct": [True, True], "id": "y"})
    config = FilterConfig()
    assert journal_key(one, "f", config) == journal_key(same, "f", config)
    assert journal_key(one, "f", config) != journal_key(other, "f", config)


def test_plan_shows_what_was_understood_before_a_request(tmp_path, capsys):
    file = write(tmp_path / "rows.jsonl", rows())
    assert main(["plan", file, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["input"]
    assert found["correctness"] == {"reference in the column answer": 3}
    assert (found["right"], found["marked"]) == (8, 12)
    assert found["columns"] == {"problem": "problem", "solutions": "solutions"}
    assert main(["plan", file]) == 0
    assert "What is 1 + 1?" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "options", "says"),
    [
        ("curate", ["--correct-column", "right"], "no column 'right' for --correct-column"),
        ("curate", ["--answer-column", "answr"], "Perhaps --answer-column answer"),
        ("curate", ["--solutions-column", "answers"], "no column 'answers'"),
        ("score", ["--solutions-column", "answers"], "no column 'answers'"),
        ("compare-metrics", ["--only", "domain=math"], "no column 'domain'"),
    ],
)
def test_what_is_wrong_with_an_input_is_said_before_a_model_is_loaded(
    tmp_path, capsys, monkeypatch, command, options, says
):
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a model was loaded")

    for module in ("curate", "score", "compare"):
        monkeypatch.setattr(f"rpd_datasets.cli.{module}.load_models", refuse)
    output = ["--output", str(tmp_path / "out")] if command == "curate" else []
    file = write(tmp_path / "rows.jsonl", rows())
    assert main([command, file, *options, *output]) == 1
    said = capsys.readouterr().err
    assert says in said
    assert "Its columns are: problem, solutions, answer" in said
