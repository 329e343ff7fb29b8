"""`rpd judge`: let a chat model judge problems, or pairs of solutions.

Ask a chat model whether each problem was solved in more than one way (problems), or whether pairs
of solutions differ in method, in both orders (pairs). Rows without a column steps are summarised
first. Replies without a clear verdict are counted.

Example: rpd judge curated --judge tgi:http://localhost:8080 --task pairs
"""

import argparse
import asyncio
from typing import Any

from rpd_datasets.cli import arguments
from rpd_datasets.cli.output import Progress, print_result, scoring
from rpd_datasets.curation.models import default_store, load_flow
from rpd_datasets.judging.questions import TASKS, JudgedProblem, judge_all, judged
from rpd_datasets.options import options_from
from rpd_datasets.problem import Rejected
from rpd_metric.models.flow import Flow
from rpd_metric.models.requests import RequestOptions
from rpd_metric.models.spec import chat_spec
from rpd_metric.steps.summarizers import load_summarizer, summarizer_spec


def add_to(commands: Any) -> None:
    """Add `rpd judge`."""
    parser = arguments.add_command(
        commands, _judge, __doc__, "replies so far are kept; run the same command again to continue"
    )
    arguments.add_input(parser)
    add = parser.add_argument_group("judge").add_argument
    add("--judge", required=True, metavar="SPEC", help=arguments.JUDGE)
    add("--task", choices=tuple(TASKS), default="problems", help="problems, or pairs of solutions")
    help = "compare the verdicts with the labels in strategy_a and strategy_b, or strategies"
    add("--labels", action="store_true", help=help)
    help = "makes the steps of rows without: extractive, or a chat model"
    add("--summarizer", default="extractive", metavar="SPEC", help=help)
    help = "keeps every reply (default: $RPD_STORE, or the user's cache folder)"
    add("--store", metavar="FILE", help=help)
    arguments.add_requests(parser)


def _judge(args: argparse.Namespace) -> None:
    requests = options_from(RequestOptions, args)
    chat_spec(args.judge)
    summarizer_spec(args.summarizer)
    rejects: list[Rejected] = []
    problems = list(arguments.read_problems(args, rejects))
    # Rows that cannot be judged are found before a model is loaded.
    cases = [JudgedProblem.of(problem, labelled=args.labels) for problem in problems]
    task, summarizer = TASKS[args.task], None
    judge = task.judge(load_flow(args.judge, args.store, requests=requests))
    if any(case.steps is None for case in cases):
        store = default_store(args.store)
        summarizer = load_summarizer(args.summarizer, store=store, requests=requests)
    chats = (judge.chat, getattr(summarizer, "chat", None))
    flows = [chat for chat in chats if isinstance(chat, Flow)]
    with Progress("Asking", len(cases)) as line, scoring(flows, line) as one_more:
        verdicts = asyncio.run(judge_all(cases, task, judge, summarizer, one_more))
    facts = {
        "task": args.task,
        "judge": judge.chat.model,
        "prompt": judge.template.sha,
        "num_problems": len(problems),
        "rows_left_out": len(rejects),
        **judged(task, verdicts),
    }
    print_result(args, facts, verdicts=[verdict.as_row(task) for verdict in verdicts])
