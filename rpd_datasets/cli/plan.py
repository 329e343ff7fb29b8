"""`rpd plan`: estimate cost without sending requests.

Read and filter the input as rpd curate does, and count the requests to a chat model, those that the
store already answers, and tokens. Only a tgi: server is asked, for its model's name, unless the
name follows a #. --evaluation plans the comparison of two models instead, --student-results the
choice of solutions by what the model to be trained solves.

Example: rpd plan solutions.jsonl --summarizer tgi:http://localhost:8080#Qwen/Qwen3-14B
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

from rpd_datasets.account import number_of
from rpd_datasets.cli import arguments
from rpd_datasets.cli.output import Progress, print_facts, print_json, print_lines
from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.dry_run import ASSUMED_REPLY_TOKENS, DryRun
from rpd_datasets.curation.engines import FEW_PROBLEMS
from rpd_datasets.curation.forecast import (
    TIMED,
    Draw,
    forecasts,
    in_words,
    processes_that_fit,
    runs_on_cores,
)
from rpd_datasets.curation.models import Models, default_store, load_models
from rpd_datasets.curation.scoring import check_answers
from rpd_datasets.evaluation.reporting import table_text
from rpd_datasets.evaluation.results import find_logs, read_results, read_solutions
from rpd_datasets.inputs.understanding import Understood
from rpd_datasets.options import add_options
from rpd_datasets.problem import Rejected
from rpd_metric.errors import InputError
from rpd_metric.models.failures import ServerError
from rpd_metric.models.store import ReplyStore
from rpd_metric.reasons import with_option
from rpd_metric.statistics.power import SPREAD, gain_deviation, power, problems_for
from rpd_metric.statistics.strategy_counts import rare_advantage

# Of a model to be trained: pass@1 under which diverse solutions slow it down, what pass@k must be
# above pass@1, and how much more often its rarer strategies are right. Set between measured starts,
# not measured themselves: 0 and 1.5 % at pass@1, where narrow sets won, and 16 to 38 %; and -39,
# -36 and +5 points, where diverse sets lost, and +36, where they gained.
KNOWS_LITTLE, LITTLE_TO_WIN, RARE_IS_BETTER = 0.1, 0.1, 0.2
MEASURED = (
    "pass@k alone does not tell. Of four such starts of SmolLM2 one gained, whose rarer "
    "strategies were right 36 points more often than its usual one; +5, -36 and -39 lost at pass@1"
)
LEAST_SAMPLES = 4


def add_to(commands: Any) -> None:
    """Add `rpd plan`."""
    parser = arguments.add_command(commands, _plan, __doc__)
    arguments.add_input(parser, optional=True)
    add = parser.add_argument
    help = (
        "how many problems and samples tell two models apart whose pass@1 differs; needs no INPUT"
    )
    add("--evaluation", nargs="?", type=float, const=4.0, metavar="POINTS", help=help)
    help = (
        "whether to expect a gain from diverse solutions, by samples of the model to be trained on "
        "your problems: a log of an evaluation, or a file of solutions with marks and the column "
        "strategies; needs no INPUT"
    )
    add("--student-results", type=Path, metavar="LOG", help=help)
    add_options(parser.add_argument_group("selection"), CurationConfig, "choice")
    tokens, help = ASSUMED_REPLY_TOKENS, "assumed tokens of a summary"
    add("--reply-tokens", type=int, default=tokens, metavar="N", help=help)
    arguments.add_filters(parser)
    arguments.add_models(parser)


def _plan(args: argparse.Namespace) -> None:
    if args.evaluation is not None:
        _plan_evaluation(args.evaluation, as_json=args.json)
        return
    if args.student_results is not None:
        _plan_diversity(args.student_results, as_json=args.json)
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
        path, store = default_store(args.store), None
        if models.flows and path.exists():
            store = stack.enter_context(ReplyStore(path, create=False))
        context = _context_length(models)
        count = DryRun(config, models, store, context=context, reply_tokens=args.reply_tokens)
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        line = stack.enter_context(Progress("Reading problems", args.limit))
        understood = Understood(arguments.open_input(args, scratch, rejects.append))
        draw = Draw()
        asyncio.run(_count(count, understood, draw, line.advance))
        seconds: dict[str, float] = {}
        # As rpd curate does by default.
        num_proc = processes_that_fit() if draw.count >= FEW_PROBLEMS else 1
        if runs_on_cores(config) and draw.problems:
            line.stage("Timing a few problems")
            seconds = forecasts(draw, config, time.perf_counter, num_proc)
    facts = count.numbers() | {
        "context_length": context,
        "tokens_counted_by": models.count_tokens.name,
        "summarizer": models.summarizer.name,
        "judge": models.judges and models.judges.chat.model,
    }
    left_out = Counter(reject.reason for reject in rejects) + count.left_out
    if args.json:
        about = {"left_out": left_out, "input": understood.as_dict()}
        print_json(facts | about | {"num_proc": num_proc, "seconds": seconds})
        return
    print_lines(understood.lines())
    print()
    reasons = ", ".join(with_option(*entry) for entry in left_out.most_common())
    print_facts(facts | {"left_out": reasons or "nothing"})
    for embedder, value in seconds.items():
        print(
            f"Time to score with {embedder} and --num-proc {num_proc}: {in_words(value)}, by "
            f"{number_of(min(TIMED, draw.count), 'problem')} timed on this machine"
        )


def _plan_evaluation(points: float, *, as_json: bool) -> None:
    """Print the power of comparing two models, and how many problems it takes."""
    if not 0 < points < 50:
        raise InputError(
            f"{{evaluation}} takes 0 to 50 points, got {points:g}", option="evaluation"
        )
    gain, chance = points / 100, 0.8
    rows = [
        {
            "problems": problems,
            "samples": samples,
            "power_same_gain": power(problems, samples, gain, spread=0),
            "power_varying_gain": power(problems, samples, gain),
        }
        for problems, samples in product((30, 134, 500), (4, 16, 64))
    ]
    needed = {
        samples: [problems_for(chance, samples, gain, spread) for spread in (0, SPREAD)]
        for samples in (4, 16, 64)
    }
    deviation = 100 * gain_deviation(gain)
    if as_json:
        print_json({"points": points, "gain_deviation": deviation, "power": rows, "needed": needed})
        return
    head = ["problems", "samples", "same gain everywhere", f"gains vary by {deviation:.0f} points"]
    cells = [[f"{v:.0%}" if isinstance(v, float) else f"{v}" for v in row.values()] for row in rows]
    print(f"Chance to tell {points:+g} points of pass@1 apart, on the same problems:\n")
    print(table_text(head, cells))
    print(f"\nProblems for a chance of {chance:.0%}:\n")
    counts = [[f"{samples}", *map(str, both)] for samples, both in needed.items()]
    print(table_text(["samples", *head[2:]], counts))
    print(
        "\nAfter training, gains vary between problems: samples do not replace problems then.\n"
        "Simulated; what this assumes is in docs/statistics.md."
    )


def _plan_diversity(log: Path, *, as_json: bool) -> None:
    """Print what docs/loop-real.md says of a model that solves so much."""
    results = read_results(log) if find_logs(log) else read_solutions(log)
    if results.samples < LEAST_SAMPLES:
        raise InputError(
            f"{log} has {results.samples} samples of a problem, too few to tell what more samples "
            f"solve; draw {LEAST_SAMPLES} or more"
        )
    figures = results.figures["pass_at_k"]
    k = max(figures)
    first, last = figures[1].value, figures[k].value
    marked = [[mark for mark, _ in results.marks[name]] for name in results.strategies]
    rare = rare_advantage(list(results.strategies.values()), marked)
    if first < KNOWS_LITTLE:
        expect, advice = "no gain", "it must learn one way first: choose one solution of a problem"
    elif last - first < LITTLE_TO_WIN:
        expect, advice = "no gain", f"its samples solve the same problems: pass@{k} has little room"
    elif rare is None:
        expect, advice = "unclear", f"{MEASURED}. A file with the column strategies tells"
    elif rare.low > 0 and rare.value > RARE_IS_BETTER:
        expect, advice = "a gain at pass@16", "its rarer strategies are right more often"
    elif rare.high < RARE_IS_BETTER:
        expect, advice = "no gain", "its rarer strategies are not clearly better"
    else:
        expect, advice = "unclear", MEASURED
    if as_json:
        facts = {"pass@1": first, f"pass@{k}": last, "rare_advantage": rare and rare.value}
        print_json(facts | {"expect": expect, "advice": advice})
        return
    print(f"The model solves {first:.1%} at pass@1 and {last:.1%} at pass@{k}, of")
    problems = number_of(len(results.marks), "problem")
    print(f"{problems}. From diverse solutions, expect: {expect}.")
    if rare is not None:
        print(f"Right more often by a problem's rarer strategies than by its usual one: {rare}.")
    print(f"Why: {advice}.\nWhat this rests on: docs/loop.md and docs/loop-real.md.")


async def _count(
    count: DryRun, understood: Understood, draw: Draw, each: Callable[[], None]
) -> None:
    for problem in understood.source:
        draw.add(problem)
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
