"""Strategies by name: a chat model sorts the summaries of one problem into groups.

One request for up to 20 solutions; more are sorted in batches, each against the names found so far.
The summaries are shown in an order that the problem draws, because models favour what comes
first. A reply that cannot be used leaves the problem without groups, with its reason.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rpd_metric.distance.diversity import join_groups, renumbered
from rpd_metric.errors import InputError, ModelError, ReplyError
from rpd_metric.models.chat import Chat, ChatRequest, Sampling, judge_reply
from rpd_metric.prompts.templates import fence, load_template, sendable
from rpd_metric.reasons import Reason
from rpd_metric.steps.replies import closed_object, read_object

STRATEGIES_KEY = "strategies"
# Raised whenever the same reply could be read differently; part of a reader's fingerprint.
PARSER_VERSION = 1
SAMPLING = Sampling(temperature=0.0, max_tokens=1024)
# Solutions that are shown at once: some 3,500 tokens.
BATCH = 20

_PLACEHOLDERS = ("problem", "solutions", "count", "known")
_KNOWN = (
    "\nOther solutions of this problem were sorted before these, into strategies of the names "
    "below. Where a solution follows one of them, use its name to the letter; make entries for the "
    "others.\n{}\n"
)
_NUMBER = re.compile(r"(?:solution|s)?[\s_#]*(\d{1,6})", re.IGNORECASE)
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
    agreement: float | None = None  # of two passes: the share of pairs that both judge alike

    @property
    def ok(self) -> bool:
        """Whether the strategies are known."""
        return bool(self.names)


class StrategyReader:
    """Asks a chat model which solutions of a problem share a strategy, and what to call it.

    Args:
        chat ([`~rpd_metric.models.chat.Chat`]): The model, usually the one that summarises.
        passes (1 or 2): 2 asks again in another order, and keeps apart what both put apart.
        seed (`int`): For the orders.
        guided (`bool`): Guide decoding by a JSON schema, where the server can.
    """

    def __init__(self, chat: Chat, *, passes: int = 1, seed: int = 0, guided: bool = False) -> None:
        if passes not in (1, 2):
            raise InputError(f"group_passes is {passes}; ask once or twice")
        self.chat, self.passes, self.seed = chat, passes, seed
        self.guided = guided
        self.template = load_template("group_strategies", required=_PLACEHOLDERS, optional=())
        decisive = [PARSER_VERSION, chat.model, self.template.sha, asdict(SAMPLING), BATCH]
        guiding = [_schema(BATCH)] if guided else []
        parts = json.dumps([*decisive, passes, seed, *guiding], sort_keys=True)
        self.fingerprint = hashlib.sha256(parts.encode()).hexdigest()

    async def sort(self, problem: str, steps: Sequence[Sequence[str]]) -> Grouping:
        """Sort a problem's solutions by their steps; without two that have steps, ask nobody."""
        shown = [index for index, one in enumerate(steps) if any(map(str.strip, one))]
        if len(shown) < 2:
            return Grouping((None,) * len(steps))
        draw = random.Random(f"{self.seed}:{sendable(problem)}")
        orders = [draw.sample(shown, len(shown)) for _ in range(self.passes)]
        if orders[0] in orders[1:]:
            orders[1].reverse()  # the same question again would say nothing new
        found: list[Grouping] = []
        for order in orders:
            said = await self.sort_in_order(problem, [steps[index] for index in order])
            if not said.ok:
                return replace(said, groups=(None,) * len(steps))
            group_of = dict(zip(order, said.groups, strict=True))
            found.append(_named([group_of.get(at) for at in range(len(steps))], said.names))
        if self.passes == 1:
            return found[0]
        groups, agreement = join_groups(found[0].groups, found[1].groups)
        # A strategy has the name that its first solution has in the first pass.
        firsts = sorted(groups.index(group) for group in set(groups) if group is not None)
        names = tuple(found[0].names[found[0].groups[at] or 0] for at in firsts)
        return Grouping(groups, names, agreement=agreement)

    async def sort_in_order(self, problem: str, steps: Sequence[Sequence[str]]) -> Grouping:
        """One pass over solutions that all have steps, shown as they are listed."""
        groups: list[int | None] = []
        names: dict[str, str] = {}  # as first written, by their letters
        size = math.ceil(len(steps) / math.ceil(len(steps) / BATCH))
        for start in range(0, len(steps), size):
            batch = steps[start : start + size]
            try:
                said = await self.ask(self.request(problem, batch, list(names.values())), batch)
            except ModelError as error:
                reason, detail = str(Reason.MODEL_ERROR), " ".join(str(error).split())
                if isinstance(error, ReplyError):
                    reason, detail = error.reason, error.detail
                return Grouping((None,) * len(steps), (), reason, detail)
            group_of: dict[int, int] = {}
            for name, places in said.items():
                names.setdefault(_letters(name), name)
                group_of |= dict.fromkeys(places, list(names).index(_letters(name)))
            groups += [group_of.get(place) for place in range(len(batch))]
        return _named(groups, list(names.values()))

    def request(
        self, problem: str, steps: Sequence[Sequence[str]], known: Sequence[str] = ()
    ) -> ChatRequest:
        """The request for solutions with these steps; `known` are names found so far."""
        shown = []
        for number, one in enumerate(steps, start=1):
            kept = [step.strip() for step in one if step.strip()]
            listed = "\n".join(f"{place}. {step}" for place, step in enumerate(kept, start=1))
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
        """What the model says of a batch. Raises [`ModelError`]."""
        reply = await self.chat(request)
        sent = "\n".join(message["content"] for message in request.messages)
        try:
            found = parse_strategies(reply.text, reply.finish_reason, count=len(batch), sent=sent)
        except ReplyError as error:
            judge_reply(self.chat, reply, str(error))
            raise
        judge_reply(self.chat, reply)
        return found


