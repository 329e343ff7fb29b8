"""`rpd plan`: what a run would cost, before a single request.

Read and filter the input as rpd curate does, and count the requests to a chat model, those that the
store already answers, and tokens. Only a tgi: server is asked, for its model's name, unless the
name follows a #.

Example: rpd plan solutions.jsonl --summarizer tgi:http://localhost:8080#Qwen/Qwen3-14B
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rpd_datasets.cli import arguments
from rpd_datasets.cli.output import Progress, print_facts, print_json, print_lines
from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.dry_run import ASSUMED_REPLY_TOKENS, DryRun
from rpd_datasets.curation.models import Models, default_store, load_models
from rpd_datasets.curation.scoring import check_answers
from rpd_datasets.inputs.understanding import Understood
from rpd_datasets.options import add_options
from rpd_datasets.rejects import Rejected
from rpd_metric.models.failures import ServerError
from rpd_metric.models.store import ReplyStore
from rpd_metric.reasons import with_option


def add_to(commands: Any) -> None:
    """Add `rpd plan`."""
    parser = arguments.add_command(commands, _plan, __doc__)
    arguments.add_input(parser, optional=True)
    help = "show what the store of replies holds; needs no INPUT"
    parser.add_argument("--store-info", action="store_true", help=help)
    add_options(parser.add_argument_group("selection"), CurationConfig, "choice")
    help = "assumed tokens of a summary"
    default = ASSUMED_REPLY_TOKENS
    parser.add_argument("--reply-tokens", type=int, default=default, metavar="N", help=help)
    arguments.add_filters(parser)
    arguments.add_models(parser)


def _plan(args: argparse.Namespace) -> None:
    path = default_store(args.store)
    if args.store_info:
        with ReplyStore(path, create=False) as replies:
            (print_json if args.json else print_facts)(replies.info())
        return
    if args.input is None:
        args.parser.error("the following arguments are required: INPUT")
    filters = arguments.filter_config(args)
    config = arguments.checked_config(args, ("models", "choice", "tokens"), filters)
    rejects: list[Rejected] = []
    with ExitStack() as stack:
        # A plan must not make a store, and loads no encoder.
        models = load_models(config, keep_replies=False)
        stack.callback(models.answers.close)
        store = None
        if models.flows and path.exists():
            store = stack.enter_context(ReplyStore(path, create=False))
        context = _context_length(models)
        count = DryRun(config, models, store, context=context, reply_tokens=args.reply_tokens)
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        line = stack.enter_context(Progress("Reading problems", args.limit))
        understood = Understood(arguments.open_input(args, scratch, rejects.append))
        asyncio.run(_count(count, understood, line.advance))
    found = count.numbers() | {
        "context_length": context,
        "tokens_counted_by": models.count_tokens.name,
        "summarizer": models.summarizer.name,
        "judge": models.judges and models.judges.chat.model,
    }
    left_out = Counter(one.reason for one in rejects) + count.left_out
    if args.json:
        print_json(found | {"left_out": left_out, "input": understood.as_dict()})
        return
    print_lines(understood.lines())
    print()
    said = ", ".join(with_option(*one) for one in left_out.most_common())
    print_facts(found | {"left_out": said or "nothing"})


async def _count(count: DryRun, understood: Understood, each: Callable[[], None]) -> None:
    for problem in understood.source:
        answers = check_answers(problem, count.config, count.models)
        understood.add(problem, answers)
        await count.count(problem, answers)
        each()


def _context_length(models: Models) -> int | None:
    """What the summarizer's server says of its context; a plan can be made without it."""
    client: Any = getattr(getattr(models.summarizer, "chat", None), "chat", None)
    try:
        return client.context_length() if hasattr(client, "context_length") else None
    except ServerError as error:
        print(f"the model's context length is unknown: {error}", file=sys.stderr)
        return None
