"""JSON as models write it: LaTeX without escapes, Python literals, doubled braces, lost commas."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpd_metric.errors import ReplyError
from rpd_metric.steps.loose_json import decode, decode_mended, escape_latex
from rpd_metric.steps.replies import parse_steps

# LaTeX

COMMANDS = re.findall(
    r"\S+",
    r"""\frac{1}{2} \forall \flat \bar{x} \beta \begin{cases} \binom{n}{k} \boldsymbol{v}
\bmod \big| \nu \ne \neq \nabla \notin \not= \rho \right) \rfloor \rangle \rm \tau \theta_1 \times
\to \text{if} \tfrac12 \tan \triangle \tilde \underline{x} \upsilon \alpha \sum_{i}^n \sqrt{2}
\(x\) \[x\] \{1\} 5\% \, \$ \\\hline""",
)
COMMANDS += [r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\\ \hline", r"x \\ - y"]
WORDS = st.sampled_from(
    ["Add", '"good"', "terms,", "{a, b}", "Höhe", "𝑥", "it's", "[1]", "a: b", "/", "\\\\"]
)
# A line break, and a line that starts like a sentence.
NEW_LINES = st.sampled_from(["\nThen", "\n\nNext", "\n1. Use"])
LATEX_TEXTS = st.lists(
    st.one_of(
        st.sampled_from(COMMANDS),
        WORDS,
        NEW_LINES,
        st.from_regex(r"\\[bfr][a-z]{1,8}", fullmatch=True),
    ),
    min_size=1,
    max_size=12,
).map(lambda pieces: "Use " + " ".join([r"\pi", *pieces]) + " here.")


def unescaped(text: str) -> str:
    """A JSON string as careless models write it: only quotes and line breaks are escaped."""
    return '"' + text.replace('"', '\\"').replace("\n", "\\n") + '"'


@given(LATEX_TEXTS)
def test_latex_survives_in_a_string_without_any_escaping(text):
    reply = f'Uses {text}\n//boxed{{"logical_steps": [{unescaped(text)}, "Solve.", "Check."]}}'
    assert parse_steps(reply, "stop") == (text, "Solve.", "Check.")


@given(LATEX_TEXTS)
def test_latex_survives_in_a_python_literal(text):
    steps = {"logical_steps": [{"step_title": None, "step_description": text}, "B.", "It's C."]}
    assert parse_steps(f"//boxed{steps!r}", "stop") == (text, "B.", "It's C.")


@given(st.text(st.characters(exclude_categories=["Cc"])))
def test_proper_json_is_left_alone(text):
    written = json.dumps(text)
    assert json.loads(escape_latex(written)) == text
    assert escape_latex(written) == written


# Mending


@pytest.mark.parametrize(
    "text",
    [
        '{"a": ["x", "y",], "b": null,} and so on',
        "{'a': ['x', 'y'], 'b': None}",
        '{"a": ["x", "y"], "b": null',
        '{"a": ["x" "y"] "b": null}',
        '{"a": ["x" "y"], "b": null} and {"c": 1}',
        '{"a": ["x", "y"], // the rest\n "b": null}',
        '{"a": ["x", // one, of two\n "y", // two\n], "b": null}',
        '{\\"a\\": [\\"x\\", \\"y\\"], \\"b\\": null}',
    ],
)
def test_a_fault_in_the_punctuation_is_mended(text):
    assert decode(text) == {}
    assert decode_mended(text) == {"a": ["x", "y"], "b": None}


@pytest.mark.parametrize(
    "text",
    [
        '{"a": ["Use the sum.", "Count the cases", where both hold."], "b": 1}',
        '{"a": ["Use the sum."", "Count the cases."], "b": 1}',
        '{"a": ["Use the unres"tricted sum.", "Count the cases."], "b": 1}',
        '{"a": [{"t": null "d": "Use terms, a: b \\\\frac{1}{2} here."}, "B."], "b": 1}',
    ],
)
def test_an_object_whose_strings_had_to_be_guessed_is_thrown_away(text):
    assert decode_mended(text) == {}


SENTENCES = st.from_regex(r"[A-Z][a-z]{1,6}(,? [a-z]{1,6}){1,4}\.", fullmatch=True)


@given(
    steps=st.lists(SENTENCES, min_size=3, max_size=5),
    as_objects=st.booleans(),
    doubled=st.booleans(),
    chance=st.randoms(use_true_random=False),
)
def test_one_lost_or_doubled_mark_gives_the_right_steps_or_none(steps, as_objects, doubled, chance):
    items = [{"step_title": None, "step_description": step} for step in steps]
    whole = json.dumps({"logical_steps": items if as_objects else steps})
    at = chance.choice([mark.start() for mark in re.finditer(r'[]["{},:]', whole)])
    broken = whole[:at] + whole[at] * (2 if doubled else 0) + whole[at + 1 :]
    try:
        found = parse_steps(broken, "stop")
    except ReplyError:
        return
    letters = [[re.sub(r"\W", "", step) for step in each] for each in (found, steps)]
    assert letters[0] == letters[1]
