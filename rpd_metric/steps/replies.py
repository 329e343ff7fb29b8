r"""Reading a model's reply: from raw text to a JSON object, and from that to steps.

A reply is prose, perhaps a block of thoughts, and somewhere a JSON object, ideally inside
`//boxed{...}`. The object is found by its key, not by the box around it, and the last one that can
be used counts: prompts, solutions and notes quote earlier ones. What is not quite JSON is repaired
(`loose_json.py`), unless the reply was cut off: a repaired half of a list of steps looks whole. A
step that holds a control character is refused, for it is LaTeX that was lost on the way.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from rpd_metric.errors import ReplyError
from rpd_metric.steps.loose_json import decode, decode_mended, escape_latex, occurs_in
from rpd_metric.steps.protocol import MAX_STEPS, MIN_STEPS

STEPS_KEY = "logical_steps"

# Raised whenever the same reply could be read or refused differently; part of a summarizer's
# fingerprint.
PARSER_VERSION = 2

_THINK_START = re.compile(r"<think(?:ing)?>")
_THINK_END = re.compile(r"</think(?:ing)?>")

_BOX = re.compile(r"boxed(?:_json)?\s*\{")
# An opening brace, a key and a colon: where an object may begin. The quotes may be missing,
# typographic, or escaped once too often.
_OBJECT_START = re.compile(r"\{\s*\\*[\"'“‘]?\w[\w -]{0,40}\\*[\"'”’]?\s*:")
# The answer's brace is near its key; a model in a loop can give thousands.
_BRACES_TRIED = 20

_STEP_NUMBER = re.compile(r"^step\s+\d+\s*[:.)–—-]\s*", re.IGNORECASE)


def parse_steps(
    text: str,
    finish_reason: str | None = None,
    min_steps: int = MIN_STEPS,
    max_steps: int = MAX_STEPS,
    *,
    sent: str = "",
) -> tuple[str, ...]:
    r"""Read the steps out of a summary (App. A.1 of the paper).

    A step is the text of `"step_description"`, or of `"step_title"` where the description is
    empty, or the item itself where the list holds plain strings. A leading "Step 2:" is dropped,
    and so are steps of white space only.

    Args:
        text (`str`): The reply as it came.
        finish_reason (`str`, *optional*): `"length"` when the server cut the reply off.
        min_steps (`int`): Fewer steps than this are refused.
        max_steps (`int`): More steps than this are refused.
        sent (`str`): What the model was sent. An object that was already in there is a quotation,
            of the prompt's example or of the solution, and never the answer.

    Returns:
        `tuple` of `str`: The steps, in the order of the solution.

    Raises:
        [`ReplyError`]: With the reason `"no_envelope"`, `"bad_json"`, `"truncated"`,
            `"wrong_shape"`, `"too_few_steps"`, `"too_many_steps"`, `"control_characters"` or
            `"quoted_envelope"`. Of several unusable objects the last one gives the reason.

    Example:

    ```python
    >>> from rpd_metric.steps.replies import parse_steps
    >>> parse_steps(r'//boxed{"logical_steps": ["Isolate $\theta$.", "Bound it.", "Conclude."]}')
    ('Isolate $\\theta$.', 'Bound it.', 'Conclude.')

    ```
    """
    failure: ReplyError | None = None
    for found in json_objects(text, STEPS_KEY, finish_reason):
        try:
            if occurs_in(found, sent):
                raise ReplyError(
                    "quoted_envelope",
                    "the JSON repeats one from the prompt instead of describing the solution",
                )
            return _steps_of(found, min_steps, max_steps)
        except ReplyError as error:
            failure = failure or error
    raise failure or _why_nothing(text, STEPS_KEY, finish_reason)


def last_json(text: str, required_key: str, finish_reason: str | None = None) -> dict[str, Any]:
    r"""The last JSON object in a reply that has a certain key.

    Args:
        text (`str`): The reply as it came.
        required_key (`str`): The key that tells the answer from other objects.
        finish_reason (`str`, *optional*): `"length"` when the server cut the reply off.

    Returns:
        `dict`: The object.

    Raises:
        [`ReplyError`]: With the reason `"no_envelope"`, `"bad_json"`, `"wrong_shape"` (a box
            without that key) or `"truncated"`.

    Example:

    ```python
    >>> from rpd_metric.steps.replies import last_json
    >>> last_json("Both count in two ways.\n//boxed{{'rating': 1,}}", "rating")
    {'rating': 1}

    ```
    """
    for found in json_objects(text, required_key, finish_reason):
        return found
    raise _why_nothing(text, required_key, finish_reason)


def json_objects(
    text: str, required_key: str, finish_reason: str | None = None
) -> Iterator[dict[str, Any]]:
    """Every JSON object in a reply that has a certain key, the last one first.

    Args:
        text (`str`): The reply as it came.
        required_key (`str`): The key that an object must have.
        finish_reason (`str`, *optional*): `"length"` when the server cut the reply off; then only
            objects that are complete as they stand count: mending would hide what is missing.

    Yields:
        `dict`: The objects, repaired where that is possible.
    """
    text = escape_latex(_answer(text, finish_reason))
    keys = [match.start() for match in _key_pattern(required_key).finditer(text)]
    braces = [match.start() for match in _OBJECT_START.finditer(text)]
    end = len(text)
    for key_before, key in reversed(list(zip([0, *keys], keys, strict=False))):
        # Reaching back past an earlier key would find that key's object again.
        starts = braces[bisect_left(braces, key_before) : bisect_left(braces, key)]
        nearest = starts[: -_BRACES_TRIED - 1 : -1]
        candidates = [(decode, start, len(text)) for start in nearest]
        if finish_reason != "length":
            candidates += [(decode_mended, start, end) for start in nearest]
        end = nearest[0] if nearest else key
        for decoder, start, stop in candidates:
            found = decoder(text[start:stop])
            if required_key in found:
                yield found
                break


def after_thinking(text: str) -> str | None:
    """What follows the last `</think>`.

    Args:
        text (`str`): A reply or a solution, with or without a block of thoughts.

    Returns:
        `str`, *optional*: The part after the thoughts, the whole text where there are none, `None`
        where they begin and never end.
    """
    ends = list(_THINK_END.finditer(text))
    if ends:
        return text[ends[-1].end() :]
    return None if _THINK_START.search(text) else text


def _answer(text: str, finish_reason: str | None) -> str:
    answer = after_thinking(text)
    if answer is None:
        # Cut while thinking: an object in there is a draft. Ended in good order: the model forgot
        # to close its thoughts, and the last object is its answer.
        return "" if finish_reason == "length" else text
    return answer


def _key_pattern(key: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(key)}\\*[\"'”’]?\s*:")


def _why_nothing(text: str, key: str, finish_reason: str | None) -> ReplyError:
    if finish_reason == "length":
        return ReplyError("truncated", "the reply was cut off before its JSON was complete")
    answer = _answer(text, finish_reason)
    if match := _key_pattern(key).search(answer):
        if _is_cut_in_string('"' + answer[match.start() :]):
            return ReplyError("truncated", "the reply breaks off in the middle of its JSON")
        return ReplyError("bad_json", f"the object with the key {key!r} is not valid JSON")
    if _BOX.search(answer):
        return ReplyError("wrong_shape", f"the boxed JSON is no object with the key {key!r}")
    return ReplyError("no_envelope", f"the reply holds no JSON object with the key {key!r}")


def _is_cut_in_string(text: str) -> bool:
    if text.rstrip().rstrip("`").rstrip().endswith(("}", "]")):
        return False
    return len(re.findall(r'(?<!\\)(?:\\\\)*"', text)) % 2 == 1


def _steps_of(found: dict[str, Any], min_steps: int, max_steps: int) -> tuple[str, ...]:
    items = found[STEPS_KEY]
    if not isinstance(items, list):
        raise ReplyError("wrong_shape", f"{STEPS_KEY!r} must be a list, not {type(items).__name__}")
    texts = [_text_of(item, number) for number, item in enumerate(items, start=1)]
    steps = tuple(step for text in texts if (step := _STEP_NUMBER.sub("", text.strip()).strip()))
    for number, step in enumerate(steps, start=1):
        for character in () if step.isprintable() else step:
            if unicodedata.category(character) in ("Cc", "Cs") and character not in "\n\r\t":
                raise ReplyError(
                    "control_characters",
                    f"step {number} holds the control character U+{ord(character):04X}; "
                    "in JSON, a backslash that is meant as such must be doubled",
                )
    if len(steps) < min_steps:
        raise ReplyError("too_few_steps", f"{len(steps)} steps, {min_steps} to {max_steps} wanted")
    if len(steps) > max_steps:
        raise ReplyError("too_many_steps", f"{len(steps)} steps, {min_steps} to {max_steps} wanted")
    return steps


def _text_of(item: object, number: int) -> str:
    if isinstance(item, dict):
        description, title = item.get("step_description"), item.get("step_title")
        blank = description is None or (isinstance(description, str) and not description.strip())
        # Under another key there may be the description, misspelt: the title does not replace that.
        known_keys = item.keys() <= {"step_title", "step_description"}
        item = title if blank and known_keys and title is not None else description
    if not isinstance(item, str):
        raise ReplyError(
            "wrong_shape",
            f"step {number} must be an object with a text as its 'step_description'",
        )
    return item
