"""Model output as safe HTML: every character escaped, LaTeX as MathML where it can be read.

Browsers render MathML themselves, so that the page needs no script and no font for it. The
converter's tree is written out here, by a list of the elements and attributes that are let
through: commands such as `\\href`, `\\style` and `\\class` put their argument into attributes,
and the converter's own text form does not escape. What cannot be converted stays LaTeX source.
Markdown is left as it is.
"""

from __future__ import annotations

import html
import re
from functools import lru_cache
from typing import Any
from xml.etree.ElementTree import Element

from markupsafe import Markup, escape

from rpd_metric.errors import MissingExtraError

# Longer ones are more likely an unclosed delimiter than a formula; the limit also keeps the search
# for the end of each short.
MAX_FORMULA = 1500
# A dollar sign opens a formula only before a non-blank, and closes one only after a non-blank and
# not before a digit: "$5 or $10" are prices.
FORMULA = re.compile(
    rf"\$\$(?P<dollars>.{{1,{MAX_FORMULA}}}?)\$\$"
    rf"|\\\[(?P<brackets>.{{1,{MAX_FORMULA}}}?)\\\]"
    r"|(?P<environment>\\begin\{(?P<name>align|equation|gather)(?P<star>\*?)\}"
    rf".{{1,{MAX_FORMULA}}}?\\end\{{(?P=name)(?P=star)\}})"
    rf"|\\\((?P<parentheses>.{{1,{MAX_FORMULA}}}?)\\\)"
    rf"|(?<![\\$])\$(?P<dollar>(?!\s)(?:\\.|[^$\\\n]){{1,{MAX_FORMULA}}}?(?<!\s))\$(?!\d)",
    re.DOTALL,
)
DISPLAYED = ("dollars", "brackets", "environment")
IN_LINE = ("parentheses", "dollar")
# Environments that the converter does not know, and what they are without an outer frame.
SAME_AS = {
    r"\{(?:aligned|eqnarray|eqnarray\*|split)\}": "{align*}",
    r"\{(?:gathered|gather|gather\*|equation|equation\*)\}": "{matrix}",
    r"\{align\}": "{align*}",
    r"\{dcases\}": "{cases}",
}
TAGS = re.compile(
    "math|mrow|mi|mn|mo|mtext|mspace|msqrt|mroot|mfrac|msub|msup|msubsup|munder|mover|munderover|"
    "mmultiscripts|mprescripts|mtable|mtr|mtd|mstyle|mpadded|mphantom|menclose"
)
ATTRIBUTES = re.compile(
    "display|displaystyle|scriptlevel|stretchy|fence|form|separator|movablelimits|accent|"
    "accentunder|mathvariant|minsize|maxsize|linethickness|width|lspace|rspace"
)
# No sizes of three digits: a formula must not push the page apart.
VALUE = re.compile(r"[a-z]{1,10}|[+-]?\d{0,2}(?:\.\d{1,4})?(?:em|ex|px|pt|mu)?")
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def clean(text: str) -> str:
    """A text without what HTML cannot hold: control characters and halves of surrogate pairs."""
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def to_html(text: str, *, inline: bool = False) -> Markup:
    """A text from a model or a dataset as HTML that is safe wherever text may stand.

    Args:
        text (`str`): Anything at all.
        inline (`bool`): One flow of text: displayed formulas stand in the line.

    Returns:
        `Markup`: Escaped text, line breaks as they are, and `<math>` elements.

    Raises:
        [`MissingExtraError`]: `latex2mathml` is not installed.

    Example:

    >>> to_html("<b>$x<1$</b>, not $5")
    Markup('&lt;b&gt;<math><mrow><mi>x</mi><mo>&lt;</mo><mn>1</mn></mrow></math>&lt;/b&gt;, not $5')
    """
    text = clean(text)
    parts: list[str] = []
    at = 0
    for match in FORMULA.finditer(text):
        form = next(name for name in (*DISPLAYED, *IN_LINE) if match[name] is not None)
        block = form in DISPLAYED and not inline
        formula = _math(match[form], block)
        if formula is None:
            continue
        before = text[at : match.start()]
        # A displayed formula stands on a line of its own already.
        parts += [escape(before.rstrip(" \n") if block else before), formula]
        at = match.end()
        while block and text[at : at + 1] in (" ", "\n"):
            at += 1
    parts.append(escape(text[at:]))
    return Markup("".join(parts))


@lru_cache(maxsize=4096)
def _math(source: str, block: bool) -> str | None:
    """A formula as MathML; `None` where it holds what the converter does not know."""
    try:
        from latex2mathml import exceptions
        from latex2mathml.converter import Converter
    except ImportError as error:
        raise MissingExtraError(
            "rpd report", extra="report", module=error.name or "latex2mathml"
        ) from error
    for environment, known in SAME_AS.items():
        source = re.sub(environment, known, source)
    try:
        tree = Converter().convert_to_element(source)
        row = tree[0]
        if len(row) == 0 or not all(_readable(element) for element in tree.iter()):
            return None
        written = _written(tree)  # as deep as the formula, which may be too deep
    except _refusals(exceptions):
        return None
    return f'<span class="block">{written}</span>' if block else written


def _refusals(module: Any) -> tuple[type[Exception], ...]:
    """What the converter raises on broken LaTeX.

    Its own errors have no base class, and unfinished commands also trip its code, which walks
    an iterator of tokens and indexes into it without looking ahead.
    """
    own = [value for value in vars(module).values() if isinstance(value, type)]
    trips = (AttributeError, LookupError, RuntimeError, StopIteration, TypeError, ValueError)
    return (*(value for value in own if issubclass(value, Exception)), *trips)


def _readable(element: Any) -> bool:
    text = html.unescape(element.text or "")
    # An unknown command and a stray column mark come back as identifiers.
    unknown = element.tag == "mi" and (text.startswith("\\") or text in ("&", "#"))
    return TAGS.fullmatch(element.tag) is not None and not unknown


def _written(element: Element) -> str:
    """An element as HTML, with nothing in it that was not let through by name."""
    tag = element.tag
    attributes = "".join(
        f' {name}="{escape(value)}"'
        for name, value in element.attrib.items()
        if ATTRIBUTES.fullmatch(name) and value != "inline" and VALUE.fullmatch(value)
    )
    if tag == "menclose":  # not in MathML Core: the style sheet draws the box
        tag, attributes = "mrow", ' class="boxed"'
    if tag == "mtd" and (side := element.get("columnalign")) in ("left", "right"):
        attributes += f' class="{side}"'
    inside = escape(html.unescape(element.text or ""))
    children = "".join(_written(child) for child in element)
    return f"<{tag}{attributes}>{inside}{children}</{tag}>"
