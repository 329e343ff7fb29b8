"""Replies, recorded in the styles of several families of models, and what must be read in them.

The folder `replies/` holds one reply per file, exactly as a server would hand it over.
"""

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rpd_metric.errors import ReplyError
from rpd_metric.prompts.templates import load_template
from rpd_metric.steps.replies import check_steps, parse_steps

REPLIES = Path(__file__).parent / "replies"

CIRCLE = (
    "Complete the square to read off the centre and radius of the circle.",
    "Compute the distance from the centre to the line with the point-line formula.",
    "Compare the distance with the radius to count the intersections.",
)
TELESCOPE = (
    r"Decompose \(\frac{1}{n(n+1)}\) into partial fractions.",
    r"Cancel neighbouring terms so that only the \textbf{first} and last remain.",
    r"Let the number of terms grow, using that \(\nu \to \infty\) sends the last term"
    ' to "zero".',
)
READABLE = {
    "qwen3_two_parts": CIRCLE,
    "qwen3_long_thoughts_with_a_draft": CIRCLE,
    "deepseek_closing_tag_only": CIRCLE,
    "thoughts_never_closed_but_finished": CIRCLE,
    "llama_fenced_in_box": CIRCLE,
    "llama_fence_without_box": CIRCLE,
    "llama_missing_final_brace": CIRCLE,
    "llama_trailing_commas_and_comment": CIRCLE,
    "qwen_doubled_braces": CIRCLE,
    "qwen_json_in_doubled_box": CIRCLE,
    "math_model_display_box": CIRCLE,
    "single_slash_box": CIRCLE,
    "gpt_json_only": CIRCLE,
    "gpt_typographic_quotes": CIRCLE,
    "plain_string_steps": CIRCLE,
    "titles_only": CIRCLE,
    "second_envelope_cut_off": CIRCLE,
    "two_envelopes_second_better": CIRCLE,
    "solution_quotes_an_envelope": CIRCLE,
    "gpt_latex_properly_escaped": TELESCOPE,
    "qwen_latex_not_escaped": TELESCOPE,
    "qwen_latex_half_escaped": (
        r"Substitute $x = \rho \cos \theta$ and $y = \rho \sin \theta$.",
        "Separate the cases $\\beta \\neq 0$ and $\\beta = 0$:\nThey need different bounds.",
        r"Sum over all $n \notin \{0, 1\}$ with $\forall \boldsymbol{v} \times \bar{u}$"
        r" and Δ fixed, up to 5\% error.",
    ),
    "python_literal": (
        "Apply Fermat's little theorem to the base.",
        "Reduce the exponent modulo the group's order.",
        'Evaluate the "small" power, a triangle\'s worth of products.',
    ),
    "unescaped_inner_quotes": (
        'Encode the choice as "stars and bars", then count.',
        'Subtract the "bad" arrangements by inclusion-exclusion.',
        "Add the counts over all residues",
    ),
}
UNREADABLE = {
    ("refusal", "stop"): "no_envelope",
    ("empty", "stop"): "no_envelope",
    ("answers_the_problem_instead", "stop"): "wrong_shape",
    ("not_json_at_all", "stop"): "bad_json",
    ("steps_under_one_string", "stop"): "wrong_shape",
    ("numbers_for_steps", "stop"): "wrong_shape",
    ("six_steps", "stop"): "too_many_steps",
    ("two_steps_and_blanks", "stop"): "too_few_steps",
    ("guided_decoding_lost_the_backslash", "stop"): "control_characters",
    ("cut_in_the_third_step", "length"): "truncated",
    ("cut_in_the_third_step", None): "truncated",
    ("cut_while_thinking", "length"): "truncated",
    # Closed by hand it would read well, but nobody knows how many steps were still to come.
    ("llama_missing_final_brace", "length"): "truncated",
}


def recorded(name: str) -> str:
    return (REPLIES / f"{name}.txt").read_text(encoding="utf-8")


def reason_of(text: str, finish_reason: str | None = "stop", **options: object) -> str:
    with pytest.raises(ReplyError) as caught:
        parse_steps(text, finish_reason, **options)  # type: ignore[arg-type]
    assert "\n" not in caught.value.detail
    return caught.value.reason


