"""What scoring and choosing would ask of chat models, counted without sending anything.

Problems are scored as in a run, by chat models that answer from the store alone: a request that is
not in it is counted, and given the reply that lets the run go on. A judge of steps that are not
there yet is asked about steps as long as they are assumed to be. `rpd plan` does this for a whole
input, and a run whose budget is spent for what is left of it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.models import Models
from rpd_datasets.curation.scoring import choose, score_problem
from rpd_datasets.filters.candidates import AnswerCheck
from rpd_datasets.judging.judges import CurationJudges
from rpd_datasets.problem import Problem
from rpd_metric.errors import ModelError
from rpd_metric.models.chat import ChatReply, ChatRequest
from rpd_metric.models.flow import Flow
from rpd_metric.models.requests import RequestOptions
from rpd_metric.models.store import Replies, RequestKeys, request_key
from rpd_metric.reasons import Reason
from rpd_metric.steps.chat_summarizer import ChatSummarizer
from rpd_metric.steps.protocol import Summarizer, Summary

# Three to five steps with their analysis; the paper does not say how long its summaries are.
ASSUMED_REPLY_TOKENS = 400
JUDGES = ("completeness", "soundness", "problems", "solutions")
# Finished, sound, diverse: whatever lets the run go on. It is no choice of solutions.
SECOND_CLASS = ChatReply("//boxed{2}", "stop")


@dataclass
class Asked:
    """Requests of one kind: those that the store answers, those that would be sent, their prompt
    tokens, the limit on each reply, and how many requests one may become by repairs.
    """

    stored: int = 0
    missing: int = 0
    prompt_tokens: int = 0
    max_tokens: int = 0
    requests_each: int = 1

    def most_prompt_tokens(self, options: RequestOptions) -> int:
        """Prompt tokens at most: every attempt sends them, a repair its first reply as well."""
        most = options.worst_case(self.max_tokens, self.requests_each)
        repairs = (self.requests_each > 1) * self.most_tokens(options)
        return self.prompt_tokens * most.attempts + repairs

    def most_tokens(self, options: RequestOptions) -> int:
        """New tokens at most, with every retry, repair and longer reply."""
        return self.missing * options.worst_case(self.max_tokens, self.requests_each).tokens


@dataclass
class DryRun:
    """Counts the requests of one problem after the other, by kind: `"summaries"` and `JUDGES`."""

    config: CurationConfig
    models: Models
    store: Replies | None = None  # where replies may be
    context: int | None = None  # tokens that prompt and reply of a summary may have together
    reply_tokens: int = ASSUMED_REPLY_TOKENS  # how long a summary is taken to be
    asked: dict[str, Asked] = field(init=False)
    problems: int = 0  # that pass the filters
    solutions: int = 0
    too_long: int = 0  # missing summaries that do not fit the context
    thought_tokens: int = 0  # of the missing prompts, what solutions think before they answer
    _eligible: int = 0
    _seen: set[str] = field(default_factory=set)
    _flows: dict[str, Flow] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.config = self.config.resolved()
        self.asked = {name: Asked() for name in ("summaries", *JUDGES)}
        summarizer: Summarizer = self.models.summarizer
        judges = None
        if self.models.judges is not None:
            chat = self.models.judges.chat
            judges = CurationJudges(chat)
            for kind in JUDGES:
                judge = getattr(judges, kind)
                judge.chat = self._on_the_store(chat.model, kind)
                self.asked[kind].max_tokens = judge.sampling.max_tokens
        # What a run would do with its config, but for distances that no request depends on.
        self._config = self.config
        if isinstance(summarizer, ChatSummarizer):
            self.asked["summaries"].requests_each = 2  # the second asks for a repair
            self.asked["summaries"].max_tokens = summarizer.sampling.max_tokens
            chat = self._on_the_store(summarizer.chat.model, "summaries")
            summarizer = _Supposing(summarizer, chat, self.reply_tokens)
        elif "llm" not in (self.config.problems, self.config.solutions):
            bare = replace(self.config, num_samples=None, quality_column=None)
            self._config = replace(bare, problems="random", solutions="random")
        self._models = replace(
            self.models, summarizer=summarizer, embedder=_OneVector(), judges=judges
        )

    def _on_the_store(self, model: str, kind: str) -> Flow:
        options = RequestOptions(longest_reply=self.config.requests.longest_reply, keep_going=True)
        store = None if self.store is None else _ReadOnly(self.store)
        self._flows[kind] = Flow(_Counting(model, kind, self), options, store=store)
        return self._flows[kind]

    async def count(self, problem: Problem, answers: AnswerCheck | None = None) -> None:
        """Count what one problem would ask; `answers` where somebody looked at them already."""
        scored = await score_problem(problem, self._config, self._models, answers)
        usable = scored.usable
        kept = len(usable) + sum(reject.stage == "steps" for reject in scored.rejects)
        self.problems += bool(kept)
        self.solutions += kept
        # Only the problems that are chosen get further; which they are is not known yet.
        wanted = len(usable) > self.config.num_solutions and scored.diverse is not False
        if self.config.solutions == "llm" and wanted:
            self._eligible += 1
            await choose(problem, scored, self._config, self._models)

    def finish(self) -> None:
        """Settle what is asked of the chosen problems only: at most as many as are to be chosen."""
        for kind, flow in self._flows.items():
            self.asked[kind].stored = flow.stats.cached
        choices = self.asked["solutions"]
        wanted = min(self.config.num_problems, self._eligible)
        choices.stored = min(choices.stored, wanted)
        missing = min(choices.missing, wanted - choices.stored)
        if choices.missing:
            choices.prompt_tokens = round(choices.prompt_tokens * missing / choices.missing)
        choices.missing = missing

    @property
    def missing(self) -> int:
        """Requests that would be sent."""
        return sum(one.missing for one in self.asked.values())

    @property
    def prompt_tokens(self) -> int:
        """Of these."""
        return sum(one.prompt_tokens for one in self.asked.values())

    def shortfall(self) -> dict[str, Any]:
        """What is missing and what it would cost, new tokens as long as those so far."""
        self.finish()
        requests, tokens = self.config.requests, self.missing * self.reply_tokens
        return {
            "problems": self.problems,
            "solutions": self.solutions,
            "requests": self.missing,
            "prompt_tokens": self.prompt_tokens,
            "new_tokens": tokens,
            "cost": requests.cost(self.prompt_tokens, tokens) if requests.priced else None,
        }

    def note(self, kind: str, request: ChatRequest, key: str) -> None:
        """Count a request that would be sent."""
        if key in self._seen:
            return
        self._seen.add(key)
        count, asked = self._models.count_tokens, self.asked[kind]
        tokens = sum(count(one["content"]) for one in request.messages)
        asked.missing += 1
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


class _Counting:
    """A chat model that counts what it is asked."""

    def __init__(self, model: str, kind: str, count: DryRun) -> None:
        self.model = model
        self._kind = kind
        self._count = count

    async def __call__(self, request: ChatRequest) -> ChatReply:
        self._count.note(self._kind, request, request_key(self.model, request))
        if self._kind == "summaries":
            raise ModelError("not in the store")
        return SECOND_CLASS


class _ReadOnly:
    """A store that replies are looked up in, and none is added to."""

    def __init__(self, store: Replies) -> None:
        self._store = store

    def find(self, keys: RequestKeys, *, other_lengths: bool = True) -> ChatReply | None:
        return self._store.find(keys, other_lengths=other_lengths)

    def keep(self, _: RequestKeys, reply: ChatReply) -> ChatReply:
        return reply


class _Supposing:
    """A summarizer that supposes steps where a summary is not in the store."""

    def __init__(self, summarizer: ChatSummarizer, chat: Flow, tokens: int) -> None:
        self.name, self.fingerprint = summarizer.name, summarizer.fingerprint
        self._summarizer = copy.copy(summarizer)
        self._summarizer.chat = chat
        self._supposed = Summary((" ".join(["step"] * tokens),))

    async def summarize(self, problem: str | None, solutions: Sequence[str]) -> list[Summary]:
        found = await self._summarizer.summarize(problem, solutions)
        return [self._supposed if one.reason == Reason.MODEL_ERROR else one for one in found]


class _OneVector:
    """An encoder for distances that nobody looks at."""

    name = "one"

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return np.ones((len(texts), 1), dtype=np.float32)
