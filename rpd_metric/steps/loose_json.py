r"""JSON as language models write it; finding it in a reply is the business of `replies.py`.

The worst fault is silent. In `"\frac{1}{2}"` the backslash and the f are a valid JSON escape, so a
parser returns a form feed and `rac{1}{2}`. Backslashes that mean LaTeX are therefore doubled
before any parser sees the text ([`escape_latex`]). The loud faults, trailing commas, Python
literals, stray or missing quotes and braces, are repaired by json-repair after a strict parser has
failed ([`decode_mended`]); a result that has lost or gained words on the way is thrown away.

Known limits: a single backslash at the end of a string swallows the string's closing quote; a
line break before a line that starts with just the letter u or e reads as `\nu` or `\ne`.
"""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import Any

from json_repair import repair_json

# LaTeX commands that begin with n or t, where `\n` and `\t` may also be meant as JSON escapes.
# (`\b`, `\f` and `\r` followed by a letter are never meant as such in prose, `\u` only before four
# hexadecimal digits.) Left out: `\ni`, for a new line may begin with the letter i.
_LATEX_N_OR_T = r"""
    n(?:abla|atural|cong|e|earrow|eg|eg(?:med|thin)space|eq|ewline|exists|[gl]eq(?:q|slant)?|gtr
    |[lL]eft(?:right)?arrow|less|mid|obreak|oindent|olimits|onumber|orm|ormalfont
    |ormalsize|ot|otag|otin|parallel|(?:prec|succ)(?:eq)?|[rR]ightarrow|short(?:mid|parallel)|sim
    |su[bp]seteqq?|triangle(?:left|right)(?:eq)?|u|[vV][dD]ash|warrow)
    |t(?:ag|an|anh|au|binom|ensor|ext[a-z]*|frac|g|herefore|heta|hetasym|hick(?:approx|sim|space)
    |hinspace|ilde|imes|iny|o|op|r|race|riangle(?:down|q)?|riangle(?:left|right)(?:eq)?|t
    |wohead(?:left|right)arrow)
"""
_JSON_ESCAPE = re.compile(
    rf"""["'/bfr]? | u[0-9A-Fa-f]{{4}} | (?!(?:{_LATEX_N_OR_T})\Z) [nt] .*""",
    re.VERBOSE | re.DOTALL,
)
_json_escape = lru_cache(maxsize=4096)(_JSON_ESCAPE.fullmatch)  # the same commands come again
_ROW_BREAK_FOLLOWER = re.compile(r"[\s\d-]|\Z")
# Whether quotes are balanced before it does not matter: a string is never split.
_BETWEEN_QUOTES = re.compile(r'(?:[^"\\]++|\\.)+', re.DOTALL)
_BACKSLASHES = re.compile(r"(\\+)(u[0-9A-Fa-f]{4}|[A-Za-z]+|.|\Z)", re.DOTALL)

# Strict about the rest, but a string may hold a raw line break.
_DECODER = json.JSONDecoder(strict=False)

# Mending takes time quadratic in the length in the worst case: about a second for this many. Five
# steps are far shorter; what is longer has usually run into a loop.
_MENDABLE_CHARACTERS = 6000
# Strings in single quotes: an apostrophe inside is not followed by what follows a string.
_SINGLE_QUOTED_OBJECT = re.compile(r"\{\s*'")
_SINGLE_QUOTED = re.compile(r"(?<=[\[{,:\s])'((?:[^'\\]|\\.|'(?!\s*[,:\]}]))*)'(?=\s*[,:\]}])")
# Trailing commas are looked for before the comments that may follow them are gone.
_COMMENT_OR_COMMA = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.)*")|,(?=(?:\s|//[^\n]*+)*+[}\]])|//[^\n]*', re.DOTALL
)
_SURROGATE_PAIR = re.compile(r"(?i)\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_CONTROL_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_WORD = re.compile("[a-z]+")
_WORDS_LOOKED_UP = 50  # each takes a pass over the prompt
_QUOTE = "[\"'“”‘’]"
_NO_LETTERS = bytes(code for code in range(128) if not chr(code).isalnum())
UNESCAPED_QUOTE = re.compile(r'(?<!\\)(?:\\\\)*"')


def escape_latex(text: str) -> str:
    r"""Double the backslashes of LaTeX commands, leaving JSON's own escapes as they are.

    Kept: `\"`, `\\`, `\/`, `\'`, `\uXXXX`; `\n` and `\t` unless the letters that follow make them a
    LaTeX command, such as `\nu` or `\times`; `\b`, `\f` and `\r` unless any letter follows. In a
    string that holds unescaped LaTeX, two backslashes at the end of a row are a row break and are
    doubled as well, and so are three before a command.
    """
    return _BETWEEN_QUOTES.sub(
        lambda match: _escape_string(match[0]) if "\\" in match[0] else match[0], text
    )


def decode(text: str) -> dict[str, Any]:
    """The JSON object at the beginning of a text, LaTeX already escaped; empty if there is none."""
    try:
        value, _ = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):  # RecursionError: brackets nested a thousand deep
        return {}
    return value if isinstance(value, dict) else {}


