r"""The final answer of a solution as text: finding it, tidying it, and the easy comparisons.

What is here needs string operations only. `mathematics_worker.py` compares what is left by
computer algebra, in another process.

An answer is never guessed from the last number of a solution that names none: a cut-off solution
would be graded by whatever it was writing when it was cut.
"""

from __future__ import annotations

import re
from enum import StrEnum

# Models write lines of a thousand "#" and worse: every pattern here takes time linear in the text,
# with possessive repetitions (*+, ++) where one part could take what the next one may, too.

# "Answer: 5", "the final answer is 5", "**Answer**: 5", to the end of the line; or on the next
# line with text, unless that announces the answer itself.
_ANNOUNCED = re.compile(
    r"\banswer\b[*_ \t]*+(?:is\b[ \t]*+:?|:)[*_\s]*+"
    r"(?![*_#\s]*+(?:final\s++)?answer\b)(?P<answer>(?:(?!\banswer\b\s*+(?:is\b|:))[^\n])*)",
    flags=re.IGNORECASE,
)
# "**Final Answer**" or "### Final answer" alone on its line, up to the text under it.
_HEADING = re.compile(
    r"^[ \t#>*_]*+(?:the\s++)?(?:final\s++)?answer[*_ \t]*+(?::[*_ \t]*+)?\n\s*+(?=\S)",
    flags=re.IGNORECASE | re.MULTILINE,
)
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
_NEXT_SENTENCE = re.compile(r"\.\s+(?=[A-Z])")
_BOX = re.compile(r"\\f?box(?:ed)?(?![A-Za-z])\s*")
_BRACE = re.compile(r"\\.|[{}]", flags=re.DOTALL)  # an escaped brace is a set's, not a box's
_TOKEN = re.compile(r"\\[A-Za-z]+|[^\s{}$\\]")
# $...$, \( ... \) and \[ ... \] inside a line of prose.
_INLINE = re.compile(r"\$\$?(?P<dollar>[^$]+)\$\$?|\\[(\[](?P<bracket>(?:(?!\\[(\[]).)+?)\\[)\]]")
_TEXT = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox)\s*\{([^{}]*)\}")
_SPACING = re.compile(r"(?<!\\)\\(?:[!,;:> ]|quad\b|qquad\b)|~")  # not the "\\ " that ends a row
_THOUSANDS = re.compile(
    r"(?<![\d.,])\d{1,3}(?:(?:\{,\}|,\s*\\!\s*|\{?\\[,;: ]\}?|\{~\}|~)\d{3})+(?!\d)"
)
_BRACED_SIGN = re.compile(r"\{([:,.;])\}")  # "12{:}30", for the spacing of a colon
_REPEATING = re.compile(r"(?<![\d.])(\d*)\.(\d*)\\(?:overline|bar)\s*\{(\d+)\}")
# What may separate the boxes of one list.
_BETWEEN_BOXES = re.compile(
    r"(?:[\s$,;]|\\[,;:! ]|\\q?quad|\b(?:and|or)\b|\\text\s*\{\s*(?:,|and|or|,\s*and)\s*\})+"
)
# "5 dollars", "12 square inches": a number and plain words.
_WITH_UNIT = re.compile(r"(?P<number>[+-]?[\d.,]*\d)\s*(?P<unit>[a-z]{3,}(?: [a-z]{2,}){0,2})")
# Words after a number that change it, and so are no unit.
_NO_UNITS = re.compile(
    r"\b(?:percent|dozen|hundred|thousand|million|billion|trillion|half|halves|thirds|quarters|over"
    r"|times|plus|minus|modulo|mod|factorial|and|squared|cubed|sqrt|sin|cos|tan|log|exp)\b"
)
# "5 cm", "5 kilometers", "5 km/h" at the end of a tidied answer, and one name for each unit.
_UNIT = re.compile(r"[\d)}] ?(?P<unit>[A-Za-z]{1,11}(?:/[A-Za-z]{1,11})?)")
_OF = re.compile(r" of [A-Za-z][\w ]{0,40}")  # "66 g of CO_2"
_UNIT_NAMES = {
    name: names.split()[0]
    for names in (
        *("mm millimeter millimetre", "cm centimeter centimetre", "dm decimeter decimetre"),
        *("m meter metre", "km kilometer kilometre", "in inch inche", "ft feet foot", "yd yard"),
        *("mi mile", "mg milligram", "g gram", "kg kilogram", "lb pound", "oz ounce"),
        *("s sec second", "min minute", "h hr hour", "day", "week", "month", "year"),
        *("ml milliliter millilitre", "l liter litre", "cent", "dollar", "euro", "percent"),
    )
    for name in names.split()
}
# Letters that products of variables are written with; a word of them is rarely one of language.
_VARIABLES = frozenset("abckmnpqrstuvwxyz")
_PARENTHESISED = re.compile(r"\(([+-]?\d+|[A-Za-z])\)")  # "(073)", "(C)"
_WHOLE = re.compile(r"[+-]?\d{1,15}")
_WORDS = re.compile(r"[A-Za-z]{3,}(?:[ ,'-]+[A-Za-z]+)*")
_SCIENTIFIC = re.compile(
    r"(?<![A-Za-z\d.])(\d{1,15}(?:\.\d{1,15})?)[eE]([+-]?\d{1,4})(?![\d.A-Za-z])"
)
_MIXED = re.compile(r"(?<![\dA-Za-z./^_{}])(\d{1,9}) +(\d{1,9})/(\d{1,9})(?![\d./^])")
_BARE_NAME = re.compile(r"(?<![\\A-Za-z])(pi|oo|infty|infinity)(?![A-Za-z])")
_ROOT = re.compile(r"(?:(?<![\\A-Za-z])sqrt|√)\s*(?:\(([^()]*)\)|(\d+|[A-Za-z]\b))")
_SIGNS = str.maketrans({"−": "-", "–": "-", "\u00a0": " ", "π": r"\pi ", "×": r"\times "})
_SIGNS |= str.maketrans({"°": r"^\circ ", "≤": r"\le ", "≥": r"\ge ", "∞": r"\infty "})
_SIGNS |= {ord("₀") + digit: f"_{digit}" for digit in range(10)}


