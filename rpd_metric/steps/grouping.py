"""Strategies by name: a chat model sorts the summaries of one problem into groups.

One request for up to 20 solutions; more are sorted in batches, each against the names found so far.
The summaries are shown in an order that the problem draws, because models favour what comes
first. A reply that cannot be used is asked for once more, with what is wrong; a second one leaves
the problem without groups, with its reason.
"""

import hashlib
import json
import math
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rpd_metric.distance.groups import renumbered
from rpd_metric.errors import ModelError, ReplyError
from rpd_metric.models.chat import Chat, ChatReply, ChatRequest, Sampling, judge_reply
from rpd_metric.prompts.templates import fence, load_template, sendable
from rpd_metric.reasons import Reason
from rpd_metric.steps.replies import closed_object, read_object, repair_request

STRATEGIES_KEY = "strategies"
# Raised whenever the same reply could be read differently; part of a reader's fingerprint.
PARSER_VERSION = 2
SAMPLING = Sampling(temperature=0.0, max_tokens=1024)
# Solutions that are shown at once: some 3,500 tokens.
BATCH = 20

_PLACEHOLDERS = ("problem", "solutions", "count", "known")
_KNOWN = (
    "\nOther solutions of this problem were sorted before these, into strategies of the names "
    "below. Where a solution follows one of them, use its name to the letter; make entries for the "
    "others.\n{}\n"
)
_NUMBER = re.compile(r"(?:solutions?|s)?[\s_#]*(\d{1,6})(?:\.0+)?", re.IGNORECASE)
_BETWEEN_NUMBERS = re.compile(r"\s*(?:[,;&\n]|\band\b)[\s,]*")
_LONGEST_NAME = 80


def _schema(count: int) -> dict[str, Any]:
    """The JSON schema of a sorting, for guided decoding; what sets them apart is said first.

    Everything has a bound, so that a reply ends even where a small model would go on.
    """
    listed = {"type": "array", "minItems": 1, "maxItems": count}
    number = {"type": "integer", "minimum": 1, "maximum": count}
    name = {"type": "string", "minLength": 1, "maxLength": _LONGEST_NAME}
    strategy = closed_object(name=name, solutions={**listed, "items": number})
    difference = {"type": "string", "maxLength": 4 * _LONGEST_NAME}
    return closed_object(difference=difference, **{STRATEGIES_KEY: {**listed, "items": strategy}})


@dataclass(frozen=True)
class Grouping:
    """The strategies of one problem's solutions, or the reason why they are not known.

    Strategies are numbered from 0 by first appearance. A solution's is `None` where it has no steps
    or no clear place in the reply, and for all where the reply could not be used.
    """

    groups: tuple[int | None, ...]  # per solution its strategy
    names: tuple[str, ...] = ()  # of each strategy
    reason: str | None = None
    detail: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the strategies are known."""
        return bool(self.names)


class StrategyReader:
    """Asks a chat model which solutions of a problem share a strategy, and what to call it.

    Args:
        chat ([`~rpd_metric.models.chat.Chat`]): The model, usually the one that summarises.
        seed (`int`): For the order in which solutions are shown.
        guided (`bool`): Guide decoding by a JSON schema, where the server can.
    """

    def __init__(self, chat: Chat, *, seed: int = 0, guided: bool = False) -> None:
        self.chat, self.seed, self.guided = chat, seed, guided
        self.template = load_template("group_strategies", required=_PLACEHOLDERS, optional=())
        self.repair_template = load_template("repair_groups", required=("fault",), optional=())
        templates = [self.template.sha, self.repair_template.sha]
        decisive = [PARSER_VERSION, chat.model, *templates, asdict(SAMPLING), BATCH]
        guiding = [_schema(BATCH)] if guided else []
        parts = json.dumps([*decisive, seed, *guiding], sort_keys=True)
        self.fingerprint = hashlib.sha256(parts.encode()).hexdigest()

    async def sort(self, problem: str, steps: Sequence[Sequence[str]]) -> Grouping:
        """Sort a problem's solutions by their steps; without two that have steps, ask nobody."""
        shown = [index for index, listed in enumerate(steps) if any(map(str.strip, listed))]
        if len(shown) < 2:
            return Grouping((None,) * len(steps))
        draw = random.Random(f"{self.seed}:{sendable(problem)}")
        order = draw.sample(shown, len(shown))
        shuffled = await self.sort_in_order(problem, [steps[index] for index in order])
        if not shuffled.ok:
            return replace(shuffled, groups=(None,) * len(steps))
        group_of = dict(zip(order, shuffled.groups, strict=True))
        return _named([group_of.get(at) for at in range(len(steps))], shuffled.names)

    async def sort_in_order(self, problem: str, steps: Sequence[Sequence[str]]) -> Grouping:
        """Sort solutions that all have steps, shown as they are listed."""
        groups: list[int | None] = []
        names: dict[str, str] = {}  # as first written, by their letters
        size = math.ceil(len(steps) / math.ceil(len(steps) / BATCH))
        for start in range(0, len(steps), size):
            batch = steps[start : start + size]
            try:
                request = self.request(problem, batch, list(names.values()))
                strategies = await self.ask(request, batch)
            except ModelError as error:
                reason, detail = str(Reason.MODEL_ERROR), " ".join(str(error).split())
                if isinstance(error, ReplyError):
                    reason, detail = error.reason, error.detail
                return Grouping((None,) * len(steps), (), reason, detail)
            group_of: dict[int, int] = {}
            for name, places in strategies.items():
                names.setdefault(_letters(name), name)
                group_of |= dict.fromkeys(places, list(names).index(_letters(name)))
            groups += [group_of.get(place) for place in range(len(batch))]
        return _named(groups, list(names.values()))

    def request(
        self, problem: str, steps: Sequence[Sequence[str]], known: Sequence[str] = ()
    ) -> ChatRequest:
        """The request for solutions with these steps; `known` are names found so far."""
        shown = []
        for number, solution in enumerate(steps, start=1):
            lines = [step.strip() for step in solution if step.strip()]
            listed = "\n".join(f"{place}. {step}" for place, step in enumerate(lines, start=1))
            shown.append(f"Solution {number}:\n{fence('steps', sendable(listed))}")
        messages = self.template.render(
            problem=fence("problem", sendable(problem).strip()),
            solutions="\n\n".join(shown),
            count=len(steps),
            known=_KNOWN.format(fence("names", "\n".join(known))) if known else "",
        )
        schema = _schema(len(steps)) if self.guided else None
        return ChatRequest(messages, SAMPLING, schema, self.template.sha)

    async def ask(self, request: ChatRequest, batch: Sequence[object]) -> dict[str, list[int]]:
        """The strategies of a batch, by name; a bad reply is asked for again, once.

        Raises [`ModelError`].
        """
        sent = "\n".join(message["content"] for message in request.messages)
        reply = await self.chat(request)
        try:
            return self._read(reply, sent, len(batch))
        except ReplyError as error:
            if reply.finish_reason == "length":
                raise  # the flow asked again with more tokens already
            repair = repair_request(request, reply, self.repair_template, error.detail)
        return self._read(await self.chat(repair), sent, len(batch))

    def _read(self, reply: ChatReply, sent: str, count: int) -> dict[str, list[int]]:
        try:
            strategies = parse_strategies(reply.text, reply.finish_reason, count=count, sent=sent)
        except ReplyError as error:
            judge_reply(self.chat, reply, str(error))
            raise
        judge_reply(self.chat, reply)
        return strategies


