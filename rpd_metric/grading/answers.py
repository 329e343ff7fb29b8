r"""The final answer of a solution as text: finding it, tidying it, and the easy comparisons.

What is here needs string operations only. `mathematics_worker.py` compares what is left by
computer algebra, in another process.

An answer is never guessed from the last number of a solution that names none: a cut-off solution
would be graded by whatever it was writing when it was cut.
"""

import json
import re
from enum import StrEnum
from importlib.resources import files
from typing import Any

# Models write lines of a thousand "#" and worse: every pattern here takes time linear in the text,
# with possessive repetitions (*+, ++) where one part could take what the next one may, too.

# Announcements in other languages, answers in words, and units are data.
NOTATION: dict[str, dict[str, Any]] = json.loads(
    files("rpd_metric.grading").joinpath("notation.json").read_text("utf-8")
)


def _words(languages: str, kind: str) -> str:
    return "|".join(word for language in NOTATION[languages].values() for word in language[kind])


_SPACED = (
    rf"(?<!\w)(?:{_words('announcements', 'nouns')})(?!\w)"
    r"(?:[ \t]+(?:final[ea]?|corr[a-z]{3,5}))?[*_ \t]*+"
    rf"(?:(?:{_words('announcements', 'verbs')})(?!\w)[ \t]*+[:：]?|[:：=])"
)
_UNSPACED = (
    rf"(?:{_words('announcements_without_spaces', 'nouns')})[*_ \t]*+"
    rf"(?:(?:{_words('announcements_without_spaces', 'verbs')})[:：]?|[:：])"
)
# "Answer: 5", "the final answer is 5", "**Answer**: 5", to the end of the line; or on the next
# line with text, unless that announces the answer itself, or says what it is not.
_ANNOUNCED = re.compile(
    rf"(?:\banswer\b[*_ \t]*+(?:is\b[ \t]*+[:：]?|[:：])|(?P<comma>{_SPACED})|{_UNSPACED})[*_\s]*+"
    r"(?!(?:not|nicht|pas|não|niet|inte|nie|не|不)\b)(?![*_#\s]*+(?:final\s++)?answer\b)"
    r"(?P<answer>(?:(?!\banswer\b\s*+(?:is\b|:))[^\n])*)",
    flags=re.IGNORECASE,
)
_TAGGED = re.compile(r"<answer>(?P<answer>(?:(?!<answer>).)*?)</answer>", re.IGNORECASE | re.DOTALL)
_DECIMAL_COMMA = re.compile(r"(?<![\d.,])(\d+),(\d{1,2}|\d{4,})(?![\d,]|\.\d| ?;)")
# Verbs after the value, and what is said beside it.
_TAIL = re.compile(
    r"\s*(?:です|になります|となります|입니다|이다|है)$"
    r"|\s*+(?:\((?:since|because|as|see|from)|, (?:which|because|since|so|where))\b.*"
)
# "**Final Answer**" or "### Final answer" alone on its line, up to the text under it.
_HEADING = re.compile(
    r"^[ \t#>*_]*+(?:the\s++)?(?:final\s++)?answer[*_ \t]*+(?::[*_ \t]*+)?\n\s*+(?=\S)",
    flags=re.IGNORECASE | re.MULTILINE,
)
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
_NEXT_SENTENCE = re.compile(r"\.\s+(?=[A-Z])|[。।]")
_EMPHASIS = re.compile(r"(?<!\d)\*\*|\*\*(?!\d)")
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
# Letters that products of variables are written with; a word of them is rarely one of language.
_VARIABLES = frozenset("abckmnpqrstuvwxyz")
_CHOICE, _OPTION = re.compile("[A-J]"), re.compile(r"\(?([A-J])(?:\)|[.:](?!\d))")
_JUDGEMENTS, _FIRST_WORD = ("yes", "no", "true", "false"), re.compile(r"([a-z]+)[,;.:]")
_GROUP = re.compile(r"(\\\{|[\[(])([^\[\]()]*,[^\[\]()]*)(\\\}|[\])])")
_INEQUALITY = re.compile(r"[<>]|\\[lg]e")
_ASSIGNED = re.compile(r"\s*([A-Za-z])\s*=([^,=]+?)(?:,|\band\b|\\text\s*\{\s*,?\s*and\s*\}|$)")
_MODULO = re.compile(
    r"(?:[A-Za-z]\w*(?:\\equiv|≡|=))?(?P<values>[-\d,\\pm{} or]+?)"
    r"(?:\\pmod|\\bmod|\\mod|\(mod|mod) ?\{?(?P<modulus>\d{1,15})\}?\)?"
)
_MULTIPLIER = re.compile(
    rf"(?<=\d)\s*(?:\\text\s*\{{\s*)?({'|'.join(NOTATION['multipliers'])})\b\s*\}}?"
)
_HALF_DAY = re.compile(r"(?<=\d) ?([ap])\.? ?m\b\.?", flags=re.IGNORECASE)
_TIME = re.compile(r"\d{1,2}(?::\d\d)?[ap]m")
_ARTICLE = re.compile(r"^\s*(?:an?|the) (?=[a-z]{3,})", flags=re.IGNORECASE)
_PERCENT = re.compile(r"(?<=[\d}])\s*(?:\\text\s*\{\s*percent\s*\}|percent\b)")
_BRACKETS = re.compile(r"([\[\](])([^\[\]()]*,[^\[\]()]*)([\[\])])")
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
_SIGNS |= {wide: chr(wide - 0xFEE0) for wide in range(0xFF01, 0xFF5F)} | {ord("、"): ","}