class Verdict(StrEnum):
    """What grading one response came to. Only `CORRECT` counts as solved."""

    CORRECT = "correct"
    WRONG = "wrong"
    NO_ANSWER = "no_answer"  # none is named, or one that cannot be read
    UNPARSABLE_GOLD = "unparsable_gold"  # the reference cannot be read; the problem is at fault
    TIMED_OUT = "timed_out"  # the comparison was ended by its limit of time or memory


def final_answer(response: str) -> str | None:
    r"""The final answer that a response names, as it is written there.

    The last box wins: earlier ones are restatements or corrected mistakes. Boxes with nothing
    but commas, "and" or "or" between them are one list of values. Without a box, the last line
    with "answer: ..." or "answer is ..." does, or the text under a later heading "Final answer".
    What a `<think>` block says is not an answer unless nothing follows it. `None` without one.
    """
    _, closed, after = response.rpartition("</think>")
    spoken = after if closed and after.strip() else response
    if box := _last_box(spoken):
        return box
    (place, said), (later, headed) = _announced(spoken), _under_heading(spoken)
    # Under a heading at the end, some models repeat the answer in a sentence.
    value_is_later = later > place and len(_WORD.findall(headed)) < 4
    return (headed if value_is_later else said or headed) or None


def readable(answer: str) -> str:
    r"""An answer in the notation that computer algebra reads: no outer `$`, LaTeX roots.

    >>> readable("$10{,}000$."), readable("2√3 + sqrt(x+1)"), readable("1 3/4")
    ('10000', '2\\sqrt{3} + \\sqrt{x+1}', '1\\frac{3}{4}')
    """
    text = answer.translate(_SIGNS).strip().rstrip(".").strip()
    for opening, closing in (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]")):
        inner = text[len(opening) : -len(closing)]
        if text.startswith(opening) and text.endswith(closing) and opening not in inner:
            text = inner.strip()
            break
    text = _ROOT.sub(lambda match: rf"\sqrt{{{match.group(1) or match.group(2)}}}", text)
    text = _SCIENTIFIC.sub(r"\1\\times 10^{\2}", _MIXED.sub(r"\1\\frac{\2}{\3}", text))
    text = _BARE_NAME.sub(lambda m: r"\pi " if m.group() == "pi" else r"\infty ", text)
    text = _THOUSANDS.sub(lambda match: re.sub(r"\D", "", match.group()), text)
    return _REPEATING.sub(_fraction, _BRACED_SIGN.sub(r"\1", text))


