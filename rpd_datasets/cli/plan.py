"""`rpd plan`: what a run would cost, before a single request is sent."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rpd_datasets.cli.arguments import (
    add_command,
    add_filters,
    add_input,
    add_models,
    curation_config,
    filter_config,
    input_spec,
    open_input,
)
from rpd_datasets.cli.output import print_json, print_lines, print_table, progress
from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.checks import check_input, check_models
from rpd_datasets.curation.dry_run import ASSUMED_REPLY_TOKENS, DryRun
from rpd_datasets.curation.models import Models, chat_models, default_store
from rpd_datasets.curation.scoring import check_answers
from rpd_datasets.inputs.understanding import Understood
from rpd_datasets.options import add_options
from rpd_datasets.rejects import Rejected
from rpd_metric.models.failures import ServerError
from rpd_metric.models.store import ReplyStore

# App. "Computational efficiency" of the paper: Qwen3-14B and Qwen3-Embedding-8B on two H20.
PAPER_SECONDS_PER_SUMMARY = 1.64
PAPER_SECONDS_PER_EMBEDDING = 0.04
PAPER_GPUS = 2


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
    add_options(parser.add_argument_group("what is chosen"), CurationConfig, "choice")
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
    config = curation_config(args, ("models", "choice", "tokens"), filters)
    check_models(config)
    check_input(args.input, input_spec(args), config)
    # A plan must not make a store, and loads no encoder.
    models = chat_models(config)
    path = Path(config.store) if config.store else default_store()
    with ExitStack() as stack:
        store = None
        if models.flows and path.exists():
            store = stack.enter_context(ReplyStore(path, create=False))
        count = DryRun(
            config,
            models,
            store,
            context=_context_length(models),
            reply_tokens=args.reply_tokens,
        )
        rejects: list[Rejected] = []
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        read_one = stack.enter_context(progress("Reading problems", args.limit))
        stack.callback(models.answers.close)
        understood = Understood(open_input(args, scratch, rejects.append))
        asyncio.run(_count(count, understood, read_one))
        names = [flow.model for flow in models.flows] if store else []
        row = _row(args, count, {name: store.seconds_per_reply(name) for name in names if store})
    row["rows_left_out"] = len(rejects)
    row["input"] = understood.as_dict()
    if args.json:
        print_json(row)
    else:
        print_lines(understood.lines())
        print()
        _print(row, args, count)


async def _count(count: DryRun, understood: Understood, each: Callable[[], None]) -> None:
    for problem in understood.source:
        answers = check_answers(problem, count.config, count.models)
        understood.add(problem, answers)
        await count.count(problem, answers)
        each()
    count.finish()


def _row(
    args: argparse.Namespace, count: DryRun, seen: Mapping[str, float | None]
) -> dict[str, Any]:
    """What a run would cost, as plain values."""
    config, asked = count.config, count.asked
    summaries = asked["summaries"]
    judging = [one for kind, one in asked.items() if kind != "summaries"]
    judge_missing = sum(one.missing for one in judging)
    # A rate that was asked for wins over one that was seen; that over the paper's.
    rate = seen.get(getattr(getattr(count.models.summarizer, "chat", None), "model", ""))
    seconds = args.seconds_per_summary or rate or PAPER_SECONDS_PER_SUMMARY
    judge = count.models.judges.chat.model if count.models.judges else ""
    judge_seconds = args.seconds_per_summary or seen.get(judge) or seconds
    most = sum(one.most_tokens(config.requests) for one in asked.values())
    assumed = count.missing * args.reply_tokens
    hours = (
        summaries.missing * seconds
        + judge_missing * judge_seconds
        + count.solutions * args.seconds_per_embedding
    ) / 3600
    row: dict[str, Any] = {
        "problems": count.problems,
        "solutions": count.solutions,
        "requests": sum(one.stored + one.missing for one in asked.values()),
        "requests_missing": count.missing,
        "judge_requests": sum(one.stored + one.missing for one in judging),
        "judge_requests_missing": judge_missing,
        "prompt_tokens": count.prompt_tokens,
        "prompt_tokens_with_final_part_only": count.prompt_tokens - count.thought_tokens,
        "reply_tokens_assumed": assumed,
        "reply_tokens_at_most": most,
        "context_length": count.context,
        "too_long_for_the_model": count.too_long,
        "seconds_per_summary": seconds,
        "seconds_seen_in_the_store": rate is not None and not args.seconds_per_summary,
        "hours": hours,
        "gpu_hours": hours * args.gpus,
        "tokens_counted_by": count.models.count_tokens.name,
        "summarizer": count.models.summarizer.name,
        "judge": judge or None,
    }
    if config.requests.priced:
        row["cost"] = config.requests.cost(count.prompt_tokens, assumed)
        row["cost_at_most"] = config.requests.cost(
            sum(one.most_prompt_tokens(config.requests) for one in asked.values()), most
        )
    return row


LABELS = {
    "problems": "problems that pass the filters",
    "solutions": "solutions to summarise",
    "requests": "requests to chat models",
    "requests_missing": "  not in the store yet",
    "judge_requests": "  of all, to the judge",
    "judge_requests_missing": "  of the missing, to the judge",
    "prompt_tokens": "prompt tokens to send",
    "prompt_tokens_with_final_part_only": "  with --solution-part final",
    "reply_tokens_assumed": "reply tokens (assumed)",
    "reply_tokens_at_most": "  at most, with every retry, repair and longer reply",
    "too_long_for_the_model": "  requests too long for the model's context",
    "hours": "hours",
    "gpu_hours": "GPU-hours",
    "cost": "cost at these prices",
    "cost_at_most": "  at most",
}


def _print(row: Mapping[str, Any], args: argparse.Namespace, count: DryRun) -> None:
    shown = [name for name in LABELS if name in row]
    if row["judge"] is None:
        shown = [name for name in shown if not name.startswith("judge_")]
    print_table([{"": LABELS[name], "count": row[name]} for name in shown])
    estimated = " (an offline estimate)" if count.models.count_tokens.estimated else ""
    where = " (as seen in the store)" if row["seconds_seen_in_the_store"] else ""
    print(
        f"\nTokens counted by {row['tokens_counted_by']}{estimated}; hours at "
        f"{row['seconds_per_summary']:.3g} s per summary{where} and "
        f"{args.seconds_per_embedding:g} s per solution embedded, on {args.gpus} GPUs."
    )
    if row["judge"] is not None:
        print(
            "Requests to the judge are counted exactly where the steps that it reads are in the "
            "store, else as many as there can be."
        )
    if not count.models.flows:
        print("The summarizer is extractive: no request is sent, and no GPU is needed for it.")


def _context_length(models: Models) -> int | None:
    """What the summarizer's server says of its context; a plan can be made without it."""
    client = getattr(getattr(models.summarizer, "chat", None), "chat", None)
    ask = getattr(client, "context_length", None)
    try:
        length: int | None = ask() if ask else None
    except ServerError as error:
        print(f"the length of the model's context is not known: {error}", file=sys.stderr)
        return None
    return length
