r"""Reading a model's reply: from raw text to a JSON object, and from that to steps.

A reply is prose, perhaps a block of thoughts, and somewhere a JSON object, ideally inside
`//boxed{...}`. The object is found by its key, not by the box around it, and the last one that can
be used counts: prompts, solutions and notes quote earlier ones. What is not quite JSON is repaired
(`loose_json.py`), unless the reply was cut off: a repaired half of a list of steps looks whole. A
step that holds a control character is refused, for it is LaTeX that was lost on the way.

A model that has lost its thread is known by what it repeats ([`check_steps`]).
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

from rpd_metric.errors import ReplyError
from rpd_metric.models.chat import ChatReply, ChatRequest
from rpd_metric.prompts.templates import PromptTemplate, sendable
from rpd_metric.reasons import Reason
from rpd_metric.steps.loose_json import (
    UNESCAPED_QUOTE,
    decode,
    decode_mended,
    escape_latex,
    occurs_in,
)
from rpd_metric.steps.protocol import MAX_STEPS, MIN_STEPS

STEPS_KEY = "logical_steps"
Read = TypeVar("Read")

# Raised whenever the same reply could be read or refused differently; part of a summarizer's
# fingerprint.
PARSER_VERSION = 4

# Of a step's runs of three words, the share that the prompt also has.
COPIED = 0.6
# Of the runs of three words of two steps, the share that they have in common.
REPEATED = 0.8
RUN = 3

_THINK_START = re.compile(r"<think(?:ing)?>")
_THINK_END = re.compile(r"</think(?:ing)?>")
_BOX = re.compile(r"boxed(?:_json)?\s*\{")
# An opening brace, a key and a colon: where an object may begin. The quotes may be missing,
# typographic, or escaped once too often.
_OBJECT_START = re.compile(r"\{\s*\\*[\"'“‘]?\w[\w -]{0,40}\\*[\"'”’]?\s*:")
# The answer's brace is near its key, the key near the end; a model in a loop can give thousands.
_BRACES_TRIED = 20
_KEYS_TRIED = 20
# Of all attempts together: mending can take a second for one object (`loose_json.py`).
_MENDED_CHARACTERS = 20_000
_STEP_NUMBER = re.compile(r"^step\s+\d+\s*[:.)–—-]\s*", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def parse_steps(text: str, finish_reason: str | None = None, *, sent: str = "") -> tuple[str, ...]:
    r"""Read the steps out of a summary (App. A.1 of the paper).

    A step is the text of `"step_description"`, or of `"step_title"` where the description is
    empty, or the item itself where the list holds plain strings. A leading "Step 2:" is dropped,
    and so are steps of white space only.

    Args:
        text (`str`): The reply as it came.
        finish_reason (`str`, *optional*): `"length"` when the server cut the reply off.
        sent (`str`): What the model was sent. An object that was already in there is a quotation,
            of the prompt's example or of the solution, and never the answer.

    Raises:
        [`ReplyError`]: Of several unusable objects the last one gives the reason.
    """
    return read_object(STEPS_KEY, _steps_of, text, finish_reason, sent)


def closed_object(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of an object with these properties, all of them and no other."""
    closed = {"required": list(properties), "additionalProperties": False}
    return {"type": "object", "properties": properties, **closed}


def read_object(
    key: str, read: Callable[[Any], Read], text: str, finish_reason: str | None, sent: str
) -> Read:
    """What `read` makes of the value of `key`, in the last JSON object of a reply that it takes.

    It refuses a value with a [`ReplyError`]. Other arguments are those of [`parse_steps`].
    """
    failure: ReplyError | None = None
    for candidate in _objects(key, text, finish_reason):
        try:
            if occurs_in(candidate, sent):
                what = "the JSON repeats one from the prompt instead of describing the solution"
                raise ReplyError(Reason.QUOTED_ENVELOPE, what)
            return read(candidate[key])
        except ReplyError as error:
            failure = failure or error
    raise failure or _why_nothing(key, text, finish_reason)


def repair_request(
    request: ChatRequest, reply: ChatReply, template: PromptTemplate, fault: str | None
) -> ChatRequest:
    """The same request after the reply that could not be used, and what is wrong with it."""
    answer = sendable((after_thinking(reply.text) or reply.text).strip()) or "(empty)"
    wrong = {"role": "assistant", "content": answer}
    return replace(request, messages=(*request.messages, wrong, *template.render(fault=fault)))


def check_steps(steps: Sequence[str], prompt: str) -> None:
    """Refuse steps that repeat the prompt's example or each other.

    Steps are compared by their words and by the runs of three words in them. A solution may well
    use the method of the example: one step like it is no copy, half of them are. `prompt` is
    without the problem and the solution.
    """
    example = _runs(prompt)
    runs = [_runs(step) for step in steps]
    pairs = list(zip(steps, runs, strict=True))
    copied = [step for step, run in pairs if run and len(run & example) >= COPIED * len(run)]
    if copied and 2 * len(copied) >= len(steps):
        detail = f"{len(copied)} of {len(steps)} steps repeat the example of the prompt"
        raise ReplyError(Reason.COPIED_EXAMPLE, f"{detail}, e.g. {_shortened(copied[0])!r}")
    for number, (step, run) in enumerate(pairs):
        for earlier, other in pairs[:number]:
            same = _words(step) == _words(earlier)
            if same or (run and len(run & other) >= REPEATED * len(run | other)):
                detail = f"two steps say the same, e.g. {_shortened(step)!r}"
                raise ReplyError(Reason.REPEATED_STEPS, detail)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


