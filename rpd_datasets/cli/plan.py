"""`rpd plan`: what a run would cost, before a single request is sent."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rpd_datasets.cli.arguments import (
    DEFAULTS,
    add_command,
    add_filters,
    add_input,
    add_models,
    curation_config,
    filter_config,
    open_input,
)
from rpd_datasets.cli.output import print_json, print_table, progress
from rpd_datasets.curation.score import configured_summarizer, default_store
from rpd_datasets.filters.pipeline import filter_problem
from rpd_datasets.rejects import Rejected
from rpd_datasets.tokens import TokenCounter, token_counter
from rpd_metric.inference.chat import ChatRequest
from rpd_metric.inference.errors import ServerError
from rpd_metric.inference.store import ReplyStore
from rpd_metric.steps.summarizer import ChatSummarizer

# App. "Computational efficiency" of the paper: Qwen3-14B and Qwen3-Embedding-8B on two H20.
PAPER_SECONDS_PER_SUMMARY = 1.64
PAPER_SECONDS_PER_EMBEDDING = 0.04
PAPER_GPUS = 2
# Three to five steps with their analysis; the paper does not say how long its summaries are.
ASSUMED_REPLY_TOKENS = 400


def add_plan(commands: Any) -> None:
    """Add `rpd plan`."""
    parser = add_command(
        commands,
        "plan",
        _plan,
        "what a run would cost, before a single request",
        "Read and filter the input as rpd curate does, and count the requests that a chat model "
        "would get, what the store already holds, tokens and hours. Nothing is sent to be "
        "answered; tgi: and auto: specs are asked for their model's name unless it follows a #.",
        "rpd plan solutions.jsonl --summarizer tgi:http://localhost:8080#Qwen/Qwen3-14B",
    )
    add_input(parser)
    parser.add_argument(
        "--num-solutions",
        type=int,
        default=DEFAULTS.num_solutions,
        metavar="N",
        help="solutions to choose for each problem; sets the default of --min-solutions",
    )
    group = parser.add_argument_group("rates")
    group.add_argument(
        "--seconds-per-summary",
        type=float,
        metavar="S",
        help="of the whole server (default: what the store's replies took, else the paper's "
        f"{PAPER_SECONDS_PER_SUMMARY:g})",
    )
    group.add_argument(
        "--seconds-per-embedding",
        type=float,
        default=PAPER_SECONDS_PER_EMBEDDING,
        metavar="S",
        help="for one solution's steps",
    )
    group.add_argument(
        "--gpus",
        type=int,
        default=PAPER_GPUS,
        metavar="N",
        help="that these rates were measured on",
    )
    group.add_argument(
        "--reply-tokens",
        type=int,
        default=ASSUMED_REPLY_TOKENS,
        metavar="N",
        help="assumed length of a summary",
    )
    add_filters(parser)
    add_models(parser)


def _plan(args: argparse.Namespace) -> None:
    filters = filter_config(args, args.num_solutions)
    config = curation_config(args, ("models", "tokens"), filters)
    count_tokens = token_counter(config.tokenizer)
    summarizer = configured_summarizer(config, keep_replies=False)  # a plan must not make a store
    llm = summarizer if isinstance(summarizer, ChatSummarizer) else None
    totals = _Totals(count_tokens, llm, _context_length(llm))
    rejects: list[Rejected] = []
    with (
        tempfile.TemporaryDirectory() as scratch,
        progress("Reading problems", args.limit) as read_one,
    ):

        def requests() -> Iterator[ChatRequest]:
            for problem in open_input(args, Path(scratch), rejects.append):
                kept = filter_problem(problem, config.filters, count_tokens).kept
                totals.problems += bool(kept)
                for index in kept:
                    yield from totals.requests_for(problem.problem, problem.solutions[index])
                read_one()

        path = Path(config.store) if config.store else default_store()
        rate: float | None = None
        if llm is not None and path.exists():
            with ReplyStore(path, create=False) as store:
                rate = store.seconds_per_reply(llm.chat.model)
                for request in store.missing(llm.chat.model, requests()):
                    totals.missing_one(request)
        else:
            for request in requests():
                totals.missing_one(request)
    # A rate that was asked for wins over one that was seen; that over the paper's.
    seconds = args.seconds_per_summary or rate or PAPER_SECONDS_PER_SUMMARY
    seen = rate is not None and not args.seconds_per_summary
    most = config.requests.worst_case(config.sampling.max_tokens, 1 + llm.repair) if llm else None
    row: dict[str, Any] = {
        "problems": totals.problems,
        "solutions": totals.solutions,
        "rows_left_out": len(rejects),
        "requests": totals.requests,
        "requests_missing": totals.missing,
        "prompt_tokens": totals.prompt_tokens,
        "prompt_tokens_with_final_part_only": totals.prompt_tokens - totals.thought_tokens,
        "reply_tokens_assumed": totals.missing * args.reply_tokens,
        "reply_tokens_at_most": totals.missing * most.tokens if most else 0,
        "context_length": totals.context,
        "too_long_for_the_model": totals.too_long,
        "seconds_per_summary": seconds,
        "hours": (totals.missing * seconds + totals.solutions * args.seconds_per_embedding) / 3600,
        "tokens_counted_by": count_tokens.name,
        "summarizer": summarizer.name,
    }
    row["gpu_hours"] = row["hours"] * args.gpus
    if args.json:
        print_json(row)
        return
    labels = {
        "problems": "problems that pass the filters",
        "solutions": "solutions to summarise",
        "requests": "requests to the chat model",
        "requests_missing": "  not in the store yet",
        "prompt_tokens": "prompt tokens to send",
        "prompt_tokens_with_final_part_only": "  with --solution-part final",
        "reply_tokens_assumed": "reply tokens (assumed)",
        "reply_tokens_at_most": "  at most, with every retry, repair and longer reply",
        "too_long_for_the_model": "  requests too long for the model's context",
        "hours": "hours",
        "gpu_hours": "GPU-hours",
    }
    print_table([{"": label, "count": row[name]} for name, label in labels.items()])
    estimated = " (an offline estimate)" if count_tokens.estimated else ""
    print(
        f"\nTokens counted by {count_tokens.name}{estimated}; hours at "
        f"{seconds:.3g} s per summary{' (as seen in the store)' if seen else ''} and "
        f"{args.seconds_per_embedding:g} s per solution embedded, on {args.gpus} GPUs."
    )
    if llm is None:
        print("The summarizer is extractive: no request is sent, and no GPU is needed for it.")


def _context_length(llm: ChatSummarizer | None) -> int | None:
    """What the server says of its context; a plan can be made without it."""
    client = getattr(llm.chat, "chat", None) if llm else None
    ask = getattr(client, "context_length", None)
    try:
        length: int | None = ask() if ask else None
    except ServerError as error:
        print(f"the length of the model's context is not known: {error}", file=sys.stderr)
        return None
    return length


class _Totals:
    """Counts over all problems, filled while the requests stream by."""

    def __init__(
        self, count_tokens: TokenCounter, llm: ChatSummarizer | None, context: int | None
    ) -> None:
        self.context = context
        self.too_long = 0
        self._count_tokens = count_tokens
        self._llm = llm
        self.problems = self.solutions = self.requests = 0
        self.missing = self.prompt_tokens = self.thought_tokens = 0

    def requests_for(self, problem: str, solution: str) -> Iterator[ChatRequest]:
        """The request that a solution would cost, if it would cost one."""
        self.solutions += 1
        request = self._llm.request(problem, solution) if self._llm else None
        if request is not None:
            self.requests += 1
            yield request

    def missing_one(self, request: ChatRequest) -> None:
        """Count a request that the store has no reply to."""
        self.missing += 1
        prompt_tokens = sum(self._count_tokens(one["content"]) for one in request.messages)
        self.prompt_tokens += prompt_tokens
        if self.context is not None:
            self.too_long += prompt_tokens + request.sampling.max_tokens > self.context
        for message in request.messages:
            content = message["content"]
            # What a solution thinks before its answer need not be sent.
            thought, separator, _ = content.rpartition("</think>")
            if separator:
                before = thought.find("<think>")
                self.thought_tokens += self._count_tokens(thought[max(before, 0) :])