class Verdict(StrEnum):
    """What grading one response came to. Only `CORRECT` counts as solved."""

    CORRECT = "correct"
    WRONG = "wrong"
    NO_ANSWER = "no_answer"  # none is named, or one that cannot be read
    UNPARSABLE_GOLD = "unparsable_gold"  # the reference cannot be read; the problem is at fault
    TIMED_OUT = "timed_out"  # the comparison was ended by its limit of time or memory


def final_answer(response: str, pattern: str | None = None) -> str | None:
    r"""The final answer that a response names, as it is written there.

    The last box wins: earlier ones are restatements or corrected mistakes. Boxes with nothing
    but commas, "and" or "or" between them are one list of values. Without a box, the last line
    with "answer: ..." or "answer is ..." does, in any of 30 languages, or the text under a later
    heading "Final answer"; or `<answer>...</answer>`, or `####` on the last line. What a `<think>`
    block says is not an answer unless nothing follows it. `None` without one.

    Args:
        pattern (`str`, *optional*): A regular expression that is tried first. Its last match is
            the answer: its first group that matched, or all of it.
    """
    _, closed, after = response.rpartition("</think>")
    spoken = after if closed and after.strip() else response
    if pattern and (own := list(re.compile(pattern).finditer(spoken))):
        return next(filter(None, own[-1].groups()), own[-1].group()).strip() or None
    if box := _last_box(spoken):
        return box
    (place, announced), (later, headed) = _announced(spoken), _under_heading(spoken)
    if (tagged := list(_TAGGED.finditer(spoken))) and tagged[-1].start() > max(place, later):
        inner = tagged[-1]["answer"]
        return final_answer(inner) or _of_line(inner) or None
    last = spoken.rstrip().rpartition("\n")[2]
    if last.startswith("####") and (line := _of_line(last.lstrip("#"))):
        return line
    # Under a heading at the end, some models repeat the answer in a sentence.
    value_is_later = later > place and len(_WORD.findall(headed)) < 4
    return (headed if value_is_later else announced or headed) or None