def decode_mended(text: str) -> dict[str, Any]:
    r"""Decode the object at the beginning of a text that is not quite JSON.

    Empty where it cannot be repaired without guessing, as when it breaks off inside a string, or
    where it is too long to be repaired quickly.
    """
    if len(text) > _MENDABLE_CHARACTERS:
        return {}
    if _SINGLE_QUOTED_OBJECT.match(text):
        text = _SINGLE_QUOTED.sub(_in_double_quotes, text)
    # The mender would leave the two halves of such a character apart.
    text = _SURROGATE_PAIR.sub(lambda pair: str(json.loads(f'"{pair[0]}"')), text)
    plain = _COMMENT_OR_COMMA.sub(lambda match: match["string"] or "", text)
    if document := decode(plain):
        return document
    try:
        value = repair_json(text, return_objects=True, skip_json_loads=True)
    except (ValueError, RecursionError):
        return {}
    if isinstance(value, list) and value:  # the object, then more that looks like JSON
        value = value[0]
    return value if isinstance(value, dict) and _is_faithful(value, text) else {}


def occurs_in(value: dict[str, Any], text: str) -> bool:
    """Whether an object's keys and values follow each other in a text, whatever the punctuation."""
    lower = text.lower()
    words = _WORD.findall(" ".join(_leaves(value, texts_only=True)).lower())
    if not all(word in lower for word in words[:_WORDS_LOOKED_UP]):
        return False  # nearly always, and spares a long text the rest
    return _letters("".join(_leaves(value))) in _letters(_unescaped(escape_latex(text)))


def _escape_string(text: str) -> str:
    unescaped = any(
        len(match[1]) % 2 == 1 and not _json_escape(match[2])
        for match in _BACKSLASHES.finditer(text)
    )
    if not unescaped:
        return text

    def doubled(match: re.Match[str]) -> str:
        backslashes, follower = match.groups()
        if len(backslashes) % 2 == 1:
            is_latex = _json_escape(follower) is None
        else:
            # A row break: nothing that could be a command's name follows.
            is_latex = backslashes == r"\\" and _ROW_BREAK_FOLLOWER.match(follower) is not None
        return backslashes * (2 if is_latex else 1) + follower

    return _BACKSLASHES.sub(doubled, text)


def _in_double_quotes(string: re.Match[str]) -> str:
    inside = string[1].replace("\\'", "'")
    return '"' + UNESCAPED_QUOTE.sub(lambda match: match[0][:-1] + '\\"', inside) + '"'


def _is_faithful(value: dict[str, Any], text: str) -> bool:
    # The mender guesses where strings end. After a wrong guess words are missing, or a value is
    # not the text between two quotes: it was split in the middle or at an inner comma.
    plain = _unescaped(text)
    return _letters(plain).startswith(_letters("".join(_leaves(value)))) and all(
        re.search(rf"(?<!\w){_QUOTE}\s*{re.escape(leaf.strip())}\s*{_QUOTE}(?!\w)", plain)
        for leaf in _leaves(value, texts_only=True)
    )


def _leaves(value: object, *, texts_only: bool = False) -> Iterator[str]:
    """Keys and values, in order; or those values alone that are texts."""
    if isinstance(value, dict):
        value = list(value.values() if texts_only else chain(*value.items()))
    if isinstance(value, list):
        for item in value:
            yield from _leaves(item, texts_only=texts_only)
    elif not texts_only or isinstance(value, str):
        yield str(value)


def _letters(text: str) -> str:
    # By bytes: whole prompts pass through here, and a pattern would look at each character.
    plain = text.lower().encode("ascii", "ignore").translate(None, _NO_LETTERS).decode("ascii")
    # None and null are the same; removing them from both sides is simpler than telling which.
    return re.sub(r"none|null", "", plain) if "none" in plain or "null" in plain else plain


def _unescaped(json_text: str) -> str:
    def character(escape: re.Match[str]) -> str:
        code = escape[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _CONTROL_ESCAPES.get(code, code)

    return _ESCAPE.sub(character, json_text)
