"""Reading verdicts: the last envelope counts, and what is not clearly one answer is none."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpd_datasets.judging.judges import last_envelope, parse_rating, parse_set
from rpd_metric.errors import ReplyError


def reason(parse, *arguments, **sizes) -> str:
    with pytest.raises(ReplyError) as error:
        parse(*arguments, **sizes)
    return error.value.reason


@pytest.mark.parametrize(
    ("reply", "rating"),
    [
        ("//boxed{1}", 1),
        ("//boxed{{2}}", 2),
        ("**Rating:** $\\boxed{2}$", 2),
        ('//boxed{{"rating": 2}}', 2),
        ("//boxed_json{{[2]}}", 2),
        ("\\boxed{\\text{2}}.", 2),
        ("//boxed{{2}", 2),
        ("One might say //boxed{1}, yet the tools differ throughout.\n//boxed{2}", 2),
        ("<think>//boxed{1} or //boxed{2}?</think>\nThey differ. //boxed{2}", 2),
        ("<think>They differ. //boxed{2}", 2),
    ],
)
def test_a_rating_is_read_from_the_last_envelope_in_any_of_its_forms(reply, rating):
    assert parse_rating(reply) == rating


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("", "no_envelope"),
        ("The methods differ, so the rating is 2.", "no_envelope"),
        ("//boxed{3}", "bad_verdict"),
        ("//boxed{1 or 2}", "bad_verdict"),
        ("//boxed{2}\nOn reflection: //boxed{unclear}", "bad_verdict"),
        ("The rating is //boxed{2", "bad_verdict"),
        ("<think>//boxed{2}</think> I cannot tell.", "no_envelope"),
    ],
)
def test_what_is_not_exactly_a_rating_is_refused_with_a_reason(reply, why):
    assert reason(parse_rating, reply) == why


@given(st.text(max_size=300), st.integers(2, 5))
def test_any_text_is_a_verdict_or_a_reply_error(text, count):
    for parse in (
        lambda: parse_rating(text),
        lambda: parse_set(f"//boxed_json{{{text}", count=count, size=2),
    ):
        with suppress(ReplyError):
            parse()


@pytest.mark.parametrize(
    ("reply", "chosen"),
    [
        ("1 uses vectors, 4 uses angles.\n//boxed_json{{[[4, 1]]}}", (3, 0)),
        ("//boxed{[2, 3]}", (1, 2)),
        ('//boxed_json{{[["Solution 2", "Solution 5"]]}}', (1, 4)),
    ],
)
def test_a_set_is_read_whatever_its_brackets_and_names(reply, chosen):
    assert parse_set(reply, count=5, size=2) == chosen


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("//boxed_json{{[1, 6]}}", "bad_verdict"),
        ("//boxed_json{{[2, 2]}}", "bad_verdict"),
        ("//boxed_json{{[id_A, id_B]}}", "bad_verdict"),
        ('//boxed_json{{[["No"]]}}', "bad_verdict"),
        ("//boxed_json{{[[1, 2], [3, 4]]}}", "wrong_count"),
        ("No two differ.", "no_envelope"),
    ],
)
def test_a_list_that_is_not_what_was_asked_for_is_refused_with_a_reason(reply, why):
    assert reason(parse_set, reply, count=5, size=2) == why


def test_a_model_in_a_loop_is_read_in_linear_time():
    assert reason(parse_rating, "//boxed{" * 100_000) == "bad_verdict"
    assert reason(parse_set, "//boxed_json{[" + "1, " * 300_000, count=5, size=3) == "bad_verdict"
    assert last_envelope("//boxed{1}" * 50_000) == "1"
