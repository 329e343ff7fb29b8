"""Text from models as HTML: nothing in it can become markup, and LaTeX is readable."""

from __future__ import annotations

import html.parser
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpd_datasets.report.latex import ATTRIBUTES, TAGS, to_html

DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "multi_solution"

PIECES = r"""
\frac \sqrt \left( \right) \text{ \href{javascript:alert(1)} \style{a:b} \class{c} \color{red} \foo
\begin{align} \end{align} \begin{cases} \end{cases} \begin{array}{c} \\ & ^ _ { } $ $$ \( \) \[ \]
\boxed \mathbb \hspace{9em} \sum \limits \overset \operatorname{ \not \genfrac \binom \over \def\x{
# % ' x 12 <script>alert(1)</script> <img/src=x/onerror=alert(1)> ]]> --> &lt; &#x3c;
"""
TEXTS = st.one_of(
    st.text(),
    st.lists(st.sampled_from([*PIECES.split(), " ", "\n", "\0"]), max_size=30).map("".join),
)


class Reader(html.parser.HTMLParser):
    """What a browser would find: tags with attributes, and text."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@given(text=TEXTS, inline=st.booleans())
def test_no_text_gives_an_element_or_attribute_that_is_not_let_through(text, inline):
    found = Reader(to_html(text, inline=inline))
    assert not found.open
    for tag, attributes in found.tags:
        assert tag == "span" or TAGS.fullmatch(tag), tag
        for name, value in attributes.items():
            if name == "class":
                assert value in ("block", "boxed", "left", "right")
            else:
                assert ATTRIBUTES.fullmatch(name)
                assert not set(":(") & set(value or "")


@given(text=st.text().filter(lambda text: not set("$\\") & set(text)))
def test_text_without_latex_is_read_as_it_was_written(text):
    printable = "".join(c for c in text if c in "\n\t" or c.isprintable() or not c.isascii())
    found = Reader(to_html(printable))
    assert not found.tags
    assert found.text.replace("\N{REPLACEMENT CHARACTER}", "") == "".join(
        c for c in printable if not ("\x7f" <= c <= "\x9f" or c in "\ufffd\ufffe\uffff")
    )


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        (r"Half is $\frac{1}{2}$.", {"math", "mfrac", "mn"}),
        (r"wages of $\$20{,}000$ a year", {"math", "mn"}),
        (r"\(x_1^2\)", {"math", "msubsup"}),
        ("\\[\\begin{aligned}a&=b\\\\&=c\\end{aligned}\\]", {"span", "math", "mtable", "mtr"}),
        ("\\begin{align*}a&=b\\end{align*}", {"span", "mtable"}),
        (r"$$\begin{pmatrix}1&2\\3&4\end{pmatrix}$$", {"span", "mtable"}),
    ],
)
def test_common_latex_becomes_mathml(text, tags):
    assert tags <= {tag for tag, _ in Reader(to_html(text)).tags}


@pytest.mark.parametrize(
    "text",
    [
        "It costs $5 and then $10.",
        r"\$3 is not \$4",
        r"$\foo{x}$",
        r"$x^2^3$",
        "$" + "{" * 700 + "x" + "}" * 700 + "$",
        "$" + "x" * 5000 + "$",
        "an open $ sign",
        "$$",
    ],
)
def test_what_is_no_readable_formula_stays_as_it_was_written(text):
    found = Reader(to_html(text))
    assert not found.tags
    assert found.text == text


def test_many_unclosed_delimiters_take_no_time_worth_speaking_of():
    # The work is bounded for each: without that, these would take hours.
    for text in ("\\[" * 200_000, "$x " * 200_000, "\\begin{align}" * 50_000, "$$ a" * 100_000):
        to_html(text)


def test_a_displayed_formula_stands_in_the_line_where_only_a_line_is_wanted():
    assert 'class="block"' in to_html(r"so \[x=1\] holds")
    assert 'class="block"' not in to_html(r"so \[x=1\] holds", inline=True)


def test_commands_that_set_attributes_set_none():
    source = r"$\href{javascript:alert(1)}{x}\style{position:fixed}{y}\class{note}{z}$"
    found = Reader(to_html(source))
    assert all(not attributes for _, attributes in found.tags)
    assert found.text == "xyz"


def test_text_of_a_formula_is_escaped():
    assert "&lt;/script&gt;" in to_html(r"$\text{</script>}$")


@pytest.mark.skipif(not DATA.is_dir(), reason="needs ../shared/data")
def test_nearly_all_formulas_of_real_solutions_become_mathml():
    left = total = 0
    with (DATA / "candidates_long.jsonl").open(encoding="utf-8") as file:
        for line in [next(file) for _ in range(15)]:
            for solution in json.loads(line)["solutions"]:
                found = Reader(to_html(solution))
                total += sum(tag == "math" for tag, _ in found.tags)
                outside = Reader(to_html(solution)).text
                left += outside.count("\\(") + outside.count("\\[")
    assert total > 2000
    assert left < 0.02 * total
