"""What the extractive steps promise, on made-up solutions and on labelled real ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpd_metric.steps.extractive import ExtractiveSummarizer
from rpd_metric.steps.passages import passages
from rpd_metric.steps.protocol import MAX_STEPS

DATA = Path(__file__).parents[4] / "shared" / "data"

COORDINATES = """Put the square in the plane with one corner at the origin.
The coordinates of the other corners follow at once.
By the distance formula, the first length is $\\sqrt{a^2 + 4}$.
The slope of the second side is the negative reciprocal of the first.
Setting both lengths equal gives a system of equations in $a$ and $b$.
Substituting, we find $a = 3$ and then $b = 1$.
The area is therefore $10$.
The answer is 10."""

SIMILARITY = """Drop the altitude from the right angle onto the long side.
The two small triangles are similar to the whole triangle.
Similar triangles give the proportion $x : 4 = 9 : x$.
By the Pythagorean theorem the remaining side is $\\sqrt{117}$.
Adding the areas of the two parts gives $39$.
Hence $\\boxed{39}$."""

summarizer = ExtractiveSummarizer()


def steps(solution: str, problem: str | None = None) -> tuple[str, ...]:
    return summarizer.steps(problem, solution).steps


async def test_solutions_are_extracted_in_order() -> None:
    found = await summarizer.summarize("A problem.", [COORDINATES, " ", SIMILARITY])
    assert [summary.ok for summary in found] == [True, False, True]
    assert found[0] == summarizer.steps("A problem.", COORDINATES)
    assert found[2] == summarizer.steps("A problem.", SIMILARITY)


@pytest.mark.parametrize(
    ("solution", "expected"),
    [
        ("Just look at it.", ["Just look at it."]),
        ("Answer: 42", ["Answer: 42"]),  # kept rather than called empty
        ("Take 15.\nAdd 9 to it.\nSo 24.", ["Take 15.", "Add 9 to it.", "So 24."]),
        ("\n".join(["We use induction."] * 4), ["We use induction."]),
    ],
)
def test_a_short_solution_keeps_every_line_once(solution: str, expected: list[str]) -> None:
    assert list(steps(solution)) == expected


def test_steps_are_sentences_of_the_solution_in_its_order_one_for_each_phase() -> None:
    told = steps(COORDINATES)
    assert len(told) == 4
    assert [COORDINATES.index(step) for step in told] == sorted(map(COORDINATES.index, told))
    assert told[0].startswith("Put the square in the plane")
    assert told[-1].startswith("Substituting")


@pytest.mark.parametrize("nothing", ["", "  \n\t ", "\x00\x00", "!!! ...", "\ud800", "$$ $$"])
def test_a_solution_without_a_letter_or_digit_is_an_explicit_failure(nothing: str) -> None:
    summary = summarizer.steps("A problem.", nothing)
    assert not summary.ok
    assert summary.reason == "empty_solution"
    assert summary.detail


def test_the_passage_that_names_a_method_and_acts_stands_for_its_phase() -> None:
    filler = ["It is a nice thing.", "There is more of it."]
    acts = ["Apply Vieta's formulas.", "By induction it holds.", "Complete the square."]
    lines = [line for act in acts for line in (filler[0], act, filler[1])]
    assert [step for step in steps("\n".join(lines)) if step in acts] == acts


@pytest.mark.parametrize(
    "line",
    [
        "Answer: 12",
        "**Final Answer**",
        "The final answer is $12$.",
        "So the answer is 12.",
        "$\\boxed{12}$",
        "Therefore, the correct answer is (B).",
    ],
)
def test_lines_that_only_state_the_answer_are_left_out(line: str) -> None:
    assert steps(f"We count both cases.\n{line}") == ("We count both cases.",)


def test_the_restated_problem_is_left_out() -> None:
    problem = "How many positive integers less than 100 have exactly three divisors?"
    restated = "Exactly how many positive integers less than 100 have three divisors?"
    assert steps(f"{restated}\nList the squares of primes.", problem) == (
        "List the squares of primes.",
    )


def test_a_heading_stands_before_what_it_heads_unless_it_says_nothing() -> None:
    solution = "## Step 1: Understand the problem\nLook at it.\n## Step 2: Add up\nIt is 2 + 2."
    assert steps(solution) == ("Look at it.", "Add up: It is 2 + 2.")


def test_of_a_trace_the_abandoned_starts_are_not_told() -> None:
    thoughts = "Maybe a generating function? Wait. Maybe induction. No, let me use vectors. " * 9
    write_up = COORDINATES.replace("The answer is 10.", "It is a square of that side indeed. " * 3)
    told = steps(f"<think>{thoughts}</think>\n{write_up}")
    assert told == steps(write_up)
    assert not any("generating" in step for step in told)


@given(
    st.lists(
        st.sampled_from(
            [
                "We complete the square.",
                "By symmetry, $a = b$.",
                "## Step 2: Work modulo 7",
                "\\[ x^2 - 4 = 0 \\]",
                "Answer: 12",
                "so \\boxed{12}",
                "<think>",
                "</think>",
                "```python",
                "```",
                "[asy] draw(A--B); [/asy]",
                "1. Then look at both cases.",
                "\ud800\x00",
            ]
        )
        | st.text(max_size=60),
        max_size=14,
    )
)
def test_every_step_is_a_passage_of_the_solution(parts: list[str]) -> None:
    solution = "\n".join(parts)
    summary = summarizer.steps(None, solution)
    assert summary == summarizer.steps(None, solution)
    assert summary.ok == bool(summary.steps)
    assert len(summary.steps) <= MAX_STEPS
    own = [passage.text for passage in passages(solution)]
    for step in summary.steps:
        step.encode("utf-8")
        assert any(step == text or step.endswith(f": {text}") for text in own)


@pytest.mark.parametrize("name", ["strategy_bench/dev.jsonl", "long_cot/labelled.jsonl"])
def test_every_real_solution_gets_whole_readable_steps(name: str) -> None:
    file = DATA / name
    if not file.is_file():
        pytest.skip(f"the labelled problems are not at {file}")
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        for solution in row["solutions"]:
            told = summarizer.steps(row["problem"], solution).steps
            assert 1 <= len(told) <= MAX_STEPS
            for step in told:
                assert "think" not in step.partition(">")[0] or "<" not in step
                assert step.count("\\[") == step.count("\\]")
                assert step.count("\\begin{align") == step.count("\\end{align")
