"""Grading mathematics: finding the answer, the easy verdicts, and the processes behind the rest."""

import itertools
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("math_verify", reason="needs the extra 'grading'")

from rpd_metric.grading.answers import Verdict, easy_verdict, final_answer, readable, tidy
from rpd_metric.grading.mathematics import Grader
from rpd_metric.grading.mathematics_worker import compare

DATA = Path(__file__).parents[4] / "shared" / "data"
PAIRS = Path(__file__).parents[3] / "rpd_datasets" / "sets" / "answer_pairs.jsonl"
HANGS = r"\boxed{10^{10^{10}}}"


@pytest.fixture(scope="module")
def grader():
    with Grader(workers=2, seconds=20) as grader:
        yield grader


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"so \boxed{3}", "3"),
        (r"first \boxed{3}, but no: \boxed{4}", "4"),
        (r"the roots are \boxed{204} and \boxed{205}", "204, 205"),
        (r"\boxed{\frac{1}{\sqrt{2}}}", r"\frac{1}{\sqrt{2}}"),
        (r"\boxed{\begin{pmatrix} 1 \\ 2 \end{pmatrix}}", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"),
        (r"\boxed 5.", "5"),
        (r"\boxed{8} and then \boxed{9", "8"),
        (r"\boxed{}", None),
        ("Answer: 12", "12"),
        ("The final answer is:\n\nAnswer: -1", "-1"),
        ("Answer:\n\n  42\n", "42"),
        ("The answer is 5. Wait, the answer is 6", "6"),
        (r"Answer: 5. It is \boxed{6}", "6"),
        ("The answer is 5. Checking.\n\n### Final Answer\n6", "6"),
        ("So the answer is 6.\n\n**Final Answer**\nPam pays \\$6 more than Susan.", "6"),
        ("I cannot answer this.", None),
        (r"<think>\boxed{1}</think> so \boxed{2}", "2"),
        (r"<think>cut \boxed{1}", "1"),
        ("", None),
        ("Die Antwort lautet nicht 4.", None),
        ("#### 3\nThen it goes further.", None),
        ("这个答案很难。", None),
        ("The answer is **5**.\n\n\\boxed{}", "5"),
        ("<answer>\\frac12</answer>", "\\frac12"),
    ],
)
def test_the_answer_is_the_last_box_or_else_the_last_announcement(response, answer):
    assert final_answer(response) == answer


@given(st.integers(-(10**15) + 1, 10**15 - 1), st.integers(0, 3))
def test_whole_numbers_are_compared_as_numbers(number, zeros):
    sign, digits = ("-", str(number)[1:]) if number < 0 else ("", str(number))
    padded = f"{sign}{'0' * min(zeros, 15 - len(digits))}{digits}"
    assert easy_verdict(str(number), padded) is Verdict.CORRECT
    assert easy_verdict(str(number + 1), padded) in (Verdict.WRONG, None)


