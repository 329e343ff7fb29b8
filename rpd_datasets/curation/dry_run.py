"""What scoring and choosing would ask of chat models, counted without sending anything.

Problems are scored as in a run, by chat models that answer from the store alone: a request that is
not in it is counted, and given a reply that lets the run go on.
"""

import copy
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.models import Models
from rpd_datasets.curation.scoring import JUDGES, choose, left_out, score_problem
from rpd_datasets.filters.candidates import AnswerCheck
from rpd_datasets.judging.judges import CurationJudges
from rpd_datasets.problem import Problem
from rpd_metric.models.chat import ChatReply, ChatRequest
from rpd_metric.models.flow import Flow
from rpd_metric.models.requests import RequestOptions
from rpd_metric.models.store import Replies, RequestKeys, request_key
from rpd_metric.steps.chat_summarizer import ChatSummarizer
from rpd_metric.steps.grouping import BATCH, SAMPLING, STRATEGIES_KEY, StrategyReader

# Three to five steps with their analysis; the paper does not say how long its summaries are.
ASSUMED_REPLY_TOKENS = 400
# The steps alone, as they are shown to judges and sorted into groups: 60 to 100 words a solution.
STEPS_TOKENS = 130
# Finished, sound, diverse: whatever lets the run go on.
SECOND_CLASS = ChatReply("//boxed{2}", "stop")
# One strategy, however many solutions are shown.
ALL_ALIKE = {STRATEGIES_KEY: [{"one strategy": list(range(1, BATCH + 1))}]}
ONE_STRATEGY = ChatReply(json.dumps(ALL_ALIKE), "stop")