def parse_strategies(
    text: str, finish_reason: str | None = None, *, count: int, sent: str = ""
) -> dict[str, list[int]]:
    """Read the name of each strategy with its solutions, which are counted from 0 here.

    A solution that the reply forgets, or puts under two names, has no clear place and is in no
    list. A reply is refused where that is so of more than half of them, where two strategies with
    different solutions have one name, and where it names a solution that there is not: it may count
    in another way throughout. If every solution has its one place, such a number is ignored.
    `count` solutions were shown; for the rest see [`~rpd_metric.steps.replies.parse_steps`].
    """

    def read(entries: Any) -> dict[str, list[int]]:
        if isinstance(entries, dict):
            entries = [{name: numbers} for name, numbers in entries.items()]
        if not isinstance(entries, list):
            raise ReplyError(Reason.WRONG_SHAPE, f"{STRATEGIES_KEY!r} must be a list")
        strategies: dict[str, tuple[str, set[int]]] = {}
        for name, places in map(_entry, entries):
            _, known = strategies.setdefault(_letters(name), (name, set(places)))
            if places and known.isdisjoint(places):
                raise ReplyError(Reason.WRONG_SHAPE, f"two strategies have the name {name!r}")
            known.update(places)
        times = Counter(place for _, places in strategies.values() for place in places)
        shown = [times[place] for place in range(count)]
        if len(times.keys() - set(range(count))) and shown != [1] * count:
            detail = f"not all numbers are among the {count} solutions"
            raise ReplyError(Reason.BAD_VERDICT, detail)
        if 2 * shown.count(1) < count:
            detail = f"fewer than half of {count} solutions have one strategy each"
            raise ReplyError(Reason.WRONG_COUNT, detail)
        clear = {
            name: [place for place in sorted(places) if place in range(count) and times[place] == 1]
            for name, places in strategies.values()
        }
        return {name: places for name, places in clear.items() if places}

    return read_object(STRATEGIES_KEY, read, text, finish_reason, sent)


def _entry(entry: Any) -> tuple[str, list[int]]:
    entry = entry if isinstance(entry, dict) else {}
    name, numbers = entry.get("name"), entry.get("solutions")
    if len(entry) == 1:
        ((name, numbers),) = entry.items()  # {"sums": [1, 2]}
    if isinstance(numbers, str):
        numbers = [part for part in _BETWEEN_NUMBERS.split(numbers) if part]
    if not isinstance(name, str) or not _letters(name) or not isinstance(numbers, list):
        detail = "a strategy must be an object with a 'name' and a list of 'solutions'"
        raise ReplyError(Reason.WRONG_SHAPE, detail)
    matches = [_NUMBER.fullmatch(str(number).strip()) for number in numbers]
    places = [int(match[1]) - 1 for match in matches if match]
    if len(places) < len(matches):
        raise ReplyError(Reason.BAD_VERDICT, f"the solutions of {name!r} are not all numbers")
    name = "".join(letter if letter.isprintable() else " " for letter in name)
    return " ".join(name.split())[:_LONGEST_NAME].strip(), places


def _named(groups: Sequence[int | None], names: Sequence[str]) -> Grouping:
    """Groups numbered by first appearance, whatever the order in which they were shown."""
    first = dict.fromkeys(group for group in groups if group is not None)
    return Grouping(renumbered(groups), tuple(names[group] for group in first))


def _letters(name: str) -> str:
    """A name as names are compared: letters and digits alone."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())