def tidy(answer: str) -> str:
    r"""An answer without what is only typography: `\left`, thin spaces, `\dfrac`, `\text`.

    Two answers with equal tidied text are the same answer. It is what majority votes count;
    computer algebra gets [`readable`], which still knows `\text{cm}` for a unit.

    >>> tidy(r"$\left( \dfrac{1}{2},\, 3 \right)$."), tidy(r"\text{no solution}")
    ('(\\frac{1}{2},3)', 'no solution')
    """
    text = _TEXT.sub(r"\1", readable(answer))
    text = re.sub(r"\\(?:left|right)(?![A-Za-z])", "", text)
    text = re.sub(r"\\[dt]frac(?![A-Za-z])", r"\\frac", text)
    text = re.sub(r"\s+", " ", _SPACING.sub(" ", text))
    # A space stays between letters or digits ("no solution", "1 2"), where it means something.
    text = re.sub(r" (?![A-Za-z0-9])|(?<![A-Za-z0-9]) ", "", text)
    text = text.strip().rstrip(".")
    alone = _PARENTHESISED.fullmatch(text)
    return alone.group(1) if alone else text


def easy_verdict(gold: str, answer: str) -> Verdict | None:
    """The verdict on two tidied answers where none but the text is needed.

    `CORRECT` for equal text (words: whatever the case) and equal whole numbers, `WRONG` for unequal
    whole numbers of up to 15 digits, for different units and for different words, unless they may
    be products of the same variables; `None` when computer algebra has to decide. It would not
    contradict a verdict, but for units and for words that differ in case alone or are anagrams.
    """
    if gold == answer:
        return Verdict.CORRECT
    if _WHOLE.fullmatch(gold) and _WHOLE.fullmatch(answer):
        return Verdict.CORRECT if int(gold) == int(answer) else Verdict.WRONG
    units = _unit(gold), _unit(answer)
    if units[0] and answer.startswith(gold) and _OF.fullmatch(answer, len(gold)):
        return Verdict.CORRECT
    if all(units) and units[0] != units[1]:
        return Verdict.WRONG  # computer algebra drops them: to it, 5 cm is 5 m
    if _WORDS.fullmatch(gold) and _WORDS.fullmatch(answer):
        if gold.casefold() == answer.casefold():
            return Verdict.CORRECT
        # Computer algebra reads words as products of their letters: "xyz" does equal "zyx", and
        # "east" would equal "seat".
        letters = sorted(filter(str.isalpha, gold))
        product = _VARIABLES.issuperset(letters) and ("a" not in letters or len(letters) <= 3)
        if letters != sorted(filter(str.isalpha, answer)) or not product:
            return Verdict.WRONG
    return None