def readable(answer: str) -> str:
    r"""An answer in the notation that computer algebra reads: no outer `$`, LaTeX roots.

    >>> readable("$10{,}000$."), readable("2√3 + sqrt(x+1)"), readable("1 3/4")
    ('10000', '2\\sqrt{3} + \\sqrt{x+1}', '1\\frac{3}{4}')
    """
    text = answer.translate(_SIGNS).strip().rstrip(".").strip()
    text = text.replace(r"\langle", "(").replace(r"\rangle", ")")
    for opening, closing in (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]")):
        inner = text[len(opening) : -len(closing)]
        if text.startswith(opening) and text.endswith(closing) and opening not in inner:
            text = inner.strip()
            break
    text = _ROOT.sub(lambda match: rf"\sqrt{{{match.group(1) or match.group(2)}}}", text)
    text = _SCIENTIFIC.sub(r"\1\\times 10^{\2}", _MIXED.sub(r"\1\\frac{\2}{\3}", text))
    text = _BARE_NAME.sub(lambda m: r"\pi " if m.group() == "pi" else r"\infty ", text)
    text = _THOUSANDS.sub(lambda match: re.sub(r"\D", "", match.group()), text)
    text = _MULTIPLIER.sub(lambda match: rf"\times {NOTATION['multipliers'][match[1]]}", text)
    text = _PERCENT.sub(r"\\%", re.sub(r"(?<=\d)\{,\}(?=\d)", ".", text))
    if text[:1] == "]" or text[-1:] == "[":  # ]0, 1[ for the open interval
        text = _BRACKETS.sub(lambda m: m[1].replace("]", "(") + m[2] + m[3].replace("[", ")"), text)
    if text[:1] == "(" and re.search(r"(?<!\\);", text):  # (1,5; 2) where commas are decimal
        text = re.sub(r"(?<!\\);", ",", _DECIMAL_COMMA.sub(r"\1.\2", text))
    text = _REPEATING.sub(_fraction, _BRACED_SIGN.sub(r"\1", text))
    named = {match[1]: match[2].strip() for match in _ASSIGNED.finditer(text)}
    if len(named) > 1 and not _ASSIGNED.sub("", text).strip():  # x = 1, y = 2
        text = f"({', '.join(named[name] for name in sorted(named))})"
    spoken = _ARTICLE.sub("", _TEXT.sub(r"\1", text).strip())
    return str(NOTATION["spoken"].get(spoken.casefold(), text))


def tidy(answer: str) -> str:
    r"""An answer without what is only typography: `\left`, thin spaces, `\dfrac`, `\text`.

    Two answers with equal tidied text are the same answer. It is what majority votes count;
    computer algebra gets [`readable`], which still knows `\text{cm}` for a unit.

    >>> tidy(r"$\left( \dfrac{1}{2},\, 3 \right)$."), tidy(r"\text{right angle}")
    ('(\\frac{1}{2},3)', 'right angle')
    """
    text = _ARTICLE.sub("", _TEXT.sub(r"\1", readable(answer)))
    text = re.sub(r"\\(?:left|right)(?![A-Za-z])", "", text)
    text = re.sub(r"\\[dt]frac(?![A-Za-z])", r"\\frac", text)
    text = re.sub(r"\s+", " ", _SPACING.sub(" ", text))
    # A space stays between letters or digits ("no solution", "1 2"), where it means something.
    text = re.sub(r" (?![A-Za-z0-9])|(?<![A-Za-z0-9]) ", "", text)
    text = text.strip().rstrip(".")
    text = _HALF_DAY.sub(lambda match: match[1].lower() + "m", text)
    alone = _PARENTHESISED.fullmatch(text)
    return alone.group(1) if alone else text


