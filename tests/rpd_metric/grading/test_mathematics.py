"""Grading mathematics: finding the answer, the easy verdicts, and the processes behind the rest."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("math_verify", reason="needs the extra 'grading'")

from rpd_metric.errors import InputError, MissingExtraError
from rpd_metric.grading import mathematics as grading
from rpd_metric.grading.answers import Verdict, easy_verdict, final_answer, readable, tidy
from rpd_metric.grading.mathematics import Grader
from rpd_metric.grading.mathematics_worker import compare

DATA = Path(__file__).parents[4] / "shared" / "data"
HANGS = r"\boxed{10^{10^{10}}}"


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(workers=2, seconds=20) as grader:
        yield grader


def verdict_of(grader: Grader, gold: str | int | float, response: str) -> Verdict:
    return next(iter(list(grader.grade([(gold, response)]))))


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"so \boxed{3}", "3"),
        (r"first \boxed{3}, but no: \boxed{4}", "4"),
        (r"the roots are \boxed{204} and \boxed{205}", "204, 205"),
        (r"\boxed{\frac{1}{\sqrt{2}}}", r"\frac{1}{\sqrt{2}}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\begin{pmatrix} 1 \\ 2 \end{pmatrix}}", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"),
        (r"\fbox{7}", "7"),
        (r"\boxed 5.", "5"),
        (r"\boxed{8} and then \boxed{9", "8"),
        (r"\boxed{}", None),
        ("Answer: 12", "12"),
        ("**Answer:** $x = 3$.", "x = 3"),
        ("The final answer is:\n\nAnswer: -1", "-1"),
        ("Answer:\n\n  42\n", "42"),
        ("The answer is 5. Wait, the answer is 6", "6"),
        ("The answer is 5. That is what we wanted.", "5"),
        (r"Answer: 5. It is \boxed{6}", "6"),
        ("We add 3 and 4 and get 7", None),
        ("I cannot answer this.", None),
        ("Answer: ___", None),
        (r"<think>\boxed{1}</think> so \boxed{2}", "2"),
        (r"<think>\boxed{1}</think> I give up", None),
        (r"<think>cut \boxed{1}", "1"),
        ("", None),
    ],
)
def test_the_answer_is_the_last_box_or_else_the_last_announcement(
    response: str, answer: str | None
) -> None:
    assert final_answer(response) == answer


@given(
    st.recursive(
        st.sampled_from("1ax+"), lambda inner: st.builds("\\f{{{}}}{}".format, inner, inner)
    )
)
def test_nested_braces_come_back_whole(inside: str) -> None:
    assert final_answer(rf"text \boxed{{{inside}}} more {{}}") == inside


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (r"\dfrac{1}{2}", r"\frac{1}{2}"),
        (r"$\left(1, 2\right)$", "(1,2)"),
        ("10{,}000", "10000"),
        (r"15,\!525", "15525"),
        (r"\text{Evelyn}", "Evelyn."),
        (r"x \le 3", r"x\le 3"),
        ("−5", "-5"),
        ("√3", r"\sqrt{3}"),
        (r"\[ 5 \]", "5"),
        (r"\textbf{(073) }", "073"),
        (r"\text{(C)}", "C"),
    ],
)
def test_typography_makes_no_difference(a: str, b: str) -> None:
    assert tidy(a) == tidy(b)


@pytest.mark.parametrize(
    ("a", "b"),
    [("1 2", "12"), ("1,000", "1,0,0,0"), ("(1,2)", "[1,2]"), (r"1 \\ 2", "1 2")],
)
def test_meaning_is_kept(a: str, b: str) -> None:
    assert tidy(a) != tidy(b)


@given(st.integers(-(10**15) + 1, 10**15 - 1), st.integers(0, 3))
def test_whole_numbers_are_compared_as_numbers(number: int, zeros: int) -> None:
    sign, digits = ("-", str(number)[1:]) if number < 0 else ("", str(number))
    padded = f"{sign}{'0' * min(zeros, 15 - len(digits))}{digits}"
    assert easy_verdict(str(number), padded) is Verdict.CORRECT
    assert easy_verdict(str(number + 1), padded) in (Verdict.WRONG, None)


@pytest.mark.parametrize(
    ("gold", "response", "verdict"),
    [
        ("025", r"\boxed{25}", Verdict.CORRECT),
        ("5", "So it is.\n\n**Final Answer**\n5", Verdict.CORRECT),
        ("5", "So it is.\n\n**Final Answer**\n\nThe value is $5$.", Verdict.CORRECT),
        ("5", "### Final answer\n\n$$\n5\n$$\n", Verdict.CORRECT),
        ("5", "### Final answer\n\\[ 5 \\]", Verdict.CORRECT),
        ("6", "### Final answer\n\\[ 5 \\]", Verdict.WRONG),
        ("2, 3", r"The roots are \boxed{2} and \boxed{3}.", Verdict.CORRECT),
        ("2, 3", r"Thus $x = \boxed{3}$, $\boxed{2}$.", Verdict.CORRECT),
        ("3", r"First \boxed{2}, then, after the correction, \boxed{3}.", Verdict.CORRECT),
        ("3", r"\boxed{3} or \boxed{3}", Verdict.CORRECT),
        ("204", r"\boxed{204} or \boxed{205}", Verdict.WRONG),
        ("205", r"\boxed{204} or \boxed{205}", Verdict.WRONG),
        ("1000000", r"\boxed{1\,000\,000}", Verdict.CORRECT),
        ("1000000", r"\boxed{1{\,}000{\,}000}", Verdict.CORRECT),
        (r"\frac{1}{3}", r"\boxed{0.\overline{3}}", Verdict.CORRECT),
        (r"\frac{25}{12}", r"\boxed{2.08\overline{3}}", Verdict.CORRECT),
        (r"\frac{1}{3}", r"\boxed{0.\overline{31}}", Verdict.WRONG),
        ("5", "The answer is 5 dollars.", Verdict.CORRECT),
        ("5", r"\boxed{5 dollars}", Verdict.CORRECT),
        ("12 cups", r"\boxed{12}", Verdict.CORRECT),
        ("6", r"\boxed{5 dollars}", Verdict.WRONG),
        ("5", r"\boxed{5 million}", Verdict.WRONG),
        ("12:30", r"\boxed{12{:}30}", Verdict.CORRECT),
        ("12:30", r"\boxed{12{:}31}", Verdict.WRONG),
        ("east", r"\boxed{\text{seat}}", Verdict.WRONG),
        ("star", r"\boxed{rats}", Verdict.WRONG),
        ("xyz", r"\boxed{zyx}", Verdict.CORRECT),
        (25, r"\boxed{025}", Verdict.CORRECT),
        (27.0, r"\boxed{27}", Verdict.CORRECT),
        ("204", r"\boxed{204,205}", Verdict.WRONG),
        ("12", r"\boxed{13}", Verdict.WRONG),
        ("1/2", r"\boxed{0.5}", Verdict.CORRECT),
        (r"\frac{1}{3}", r"\boxed{0.333}", Verdict.WRONG),
        ("x^2-1", r"\boxed{(x-1)(x+1)}", Verdict.CORRECT),
        ("5", r"\boxed{x = 5}", Verdict.CORRECT),
        ("Evelyn", r"\boxed{\text{Evelyn}}", Verdict.CORRECT),
        ("Evelyn", r"\boxed{Briana}", Verdict.WRONG),
        (r"118 \text{ dollars}", r"\boxed{\$118}", Verdict.CORRECT),
        ("1,2", r"\boxed{2 \text{ and } 1}", Verdict.CORRECT),
        (r"2\sqrt3", "Answer: sqrt(12)", Verdict.CORRECT),
        ("12_8", r"\boxed{12_5}", Verdict.WRONG),
        ("12_8", r"\boxed{12}", Verdict.CORRECT),
        (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\boxed{\binom{1}{3}}", Verdict.WRONG),
        ("5", "no final line", Verdict.NO_ANSWER),
        ("5", r"\boxed{ }", Verdict.NO_ANSWER),
        ("5", r"\boxed{\frac{1}{}", Verdict.NO_ANSWER),
        ("5", r"\boxed{)(}", Verdict.NO_ANSWER),
        (")(", r"\boxed{5}", Verdict.UNPARSABLE_GOLD),
        (")(", r"\boxed{)(}", Verdict.CORRECT),
    ],
)
def test_verdicts(grader: Grader, gold: str | float, response: str, verdict: Verdict) -> None:
    assert verdict_of(grader, gold, response) is verdict


def test_a_reference_that_cannot_be_a_row_is_refused(grader: Grader) -> None:
    for row in [("", r"\boxed{1}"), ("1", None)]:
        with pytest.raises(InputError, match="a row is"):
            list(grader.grade([row]))  # type: ignore[list-item]


def test_verdicts_keep_the_order_of_the_rows_and_are_counted(grader: Grader) -> None:
    # Every third row needs computer algebra, and the rest overtakes it.
    rows = [(str(i), rf"\boxed{{\frac{{{2 * i}}}{{2}}}}" if i % 3 == 0 else "") for i in range(400)]
    seen: list[int] = []
    verdicts = list(grader.grade(rows, progress=seen.append))
    assert verdicts == [Verdict.NO_ANSWER if i % 3 else Verdict.CORRECT for i in range(400)]
    assert seen == list(range(1, 401))


def test_only_a_bounded_number_of_rows_is_read_ahead(grader: Grader) -> None:
    read = itertools.count()
    rows = ((str(next(read)), r"\boxed{\frac{2}{2}}") for _ in itertools.repeat(None))
    verdicts = grader.grade(rows)
    assert next(verdicts) is Verdict.WRONG
    assert next(verdicts) is Verdict.CORRECT
    verdicts.close()  # type: ignore[attr-defined]
    assert next(read) <= 3 * 64
    # What was under way for the abandoned rows does not reach the next ones.
    assert verdict_of(grader, "1", r"\boxed{\frac{4}{4}}") is Verdict.CORRECT


def test_a_hung_comparison_is_killed_and_the_others_go_on() -> None:
    rows = [("5", HANGS), ("1+x", r"\boxed{x+1}"), ("5", HANGS), ("1+y", r"\boxed{y+1}")]
    with Grader(workers=1, seconds=1) as grader:
        assert [verdict.value for verdict in grader.grade(rows)] == [
            "timed_out",
            "correct",
            "timed_out",
            "correct",
        ]


def test_a_killed_worker_is_replaced() -> None:
    with Grader(workers=1, seconds=20) as grader:
        assert verdict_of(grader, "1+x", r"\boxed{x+1}") is Verdict.CORRECT
        os.kill(grader._idle[0].process.pid, signal.SIGKILL)
        first, second = grader.grade([("1+x", r"\boxed{x+1}"), ("1+x", r"\boxed{x+1}")])
        # The first row found the dead worker, and counts as one that broke it.
        assert (first, second) == (Verdict.TIMED_OUT, Verdict.CORRECT)


def test_no_process_is_left_when_the_grader_is_closed() -> None:
    with Grader(workers=2) as grader:
        list(grader.grade([("1+x", r"\boxed{x+1}")] * 4))
        workers = [worker.process for worker in grader._idle]
        assert workers
    assert all(worker.returncode is not None for worker in workers)


def test_easy_rows_start_no_process() -> None:
    with Grader() as grader:
        assert verdict_of(grader, "5", r"\boxed{5}") is Verdict.CORRECT
        assert grader._idle == []


def test_a_worker_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with Grader(workers=1) as grader, pytest.raises(RuntimeError, match="did not start"):
        verdict_of(grader, "1+x", r"\boxed{x+1}")


def test_missing_math_verify_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grading.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"\[grading\]"):
        Grader()


def _labelled() -> list[tuple[str, str, bool]]:
    path = DATA / "multi_solution" / "candidates.jsonl"
    if not path.is_file():
        pytest.skip(f"needs {path}")
    return [
        (row["reference_answer"], solution, correct)
        for row in map(json.loads, path.read_text(encoding="utf-8").splitlines())
        for solution, correct in zip(row["solutions"], row["correct"], strict=True)
    ]


def test_published_labels_are_met_but_for_the_explained_few(grader: Grader) -> None:
    rows = _labelled()[::4]
    verdicts = grader.grade((gold, solution) for gold, solution, _ in rows)
    differ = sum(
        (verdict is Verdict.CORRECT) != correct
        for verdict, (_, _, correct) in zip(verdicts, rows, strict=True)
    )
    assert len(rows) > 2_000
    assert differ / len(rows) < 0.004


def test_easy_verdicts_on_real_answers_are_those_of_computer_algebra() -> None:
    pairs = {
        (gold, answer)
        for gold, solution, _ in _labelled()
        if (answer := final_answer(solution)) is not None
    }
    settled = 0
    for gold, answer in sorted(pairs):
        easy = easy_verdict(tidy(gold), tidy(answer))
        if easy is not None:
            settled += 1
            assert compare(readable(gold), readable(answer)) is easy, (gold, answer)
    assert settled > 1_000
