"""Language models as judges: is a solution finished, is a problem diverse, do two solutions differ?

    CompletenessJudge  the end of a solution: finished or not (App. C.1, stage 2)
    SoundnessJudge     a whole solution: does its argument carry its answer (not in the paper)
    ProblemJudge       all solutions of a problem: one method or several (App. C.2: 58 % uniform)
    PairJudge          two solutions: the same method or not (App. D.1, Table 1's success rate)
    PairSelector       the two solutions that differ most, or "No" (App. D.1, LLM selection)
    SetSelector        the M solutions that differ most as a set (App. D.2, LLM selection)

They ask any chat model, greedily by default, with prompts that are package data (`judge_*.md`),
and read its reply with `replies.py`. A reply that cannot be read, and a request that failed, is
a [`Judgement`] with a reason instead of a value: it is counted, never guessed. Requests in flight,
retries and the store of replies are the business of the chat callable that is passed in. How
well a judge agrees with labels is `labels.py`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from rpd_datasets.judging.verdicts import (
    PARSER_VERSION,
    parse_pair,
    parse_rating,
    parse_reasoned,
    parse_set,
)
from rpd_metric.errors import InputError, ModelError, ReplyError
from rpd_metric.models.chat import Chat, ChatRequest, Sampling
from rpd_metric.prompts.templates import fence, load_template, sendable

JUDGE_SAMPLING = Sampling(temperature=0.0, max_tokens=1024)
NO_TEXT = "(not given)"

Value = TypeVar("Value")
Steps = Sequence[str]


@dataclass(frozen=True)
class Judgement(Generic[Value]):
    """What a judge said, or why there is nothing.

    Args:
        value (*optional*): The verdict; `None` when there is none.
        reason (`str`, *optional*): Why not, a short code: `"model_error"`, `"truncated"`,
            `"no_envelope"`, `"bad_verdict"`, `"wrong_count"`, `"contradiction"`.
        detail (`str`, *optional*): One line about that for a person; the judge's own reasons,
            where a judge of arguments gives a verdict.
    """

    value: Value | None
    reason: str | None = None
    detail: str | None = None


class PromptedModel:
    """A chat model with one prompt.

    A class of its own names its packaged prompt, and the placeholders that a template of one's own
    must and may have in its place.

    Args:
        chat ([`~rpd_metric.models.chat.Chat`]): The model.
        template (`str` or `Path`, *optional*): A packaged prompt or a file of one's own; the
            class's `prompt` by default.
        sampling ([`~rpd_metric.models.chat.Sampling`], *optional*): Greedy by default.
    """

    prompt: ClassVar[str]
    required: ClassVar[tuple[str, ...]]
    optional: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        chat: Chat,
        *,
        template: str | Path | None = None,
        sampling: Sampling | None = None,
    ) -> None:
        self.chat = chat
        self.template = load_template(
            template or self.prompt, required=self.required, optional=self.optional
        )
        self.sampling = sampling or JUDGE_SAMPLING
        decisive = [PARSER_VERSION, chat.model, self.template.sha, asdict(self.sampling)]
        self.fingerprint = hashlib.sha256(json.dumps(decisive).encode()).hexdigest()

    async def _ask(
        self, parse: Callable[[str, str | None], Value], **values: object
    ) -> Judgement[Value]:
        request = ChatRequest(
            self.template.render(**values), self.sampling, template=self.template.sha
        )
        try:
            reply = await self.chat(request)
        except ModelError as error:
            return Judgement(None, "model_error", " ".join(str(error).split()))
        try:
            return Judgement(parse(reply.text, reply.finish_reason))
        except ReplyError as error:
            return Judgement(None, error.reason, error.detail)


class CompletenessJudge(PromptedModel):
    """Whether a solution was finished, told from its end (App. C.1, stage 2).

    Args:
        chat ([`~rpd_metric.models.chat.Chat`]): The model.
        template (`str` or `Path`, *optional*): One of your own, with the placeholder `{{tail}}`.
        sampling ([`~rpd_metric.models.chat.Sampling`], *optional*): Greedy by default.
    """

    prompt = "judge_complete"
    required = ("tail",)

    async def judge(self, tail: str) -> Judgement[bool]:
        """Judge one solution.

        Args:
            tail (`str`): Its end; the paper shows the last 500 tokens.

        Returns:
            [`Judgement`]: `True` if it was finished.
        """
        return await self._ask(_is_second, tail=fenced("ending", tail))


class SoundnessJudge(PromptedModel):
    """Whether a solution's argument carries its answer, or the answer follows a failed one.

    Args:
        chat ([`~rpd_metric.models.chat.Chat`]): The model.
        template (`str` or `Path`, *optional*): One of your own, with the placeholders
            `{{problem}}` and `{{solution}}`.
        sampling ([`~rpd_metric.models.chat.Sampling`], *optional*): Greedy by default.

    Example:

    ```py
    >>> import asyncio
    >>> from rpd_datasets.judging.judges import SoundnessJudge
    >>> from rpd_metric.models.chat import ChatReply
    >>> class Strict:
    ...     model = "strict"
    ...     async def __call__(self, request):
    ...         return ChatReply("Nothing leads to 4.\\n//boxed{1}", "stop")
    >>> found = asyncio.run(SoundnessJudge(Strict()).judge("2 + 2?", "Say b = 4.5. So it is 4."))
    >>> found.value, found.detail
    (False, 'Nothing leads to 4.')

    ```
    """

    prompt = "judge_sound"
    required = ("problem", "solution")

    async def judge(self, problem: str, argument: str) -> Judgement[bool]:
        """Judge one solution.

        Args:
            problem (`str`): The problem's text.
            argument (`str`): The solution, without what was thought before it.

        Returns:
            [`Judgement`]: `True` if the argument holds; `detail` is what the judge gave as reasons.
        """
        found = await self._ask(
            parse_reasoned,
            problem=fenced("problem", problem),
            solution=fenced("solution", argument),
        )
        if found.value is None:
            return Judgement(None, found.reason, found.detail)
        rating, said = found.value
        return Judgement(rating == 2, detail=said)


class ProblemJudge(PromptedModel):
    """Whether a problem's solutions use more than one method (App. C.2).

    The paper finds 58 % of its problems uniform. Its LLM selection baseline asks the same
    question to choose problems (App. D.2).

    Args:
        chat ([`~rpd_metric.models.chat.Chat`]): The model.
        template (`str` or `Path`, *optional*): One of your own, with the placeholders
            `{{problem}}` and `{{solutions}}`.
        sampling ([`~rpd_metric.models.chat.Sampling`], *optional*): Greedy by default.

    Example:

    ```py
    >>> import asyncio
    >>> from rpd_datasets.judging.judges import ProblemJudge
    >>> from rpd_metric.models.chat import ChatReply
    >>> class Yes:
    ...     model = "yes"
    ...     async def __call__(self, request):
    ...         return ChatReply("//boxed{2}", "stop")
    >>> steps = [["Place coordinates.", "Solve."], ["Chase angles.", "Compare."]]
    >>> asyncio.run(ProblemJudge(Yes()).judge("Find the angle.", steps)).value
    True

    ```
    """

    prompt = "judge_problem"
    required = ("problem", "solutions")

    async def judge(self, problem: str, steps: Sequence[Steps]) -> Judgement[bool]:
        """Judge one problem.

        Args:
            problem (`str`): Its text.
            steps (`Sequence`): Per solution, its steps.

        Returns:
            [`Judgement`]: `True` if at least two methods are among them.
        """
        return await self._ask(
            _is_second, problem=fenced("problem", problem), solutions=listed(steps)
        )


@dataclass(frozen=True)
class PairJudgement:
    """What the pair judge said of two solutions, in one order and in the other.

    Args:
        forward ([`Judgement`]): In the given order; `True` means different methods.
        backward ([`Judgement`], *optional*): With the solutions swapped; `None` if not asked.
    """

    forward: Judgement[bool]
    backward: Judgement[bool] | None

    @property
    def contradiction(self) -> bool:
        """Whether both orders gave a verdict, and not the same one."""
        return (
            self.backward is not None
            and self.forward.value is not None
            and self.backward.value is not None
            and self.forward.value != self.backward.value
        )

    @property
    def agreement(self) -> bool:
        """Whether both orders gave the same verdict."""
        return (
            self.backward is not None
            and self.forward.value is not None
            and self.forward.value == self.backward.value
        )

    @property
    def judgement(self) -> Judgement[bool]:
        """The one that both orders share; with a reason where there is none."""
        if self.contradiction:
            detail = "the judge rates the pair differently when its order is swapped"
            return Judgement(None, "contradiction", detail)
        if self.backward is None or self.forward.value is None:
            return self.forward
        return self.backward


class PairJudge(PromptedModel):
    """Whether two solutions use different methods: analysis first, then a rating (App. D.1).

    The paper asks once; this judge asks in both orders, and one that contradicts itself has not
    decided. It is also a callable `(problem, steps_a, steps_b) -> bool | None`, as
    [`~rpd_datasets.judging.benchmark.compare_metrics`] takes one.

    Args:
        chat ([`~rpd_metric.models.chat.Chat`]): The model.
        template (`str` or `Path`, *optional*): One of your own, with the placeholders
            `{{problem}}`, `{{steps_a}}` and `{{steps_b}}`, and where wanted `{{solution_a}}` and
            `{{solution_b}}`.
        sampling ([`~rpd_metric.models.chat.Sampling`], *optional*): Greedy by default.
        both_orders (`bool`): Whether to ask with the solutions swapped, too.
    """

    prompt = "judge_pair"
    required = ("problem", "steps_a", "steps_b")
    optional = ("solution_a", "solution_b")

    def __init__(
        self,
        chat: Chat,
        *,
        template: str | Path | None = None,
        sampling: Sampling | None = None,
        both_orders: bool = True,
    ) -> None:
        super().__init__(chat, template=template, sampling=sampling)
        self.both_orders = both_orders

    async def rate(
        self,
        problem: str,
        steps: tuple[Steps, Steps],
        solutions: tuple[str | None, str | None] = (None, None),
    ) -> PairJudgement:
        """Rate one pair.

        Args:
            problem (`str`): The problem's text.
            steps (`tuple`): The steps of both solutions.
            solutions (`tuple`): Their texts, which the paper shows as well; `None` to leave them
                out, for instance where they are too long for the model.

        Returns:
            [`PairJudgement`]
        """
        forward = self._rate(problem, steps, solutions)
        if not self.both_orders:
            return PairJudgement(await forward, None)
        backward = self._rate(problem, steps[::-1], solutions[::-1])
        return PairJudgement(*await asyncio.gather(forward, backward))

    async def __call__(self, problem: str, steps_a: Steps, steps_b: Steps) -> bool | None:
        """Whether the two differ; `None` without a verdict."""
        return (await self.rate(problem, (steps_a, steps_b))).judgement.value

    async def _rate(
        self,
        problem: str,
        steps: tuple[Steps, ...],
        solutions: tuple[str | None, ...],
    ) -> Judgement[bool]:
        shown = [NO_TEXT if text is None else fenced("solution", text) for text in solutions]
        return await self._ask(
            _is_second,
            problem=fenced("problem", problem),
            steps_a=fenced("steps", _numbered(steps[0])),
            steps_b=fenced("steps", _numbered(steps[1])),
            solution_a=shown[0],
            solution_b=shown[1],
        )


class PairSelector(PromptedModel):
    """The two solutions that differ most, or "No": LLM selection of Table 1 (App. D.1).

    Args:
        chat ([`~rpd_metric.models.chat.Chat`]): The model.
        template (`str` or `Path`, *optional*): One of your own, with the placeholders
            `{{problem}}` and `{{solutions}}`.
        sampling ([`~rpd_metric.models.chat.Sampling`], *optional*): Greedy by default.
    """

    prompt = "judge_select_pair"
    required = ("problem", "solutions")

    async def select(
        self, problem: str, steps: Sequence[Steps]
    ) -> Judgement[tuple[int, int] | tuple[()]]:
        """Select among one problem's solutions.

        Args:
            problem (`str`): Its text.
            steps (`Sequence`): Per solution, its steps.

        Returns:
            [`Judgement`]: Two indices into `steps`, ascending; `()` for "No".
        """
        return await self._ask(
            lambda text, finish_reason: parse_pair(text, len(steps), finish_reason),
            problem=fenced("problem", problem),
            solutions=listed(steps),
        )


class SetSelector(PromptedModel):
    """The M solutions that differ most as a set: second stage of LLM selection (App. D.2).

    Args:
        chat ([`~rpd_metric.models.chat.Chat`]): The model.
        template (`str` or `Path`, *optional*): One of your own, with the placeholders
            `{{problem}}`, `{{solutions}}` and `{{count}}`.
        sampling ([`~rpd_metric.models.chat.Sampling`], *optional*): Greedy by default.
    """

    prompt = "judge_select_set"
    required = ("problem", "solutions", "count")

    async def select(
        self, problem: str, steps: Sequence[Steps], count: int
    ) -> Judgement[tuple[int, ...]]:
        """Select among one problem's solutions.

        Args:
            problem (`str`): Its text.
            steps (`Sequence`): Per solution, its steps.
            count (`int`): How many to select.

        Returns:
            [`Judgement`]: Indices into `steps`, in the model's order. With no more solutions than
                wanted all of them, without a request.

        Raises:
            [`InputError`]: `count` is below two: one solution differs from nothing.
        """
        if count < 2:
            raise InputError(f"a model selects two solutions or more, not {count}")
        if len(steps) <= count:
            return Judgement(tuple(range(len(steps))))
        return await self._ask(
            lambda text, finish_reason: parse_set(text, len(steps), count, finish_reason),
            problem=fenced("problem", problem),
            solutions=listed(steps),
            count=count,
        )


class CurationJudges:
    """The judges that take part in curation, over one chat model.

    Args:
        chat ([`~rpd_metric.models.chat.Chat`]): The model.

    Attributes:
        completeness ([`CompletenessJudge`]): As a filter.
        soundness ([`SoundnessJudge`]): As a filter.
        problems ([`ProblemJudge`]): As the choice of problems.
        solutions ([`SetSelector`]): As the choice of solutions.
    """

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self.completeness = CompletenessJudge(chat)
        self.soundness = SoundnessJudge(chat)
        self.problems = ProblemJudge(chat)
        self.solutions = SetSelector(chat)


def _is_second(text: str, finish_reason: str | None) -> bool:
    return parse_rating(text, finish_reason) == 2


def _numbered(steps: Steps) -> str:
    kept = [step.strip() for step in steps if step.strip()]
    return "\n".join(f"{number}. {step}" for number, step in enumerate(kept, start=1))


def listed(steps: Sequence[Steps]) -> str:
    """Solutions by their steps, numbered from 1, for a prompt."""
    return "\n\n".join(
        f"Solution {number}:\n{fenced('steps', _numbered(one))}"
        for number, one in enumerate(steps, start=1)
    )


def fenced(label: str, text: str) -> str:
    """A text between tags that it cannot hold itself, for a prompt."""
    return fence(label, sendable(text).strip())
