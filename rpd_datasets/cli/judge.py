"""`rpd judge`: what a chat model says about problems, pairs and endings, and how often it says it.

Problems with steps are judged by these; others are summarised first. With labels, verdicts are
compared with them (App. D.1: 41/9/13/37, 78 %).
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rpd_datasets.cli.arguments import (
    DEFAULTS,
    add_command,
    add_input,
    add_requests,
    read_problems,
    request_options,
)
from rpd_datasets.cli.output import Progress, print_json, print_table, scoring
from rpd_datasets.curation.models import default_store, load_flow
from rpd_datasets.filters.completeness import is_complete
from rpd_datasets.judging.judges import (
    CompletenessJudge,
    Judgement,
    PairJudge,
    ProblemJudge,
)
from rpd_datasets.judging.labels import agreement
from rpd_datasets.judging.questions import JudgedProblem
from rpd_datasets.problem import Problem
from rpd_datasets.rejects import Rejected
from rpd_datasets.tokens import text_tail, token_counter
from rpd_metric.errors import InputError
from rpd_metric.models.concurrency import run_bounded
from rpd_metric.models.flow import Flow
from rpd_metric.models.kinds import chat_spec
from rpd_metric.reasons import Reason
from rpd_metric.steps.protocol import Summarizer
from rpd_metric.steps.summarizers import load_summarizer, summarizer_spec

MAX_IN_FLIGHT = 64
# By task: what a verdict of yes and of no is called, and which of them the share is of.
VERDICTS = {
    "problems": ("diverse", "uniform", "uniform"),
    "pairs": ("different", "same", "different"),
    "complete": ("complete", "incomplete", "complete"),
}


# What is asked about a problem: the request, what labels or rules say, and which part it is about.
Question = tuple[Awaitable[Judgement[bool]], bool | None, dict[str, Any]]
Judge = CompletenessJudge | ProblemJudge | PairJudge
JUDGES: dict[str, type[Judge]] = {
    "problems": ProblemJudge,
    "pairs": PairJudge,
    "complete": CompletenessJudge,
}
# A problem, and its questions with what was said in place of the request.
Answer = tuple[Problem, Judgement[bool], bool | None, dict[str, Any]]


def add_judge(commands: Any) -> None:
    """Add `rpd judge`."""
    parser = add_command(
        commands,
        "judge",
        _judge,
        "let a chat model judge problems, pairs of solutions, or endings",
        "Ask a chat model whether each problem was solved in more than one way (problems), "
        "whether pairs of solutions differ in method, in both orders (pairs), or whether solutions "
        "were finished (complete). Rows with a column steps are judged by it, others are "
        "summarised first. Replies that hold no clear verdict are counted, never guessed.",
        "rpd judge curated --judge tgi:http://localhost:8080 --task pairs",
        "replies so far are kept; run the same command again to go on",
    )
    add_input(parser)
    add = parser.add_argument_group("who judges, and what").add_argument
    help = "tgi:URL, openai:URL#MODEL or hf:MODEL"
    add("--judge", required=True, metavar="SPEC", help=help)
    help = "pairs: those chosen from each problem, or all; complete: every solution's end"
    add("--task", choices=tuple(VERDICTS), default="problems", help=help)
    help = (
        "compare the verdicts with the labels in strategy_a and strategy_b, or strategies; pairs "
        "are then those that all labels agree on"
    )
    add("--labels", action="store_true", help=help)
    help = "show pairs by their steps alone; the paper shows the full texts as well"
    add("--steps-only", action="store_true", help=help)
    help = "ask about pairs in the given order only, as the paper does"
    add("--one-order", action="store_true", help=help)
    help = "who makes steps for rows without: extractive, or a chat model's spec"
    add("--summarizer", default=DEFAULTS.summarizer, metavar="SPEC", help=help)
    help = "where every reply is kept (default: $RPD_STORE, or the user's cache folder)"
    add("--store", metavar="FILE", help=help)
    add_requests(parser)


def _judge(args: argparse.Namespace) -> None:
    endings = args.task == "complete"
    if args.labels and endings:
        raise InputError("labels say nothing about completeness; leave out --labels")
    chat_spec(args.judge)
    summarizer_spec(args.summarizer)
    folder = Path(args.input).expanduser()
    if (folder / "manifest.json").exists() and (folder / "data").is_dir():
        args.input = str(folder / "data")  # a curated folder holds other files beside its rows
    rejects: list[Rejected] = []
    problems = list(read_problems(args, rejects))
    # Rows that cannot be judged are found before a model is loaded.
    cases = [JudgedProblem.of(one, labelled=args.labels, steps=not endings) for one in problems]
    requests = request_options(args)
    flow = load_flow(args.judge, args.store, requests=requests)
    judge = JUDGES[args.task](flow)
    summarizer = None
    if any(case.steps is None for case in cases):
        store = Path(args.store) if args.store else default_store()
        summarizer = load_summarizer(args.summarizer, store=store, requests=requests)
    answers = _ask_all(args, cases, judge, summarizer)
    result = {
        "task": args.task,
        "judge": flow.model,
        "prompt": judge.template.sha,
        "num_problems": len(problems),
        "rows_left_out": len(rejects),
        **_result(args, answers, len(problems)),
    }
    if args.json:
        print_json(result)
    else:
        _print(result)


def _ask_all(
    args: argparse.Namespace,
    cases: Sequence[JudgedProblem],
    judge: Judge,
    summarizer: Summarizer | None,
) -> list[Answer]:
    """Ask everything at once, with a progress bar and a careful end on Ctrl-C."""

    async def ask(case: JudgedProblem) -> list[Answer]:
        text, solutions = case.problem.problem, case.problem.solutions
        if case.steps is None and summarizer is not None:
            found = await summarizer.summarize(text, solutions)
            case.steps = {i: list(one.steps) for i, one in enumerate(found) if one.ok}
        questions = list(_questions(args, judge, case))
        said = await asyncio.gather(*(request for request, _, _ in questions))
        asked = zip(said, questions, strict=True)
        return [(case.problem, verdict, label, named) for verdict, (_, label, named) in asked]

    async def ask_all() -> list[Answer]:
        answers = []
        async with aclosing(run_bounded(cases, ask, max_in_flight=MAX_IN_FLIGHT)) as results:
            async for found in results:
                answers += found
                one_more()
        return answers

    chats = (judge.chat, getattr(summarizer, "chat", None))
    flows = [chat for chat in chats if isinstance(chat, Flow)]
    with Progress("Asking", len(cases)) as line, scoring(flows, line) as one_more:
        return asyncio.run(ask_all())


def _questions(args: argparse.Namespace, judge: Judge, case: JudgedProblem) -> Iterator[Question]:
    problem, solutions, steps = case.problem.problem, case.problem.solutions, case.steps or {}
    if isinstance(judge, CompletenessJudge):
        count_tokens = token_counter(DEFAULTS.tokenizer)
        for index, solution in enumerate(solutions):
            tail = text_tail(solution, DEFAULTS.filters.completeness_tokens, count_tokens)
            rule = is_complete(solution, tail)[0]
            yield judge.judge(tail), rule, {"solution": index, "rules": rule}
    elif isinstance(judge, ProblemJudge):
        if len(steps) > 1:
            yield judge.judge(problem, list(steps.values())), case.several, {}
    else:
        for i, j, label in case.pairs():
            texts = (None, None) if args.steps_only else (solutions[i], solutions[j])
            asked = judge.rate(problem, (steps[i], steps[j]), texts, both_orders=not args.one_order)
            yield asked, label, {"pair": [i, j]}


def _result(
    args: argparse.Namespace, answers: Sequence[Answer], num_problems: int
) -> dict[str, Any]:
    yes, no, shared = VERDICTS[args.task]
    found = Counter(said.value for _, said, _, _ in answers)
    counts = {yes: found[True], no: found[False], "no_verdict": found[None]}
    decided = found[True] + found[False]
    reasons = Counter(said.reason for _, said, _, _ in answers if said.reason)
    known = [(label, said.value) for _, said, label, _ in answers if label is not None]
    compared = agreement([label for label, _ in known], [value for _, value in known])
    result: dict[str, Any] = {
        "counts": counts,
        "no_verdict": dict(reasons.most_common()),
        f"{shared}_share": counts[shared] / decided if decided else None,
    }
    if args.task == "problems":
        result["too_few_solutions"] = num_problems - len(answers)
    elif args.task == "complete":
        result["agreement_with_rules"] = compared.accuracy
    elif not args.one_order:
        both = decided + reasons[Reason.CONTRADICTION]
        result["orders_agree"] = decided
        result["orders_disagree"] = reasons[Reason.CONTRADICTION]
        result["order_agreement"] = decided / both if both else None
    if args.labels:
        result["agreement"] = {**asdict(compared), "disputed_labels": len(answers) - len(known)}
    result["verdicts"] = [
        {"problem": problem.problem, "where": problem.where, **named, yes: said.value}
        | {"reason": said.reason}
        for problem, said, _, named in answers
    ]
    return result


def _print(result: dict[str, Any]) -> None:
    counts, task = result["counts"], result["task"]
    yes, no, shared = VERDICTS[task]
    print_table([{task: name, "count": count} for name, count in counts.items()])
    judged, problems = sum(counts.values()), result["num_problems"]
    print(f"\n{judged} judged by {result['judge']}, from {problems} problems.")
    for reason, count in result["no_verdict"].items():
        print(f"No verdict: {count} ({reason})")
    paper = " (the paper's problems: 58%)" if task == "problems" else ""
    share = _percent(result[f"{shared}_share"])
    print(f"{shared.capitalize()}: {share} of those with a verdict{paper}")
    for key, name in (("order_agreement", "Both orders"), ("agreement_with_rules", "The rules")):
        if result.get(key) is not None:
            print(f"{name} agree: {_percent(result[key])}")
    if found := result.get("agreement"):
        print("\nAgainst the labels (rows: labels, columns: the judge)")
        differ = {"": yes, yes: found["true_different"], no: found["missed"]}
        print_table([differ, {"": no, yes: found["false_different"], no: found["true_same"]}])
        print(
            f"Accuracy {_percent(found['accuracy'])}, recall {_percent(found['recall'])}; "
            f"{found['undecided']} without a verdict, {found['disputed_labels']} with disputed "
            "labels."
        )


def _percent(share: float | None) -> str:
    return "not measurable" if share is None else f"{share:.1%}"