class DryRun:
    """Counts the requests of one problem after the other.

    Args:
        config ([`CurationConfig`]): The options of the run.
        models ([`Models`]): Its models; none of them is asked.
        store ([`Replies`], *optional*): Where replies may be.
        context (`int`, *optional*): Tokens that prompt and reply of a summary may have together.
        reply_tokens (`int`): How long a summary is taken to be.
    """

    def __init__(
        self,
        config: CurationConfig,
        models: Models,
        store: Replies | None = None,
        *,
        context: int | None = None,
        reply_tokens: int = ASSUMED_REPLY_TOKENS,
    ) -> None:
        self.config = config
        self.models = models
        self.context, self.reply_tokens = context, reply_tokens
        self.problems = self.solutions = self.too_long = self._eligible = 0
        self.left_out = Counter[str]()  # problems and solutions, by reason
        # By kind, "summaries", "groups" or one of `JUDGES`: requests that are not in the store, and
        # their tokens.
        self.missing, self.prompt_tokens = Counter[str](), Counter[str]()
        self._max_tokens: dict[str, int] = {}
        self._flows: dict[str, Flow] = {}
        summarizer, judges = models.summarizer, None

        def on_the_store(model: str, kind: str, max_tokens: int) -> Flow:
            options = RequestOptions(longest_reply=config.requests.longest_reply, keep_going=True)
            flow = Flow(_Counting(model, kind, self), options, store=store and _ReadOnly(store))
            self._flows[kind], self._max_tokens[kind] = flow, max_tokens
            return flow

        if models.judges is not None:
            judges = CurationJudges(models.judges.chat)
            for kind in JUDGES:
                judge = getattr(judges, kind)
                judge.chat = on_the_store(judge.chat.model, kind, judge.sampling.max_tokens)
        if isinstance(summarizer, ChatSummarizer):
            max_tokens = summarizer.sampling.max_tokens
            summarizer = copy.copy(summarizer)
            summarizer.chat = on_the_store(summarizer.chat.model, "summaries", max_tokens)
        elif "llm" not in (config.problems, config.solutions):
            # No request depends on distances then.
            bare = replace(config, num_samples=None, quality_column=None)
            config = replace(bare, problems="random", solutions="random")
        reader = models.reader
        if reader is not None:
            flow = on_the_store(reader.chat.model, "groups", SAMPLING.max_tokens)
            reader = StrategyReader(flow, seed=reader.seed, guided=reader.guided)
        # A plan loads no model: what the student would drop is counted as well.
        self._config = replace(config, filters=replace(config.filters, student=None))
        self._models = replace(
            models, summarizer=summarizer, embedder=_OneVector(), judges=judges, reader=reader
        )

    async def count(self, problem: Problem, answers: AnswerCheck | None = None) -> None:
        """Count what one problem would ask; `answers` where somebody looked at them already."""
        scored = await score_problem(problem, self._config, self._models, answers)
        usable = scored.usable
        summaries = len(usable) + sum(reject.stage == "steps" for reject in scored.rejects)
        self.problems += bool(summaries)
        self.solutions += summaries
        rejects = dict.fromkeys([*scored.rejects, *left_out(problem, scored, self.config)])
        self.left_out.update(reject.reason for reject in rejects)
        eligible = len(usable) > self.config.num_solutions and scored.diverse is not False
        if self.config.solutions == "llm" and eligible:
            self._eligible += 1
            await choose(problem, scored, self._config, self._models)

    def numbers(self) -> dict[str, Any]:
        """What a run would ask and cost: the numbers of `rpd plan`."""
        missing, prompt = Counter(self.missing), Counter(self.prompt_tokens)
        stored = Counter({kind: flow.stats.cached for kind, flow in self._flows.items()})
        # Of the problems only those that are chosen get so far; which they are is not known yet.
        problems = min(self.config.num_problems, self._eligible)
        stored["solutions"] = min(stored["solutions"], problems)
        if missing["solutions"]:
            missing["solutions"] = min(missing["solutions"], problems - stored["solutions"])
            share = missing["solutions"] / self.missing["solutions"]
            prompt["solutions"] = round(prompt["solutions"] * share)
        requests, new_tokens = self.config.requests, missing.total() * self.reply_tokens
        numbers: dict[str, Any] = {"problems": self.problems, "solutions": self.solutions}
        for name, model, kinds in (
            ("requests", self, [*missing, *stored]),
            ("judge_requests", self.models.judges, JUDGES),
            ("group_requests", self.models.reader, ["groups"]),
        ):
            if model is not None:
                numbers[name] = sum((missing + stored)[kind] for kind in set(kinds))
                numbers[f"{name}_missing"] = sum(missing[kind] for kind in set(kinds))
        if self.models.reader is not None:
            numbers["group_prompt_tokens"] = prompt["groups"]
        sent_at_most = at_most = 0
        for kind, max_tokens in self._max_tokens.items():
            each = 2 if kind in ("summaries", "groups") else 1  # the second asks for a repair
            worst = requests.worst_case(max_tokens, each)
            replies = missing[kind] * worst.tokens
            at_most += replies
            # Every attempt sends the prompt, a repair its first reply as well.
            sent_at_most += prompt[kind] * worst.attempts + (each - 1) * replies
        numbers |= {
            "prompt_tokens": prompt.total(),
            "reply_tokens_assumed": new_tokens,
            "reply_tokens_at_most": at_most,
            "too_long_for_the_model": self.too_long,
        }
        if requests.priced:
            numbers["cost"] = requests.cost(prompt.total(), new_tokens)
            numbers["cost_at_most"] = requests.cost(sent_at_most, at_most)
        return numbers

    def note(self, kind: str, request: ChatRequest) -> None:
        """Count a request that would be sent."""
        tokens = sum(self._models.count_tokens(turn["content"]) for turn in request.messages)
        self.missing[kind] += 1
        self.prompt_tokens[kind] += tokens
        if kind == "summaries" and self.context is not None:
            self.too_long += tokens + request.sampling.max_tokens > self.context


class _Counting:
    """A chat model that counts what it is asked, and supposes steps of the usual length."""

    def __init__(self, model: str, kind: str, count: DryRun) -> None:
        self.model = model
        self._kind, self._count, self._seen = kind, count, set[str]()

    async def __call__(self, request: ChatRequest) -> ChatReply:
        key = request_key(self.model, request)
        if key not in self._seen:
            self._count.note(self._kind, request)
            self._seen.add(key)
        if self._kind == "groups":
            return ONE_STRATEGY
        if self._kind != "summaries":
            return SECOND_CLASS
        words = " step" * (STEPS_TOKENS // 3)
        # Each solution has its own: the same steps in two orders would be one request.
        steps = [first + words for first in (f"First {key[:8]}", "Second", "Third")]
        return ChatReply(json.dumps({"logical_steps": steps}), "stop")


class _ReadOnly:
    """A store that replies are looked up in, and none is added to."""

    def __init__(self, store: Replies) -> None:
        self._store = store

    def find(self, keys: RequestKeys) -> ChatReply | None:
        return self._store.find(keys)

    def keep(self, _: RequestKeys, reply: ChatReply) -> ChatReply:
        return reply


class _OneVector:
    """An encoder for distances that are not used."""

    name = "one"

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return np.ones((len(texts), 1), dtype=np.float32)
