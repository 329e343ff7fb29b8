r"""Numbers with units: read from LaTeX or words, converted, and compared within a tolerance.

    9.9\,\mathrm{m\,s^{-1}} = 9.9 m/s = 35.64 km/h        24 cm^2 != 24 cm^3        45° != 45 rad

A table of its own instead of pint: pint reads no LaTeX, adds 0.8 s to the start of every process,
and takes words for units ("2 cats" are centi-technical-atmospheres, "6 as" attoseconds).
"""

import math
import re
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from rpd_metric.grading.answers import NOTATION, Verdict, easy_verdict, tidy

_SYMBOLS = {"n": -9, "u": -6, "m": -3, "c": -2, "d": -1, "": 0, "k": 3, "M": 6, "G": 9}
_PREFIXES = {"": 0, "nano": -9, "micro": -6, "milli": -3, "centi": -2, "deci": -1, "kilo": 3}
_TURN = Fraction(180 / math.pi)
# A reference that is rounded allows half of its last digit, and never more than this share.
LARGEST_TOLERANCE = Fraction(1, 100)

# Longer text is a derivation.
LONGEST = 200

_UPRIGHT = re.compile(r"\\(?:text|mathrm|textrm|mathbf|textbf|mbox|operatorname)\s*\{([^{}]*)\}")
_SPACE = re.compile(r"\\(?:[!,;:> ]|quad\b|qquad\b)|[~\s]")
# \mathrm{\frac{m}{s}}, and \frac{\text{m}}{\text{s}} when its texts are marked.
_RATIO = re.compile(r"(\\(?:text|mathrm)\s*\{[^{}]*)\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_RATIO_OF_TEXTS = re.compile(r"\\[dt]?frac\s*\{\s*(\x01[^{}\d]*)\}\s*\{\s*(\x01[^{}]*)\}")
_RAISED = str.maketrans({"²": "^2", "³": "^3", "⁻": "^-", "¹": "1", "µ": "u", "μ": "u"})
# Of temperatures ("°C") they stay words: those are not converted.
_DEGREE = re.compile(
    r"\^\s*(?:\{\s*\\circ\s*\}|\\circ)\s*(?:\\(?:text|mathrm)\s*\{\s*([CF])\s*\}|([CF])\b)?"
)
_NUMBER = re.compile(
    r"[+-]?(?:\d+/\d+|\d+\.?\d*|\.\d+)(?: ?(?:\\times|\\cdot) ?10\^(?P<power>-?\d{1,3}))?"
)
_FACTOR = re.compile(
    r"(?:(?P<power>square|sq|cubic|cu) )?(?P<name>[A-Za-zΩ]+)"
    r"(?: (?P<raised>squared|cubed)|\^?(?P<to>-?\d+))?"
)
# Words after a number that change it, and so are no unit.
_NO_UNITS = re.compile(
    r"\b(?:percent|half|halves|thirds|quarters|over"
    r"|times|plus|minus|modulo|mod|factorial|and|or|squared|cubed|sqrt|sin|cos|tan|log|exp)\b"
)
# "1 hour 30 minutes", "5 ft and 3 in"
_COMPOUND = re.compile(r" *(\d+) *([A-Za-z]+),?(?: *and)? *(\d+) *([A-Za-z]+) *")
_POWERS = {"square": 2, "sq": 2, "squared": 2, "cubic": 3, "cu": 3, "cubed": 3}


# How many base units one is, and the powers of those.
Unit = tuple[Fraction, frozenset[tuple[str, int]]]


class Quantity(NamedTuple):
    """The number as it is written, the words after it, and their unit where it is known."""

    number: str
    words: str = ""
    unit: Unit | None = None


def _table() -> dict[str, Unit]:
    """Every unit by name; those of the metric system with prefixes, of symbols or of words."""
    units = {}
    for group in ("metric_units", "other_units"):
        for names, size in NOTATION[group].items():
            scale, *bases = size.split()
            powers = [re.fullmatch(r"([A-Za-z]+)(-?\d*)", base) for base in bases]
            unit = frozenset((match[1], int(match[2] or 1)) for match in powers if match)
            for place, name in enumerate(names.split()):
                prefixes = _PREFIXES if place else _SYMBOLS
                for prefix, exponent in (prefixes if group == "metric_units" else {"": 0}).items():
                    units[prefix + name] = Fraction(scale) * Fraction(10) ** exponent, unit
    return units | dict.fromkeys(("deg", "degree"), (1 / _TURN, units["rad"][1]))


_UNITS = _table()


def quantity(answer: str) -> Quantity:
    r"""A [`~rpd_metric.grading.answers.readable`] answer as number and unit.

    >>> quantity(r"35.64\text{ km/h}").number, float(quantity(r"35.64\text{ km/h}").unit[0])
    ('35.64', 0.2777777777777778)
    >>> quantity("6 apples"), quantity("x+1").words
    (Quantity(number='6', words='apples', unit=None), '')
    """
    if len(answer) > LONGEST:
        return Quantity(answer)
    text = re.sub(r"^\\?\$ ?(?=[\d.])(.*)", "\\1\x01dollar", answer.translate(_RAISED))
    text = text.replace(r"\Omega", "Ω").replace(r"\mu", "u")
    text = re.sub(r"\^\s*\{\s*(-?\d+)\s*\}", r"^\1", _DEGREE.sub("\x01deg\\1\\2 ", text))
    for pattern, form in ((_RATIO, r"\1\2/\3"), (_UPRIGHT, "\x01\\1 "), (_UPRIGHT, "\x01\\1 ")):
        text = pattern.sub(form, text)
    text = re.sub(r" ?\^", "^", _SPACE.sub(" ", _RATIO_OF_TEXTS.sub(r"\1/\2", text)))
    plain = _NUMBER.match(text)
    number, rest = text.partition("\x01")[::2]
    if plain and (text[plain.end() :].lstrip(" \x01")[:1].isalpha()):
        number, rest = plain.group(), text[plain.end() :]
        if re.fullmatch("[A-Za-z]", rest):
            return Quantity(answer)  # "5m" is rather a product
    elif "\x01" not in text:
        return Quantity(answer)
    if parts := _COMPOUND.fullmatch(text.replace("\x01", " ")):
        large, small = _named(parts[2]), _named(parts[4])
        if large and small and large[1] == small[1]:
            number = str(Fraction(parts[1]) + Fraction(parts[3]) * small[0] / large[0])
            return Quantity(number, parts[2], large)
    words = re.sub(r"\\cdot|[\x01·*]|\\times", " ", rest)
    words = re.sub(r"\s+", " ", words).strip(" .")
    unit = _unit(words) or _unit(words.partition(" of ")[0])
    readable = unit or re.fullmatch(r"[A-Za-z]{3,}(?: [A-Za-z]{2,}){0,2}", words)
    # Words that were set upright are meant as words.
    upright = "\x01" in text and words and not re.search(r"\d(?<!\^\d)(?<!-\d)", words)
    if not (number.strip() and (readable or upright)):
        return Quantity(answer)
    return Quantity(number.strip(), words, unit)


def _unit(words: str) -> Unit | None:
    """The unit of "m/s^2", "meters per second squared" or "kg m s^-2"."""
    scale, powers, sign = Fraction(1), Counter[str](), 1
    for part in re.split(r"(/|\bper\b)", re.sub("[()]", " ", words)):
        if part in ("/", "per"):
            sign = -1  # of all that follows: J/mol K is J/(mol K)
        elif _FACTOR.sub("", part).strip():
            return None
        else:
            for factor in _FACTOR.finditer(part):
                known = _named(factor["name"])
                if known is None:
                    return None
                to = sign * int(factor["to"] or _POWERS.get(factor["power"] or factor["raised"], 1))
                scale *= known[0] ** to
                for base, power in known[1]:
                    powers[base] += to * power
    return (scale, frozenset((b, p) for b, p in powers.items() if p)) if powers else None


def _named(name: str) -> Unit | None:
    word = name.lower() if len(name) > 3 else name
    return _UNITS.get(name) or _UNITS.get(word) or _UNITS.get(word.removesuffix("s"))


def settle(gold: str, answer: str) -> Verdict | tuple[str, str]:
    r"""The verdict on two readable answers, or what computer algebra has to compare.

    A unit that only one side has is dropped. Different units that are not in the table cannot be
    checked: `NO_ANSWER`, or `UNPARSABLE_GOLD` for the reference's.

    >>> settle("5 cm", r"50\text{ mm}").value, settle("2x cm", r"x+x\text{ cm}")
    ('correct', ('2x cm', 'x+x'))
    """
    if easy := easy_verdict(tidy(gold), tidy(answer)):
        return easy
    reference, candidate = quantity(gold), quantity(answer)
    by = ""
    if not reference.words or not candidate.words:
        # The one without a unit may be in radians: `mathematics_worker` reads the sign.
        if "deg" in (reference.words, candidate.words) or _NO_UNITS.search(
            reference.words or candidate.words
        ):
            return gold, answer
    elif reference.unit is None or candidate.unit is None:
        if reference.words.casefold().removesuffix("s") != candidate.words.casefold().removesuffix(
            "s"
        ):
            return Verdict.NO_ANSWER if reference.unit else Verdict.UNPARSABLE_GOLD
    elif reference.unit[1] != candidate.unit[1]:
        return Verdict.WRONG
    else:
        ratio = candidate.unit[0] / reference.unit[0]
        plain, other = _plain(reference.number), _plain(candidate.number)
        if plain and other:
            near = max(_half_a_digit(plain), abs(Fraction(plain)) / 10**6)
            gap = abs(Fraction(plain) - Fraction(other) * ratio)
            return Verdict.CORRECT if gap <= near else Verdict.WRONG
        turns = {1: "", _TURN: r"\frac{180}{\pi}", 1 / _TURN: r"\frac{\pi}{180}"}
        by = turns.get(ratio, rf"\frac{{{ratio.numerator}}}{{{ratio.denominator}}}")
    left = reference.number, rf"({candidate.number}) \cdot {by}" if by else candidate.number
    return easy_verdict(*map(tidy, left)) or left


def _plain(number: str) -> str:
    """A number as Python writes it, "" for an expression."""
    plain = _NUMBER.fullmatch(number) and re.sub(r" ?\\(?:times|cdot) ?10\^", "e", number)
    return "" if not plain or ("/" in plain and "e" in plain) else plain


def _half_a_digit(number: str) -> Fraction:
    """What a decimal of two digits or more allows: half of its last digit, at most one percent."""
    _, digits, exponent = Decimal(number).as_tuple() if "." in number else (0, (), 0)
    if len(digits) < 2:
        return Fraction(0)
    return min(Fraction(f"1e{exponent}") / 2, abs(Fraction(number)) * LARGEST_TOLERANCE)