@pytest.mark.parametrize("name", READABLE)
def test_steps_are_read_from_a_recorded_reply(name):
    assert parse_steps(recorded(name), "stop") == READABLE[name]
    assert parse_steps(recorded(name)) == READABLE[name]


@pytest.mark.parametrize(("name", "finish_reason"), UNREADABLE)
def test_an_unusable_reply_says_why(name, finish_reason):
    assert reason_of(recorded(name), finish_reason) == UNREADABLE[name, finish_reason]


@pytest.mark.parametrize("item", ["7", "null", "true", '["Expand."]', "{}", '{"step": "Expand."}'])
def test_a_step_that_is_not_text_is_refused_rather_than_dropped(item):
    text = f'//boxed{{"logical_steps": ["Set up.", {item}, "Solve.", "Check."]}}'
    assert reason_of(text) == "wrong_shape"


def test_an_object_from_the_prompt_is_no_answer():
    example_in_prompt = recorded("gpt_json_only")
    reply = "### Analysis\nAs in the example.\n\n//boxed" + example_in_prompt
    sent = f"<think>The material</think> An example:\n{example_in_prompt}\nAnd a solution."
    assert parse_steps(reply) == CIRCLE
    assert reason_of(reply, sent=sent) == "quoted_envelope"


@given(
    before=st.text(st.sampled_from("{}[]\"':, \n$\\abnft"), max_size=60),
    after=st.text(st.sampled_from("{}[]\"':, \n$\\abnft"), max_size=60),
)
def test_whatever_stands_around_it_a_valid_envelope_is_found(before, after):
    envelope = json.dumps({"logical_steps": list(CIRCLE)})
    # A lone backslash just before the brace belongs to the prose, and so does what follows.
    assert parse_steps(f"{before}\n//boxed{envelope}\n{after}", "stop") == CIRCLE


FRAGMENTS = st.sampled_from(
    [
        *("{", "}", "[", "]", '"', "'", ":", ",", "\\", "\n", " ", "```json", "//boxed", "null"),
        *("<think>", "</think>", "logical_steps", '"logical_steps":', "{'logical_steps': ["),
        *('"step_description": "', "\\frac", "\\u12", "\\ud835", "é", "1e999", "9" * 5000, "//"),
    ]
)


@given(st.lists(FRAGMENTS, max_size=40).map("".join), st.sampled_from(["stop", "length", None]))
@example('{"logical_steps": "', None)
def test_any_text_gives_steps_or_a_reply_error_and_nothing_else(text, finish_reason):
    try:
        steps = parse_steps(text, finish_reason)
    except ReplyError:
        return
    assert 3 <= len(steps) <= 5
    assert all(step.strip() for step in steps)


# Steps that parse and are no summary

PROMPTS = [load_template(name).text for name in ("summarize", "summarize_json")]
OWN = (
    "Complete the square to find the centre of the circle.",
    "Measure the distance of the centre from the line.",
    "Compare that distance with the radius.",
)
# The example of the prompts, a word changed here and there: what a small model wrote.
NEAR_COPY = (
    "Apply Fermat's little theorem to find a power of the number that is congruent to one.",
    "Reduce the exponent modulo that period by long division with remainder.",
    "Evaluate the small power that is left by repeated squaring.",
)


@pytest.mark.parametrize("prompt", PROMPTS, ids=["summarize", "summarize_json"])
def test_near_copies_of_the_prompts_example_are_refused_by_name(prompt):
    check_steps(OWN, prompt)
    check_steps((NEAR_COPY[0], *OWN), prompt)  # a solution may use the method of the example
    with pytest.raises(ReplyError) as caught:
        check_steps(NEAR_COPY, prompt)
    assert caught.value.reason == "copied_example"
    assert "Fermat" in caught.value.detail


@pytest.mark.parametrize(
    "steps",
    [
        (OWN[0], OWN[1], OWN[1]),
        (OWN[0], OWN[1], OWN[1].upper().rstrip(".")),
        ("Solve it.", "Check.", "Solve it."),
        (OWN[0], OWN[1], OWN[1].rstrip(".") + " again."),
    ],
)
def test_steps_that_repeat_each_other_are_refused_by_name(steps):
    with pytest.raises(ReplyError) as caught:
        check_steps(steps, PROMPTS[0])
    assert caught.value.reason == "repeated_steps"
