"""`rpd compare`: compare two models or more on the same problems.

Tell what two or more models solve, and how: pass@k by both estimates, and of their right solutions
how many strategies they use and whether they use others, each with an interval over problems and
corrected for everything in the table. Where strategies are not known (no chat model sorts them, no
column names them), texts are compared, beside placebos such as long against short. A model is a log
of an evaluation (a folder of logs), a curated folder or a file of solutions; NAME=PATH names it.
The first is compared with every other one. In a pipe the output is Markdown for a model card.

Example: rpd compare base.eval tuned.eval --output page.html
"""

import argparse
import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

from rpd_datasets.cli.arguments import (
    add_command,
    add_correctness,
    add_evidence,
    add_min_strategies,
    add_models,
    curation_config,
)
from rpd_datasets.cli.output import Progress, scoring
from rpd_datasets.comparison import paired
from rpd_datasets.comparison.side_by_side import write_comparison
from rpd_datasets.config import AUTO, Choices, CurationConfig
from rpd_datasets.curation.curated import check_models
from rpd_datasets.curation.models import Models, load_models
from rpd_datasets.curation.summary import evidence_of
from rpd_datasets.evaluation.results import Results, find_logs, read_results, read_solutions
from rpd_datasets.filters.candidates import FilterConfig
from rpd_datasets.inputs.layouts import Columns
from rpd_datasets.inputs.source import InputSpec
from rpd_datasets.language import kind_of, written_in
from rpd_datasets.options import add_options, options_from
from rpd_metric.distance.distances import DISTANCES
from rpd_metric.errors import InputError
from rpd_metric.steps.summarizers import asks_chat_model

NONE = "none"


def add_to(commands: Any) -> None:
    """Add `rpd compare`."""
    parser = add_command(commands, _compare, __doc__)
    add = parser.add_argument
    add("models", nargs="+", metavar="[NAME=]PATH", help="a log, a folder or a file of each model")
    add("--output", "-o", type=Path, metavar="PAGE.html", help="also write a page side by side")
    help = (
        "how far apart right solutions are, one of %(choices)s; none compares pass@k alone "
        f"(default: {CurationConfig().solutions}, or strategies that a chat model names "
        "where one is the --summarizer)"
    )
    add("--distance", choices=Choices(NONE), metavar="NAME", help=help)
    help = "of more right solutions of a model to a problem, so many are drawn"
    add("--max-right", type=int, default=32, metavar="N", help=help)
    add_min_strategies(parser)
    add("--seed", type=int, default=0, help="for what is drawn")
    add = parser.add_argument_group("what may be compared").add_argument
    help = "compare although temperature, tokens, prompt or grader differ"
    add("--different-settings", action="store_true", help=help)
    help = "count samples and marks that are missing or failed instead of refusing them"
    add("--allow-missing", action="store_true", help=help)
    group = parser.add_argument_group("what is right, and how files are read")
    group.add_argument("--scorer", help="of logs, whose verdicts count (default: the log's first)")
    add_correctness(group)
    add_options(group, InputSpec)
    add_options(group, Columns)
    add_models(parser)
    add_evidence(parser)


def _compare(args: argparse.Namespace) -> None:
    choice = AUTO if args.distance in (None, NONE) else args.distance
    filters = FilterConfig(
        min_solutions=1,
        min_strategies=args.min_strategies,
        require_complete=False,
        drop_duplicates=False,
        answers="any",
    )
    by: dict[str, Any] = {"problems": choice, "solutions": choice, "seed": args.seed}
    config = curation_config(args, ("models",), filters=filters, **by)
    check_models(config)
    spec = options_from(InputSpec, args, columns=options_from(Columns, args))
    with Progress("Reading solutions", len(args.models)) as line:
        results: list[Results] = []
        for place in args.models:
            results += _read(place, spec, args)
            line.advance()
        # What cannot be compared is refused before solutions are looked at.
        groups = paired.by_benchmark(results, different_settings=args.different_settings)
        solved: dict[str, list[paired.Solved]] = {}
        measured_by = ""
        if args.distance != NONE:
            line.stage("Loading models")
            models = load_models(config)
            measured_by = _measured_by(config, models)
            total = sum(len(group[0].marks) for group in groups.values())
            line.stage("Comparing solutions", total)
            with scoring(models.flows, line) as scored_one:
                more: dict[str, Any] = {"most": args.max_right, "say": line.write}
                more["on_problem"] = scored_one
                for title, group in groups.items():
                    work = paired.solve_together(group, config, models, **more)
                    solved[title] = asyncio.run(work)
            problems = [problem for known in solved.values() for problem in known]
            written = Counter(written_in(text) for problem in problems for text in problem.texts)
            names = models.embedder.name, models.summarizer.name
            evidence = evidence_of(config, *names, args.evidence)
            sees = evidence.describe(config.solutions, kind_of(written))
            measured_by += f". `{config.solutions}` measures {sees}"
        differences = paired.compare(groups, solved, config.solutions)
        if args.output:
            write_comparison(args.output, groups, differences, solved, measured_by)
    if args.json:
        facts = {
            "models": [model.as_record() for group in groups.values() for model in group],
            "distance": config.solutions,
            "measured_by": measured_by,
            "differences": differences,
            "sentences": paired.sentences(differences),
        }
        print(json.dumps(facts, default=vars))
    else:
        print(paired.comparison_text(groups, differences, measured_by))


def _measured_by(config: CurationConfig, models: Models) -> str:
    """What makes the distances or strategies of a comparison, in words."""
    parts = [f"distance {config.solutions}", f"encoder {models.embedder.name}"]
    if asks_chat_model(config.summarizer) or DISTANCES[config.solutions].reads_steps:
        parts.append(f"steps by {models.summarizer.name}")
    return ", ".join(parts)


def _read(place: str, spec: InputSpec, args: argparse.Namespace) -> list[Results]:
    """The logs of a path, one each benchmark, or its file; NAME=PATH names the model."""
    name, _, rest = place.rpartition("=")
    path = Path(rest)
    if not path.exists():
        raise InputError(f"there is no {path}: name logs, curated folders or files of solutions")
    options: dict[str, Any] = {"name": name or None, "allow_missing": args.allow_missing}
    if logs := find_logs(path):
        options |= {"scorer": args.scorer, "right_score": spec.right_score}
        return [read_results(log, **options) for log in logs]
    options |= {"correct_column": args.correct_column, "answer_column": args.answer_column}
    return [read_solutions(path, spec, **options)]
