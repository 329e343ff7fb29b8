"""Wrong final answers: found by marks, by the reference, or by what most solutions say."""

from types import SimpleNamespace

import pytest

from rpd_datasets.curation.folder import journal_key
from rpd_datasets.filters import answer_checks
from rpd_datasets.filters.answer_checks import AnswerChecker, reference_of, too_many_unchecked
from rpd_datasets.filters.candidates import FilterConfig
from rpd_datasets.filters.pipeline import filter_problem
from rpd_datasets.inputs.understanding import Understood
from rpd_datasets.problem import Problem
from rpd_datasets.tokens import token_counter
from rpd_metric.errors import InputError, install_line
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
SILENT = (*TEXTS, "We cut it in two and then")
MARKS = {"correctness_math_verify": [False, True, True, None], "answer": "1/2"}
WRONG, FEW, UNKNOWN = "wrong_answer", "rare_answer", "correctness_unknown"


@pytest.mark.parametrize(
    ("solutions", "extra", "options", "reasons"),
    [
        # Who names no answer is not wrong.
        (SILENT, {"expected_answer": "1/2"}, {}, ("", "", WRONG, "", "")),
        (TEXTS, MARKS, {}, ("incorrect", "", "", "")),  # marks win over the reference
        (TEXTS, {"answer": "1/2"}, {"keep_wrong": True}, ("",) * 4),
        (TEXTS, {"answer": "1/2"}, {"answers": "any"}, ("",) * 4),
        # A majority does not overrule a reference; 1/2, 0.5 and \dfrac12 are one answer.
        (TEXTS, {"answer": "2"}, {"answers": "majority"}, (WRONG, WRONG, "", WRONG)),
        (SILENT, {"answer": "1/2"}, {"only_correct": True}, ("", "", WRONG, "", UNKNOWN)),
        (SILENT, {"answer": "proof"}, {"only_correct": True}, (UNKNOWN,) * 5),
        (SILENT, {}, {}, ("",) * 5),
        (SILENT, {}, {"answers": "majority"}, ("", "", FEW, "", "no_answer")),
        (TEXTS[1:3], {}, {"answers": "majority"}, ("no_majority",) * 2),
    ],
)
def test_what_is_left_out_for_its_answer(solutions, extra, options, reasons):
    config = FilterConfig(min_solutions=1, require_complete=False, **options)
    problem, checker = Problem(PROBLEM, solutions, extra), AnswerChecker()
    found = filter_problem(
        problem, config, token_counter("estimate"), answers=checker.check(problem)
    )
    checker.close()
    assert found.reasons == reasons


def test_agreement_is_known_with_marks_too_and_then_takes_no_algebra(monkeypatch):
    monkeypatch.setattr(answer_checks, "Grader", None)
    problem = Problem(PROBLEM, TEXTS, {"correct": [True, True, False, True]})
    found = AnswerChecker().check(problem)
    assert (found.agrees, found.by, found.column) == ((True, True, False, True), "marks", "correct")


def test_marks_that_cannot_be_read_are_said_once(caplog):
    checker = AnswerChecker()
    for marks in (["A", True], ["A", False], [True, False, True], [None, True]):
        checker.check(Problem(PROBLEM, TEXTS[:2], {"correct": marks}))
    holds, number = caplog.messages
    assert holds.startswith("The column 'correct' holds 'A'; marks are true/false, 1/0, yes/no")
    assert number == "The column 'correct' has 3 marks for 2 solutions"


def test_what_is_no_answer_is_no_reference():
    for value in ("proof", "", None, True, ["5"], "Not found"):
        assert reference_of(Problem(PROBLEM, TEXTS, {"answer": value})) is None
    assert reference_of(Problem(PROBLEM, TEXTS, {"answer": 5.0})) == "5"
    long = "We cut it in two and then look at one of the halves, which is one half. " * 2
    assert reference_of(Problem(PROBLEM, TEXTS, {"answer": long + r"\boxed{1/2}"})) == "1/2"


def test_answers_that_make_algebra_hang_cost_a_problem_two_timeouts(monkeypatch):
    asked: list[str] = []

    def compare(gold: str, answer: str) -> Verdict:
        asked.append(answer)
        return Verdict.TIMED_OUT

    # In the place of processes that hang and would be killed after seconds each.
    monkeypatch.setattr(answer_checks, "Grader", lambda **_: SimpleNamespace(compare=compare))
    texts = tuple(f"The answer is $x^{{{n}}}+1$." for n in range(2, 12))
    assert not AnswerChecker().check(Problem(PROBLEM, texts)).majority
    assert len(asked) <= 3


def test_another_mark_is_another_problem_when_a_run_goes_on():
    def key(marks: list[bool], name: str) -> str:
        problem = Problem("p", ("a", "b"), {"correct": marks, "id": name})
        return journal_key(problem, "f", FilterConfig())

    assert key([True, True], "x") == key([True, True], "y") != key([True, False], "x")


def test_a_sentence_that_ends_in_the_reference_is_no_other_answer():
    texts = (
        "So the answer is simply three times the initial mass: 66 g.",
        "So the answer is simply three times the initial mass: 67 g.",
        "The answer is 66 g.",
    )
    checker = AnswerChecker()
    try:
        marks = checker.check(Problem("p", texts, {"answer": "66 g"})).marks
    finally:
        checker.close()
    assert marks == (None, False, True)


def test_without_math_verify_an_answer_in_another_form_is_not_known_and_said(monkeypatch, caplog):
    monkeypatch.setattr(answer_checks, "find_spec", lambda name: None)
    solutions = (r"So $\boxed{1/2}$.", r"So $\boxed{\frac{2}{4}}$.", r"So $\boxed{3}$.")
    found = AnswerChecker().check(Problem("Half?", solutions, {"answer": "1/2"}))
    assert (found.by, found.marks) == ("reference", (True, None, None))
    assert caplog.messages == [f"{answer_checks.UNCHECKED}: {install_line('grading')}"]


def test_answers_that_could_not_be_checked_are_counted_shown_and_warned_of():
    texts = (
        "The answer is 5 smoots.",
        "Resultat final og slutt 5 cm",
        r"So $\boxed{5\text{ cm}}$.",
    )
    understood, checker = Understood(SimpleNamespace(layout="columns")), AnswerChecker()
    problem = Problem("How long?", texts, {"answer": "5 cm"})
    found = checker.check(problem)
    assert (found.marks, found.unread) == (
        (None, None, True),
        ("5 smoots", "…Resultat final og slutt 5 cm"),
    )
    understood.add(problem, found)
    assert "1 right (33.3%), 0 wrong (0.0%), 2 could not be checked (66.7%)" in [
        *understood._correctness()
    ]
    assert understood.warning() == (
        '2 of 3 answers could not be checked, e.g. "5 smoots", "…Resultat final og slutt 5 cm". '
        "See --answer-pattern and docs/grading.md"
    )
    # A pattern of the user's own names the answer of the second; the others go by the rules.
    found = checker.check(problem, pattern=r"og slutt (\d+ cm)")
    checker.close()
    assert found.marks == (None, True, True)
    assert too_many_unchecked((9, 0, 1), ()) is None
    with pytest.raises(
        InputError, match=r"answer_pattern.* is not a regular expression: missing \)"
    ):
        FilterConfig(answer_pattern="(5")
