"""`rpd compare`: compare two models or more on the same problems.

Tell what two or more models solve, and how: pass@k by both estimates, how varied their right
solutions are at an equal number, and whether they go different ways, each with an interval over
problems and corrected for everything in the table. A model is a log of an evaluation (a folder of
logs), a curated folder or a file of solutions; NAME=PATH names it. The first is compared with every
other one. In a pipe the output is Markdown for a model card.

Example: rpd compare base.eval tuned.eval --output page.html
"""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rpd_datasets.cli.arguments import add_command, add_models
from rpd_datasets.cli.output import Progress, scoring
from rpd_datasets.config import AUTO, Choices, CurationConfig
from rpd_datasets.curation.models import load_models
from rpd_datasets.curation.curated import check_models
from rpd_datasets.evaluation.comparison import (
    comparable,
    compare,
    comparison_text,
    plot,
)
from rpd_datasets.evaluation.sampled import Sampled, on_same_problems, read_sampled
from rpd_datasets.evaluation.side_by_side import write_page
from rpd_datasets.evaluation.variety import Solved, solve_together
from rpd_datasets.filters.pipeline import FilterConfig
from rpd_datasets.inputs.layouts import Columns
from rpd_datasets.inputs.source import InputSpec
from rpd_datasets.options import add_options, options_from
from rpd_metric.distance.calibration import calibration
from rpd_metric.models.chat import Sampling
from rpd_metric.models.requests import RequestOptions
from rpd_metric.steps.summarizers import asks_chat_model

NONE = "none"


def add_to(commands: Any) -> None:
    """Add `rpd compare`."""
    parser = add_command(commands, _compare, __doc__)
    add = parser.add_argument
    add("models", nargs="+", metavar="[NAME=]PATH", help="a log, a folder or a file of each model")
    add("--output", "-o", type=Path, metavar="PAGE.html", help="also write a page side by side")
    add("--plot", type=Path, metavar="FILE", help="draw pass@k and its differences")
    help = (
        "how far apart right solutions are, one of %(choices)s; none compares pass@k alone "
        f"(default: {CurationConfig().resolved().solutions}, or strategies that a chat model names "
        "where one is the --summarizer)"
    )
    add("--distance", choices=Choices(NONE), metavar="NAME", help=help)
    help = "of more right solutions of a model to a problem, so many are drawn"
    add("--max-right", type=int, default=32, metavar="N", help=help)
    add("--seed", type=int, default=0, help="for what is drawn")
    add = parser.add_argument_group("what may be compared").add_argument
    help = "compare although temperature, tokens, prompt or grader differ"
    add("--different-settings", action="store_true", help=help)
    help = "count samples and marks that are missing or failed instead of refusing them"
    add("--allow-missing", action="store_true", help=help)
    help = "only problems that all models have, instead of refusing others"
    add("--common", action="store_true", help=help)
    group = parser.add_argument_group("what is right, and how files are read")
    group.add_argument("--scorer", help="of logs, whose verdicts count (default: the log's first)")
    help = "of files, the marks of correctness (default: correct or the like, else a reference)"
    group.add_argument("--correct-column", metavar="NAME", help=help)
    add_options(group, InputSpec)
    add_options(group, Columns)
    add_models(parser)


def _compare(args: argparse.Namespace) -> None:
    choice = AUTO if args.distance in (None, NONE) else args.distance
    config = options_from(
        CurationConfig,
        args,
        ("models",),
        sampling=options_from(Sampling, args),
        requests=options_from(RequestOptions, args),
        filters=FilterConfig(
            min_solutions=1, require_complete=False, drop_duplicates=False, answers="any"
        ),
        problems=choice,
        solutions=choice,
        seed=args.seed,
    ).resolved()
    check_models(config)
    spec = options_from(InputSpec, args, columns=options_from(Columns, args))
    named = ("scorer", "allow_missing", "correct_column", "seed")
    options = {name: getattr(args, name) for name in named} | {"most": args.max_right}
    with Progress("Reading solutions", len(args.models)) as line:
        models: list[Sampled] = []
        for place in args.models:
            models += read_sampled(place, spec, **options)
            line.advance()
        models = on_same_problems(models, common=args.common)
        results = [one.results for one in models]
        settings = {"different_settings": args.different_settings}
        comparable(results, **settings)  # what is not is refused before solutions are compared
        solved = {} if args.distance == NONE else _solved(models, config, line)
        differences = compare(results, solved, distance=config.solutions, **settings)
        if args.plot:
            plot(results, differences, args.plot)
        if args.output:
            write_page(args.output, models, differences, solved)
    if args.json:
        facts = {"models": list(map(asdict, results)), "distance": config.solutions}
        print(json.dumps({**facts, "differences": list(map(asdict, differences))}))
    else:
        print(comparison_text(results, differences))


def _solved(
    models: list[Sampled], config: CurationConfig, line: Progress
) -> dict[str, list[Solved]]:
    """The right solutions of all models by benchmark, compared."""
    line.stage("Loading models")
    loaded = load_models(config)
    chat, cut = asks_chat_model(config.summarizer), config.truncate_dim
    curve = calibration(config.solutions, loaded.embedder.name, chat=chat, truncate_dim=cut)
    together: dict[str, dict[str, Any]] = {}
    for one in models:
        own = {name: one.right[name] for name in one.results.problems if name in one.right}
        together.setdefault(one.results.title, {})[one.results.name] = own
    problems = {
        (title, name) for title, by in together.items() for one in by.values() for name in one
    }
    line.stage("Comparing solutions", len(problems))
    solved = {}
    with scoring(loaded.flows, line) as done:
        for title, right in together.items():
            if len(right) > 1:
                solved[title] = asyncio.run(solve_together(right, config, loaded, curve, done))
    return solved
