"""What scoring and choosing would ask of chat models, counted without sending anything.

The very steps of a run are taken, on chat models that answer from the store alone: a request that
is not in it is counted and fails. So replies that were kept, repairs that they call for, and longer
replies to cut ones are counted as a run would meet them. What depends on a reply that is not there
is estimated: a judge of steps is counted once for each problem that may reach it.

`rpd plan` does this for a whole input, and a run whose budget is spent for what is left of it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.judged import filtered
from rpd_datasets.curation.models import Models
from rpd_datasets.curation.scoring import check_answers
from rpd_datasets.filters.candidates import AnswerCheck
from rpd_datasets.judging.judges import (
    CompletenessJudge,
    CurationJudges,
    ProblemJudge,
    PromptedModel,
    SetSelector,
    SoundnessJudge,
)
from rpd_datasets.problem import Problem
from rpd_metric.models.chat import ChatReply, ChatRequest
from rpd_metric.models.failures import ServerError
from rpd_metric.models.flow import Flow
from rpd_metric.models.requests import RequestOptions
from rpd_metric.models.retry import RequestRules
from rpd_metric.models.store import Replies, request_key
from rpd_metric.steps.chat_summarizer import ChatSummarizer
from rpd_metric.steps.protocol import Summary

# Three to five steps with their analysis; the paper does not say how long its summaries are.
ASSUMED_REPLY_TOKENS = 400


@dataclass
class Asked:
    """Requests of one kind.

    Args:
        stored (`int`): Those that the store answers.
        missing (`int`): Those that would be sent.
        prompt_tokens (`int`): Of the missing ones.
        max_tokens (`int`): The limit on each reply.
        requests_each (`int`): Requests that one of them may become: a summary may be repaired.
    """

    stored: int = 0
    missing: int = 0
    prompt_tokens: int = 0
    max_tokens: int = 0
    requests_each: int = 1

    def most_prompt_tokens(self, options: RequestOptions) -> int:
        """Prompt tokens at most: every attempt sends them, a repair its first reply as well."""
        most = options.worst_case(self.max_tokens, self.requests_each)
        return self.prompt_tokens * most.attempts + (self.requests_each > 1) * self.most_tokens(
            options
        )

    def most_tokens(self, options: RequestOptions) -> int:
        """New tokens at most, with every retry, repair and longer reply."""
        return self.missing * options.worst_case(self.max_tokens, self.requests_each).tokens


@dataclass
class DryRun:
    """Counts the requests of one problem after the other.

    Args:
        config ([`CurationConfig`]): The options of the run.
        models ([`Models`]): What they name. Chat models are taken the names of, and not asked.
        store (`Replies`, *optional*): Where replies may be.
        context (`int`, *optional*): Tokens that prompt and reply of a summary may have together.
        reply_tokens (`int`): How long a summary is taken to be.

    Attributes:
        asked (`dict[str, Asked]`): By kind: `"summaries"`, and those of the judges, which are
            `"completeness"`, `"soundness"`, `"problems"` and `"solutions"`.
        problems, solutions (`int`): That pass the filters.
        too_long (`int`): Missing summaries that do not fit the context.
        thought_tokens (`int`): Of the missing prompts, what solutions think before they answer.
    """

    config: CurationConfig
    models: Models
    store: Replies | None = None
    context: int | None = None
    reply_tokens: int = ASSUMED_REPLY_TOKENS
    asked: dict[str, Asked] = field(init=False)
    problems: int = 0
    solutions: int = 0
    too_long: int = 0
    thought_tokens: int = 0
    _eligible: int = 0
    _choices: Asked = field(default_factory=Asked)
    _seen: set[str] = field(default_factory=set)
    _flows: dict[str, Flow] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.config = self.config.resolved()
        self.asked = {
            name: Asked()
            for name in ("summaries", "completeness", "soundness", "problems", "solutions")
        }
        summarizer = self.models.summarizer
        if isinstance(summarizer, ChatSummarizer):
            self.asked["summaries"].requests_each = 1 + summarizer.repair
            self.asked["summaries"].max_tokens = summarizer.sampling.max_tokens
            summarizer = copy.copy(summarizer)
            summarizer.chat = self._on_the_store(summarizer.chat.model, "summaries")
        judges = None
        if self.models.judges is not None:
            model = self.models.judges.chat.model
            judges = CurationJudges(self.models.judges.chat)
            judges.completeness = CompletenessJudge(self._on_the_store(model, "completeness"))
            judges.soundness = SoundnessJudge(self._on_the_store(model, "soundness"))
            judges.problems = ProblemJudge(self._on_the_store(model, "problems"))
            judges.solutions = SetSelector(self._on_the_store(model, "solutions"))
            for name in ("completeness", "soundness", "problems", "solutions"):
                self.asked[name].max_tokens = getattr(judges, name).sampling.max_tokens
        self._models = Models(
            summarizer,
            self.models.embedder,
            self.models.count_tokens,
            judges=judges,
            answers=self.models.answers,
        )

    def _on_the_store(self, model: str, kind: str) -> Flow:
        rules = RequestRules(longest_reply=self.config.requests.longest_reply, stop_after=None)
        flow = Flow(_Unanswered(model, kind, self), store=self.store, rules=rules)
        self._flows[kind] = flow
        return flow

    async def count(self, problem: Problem, answers: AnswerCheck | None = None) -> None:
        """Count what one problem would ask.

        Args:
            problem ([`~rpd_datasets.Problem`]): The problem.
            answers ([`AnswerCheck`], *optional*): What is known about its final answers, where
                somebody looked already.
        """
        config, models = self.config, self._models
        answers = answers or check_answers(problem, config, models)
        kept = (await filtered(problem, config, models, answers, unread=True)).kept
        if not kept:
            return
        self.problems += 1
        self.solutions += len(kept)
        judged = "llm" in (config.problems, config.solutions)
        if not config.reads_steps or not (judged or isinstance(models.summarizer, ChatSummarizer)):
            return
        summaries = await models.summarizer.summarize(
            problem.problem, [problem.solutions[index] for index in kept]
        )
        # What failed for any other reason takes no part in a run either.
        usable = [one for one in summaries if one.ok or one.reason == "model_error"]
        if judged and len(usable) > 1:
            await self._judge(problem, usable)

    async def _judge(self, problem: Problem, usable: Sequence[Summary]) -> None:
        config, judges = self.config, self._models.required_judges()
        steps = [list(one.steps) for one in usable] if all(one.ok for one in usable) else None
        diverse: bool | None = None
        if config.problems == "llm":
            if steps is None:
                self._estimate(self.asked["problems"], judges.problems, problem, len(usable))
            else:
                diverse = (await judges.problems.judge(problem.problem, steps)).value
        if config.solutions != "llm" or diverse is False or len(usable) <= config.num_solutions:
            return
        # Only the problems that are chosen get this far; which they are is not known yet.
        self._eligible += 1
        if steps is None:
            self._estimate(self._choices, judges.solutions, problem, len(usable))
        else:
            await judges.solutions.select(problem.problem, steps, config.num_solutions)

    def _estimate(self, asked: Asked, judge: PromptedModel, problem: Problem, count: int) -> None:
        tokens = self._models.count_tokens
        asked.missing += 1
        asked.prompt_tokens += tokens(judge.template.text) + tokens(problem.problem)
        asked.prompt_tokens += count * self.reply_tokens

    def finish(self) -> None:
        """Settle what is asked of the chosen problems only: at most as many as are to be chosen."""
        for kind, flow in self._flows.items():
            self.asked[kind].stored = flow.stats.cached
        found, all_of_them = self.asked["solutions"], self._choices
        wanted = min(self.config.num_problems, self._eligible)
        found.stored = min(found.stored, wanted)
        found.missing = min(all_of_them.missing, wanted - found.stored)
        if all_of_them.missing:
            share = found.missing / all_of_them.missing
            found.prompt_tokens = round(all_of_them.prompt_tokens * share)

    @property
    def missing(self) -> int:
        """Requests that would be sent."""
        return sum(one.missing for one in self.asked.values())

    @property
    def prompt_tokens(self) -> int:
        """Of these."""
        return sum(one.prompt_tokens for one in self.asked.values())

    def note(self, kind: str, request: ChatRequest, key: str) -> None:
        """Count a request that would be sent."""
        if key in self._seen:
            return
        self._seen.add(key)
        count = self._models.count_tokens
        asked = self._choices if kind == "solutions" else self.asked[kind]
        asked.missing += 1
        tokens = sum(count(one["content"]) for one in request.messages)
        asked.prompt_tokens += tokens
        if kind != "summaries":
            return
        if self.context is not None:
            self.too_long += tokens + request.sampling.max_tokens > self.context
        for message in request.messages:
            # What a solution thinks before its answer need not be sent.
            thought, separator, _ = message["content"].rpartition("</think>")
            if separator:
                self.thought_tokens += count(thought[max(thought.find("<think>"), 0) :])


class _Unanswered:
    """A chat model that counts what it is asked, and answers nothing."""

    def __init__(self, model: str, kind: str, count: DryRun) -> None:
        self.model = model
        self._kind = kind
        self._count = count

    async def __call__(self, request: ChatRequest) -> ChatReply:
        self._count.note(self._kind, request, request_key(self.model, request))
        # "protocol": about this request alone, so that nobody gives up the server.
        raise ServerError("not in the store", kind="protocol", retryable=False)