def _unit(answer: str) -> str | None:
    """The known unit that ends an answer, by its one name."""
    found = list(_UNIT.finditer(answer))
    if not found or found[-1].end() != len(answer):
        return None
    parts = found[-1]["unit"].split("/")
    names = [_UNIT_NAMES.get(part) or _UNIT_NAMES.get(part.removesuffix("s")) for part in parts]
    return "/".join(map(str, names)) if all(names) else None


def _fraction(match: re.Match[str]) -> str:
    """A repeating decimal as the fraction that it is."""
    whole, start, period = match.groups()
    below = (10 ** len(period) - 1) * 10 ** len(start)
    above = int(whole + start + period) - int(whole + start or "0")
    return rf"\frac{{{above}}}{{{below}}}"


def without_lone_unit(gold: str, answer: str) -> tuple[str, str]:
    """Two answers without the plain words after a number that only one of them has.

    >>> without_lone_unit("5", "5 dollars"), without_lone_unit("5 dollars", "5 cents")
    (('5', '5'), ('5 dollars', '5 cents'))
    """
    found = [_WITH_UNIT.fullmatch(text) for text in (gold, answer)]
    if all(found) or any(m and _NO_UNITS.search(m["unit"]) for m in found):
        return gold, answer
    first, second = found
    return first["number"] if first else gold, second["number"] if second else answer


def _last_box(response: str) -> str | None:
    """The content of the last closed box, with nested braces; `None` without one."""
    starts = [match.end() for match in _BOX.finditer(response)]
    if not starts:
        return None
    # One pass over the braces: a model stuck in a loop writes thousands of open boxes. Braces
    # before the first box change nothing.
    closes: dict[int, int] = {}
    opened: list[int] = []
    for match in _BRACE.finditer(response, starts[0]):
        if match.group() == "{":
            opened.append(match.start())
        elif match.group() == "}" and opened:
            closes[opened.pop()] = match.start()
    for start in reversed(starts):
        if start in closes:
            return _list_of_boxes(response, start, closes)
        # "\\boxed 5" is TeX for a box around one token.
        token = _TOKEN.match(response, start)
        if token:
            return token.group()
    return None


def _list_of_boxes(response: str, last: int, closes: dict[int, int]) -> str | None:
    """The content of the box that opens at `last`, after those that it continues as a list."""
    boxes = [(m.start(), m.end()) for m in _BOX.finditer(response, 0, last) if m.end() in closes]
    values = {response[last + 1 : closes[last]].strip(): None}  # the last one first
    begin = boxes.pop()[0] if boxes and boxes[-1][1] == last else last
    for box_begin, start in reversed(boxes):
        if not _BETWEEN_BOXES.fullmatch(response, closes[start] + 1, begin):
            break
        values.setdefault(response[start + 1 : closes[start]].strip())
        begin = box_begin
    return ", ".join(filter(None, reversed(values))) or None


def _under_heading(response: str) -> tuple[int, str]:
    """Where the last heading that announces the answer is, and a formula or line under it."""
    found = list(_HEADING.finditer(response))
    if not found:
        return -1, ""
    under = response[found[-1].end() :]
    for opening, closing in (("$$", "$$"), (r"\[", r"\]")):
        if under.startswith(opening) and (end := under.find(closing, 3)) > 0:
            return found[-1].start(), under[2:end].strip()
    return found[-1].start(), _of_line(under.partition("\n")[0].strip("*_ \t\r"))


def _announced(response: str) -> tuple[int, str]:
    """Where the last "answer:" or "answer is" is, and the text after it."""
    for match in reversed(list(_ANNOUNCED.finditer(response))):
        if line := match.group("answer").strip("*_ \t\r"):
            return match.start(), _of_line(line)
    return -1, ""


def _of_line(line: str) -> str:
    """The answer in a line: its one formula, else its first sentence."""
    line = _NEXT_SENTENCE.split(line)[0]
    formulas = [match.group("dollar") or match.group("bracket") for match in _INLINE.finditer(line)]
    if len(formulas) == 1:
        return str(formulas[0]).strip()
    return line
