"""`rpd judge`: what a chat model says about problems, pairs and endings, and how often it says it.

Problems with steps are judged by these; others are summarised first. With labels, verdicts are
compared with them (App. D.1: 41/9/13/37, 78 %).
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from rpd_datasets.cli.arguments import (
    DEFAULTS,
    add_command,
    add_input,
    add_requests,
    open_input,
    request_options,
)
from rpd_datasets.cli.output import Progress, print_json, print_table
from rpd_datasets.curation.models import default_store, load_flow
from rpd_datasets.filters.completeness import is_complete
from rpd_datasets.judging.judges import (
    CompletenessJudge,
    Judgement,
    PairJudge,
    PairJudgement,
    ProblemJudge,
)
from rpd_datasets.judging.labels import judge_agreement
from rpd_datasets.judging.questions import (
    JudgedPair,
    JudgedProblem,
    draw_pairs,
    given_steps,
    labelled_diverse,
    labels_of,
    pairs_of,
)
from rpd_datasets.options import add_options, documented, option, options_from
from rpd_datasets.problem import Problem
from rpd_datasets.rejects import Rejected
from rpd_datasets.tokens import text_tail, token_counter
from rpd_metric.errors import InputError
from rpd_metric.models.concurrency import run_bounded
from rpd_metric.models.flow import Flow, draining
from rpd_metric.models.kinds import chat_spec
from rpd_metric.models.requests import RequestOptions
from rpd_metric.steps.summarizers import load_summarizer, summarizer_spec

Item = TypeVar("Item")
Result = TypeVar("Result")

PAPER_UNIFORM = 0.58
MAX_IN_FLIGHT = 64


@documented
@dataclass(frozen=True)
class JudgeOptions:
    """What a chat model is asked to judge, and what it is shown."""

    task: Literal["problems", "pairs", "complete"] = option(
        "problems",
        "problems: one method or several; pairs: those chosen from each problem, or all if "
        "nothing was chosen; complete: every solution's end",
    )
    labels: bool = option(
        False,
        "compare the verdicts with the labels in strategy_a and strategy_b, or strategies; "
        "pairs are then those that all labels agree on",
    )
    num_pairs: int | None = option(
        None,
        "judge only so many pairs, drawn at random; with --labels, half of them differing "
        "(the paper: 100)",
        metavar="N",
    )
    seed: int = option(0, "of that draw")
    steps_only: bool = option(
        False, "show pairs by their steps alone; the paper shows the full texts as well"
    )
    one_order: bool = option(False, "ask about pairs in the given order only, as the paper does")
    summarizer: str = option(
        DEFAULTS.summarizer,
        "who makes steps for rows without: extractive, or a chat model's spec",
        metavar="SPEC",
    )
    tokenizer: str = option(
        DEFAULTS.tokenizer, "for complete: who counts the tokens of an ending", metavar="ID"
    )
    completeness_tokens: int = option(
        DEFAULTS.filters.completeness_tokens,
        "for complete: how much of a solution's end is shown",
        metavar="N",
    )
    store: str | None = option(
        None,
        "where every reply is kept (default: $RPD_STORE, or the user's cache folder)",
        metavar="FILE",
    )
    requests: RequestOptions = option(
        factory=RequestOptions, help="how patiently a server is asked", group=None
    )


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
    group = parser.add_argument_group("who judges, and what")
    group.add_argument(
        "--judge",
        required=True,
        metavar="SPEC",
        help="tgi:URL, openai:URL#MODEL, hf:MODEL or auto:URL",
    )
    add_options(group, JudgeOptions)
    add_requests(parser)


def _judge(args: argparse.Namespace) -> None:
    options = options_from(JudgeOptions, args, requests=request_options(args))
    if options.labels and options.task == "complete":
        raise InputError("labels say nothing about completeness; leave out --labels")
    chat_spec(args.judge)
    summarizer_spec(options.summarizer)
    rejects: list[Rejected] = []
    args.input = _rows_of(args.input)
    with tempfile.TemporaryDirectory() as scratch:
        problems = list(open_input(args, Path(scratch), rejects.append))
    _check_rows(options, problems)
    flow = load_flow(args.judge, options.store, requests=options.requests)
    result = {
        "task": options.task,
        "judge": flow.model,
        "num_problems": len(problems),
        "rows_left_out": len(rejects),
        **_TASKS[options.task](options, problems, flow),
    }
    if args.json:
        print_json(result)
    else:
        _print(result)


def _check_rows(options: JudgeOptions, problems: Sequence[Problem]) -> None:
    """Find rows that cannot be judged before a model is loaded. Raises [`InputError`]."""
    for problem in problems if options.task != "complete" else ():
        if problem.extra.get("steps") is not None:
            given_steps(problem)
        if options.labels:
            labels_of(problem)


def _rows_of(name: str) -> str:
    """The rows of a curated folder, which holds other files beside them; else the name itself."""
    folder = Path(name).expanduser()
    rows = folder / "data"
    return str(rows) if (folder / "manifest.json").exists() and rows.is_dir() else name


def _problems(options: JudgeOptions, problems: Sequence[Problem], flow: Flow) -> dict[str, Any]:
    judge = ProblemJudge(flow)
    cases = [case for case in _with_steps(options, problems) if len(case.steps) > 1]

    async def ask(case: JudgedProblem) -> Judgement[bool]:
        return await judge.judge(case.problem.problem, list(case.steps.values()))

    verdicts = _ask_all(cases, ask, flow)
    counts = _counts(verdicts, "diverse", "uniform")
    result = {
        "prompt": judge.template.sha,
        "counts": counts,
        "no_verdict": _reasons(verdicts),
        "too_few_solutions": len(problems) - len(cases),
        "uniform_share": _share(counts["uniform"], counts["diverse"]),
        "verdicts": [
            {**_named(case.problem), "diverse": verdict.value, "reason": verdict.reason}
            for case, verdict in zip(cases, verdicts, strict=True)
        ],
    }
    if options.labels:
        result |= _agreement([labelled_diverse(case) for case in cases], verdicts)
    return result


def _pairs(options: JudgeOptions, problems: Sequence[Problem], flow: Flow) -> dict[str, Any]:
    judge = PairJudge(flow, both_orders=not options.one_order)
    pairs = [pair for case in _with_steps(options, problems) for pair in pairs_of(case)]
    if options.num_pairs is not None:
        pairs = draw_pairs(pairs, options.num_pairs, options.seed)

    async def ask(pair: JudgedPair) -> PairJudgement:
        texts = pair.case.problem.solutions
        return await judge.rate(
            pair.case.problem.problem,
            (pair.case.steps[pair.first], pair.case.steps[pair.second]),
            (None, None) if options.steps_only else (texts[pair.first], texts[pair.second]),
        )

    ratings = _ask_all(pairs, ask, flow)
    verdicts = [rating.judgement for rating in ratings]
    disagreed = sum(rating.contradiction for rating in ratings)
    agreed = sum(
        rating.backward is not None and rating.judgement.value is not None for rating in ratings
    )
    counts = _counts(verdicts, "different", "same")
    result = {
        "prompt": judge.template.sha,
        "counts": counts,
        "no_verdict": _reasons(verdicts),
        "different_share": _share(counts["different"], counts["same"]),
        "orders_agree": agreed,
        "orders_disagree": disagreed,
        "order_agreement": _share(agreed, disagreed),
        "verdicts": [
            {
                **_named(pair.case.problem),
                "pair": [pair.first, pair.second],
                "different": verdict.value,
                "reason": verdict.reason,
            }
            for pair, verdict in zip(pairs, verdicts, strict=True)
        ],
    }
    if options.labels:
        result |= _agreement([pair.different for pair in pairs], verdicts)
    return result


def _complete(options: JudgeOptions, problems: Sequence[Problem], flow: Flow) -> dict[str, Any]:
    judge = CompletenessJudge(flow)
    count_tokens = token_counter(options.tokenizer)
    endings = [
        (problem, index, text_tail(solution, options.completeness_tokens, count_tokens))
        for problem in problems
        for index, solution in enumerate(problem.solutions)
    ]

    async def ask(ending: tuple[Problem, int, str]) -> Judgement[bool]:
        return await judge.judge(ending[2])

    verdicts = _ask_all(endings, ask, flow)
    rules = [is_complete(problem.solutions[index], tail)[0] for problem, index, tail in endings]
    same = sum(
        verdict.value == rule
        for verdict, rule in zip(verdicts, rules, strict=True)
        if verdict.value is not None
    )
    counts = _counts(verdicts, "complete", "incomplete")
    return {
        "prompt": judge.template.sha,
        "counts": counts,
        "no_verdict": _reasons(verdicts),
        "complete_share": _share(counts["complete"], counts["incomplete"]),
        "agreement_with_rules": _share(same, counts["complete"] + counts["incomplete"] - same),
        "verdicts": [
            {
                **_named(problem),
                "solution": index,
                "complete": verdict.value,
                "rules": rule,
                "reason": verdict.reason,
            }
            for (problem, index, _), verdict, rule in zip(endings, verdicts, rules, strict=True)
        ],
    }


_TASKS: dict[str, Callable[[JudgeOptions, Sequence[Problem], Flow], dict[str, Any]]] = {
    "problems": _problems,
    "pairs": _pairs,
    "complete": _complete,
}


def _with_steps(options: JudgeOptions, problems: Sequence[Problem]) -> list[JudgedProblem]:
    bare = [problem for problem in problems if problem.extra.get("steps") is None]
    made: dict[str, dict[int, list[str]]] = {}
    if bare:
        store = Path(options.store) if options.store else default_store()
        summarizer = load_summarizer(options.summarizer, store=store, requests=options.requests)

        async def summarize(problem: Problem) -> tuple[str, dict[int, list[str]]]:
            found = await summarizer.summarize(problem.problem, problem.solutions)
            return problem.key, {i: list(one.steps) for i, one in enumerate(found) if one.ok}

        chat = getattr(summarizer, "chat", None)
        made = dict(_ask_all(bare, summarize, chat if isinstance(chat, Flow) else None))
    return [
        JudgedProblem(
            problem,
            made[problem.key] if problem.extra.get("steps") is None else given_steps(problem),
            labels_of(problem) if options.labels else None,
        )
        for problem in problems
    ]


def _ask_all(
    items: Sequence[Item], ask: Callable[[Item], Awaitable[Result]], flow: Flow | None
) -> list[Result]:
    """Ask about everything at once, with a progress bar and a careful end on Ctrl-C."""

    async def ask_all(line: Progress) -> list[Result]:
        answers = []
        async with aclosing(run_bounded(items, ask, max_in_flight=MAX_IN_FLIGHT)) as results:
            async for answer in results:
                answers.append(answer)
                line.advance()
        return answers

    with Progress("Asking", len(items)) as line:
        flows = [] if flow is None else [flow]
        try:
            with draining(*flows, notify=line.write):
                return asyncio.run(ask_all(line))
        finally:
            for one in flows:
                line.write(one.stats.summary())


def _named(problem: Problem) -> dict[str, str]:
    return {"problem": problem.problem, "where": problem.where}


def _counts(verdicts: Sequence[Judgement[bool]], yes: str, no: str) -> dict[str, int]:
    found = Counter(verdict.value for verdict in verdicts)
    return {yes: found[True], no: found[False], "no_verdict": found[None]}


def _reasons(verdicts: Sequence[Judgement[bool]]) -> dict[str, int]:
    return dict(Counter(verdict.reason for verdict in verdicts if verdict.reason).most_common())


def _share(part: int, rest: int) -> float | None:
    return part / (part + rest) if part + rest else None


def _agreement(
    labels: Sequence[bool | None], verdicts: Sequence[Judgement[bool]]
) -> dict[str, dict[str, Any]]:
    """The verdicts beside the labels, where these do not contradict each other."""
    known = [
        (label, verdict.value)
        for label, verdict in zip(labels, verdicts, strict=True)
        if label is not None
    ]
    found = judge_agreement([label for label, _ in known], [value for _, value in known])
    return {"agreement": {**found.as_json(), "disputed_labels": len(labels) - len(known)}}


def _print(result: dict[str, Any]) -> None:
    counts = result["counts"]
    total = sum(counts.values())
    print_table([{result["task"]: name, "count": count} for name, count in counts.items()])
    print(f"\n{total} judged by {result['judge']}, from {result['num_problems']} problems.")
    for reason, count in result["no_verdict"].items():
        print(f"No verdict: {count} ({reason})")
    if result["task"] == "problems":
        print(
            f"Uniform: {_percent(result['uniform_share'])} of those with a verdict "
            f"(the paper's problems: {PAPER_UNIFORM:.0%})"
        )
    elif result["task"] == "pairs":
        print(f"Different: {_percent(result['different_share'])} of those with a verdict")
        if result["order_agreement"] is not None:
            print(
                f"Both orders agree: {_percent(result['order_agreement'])} "
                f"({result['orders_disagree']} disagree and are no verdict)"
            )
    else:
        print(f"Complete: {_percent(result['complete_share'])} of those with a verdict")
        print(f"The rules agree: {_percent(result['agreement_with_rules'])}")
    if found := result.get("agreement"):
        print("\nAgainst the labels (rows: labels, columns: the judge)")
        positive, negative = list(counts)[:2]
        print_table(
            [
                {"": positive, positive: found["true_different"], negative: found["missed"]},
                {"": negative, positive: found["false_different"], negative: found["true_same"]},
            ]
        )
        kappa = "not measurable" if found["kappa"] is None else f"{found['kappa']:.3f}"
        print(
            f"Accuracy {_percent(found['accuracy'])}, recall {_percent(found['recall'])}, "
            f"kappa {kappa}; {found['undecided']} without a verdict, "
            f"{found['disputed_labels']} with disputed labels."
        )
        if result["task"] == "pairs":
            print("The paper's judge: 41 / 9 / 13 / 37, accuracy 78 %, recall 82 %.")


def _percent(share: float | None) -> str:
    return "not measurable" if share is None else f"{share:.1%}"