def parse_strategies(
    text: str, finish_reason: str | None = None, *, count: int, sent: str = ""
) -> dict[str, list[int]]:
    """Read the name of each strategy with its solutions, which are counted from 0 here.

    A solution that the reply forgets, or puts under two names, has no clear place and is in no
    list. A reply is refused where that is so of more than half of them, and where it names a
    solution that there is not: it may count in another way throughout. `count` solutions were
    shown; for the rest see [`~rpd_metric.steps.replies.parse_steps`].
    """

    def read(entries: Any) -> dict[str, list[int]]:
        if not isinstance(entries, list):
            raise ReplyError(Reason.WRONG_SHAPE, f"{STRATEGIES_KEY!r} must be a list")
        found: dict[str, tuple[str, set[int]]] = {}
        for entry in entries:
            name, places = _entry(entry, count)
            # One name is one strategy, however often it occurs.
            found.setdefault(_letters(name), (name, set()))[1].update(places)
        times = Counter(place for _, places in found.values() for place in places)
        if 2 * list(times.values()).count(1) < count:
            detail = f"fewer than half of {count} solutions have one strategy each"
            raise ReplyError(Reason.WRONG_COUNT, detail)
        clear = {
            name: [place for place in sorted(places) if times[place] == 1]
            for name, places in found.values()
        }
        return {name: places for name, places in clear.items() if places}

    return read_object(STRATEGIES_KEY, read, text, finish_reason, sent)


def _entry(entry: Any, count: int) -> tuple[str, list[int]]:
    """The name and the solutions, from 0, of one entry of a reply."""
    entry = entry if isinstance(entry, dict) else {}
    name, numbers = entry.get("name"), entry.get("solutions")
    if not isinstance(name, str) or not _letters(name) or not isinstance(numbers, list):
        detail = "a strategy must be an object with a 'name' and a list of 'solutions'"
        raise ReplyError(Reason.WRONG_SHAPE, detail)
    read = [_NUMBER.fullmatch(str(number).strip()) for number in numbers]
    places = [int(found[1]) - 1 for found in read if found]
    if len(places) < len(read) or not all(0 <= place < count for place in places):
        raise ReplyError(Reason.BAD_VERDICT, f"not all of {name!r} are among {count} solutions")
    name = "".join(letter if letter.isprintable() else " " for letter in name)
    return " ".join(name.split())[:_LONGEST_NAME].strip(), places


def _named(groups: Sequence[int | None], names: Sequence[str]) -> Grouping:
    """Groups numbered by first appearance, whatever the order in which they were shown."""
    first = dict.fromkeys(group for group in groups if group is not None)
    return Grouping(renumbered(groups), tuple(names[group] for group in first))


def _letters(name: str) -> str:
    """A name as names are compared: letters and digits alone."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())