@lru_cache(maxsize=64)  # for the prompt's sake
def _runs(text: str) -> frozenset[tuple[str, ...]]:
    words = _words(text)
    return frozenset(tuple(words[at : at + RUN]) for at in range(len(words) - RUN + 1))


def _shortened(step: str) -> str:
    return step if len(step) <= 80 else f"{step[:79]}…"


def _key(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){name}\\*[\"'”’]?\s*:")


def _objects(key: str, text: str, finish_reason: str | None) -> Iterator[dict[str, Any]]:
    """Every JSON object in a reply that has the key, the last one first; none mended if cut off."""
    text = escape_latex(_answer(text, finish_reason))
    keys = [match.start() for match in _key(key).finditer(text)][-_KEYS_TRIED - 1 :]
    braces = [match.start() for match in _OBJECT_START.finditer(text)]
    end, mendable = len(text), _MENDED_CHARACTERS
    for before, at in [*zip([0, *keys], keys, strict=False)][: -_KEYS_TRIED - 1 : -1]:
        # Reaching back past an earlier key would find that key's object again.
        starts = braces[bisect_left(braces, before) : bisect_left(braces, at)]
        nearest = starts[: -_BRACES_TRIED - 1 : -1]
        candidates = [(decode, start, len(text)) for start in nearest]
        if finish_reason != "length":
            candidates += [(decode_mended, start, end) for start in nearest]
        end = nearest[0] if nearest else at
        for decoder, start, stop in candidates:
            if decoder is decode_mended:
                mendable -= stop - start
                if mendable < 0:
                    break
            candidate = decoder(text[start:stop])
            if key in candidate:
                yield candidate
                break


def after_thinking(text: str) -> str | None:
    """What follows the last `</think>`: all of it without thoughts, `None` if they never end."""
    *_, after = _THINK_END.split(text)
    return None if after == text and _THINK_START.search(text) else after


def _answer(text: str, finish_reason: str | None) -> str:
    # Cut while thinking: an object in there is a draft. Ended in good order: the model forgot to
    # close its thoughts, and the last object is its answer.
    unclosed = "" if finish_reason == "length" else text
    answer = after_thinking(text)
    return unclosed if answer is None else answer


def _why_nothing(name: str, text: str, finish_reason: str | None) -> ReplyError:
    if finish_reason == "length":
        return ReplyError(Reason.TRUNCATED, "the reply was cut off before its JSON was complete")
    answer = _answer(text, finish_reason)
    key = f"with the key {name!r}"
    if match := _key(name).search(answer):
        rest = '"' + answer[match.start() :]
        closed = rest.rstrip().rstrip("`").rstrip().endswith(("}", "]"))
        if not closed and len(UNESCAPED_QUOTE.findall(rest)) % 2 == 1:
            return ReplyError(Reason.TRUNCATED, "the reply breaks off in the middle of its JSON")
        return ReplyError(Reason.BAD_JSON, f"the object {key} is not valid JSON")
    if _BOX.search(answer):
        return ReplyError(Reason.WRONG_SHAPE, f"the boxed JSON is no object {key}")
    return ReplyError(Reason.NO_ENVELOPE, f"the reply holds no JSON object {key}")


def _steps_of(items: Any) -> tuple[str, ...]:
    if not isinstance(items, list):
        what = type(items).__name__
        raise ReplyError(Reason.WRONG_SHAPE, f"{STEPS_KEY!r} must be a list, not {what}")
    texts = [_text_of(item, number).strip() for number, item in enumerate(items, start=1)]
    steps = tuple(step for text in texts if (step := _STEP_NUMBER.sub("", text).strip()))
    for number, step in enumerate(steps, start=1):
        if control := _CONTROL.search(step):
            what = f"step {number} holds the control character U+{ord(control[0]):04X}; in JSON, a "
            what += "backslash that is meant as such must be doubled"
            raise ReplyError(Reason.CONTROL_CHARACTERS, what)
    if not MIN_STEPS <= len(steps) <= MAX_STEPS:
        reason = Reason.TOO_FEW_STEPS if len(steps) < MIN_STEPS else Reason.TOO_MANY_STEPS
        raise ReplyError(reason, f"{len(steps)} steps, {MIN_STEPS} to {MAX_STEPS} wanted")
    return steps


def _text_of(item: object, number: int) -> str:
    if isinstance(item, dict):
        description, title = item.get("step_description"), item.get("step_title")
        blank = description is None or (isinstance(description, str) and not description.strip())
        # Under another key there may be the description, misspelt: the title does not replace that.
        known_keys = item.keys() <= {"step_title", "step_description"}
        item = title if blank and known_keys and title is not None else description
    if not isinstance(item, str):
        what = f"step {number} must be an object with a text as its 'step_description'"
        raise ReplyError(Reason.WRONG_SHAPE, what)
    return item
