"""Language models as judges: is a solution finished, is a problem diverse, do two solutions differ?

    CompletenessJudge  the end of a solution: finished or not (App. C.1, stage 2)
    ProblemJudge       all solutions of a problem: one method or several (App. C.2: 58 % uniform)
    PairJudge          two solutions: the same method or not (App. D.1, Table 1's success rate)
    SetSelector        the M solutions that differ most as a set (App. D.2, LLM selection)

They ask any chat model greedily, with prompts that are package data (`judge_*.md`). The paper's
judges end in an envelope: `//boxed{{2}}`, `//boxed_json{{[[1, 4]]}}` (App. C.2, D). The last one
counts, because analyses mention others; one in a reply that was cut off stood in the analysis. A
reply that is not exactly one of the allowed answers, and a request that failed, is a [`Judgement`]
with a reason instead of a value: it is counted, never guessed.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import ClassVar, Generic, TypeVar

from rpd_metric.errors import ModelError, ReplyError
from rpd_metric.models.chat import Chat, ChatRequest, Sampling, judge_reply
from rpd_metric.prompts.templates import fence, load_template, sendable
from rpd_metric.reasons import Reason
from rpd_metric.steps.replies import after_thinking

JUDGE_SAMPLING = Sampling(temperature=0.0, max_tokens=1024)
NO_TEXT = "(not given)"
# Raised whenever the same reply could be read differently; part of a judge's fingerprint.
PARSER_VERSION = 1

_ENVELOPE = re.compile(r"boxed(?:_json)?\s*(?:\\?\{\s*)+")
_MARKUP = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*\{")
_RATING = re.compile(r"""["']?(?:(?:rating|class)["']?\s*[:=]?\s*)?["']?([12])["']?""", re.I)
_ID = re.compile(r"(?:solution|answer|id|s)?[\s_#]*(\d{1,6})", re.I)
# No answer is longer; a model in a loop can write thousands of numbers.
_LONGEST_ANSWER = 2000

Value = TypeVar("Value")
Steps = Sequence[str]


@dataclass(frozen=True)
class Judgement(Generic[Value]):
    """What a judge said, or why there is nothing."""

    value: Value | None
    reason: str | None = None  # a `Reason`, without a value
    detail: str | None = None  # a line about it


class PromptedModel:
    """A chat model with a packaged prompt and its placeholders; each judge is one."""

    prompt: ClassVar[str]
    placeholders: ClassVar[tuple[str, ...]] = ("problem", "solutions")

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self.template = load_template(self.prompt, required=self.placeholders, optional=())
        self.sampling = JUDGE_SAMPLING
        decisive = [PARSER_VERSION, chat.model, self.template.sha, asdict(self.sampling)]
        self.fingerprint = hashlib.sha256(json.dumps(decisive).encode()).hexdigest()

    async def _ask(self, parse: Callable[[str], Value], **values: object) -> Judgement[Value]:
        messages = self.template.render(**values)
        request = ChatRequest(messages, self.sampling, template=self.template.sha)
        try:
            reply = await self.chat(request)
        except ModelError as error:
            return Judgement(None, Reason.MODEL_ERROR, " ".join(str(error).split()))
        try:
            if reply.finish_reason == "length":
                raise ReplyError(Reason.TRUNCATED, "the reply was cut off before its verdict")
            value = parse(reply.text)
        except ReplyError as error:
            judge_reply(self.chat, reply, str(error))
            return Judgement(None, error.reason, error.detail)
        judge_reply(self.chat, reply)
        return Judgement(value)


class CompletenessJudge(PromptedModel):
    """Whether a solution was finished, told from its end (App. C.1, stage 2)."""

    prompt = "judge_complete"
    placeholders = ("tail",)

    async def judge(self, tail: str) -> Judgement[bool]:
        """Whether the solution with this end was finished; the paper shows its last 500 tokens."""
        return await self._ask(_is_second, tail=_fenced("ending", tail))


class ProblemJudge(PromptedModel):
    """Whether a problem's solutions use more than one method (App. C.2, and D.2 to choose)."""

    prompt = "judge_problem"

    async def judge(self, problem: str, steps: Sequence[Steps]) -> Judgement[bool]:
        """Whether at least two methods are among the solutions with these steps."""
        return await self._ask(_is_second, **_shown(problem, steps))