@pytest.mark.parametrize(
    ("gold", "response", "verdict"),
    [
        ("5", "### Final answer\n\\[ 5 \\]", Verdict.CORRECT),
        ("2, 3", r"The roots are \boxed{2} and \boxed{3}.", Verdict.CORRECT),
        ("1000000", r"\boxed{1{\,}000{\,}000}", Verdict.CORRECT),
        (r"\frac{1}{3}", r"\boxed{0.\overline{3}}", Verdict.CORRECT),
        ("5", "The answer is 5 dollars.", Verdict.CORRECT),
        ("12 cups", r"\boxed{12}", Verdict.CORRECT),
        ("5", r"\boxed{5 million}", Verdict.WRONG),
        ("12:30", r"\boxed{12{:}30}", Verdict.CORRECT),
        ("east", r"\boxed{\text{seat}}", Verdict.WRONG),
        ("xyz", r"\boxed{zyx}", Verdict.CORRECT),
        (25, r"\boxed{025}", Verdict.CORRECT),
        ("-15525", r"\boxed{−15,\!525}", Verdict.CORRECT),
        (r"\textbf{(073) }", r"\boxed{\left(73\right)}", Verdict.CORRECT),
        ("1/2", r"\boxed{0.5}", Verdict.CORRECT),
        (r"\frac{1}{3}", r"\boxed{0.333}", Verdict.WRONG),
        ("x^2-1", r"\boxed{(x-1)(x+1)}", Verdict.CORRECT),
        ("Evelyn", r"\boxed{\text{Evelyn}}", Verdict.CORRECT),
        (r"118 \text{ dollars}", r"\boxed{\$118}", Verdict.CORRECT),
        ("1,2", r"\boxed{2 \text{ and } 1}", Verdict.CORRECT),
        (r"2\sqrt3", "Answer: sqrt(12)", Verdict.CORRECT),
        ("12_8", r"\boxed{12_5}", Verdict.WRONG),
        (r"x \le 2", r"\boxed{(-\infty, 2]}", Verdict.CORRECT),
        ("(-oo, 2]", r"\boxed{x <= 2}", Verdict.CORRECT),
        ("6.02e23", r"\boxed{6.02 \times 10^{23}}", Verdict.CORRECT),
        ("30°", r"\boxed{\frac{\pi}{6}}", Verdict.CORRECT),
        (r"\pi/3", r"\boxed{60^\circ}", Verdict.CORRECT),
        ("30", r"\boxed{30^{\circ}}", Verdict.CORRECT),
        ("i", r"\boxed{\sqrt{-1}}", Verdict.CORRECT),
        ("1 3/4", r"\boxed{\frac{7}{4}}", Verdict.CORRECT),
        ("-1", r"\boxed{e^{i pi}}", Verdict.CORRECT),
        ("66 g", r"Answer: 66 g of CO₂", Verdict.CORRECT),
        (r"5\text{ cm}", r"\boxed{5\,\mathrm{m}}", Verdict.WRONG),
        ("5 km/h", r"\boxed{5 \text{ m/s}}", Verdict.WRONG),
        ("5 cm", r"\boxed{5 \text{ centimeters}}", Verdict.CORRECT),
        ("5 cm", r"\boxed{5}", Verdict.CORRECT),
        (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\boxed{\binom{1}{3}}", Verdict.WRONG),
        ("5 cm", r"\boxed{5\text{ smoots}}", Verdict.NO_ANSWER),
        ("5 smoots", r"\boxed{5\text{ cm}}", Verdict.UNPARSABLE_GOLD),
        ("5", "no final line", Verdict.NO_ANSWER),
        ("5", r"\boxed{\frac{1}{}", Verdict.NO_ANSWER),
        ("5", r"\boxed{)(}", Verdict.NO_ANSWER),
        (")(", r"\boxed{5}", Verdict.UNPARSABLE_GOLD),
    ],
)
def test_verdicts(grader, gold, response, verdict):
    assert list(grader.grade([(gold, response)])) == [verdict]


@pytest.mark.parametrize(
    ("half", "accepts", "rejects"), [("held-out", 0.005, 0.06), ("open", 0, 0.01)]
)
def test_people_and_the_grader_agree_on_judged_pairs(grader, half, accepts, rejects):
    rows = map(json.loads, PAIRS.read_text("utf-8").splitlines())
    rows = [row for row in rows if row["half"] == half]
    verdicts = grader.grade((row["reference"], row["response"]) for row in rows)
    wrong = [
        (row["right"], verdict, row["reference"], row["response"])
        for row, verdict in zip(rows, verdicts, strict=True)
        if row["right"] != (verdict is Verdict.CORRECT)
    ]
    assert len(rows) > 400
    assert sum(not right for right, *_ in wrong) <= accepts * len(rows), wrong
    assert sum(right for right, *_ in wrong) <= rejects * len(rows), wrong


def test_only_a_bounded_number_of_rows_is_read_ahead(grader):
    read = itertools.count()
    rows = ((str(next(read)), r"\boxed{\frac{2}{2}}") for _ in itertools.repeat(None))
    verdicts = grader.grade(rows)
    assert next(verdicts) is Verdict.WRONG
    assert next(verdicts) is Verdict.CORRECT
    verdicts.close()  # type: ignore[attr-defined]
    assert next(read) <= 3 * 64
    # What was under way for the abandoned rows does not reach the next ones.
    assert list(grader.grade([("1", r"\boxed{\frac{4}{4}}")])) == [Verdict.CORRECT]


def test_a_hung_comparison_is_killed_and_the_others_go_on():
    rows = [("5", HANGS), ("1+x", r"\boxed{x+1}"), ("5", HANGS), ("1+y", r"\boxed{y+1}")]
    with Grader(workers=1, seconds=1) as grader:
        assert list(grader.grade(rows)) == ["timed_out", "correct"] * 2


def test_a_hung_comparison_ends_by_itself_where_nobody_is_left_to_kill_it():
    worker = [sys.executable, "-m", "rpd_metric.grading.mathematics_worker"]
    line = json.dumps(["5", "10^{10^{10}}", -4])  # five seconds more than a comparison may take
    ended = subprocess.run(worker, input=line + "\n", capture_output=True, text=True, timeout=120)
    assert (ended.stdout, ended.returncode) == ("ready\n", -signal.SIGALRM)


def _labelled() -> list[tuple[str, str, bool]]:
    path = DATA / "multi_solution" / "candidates.jsonl"
    if not path.is_file():
        pytest.skip(f"needs {path}")
    return [
        (row["reference_answer"], solution, correct)
        for row in map(json.loads, path.read_text(encoding="utf-8").splitlines())
        for solution, correct in zip(row["solutions"], row["correct"], strict=True)
    ]


def test_published_labels_are_met_but_for_the_explained_few(grader):
    rows = _labelled()[::4]
    verdicts = grader.grade((gold, solution) for gold, solution, _ in rows)
    differ = sum(
        (verdict is Verdict.CORRECT) != correct
        for verdict, (_, _, correct) in zip(verdicts, rows, strict=True)
    )
    assert len(rows) > 2_000
    assert differ / len(rows) < 0.004


def test_easy_verdicts_on_real_answers_are_those_of_computer_algebra():
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
