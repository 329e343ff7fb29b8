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
from dataclasses import asdict, dataclass
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
    ProblemJudge,
    PromptedModel,
)
from rpd_datasets.judging.labels import agreement
from rpd_datasets.judging.questions import (
    JudgedProblem,
    Steps,
    given_steps,
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

MAX_IN_FLIGHT = 64
# By task: what a verdict of yes and of no is called, and which of them the share is of.
VERDICTS = {
    "problems": ("diverse", "uniform", "uniform"),
    "pairs": ("different", "same", "different"),
    "complete": ("complete", "incomplete", "complete"),
}


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
    steps_only: bool = option(
        False, "show pairs by their steps alone; the paper shows the full texts as well"
    )
    one_order: bool = option(False, "ask about pairs in the given order only, as the paper does")
    summarizer: str = option(
        DEFAULTS.summarizer,
        "who makes steps for rows without: extractive, or a chat model's spec",
        metavar="SPEC",
    )
    store: str | None = option(
        None,
        "where every reply is kept (default: $RPD_STORE, or the user's cache folder)",
        metavar="FILE",
    )
    requests: RequestOptions = option(
        factory=RequestOptions, help="how patiently a server is asked", group=None
    )


@dataclass(frozen=True)
class Judged:
    """One problem, pair or ending with the verdict on it.

    Args:
        problem ([`Problem`]): Whose it is.
        verdict ([`Judgement`]): What the judge said.
        label (`bool`, *optional*): What the labels say, or for endings the rules.
        named (`dict`): Which part of the problem it is, for the output.
    """

    problem: Problem
    verdict: Judgement[bool]
    label: bool | None
    named: dict[str, Any]


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
        "--judge", required=True, metavar="SPEC", help="tgi:URL, openai:URL#MODEL or hf:MODEL"
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
    if options.task != "complete":
        for problem in problems:  # rows that cannot be judged, before a model is loaded
            if problem.extra.get("steps") is not None:
                given_steps(problem)
            if options.labels:
                labels_of(problem)
    flow = load_flow(args.judge, options.store, requests=options.requests)
    judge, judged = _TASKS[options.task](options, problems, flow)
    result = {
        "task": options.task,
        "judge": flow.model,
        "prompt": judge.template.sha,
        "num_problems": len(problems),
        "rows_left_out": len(rejects),
        **_result(options, judged, len(problems)),
    }
    if args.json:
        print_json(result)
    else:
        _print(result)


def _rows_of(name: str) -> str:
    """The rows of a curated folder, which holds other files beside them; else the name itself."""
    folder = Path(name).expanduser()
    rows = folder / "data"
    return str(rows) if (folder / "manifest.json").exists() and rows.is_dir() else name


Asked = tuple[PromptedModel, list[Judged]]


def _problems(options: JudgeOptions, problems: Sequence[Problem], flow: Flow) -> Asked:
    judge = ProblemJudge(flow)

    async def ask(case: JudgedProblem) -> Judged:
        verdict = await judge.judge(case.problem.problem, list(case.steps.values()))
        return Judged(case.problem, verdict, case.several, {})

    cases = [case for case in _with_steps(options, problems) if len(case.steps) > 1]
    return judge, _ask_all(cases, ask, flow)


def _pairs(options: JudgeOptions, problems: Sequence[Problem], flow: Flow) -> Asked:
    judge = PairJudge(flow, both_orders=not options.one_order)

    async def ask(pair: tuple[JudgedProblem, int, int, bool | None]) -> Judged:
        case, i, j, label = pair
        texts = case.problem.solutions
        shown = (None, None) if options.steps_only else (texts[i], texts[j])
        rated = await judge.rate(case.problem.problem, (case.steps[i], case.steps[j]), shown)
        return Judged(case.problem, rated.judgement, label, {"pair": [i, j]})

    pairs = [(case, *pair) for case in _with_steps(options, problems) for pair in pairs_of(case)]
    return judge, _ask_all(pairs, ask, flow)


def _endings(_: JudgeOptions, problems: Sequence[Problem], flow: Flow) -> Asked:
    judge = CompletenessJudge(flow)
    count_tokens = token_counter(DEFAULTS.tokenizer)

    async def ask(ending: tuple[Problem, int]) -> Judged:
        problem, index = ending
        solution = problem.solutions[index]
        tail = text_tail(solution, DEFAULTS.filters.completeness_tokens, count_tokens)
        rule = is_complete(solution, tail)[0]
        named = {"solution": index, "rules": rule}
        return Judged(problem, await judge.judge(tail), rule, named)

    endings = [(problem, at) for problem in problems for at in range(len(problem.solutions))]
    return judge, _ask_all(endings, ask, flow)


_TASKS = {"problems": _problems, "pairs": _pairs, "complete": _endings}


def _with_steps(options: JudgeOptions, problems: Sequence[Problem]) -> list[JudgedProblem]:
    """The problems with their steps; those without any are summarised."""
    made: dict[str, Steps] = {}
    if bare := [problem for problem in problems if problem.extra.get("steps") is None]:
        store = Path(options.store) if options.store else default_store()
        summarizer = load_summarizer(options.summarizer, store=store, requests=options.requests)

        async def summarize(problem: Problem) -> tuple[str, Steps]:
            found = await summarizer.summarize(problem.problem, problem.solutions)
            return problem.key, {i: list(one.steps) for i, one in enumerate(found) if one.ok}

        chat = getattr(summarizer, "chat", None)
        made = dict(_ask_all(bare, summarize, chat if isinstance(chat, Flow) else None))
    return [
        JudgedProblem(
            one,
            made[one.key] if one.extra.get("steps") is None else given_steps(one),
            labels_of(one) if options.labels else None,
        )
        for one in problems
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

    flows = [] if flow is None else [flow]
    with Progress("Asking", len(items)) as line:
        try:
            with draining(*flows, notify=line.write):
                return asyncio.run(ask_all(line))
        finally:
            for one in flows:
                line.write(one.stats.summary())


def _result(options: JudgeOptions, judged: Sequence[Judged], num_problems: int) -> dict[str, Any]:
    yes, no, shared = VERDICTS[options.task]
    found = Counter(one.verdict.value for one in judged)
    counts = {yes: found[True], no: found[False], "no_verdict": found[None]}
    decided = found[True] + found[False]
    reasons = Counter(one.verdict.reason for one in judged if one.verdict.reason)
    known = [one for one in judged if one.label is not None]
    compared = agreement([bool(one.label) for one in known], [one.verdict.value for one in known])
    result: dict[str, Any] = {
        "counts": counts,
        "no_verdict": dict(reasons.most_common()),
        f"{shared}_share": counts[shared] / decided if decided else None,
    }
    if options.task == "problems":
        result["too_few_solutions"] = num_problems - len(judged)
    elif options.task == "complete":
        result["agreement_with_rules"] = compared.accuracy
    elif not options.one_order:
        result["orders_agree"] = decided
        result["orders_disagree"] = reasons["contradiction"]
        both = decided + reasons["contradiction"]
        result["order_agreement"] = decided / both if both else None
    if options.labels:
        result["agreement"] = {**asdict(compared), "disputed_labels": len(judged) - len(known)}
    result["verdicts"] = [
        {
            "problem": one.problem.problem,
            "where": one.problem.where,
            **one.named,
            yes: one.verdict.value,
            "reason": one.verdict.reason,
        }
        for one in judged
    ]
    return result


def _print(result: dict[str, Any]) -> None:
    counts, task = result["counts"], result["task"]
    yes, no, shared = VERDICTS[task]
    print_table([{task: name, "count": count} for name, count in counts.items()])
    print(
        f"\n{sum(counts.values())} judged by {result['judge']}, from {result['num_problems']} "
        "problems."
    )
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
        kappa = "not measurable" if found["kappa"] is None else f"{found['kappa']:.3f}"
        print(
            f"Accuracy {_percent(found['accuracy'])}, recall {_percent(found['recall'])}, "
            f"kappa {kappa}; {found['undecided']} without a verdict, "
            f"{found['disputed_labels']} with disputed labels."
        )
        if task == "pairs":
            print("The paper's judge: 41 / 9 / 13 / 37, accuracy 78 %, recall 82 %.")


def _percent(share: float | None) -> str:
    return "not measurable" if share is None else f"{share:.1%}"