def easy_verdict(gold: str, answer: str) -> Verdict | None:
    """The verdict on two tidied answers where none but the text is needed.

    `CORRECT` for equal text (words: whatever the case), whole numbers and residues, `WRONG` for
    unequal whole numbers of up to 15 digits, options (A to J), brackets of a pair, residues, and
    words, unless they may be products of the same variables; `None` when computer algebra decides.
    """
    if gold == answer:
        return Verdict.CORRECT
    if _WHOLE.fullmatch(gold) and _WHOLE.fullmatch(answer):
        return Verdict.CORRECT if int(gold) == int(answer) else Verdict.WRONG
    if _CHOICE.fullmatch(gold) and (option := _OPTION.match(answer)):
        return Verdict.CORRECT if option[1] == gold else Verdict.WRONG
    if gold.casefold() in _JUDGEMENTS and (word := _FIRST_WORD.match(answer.casefold())):
        return Verdict.CORRECT if word[1] == gold.casefold() else Verdict.WRONG
    if _different_brackets(gold, answer):
        return Verdict.WRONG
    if _TIME.fullmatch(gold) and _TIME.fullmatch(answer):
        return Verdict.WRONG
    if residues := _residues(gold, answer):
        return residues
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


def _fraction(match: re.Match[str]) -> str:
    whole, start, period = match.groups()
    below = (10 ** len(period) - 1) * 10 ** len(start)
    above = int(whole + start + period) - int(whole + start or "0")
    return rf"\frac{{{above}}}{{{below}}}"


def _different_brackets(gold: str, answer: str) -> bool:
    """Whether one is a set and the other is not, or [4, 0] and (4, 0): algebra takes them alike."""
    groups = [_GROUP.fullmatch(text) for text in (gold, answer)]
    sets = [group is not None and group[1] == r"\{" for group in groups]
    if sets[0] != sets[1]:
        return all(groups) or bool(_INEQUALITY.search(answer if sets[0] else gold))
    pairs = [(group[1], group[3]) for group in groups if group and group[2].count(",") == 1]
    return len(pairs) == 2 and pairs[0] != pairs[1]


def _residues(gold: str, answer: str) -> Verdict | None:
    """The verdict on "x = 3 (mod 7)"; a plain reference is met by its remainder."""
    reference, candidate = _MODULO.fullmatch(gold), _MODULO.fullmatch(answer)
    if not candidate or not (reference or _WHOLE.fullmatch(gold)):
        return None
    modulus = int(candidate["modulus"])
    if not modulus or (reference and int(reference["modulus"]) != modulus):
        return Verdict.WRONG
    sets = []
    for text in (reference["values"] if reference else gold, candidate["values"]):
        numbers = re.findall(r"(\\pm)?(-?\d{1,15})", text)
        sets.append({s * int(n) % modulus for pm, n in numbers for s in ((1, -1) if pm else (1,))})
    same = sets[0] == sets[1] and (reference is not None or 0 <= int(gold) < modulus)
    return Verdict.CORRECT if same else Verdict.WRONG


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
            if values := _list_of_boxes(response, start, closes):
                return values
            continue  # an empty box after the answer
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
    headings = list(_HEADING.finditer(response))
    if not headings:
        return -1, ""
    under = response[headings[-1].end() :]
    for opening, closing in (("$$", "$$"), (r"\[", r"\]")):
        if under.startswith(opening) and (end := under.find(closing, 3)) > 0:
            return headings[-1].start(), under[2:end].strip()
    return headings[-1].start(), _of_line(under.partition("\n")[0].strip("*_ \t\r"))


def _announced(response: str) -> tuple[int, str]:
    for match in reversed(list(_ANNOUNCED.finditer(response))):
        if line := match.group("answer").strip("*_ \t\r"):
            if match.group("comma"):
                line = _DECIMAL_COMMA.sub(r"\1.\2", line)
            return match.start(), _of_line(line)
    return -1, ""


def _of_line(line: str) -> str:
    line = _NEXT_SENTENCE.split(_EMPHASIS.sub("", line).strip("*_ \t\r\n"))[0]
    line = _TAIL.sub("", line.rstrip(".* "))
    formulas = [match.group("dollar") or match.group("bracket") for match in _INLINE.finditer(line)]
    if len(formulas) == 1:
        return str(formulas[0]).strip()
    return line
