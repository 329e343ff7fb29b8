"""What the extractive steps promise, on made-up solutions and on labelled real ones."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpd_metric.steps.extractive import ExtractiveSummarizer
from rpd_metric.steps.passages import passages
from rpd_metric.steps.protocol import MAX_STEPS
from rpd_metric.steps.vocabulary import find_methods

DATA = Path(__file__).parents[4] / "shared" / "data"

COORDINATES = """Put the square in the plane with one corner at the origin.
The coordinates of the other corners follow at once.
By the distance formula, the first length is $\\sqrt{a^2 + 4}$.
The slope of the second side is the negative reciprocal of the first.
Setting both lengths equal gives a system of equations in $a$ and $b$.
Substituting, we find $a = 3$ and then $b = 1$.
The area is therefore $10$.
The answer is 10."""


summarizer = ExtractiveSummarizer()


def steps(solution: str, problem: str | None = None) -> tuple[str, ...]:
    return summarizer.steps(problem, solution).steps


@pytest.mark.parametrize(
    ("solution", "expected"),
    [
        ("Just look at it.", ["Just look at it."]),
        ("Answer: 42", ["Answer: 42"]),  # kept rather than called empty
        ("Take 15.\nAdd 9 to it.\nSo 24.", ["Take 15.", "Add 9 to it.", "So 24."]),
        ("\n".join(["We use induction."] * 4), ["We use induction."]),
        # Lines that only state the answer.
        ("We count both cases.\n**Final Answer**", ["We count both cases."]),
        ("We count both cases.\nSo the answer is 12.", ["We count both cases."]),
        ("We count both cases.\n$\\boxed{12}$", ["We count both cases."]),
        ("设共有 x 人。代入方程！解得 4；", ["设共有 x 人。", "代入方程！", "解得 4；"]),
    ],
)
def test_a_short_solution_keeps_every_line_once_but_the_answers(solution, expected):
    assert list(steps(solution)) == expected


def test_steps_are_sentences_of_the_solution_in_its_order_one_for_each_phase():
    told = steps(COORDINATES)
    assert len(told) == 4
    assert [COORDINATES.index(step) for step in told] == sorted(map(COORDINATES.index, told))
    assert told[0].startswith("Put the square in the plane")
    assert told[-1].startswith("Substituting")


def test_the_restated_problem_is_left_out():
    problem = "How many positive integers less than 100 have exactly three divisors?"
    restated = "Exactly how many positive integers less than 100 have three divisors?"
    assert steps(f"{restated}\nList the squares of primes.", problem) == (
        "List the squares of primes.",
    )


@given(
    st.lists(
        st.sampled_from(
            [
                *("We complete the square.", "By symmetry, $a = b$.", "## Step 2: Work modulo 7"),
                *("\\[ x^2 - 4 = 0 \\]", "Answer: 12", "so \\boxed{12}", "<think>", "</think>"),
                *("```python", "```", "[asy] draw(A--B); [/asy]", "1. Look at both cases."),
                "\ud800\x00",
            ]
        )
        | st.text(max_size=60),
        max_size=14,
    )
)
def test_every_step_is_a_passage_of_the_solution(parts):
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
def test_every_real_solution_gets_whole_readable_steps(name):
    file = DATA / name
    if not file.is_file():
        pytest.skip(f"the labelled problems are not at {file}")
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        for solution in row["solutions"]:
            told = steps(solution, row["problem"])
            assert 1 <= len(told) <= MAX_STEPS
            for step in told:
                assert step.count("\\[") == step.count("\\]")
                assert step.count("\\begin{align") == step.count("\\end{align")


# The vocabulary of methods


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("Completing the square gives", "Complete the square"),
        ("we completed the square", "Complete the square"),
        ("By Fermat's little theorem", "Apply Fermat's little theorem"),
        ("By Fermat’s little theorem", "Apply Fermat's little theorem"),
        ("$\\binom{5}{2}$", "Count choices with binomial coefficients"),
        ("$7 \\equiv 2 \\pmod 5$", "Work modulo a number"),
        ("\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "Use matrices"),
        ("x^2 - 5x + 6 = 0", "Work with a quadratic equation"),
        ("LAW OF COSINES", "Apply the law of cosines"),
        ("the inclusion-exclusion principle", "Use inclusion-exclusion"),
    ],
)
def test_a_method_is_known_by_words_endings_commands_and_notation(text, phrase):
    assert phrase in [method.phrase for method in find_methods(text)]


def test_methods_are_ordered_by_first_mention():
    found = find_methods("Use symmetry, then induction. Symmetry again.")
    assert [method.phrase for method in found] == ["Use symmetry", "Argue by induction"]