class PairJudge(PromptedModel):
    """Whether two solutions use different methods: analysis first, then a rating (App. D.1).

    The paper asks once; this judge asks in both orders, and one that contradicts itself has not
    decided.
    """

    prompt = "judge_pair"
    placeholders = ("problem", "steps_a", "steps_b", "solution_a", "solution_b")

    async def rate(
        self,
        problem: str,
        steps: tuple[Steps, Steps],
        solutions: tuple[str | None, str | None] = (None, None),
    ) -> Judgement[bool]:
        """Rate two solutions by their steps and, as the paper shows them as well, their texts."""
        first, second = await asyncio.gather(
            self._rate(problem, steps, solutions), self._rate(problem, steps[::-1], solutions[::-1])
        )
        if first.value is None or second.value in (None, first.value):
            return first if first.value is None else second
        detail = "the judge rates the pair differently when its order is swapped"
        return Judgement(None, Reason.CONTRADICTION, detail)

    async def _rate(
        self, problem: str, steps: tuple[Steps, ...], solutions: tuple[str | None, ...]
    ) -> Judgement[bool]:
        shown = {"problem": _fenced("problem", problem)}
        for side, of_steps, text in zip("ab", steps, solutions, strict=True):
            shown[f"steps_{side}"] = _numbered(of_steps)
            shown[f"solution_{side}"] = NO_TEXT if text is None else _fenced("solution", text)
        return await self._ask(_is_second, **shown)


class SetSelector(PromptedModel):
    """The M solutions that differ most as a set: second stage of LLM selection (App. D.2)."""

    prompt = "judge_select_set"
    placeholders = ("problem", "solutions", "count")

    async def select(
        self, problem: str, steps: Sequence[Steps], count: int
    ) -> Judgement[tuple[int, ...]]:
        """Indices of `count` solutions, in the model's order; without a choice, no request."""
        if len(steps) <= count:
            return Judgement(tuple(range(len(steps))))
        parse = partial(parse_set, count=len(steps), size=count)
        return await self._ask(parse, **_shown(problem, steps), count=count)


class CurationJudges:
    """The judges that take part in curation, over one chat model: a filter and two choices."""

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self.completeness = CompletenessJudge(chat)
        self.problems = ProblemJudge(chat)
        self.solutions = SetSelector(chat)


def _is_second(text: str) -> bool:
    return parse_rating(text) == 2


def _shown(problem: str, steps: Sequence[Steps]) -> dict[str, str]:
    """A problem and its solutions by their steps, numbered from 1, for a prompt."""
    listed = (
        f"Solution {number}:\n{_numbered(solution)}"
        for number, solution in enumerate(steps, start=1)
    )
    return {"problem": _fenced("problem", problem), "solutions": "\n\n".join(listed)}


def _numbered(steps: Steps) -> str:
    nonempty = [step.strip() for step in steps if step.strip()]
    lines = (f"{number}. {step}" for number, step in enumerate(nonempty, start=1))
    return _fenced("steps", "\n".join(lines))


def _fenced(label: str, text: str) -> str:
    """A text between tags that it cannot hold itself, for a prompt."""
    return fence(label, sendable(text).strip())


def last_envelope(text: str) -> str:
    r"""The content of the last envelope in a reply.

    >>> last_envelope("It is not //boxed{1}, for the tools differ.\n//boxed{{2}}")
    '2'
    """
    answer = after_thinking(text)
    # Ended in good order: the model forgot to close its thoughts, and the last box is its answer.
    answer = text if answer is None else answer
    starts = list(_ENVELOPE.finditer(answer))
    if not starts:
        raise ReplyError(Reason.NO_ENVELOPE, "the reply has no //boxed{...}")
    rest = _MARKUP.sub("", answer[starts[-1].end() : starts[-1].end() + _LONGEST_ANSWER])
    content, closing, _ = rest.partition("}")
    if not closing:
        raise ReplyError(Reason.BAD_VERDICT, "the last //boxed{...} of the reply does not close")
    return content.rstrip("\\ \t\n").strip()


def parse_rating(text: str) -> int:
    r"""Read a rating or class, 1 or 2 (App. C.2 and D.1).

    >>> parse_rating("Both solve the same system.\n//boxed{{1}}")
    1
    """
    content = last_envelope(text)
    match = _RATING.fullmatch(content.strip("[] \t\n"))
    if match is None:
        raise ReplyError(Reason.BAD_VERDICT, f"the verdict is {_quoted(content)}, neither 1 nor 2")
    return int(match[1])


def parse_set(text: str, *, count: int, size: int) -> tuple[int, ...]:
    r"""Read which `size` of `count` solutions are chosen (App. D.2): from 0, in the model's order.

    >>> parse_set("Three methods.\n//boxed_json{{[5, 1, 2]}}", count=5, size=3)
    (4, 0, 1)
    """
    content = last_envelope(text)
    indices: list[int] = []
    # Brackets are dropped whatever their depth: a number of ids that fits tells enough.
    for part in re.sub(r"[\[\]]", " ", content).split(","):
        match = _ID.fullmatch(part.strip(" \t\n\"'`"))
        index = int(match[1]) - 1 if match else -1
        if not 0 <= index < count or index in indices:
            problem = "named twice" if index in indices else f"no solution from 1 to {count}"
            raise ReplyError(Reason.BAD_VERDICT, f"{_quoted(part)} is {problem}")
        indices.append(index)
    if len(indices) != size:
        raise ReplyError(Reason.WRONG_COUNT, f"{len(indices)} solutions instead of {size}")
    return tuple(indices)


def _quoted(content: str) -> str:
    return repr(content if len(content) <= 40 else content[:39] + "…")
