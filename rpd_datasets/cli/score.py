"""`rpd score`: measure the diversity of a file of solutions.

Print the mean distance between the solutions of every problem of a file, and the mean over all. The
default distance is that of rpd curate; --distance rpd is that of evaluate.load("rpd"). Solutions
that marks or reference answers show to be wrong are left out. If strategies are known (by a column
strategies, or a chat model sorts them), count them, too.

Example: rpd score generations.jsonl --num-rows 10
"""

import argparse
import asyncio
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from rpd_datasets.cli import arguments
from rpd_datasets.cli.output import Progress, cell, print_result, print_scored, scoring
from rpd_datasets.config import GROUPS
from rpd_datasets.curation.models import load_models
from rpd_datasets.curation.scoring import score_all, score_of, uniform
from rpd_datasets.curation.summary import RunSummary, evidence_of
from rpd_datasets.filters.answer_checks import CHECKS, in_three, mark_column, too_many_unchecked
from rpd_datasets.filters.candidates import FilterConfig
from rpd_datasets.inputs.source import Source
from rpd_datasets.language import kind_of
from rpd_datasets.problem import Rejected
from rpd_metric.distance.core import mean_pairwise
from rpd_metric.distance.distances import DISTANCES
from rpd_metric.distance.groups import ReaderTrust
from rpd_metric.distance.measured import Calibration
from rpd_metric.statistics.strategy_counts import strategy_counts
from rpd_metric.steps.summarizers import asks_chat_model


def add_to(commands: Any) -> None:
    """Add `rpd score`."""
    parser = arguments.add_command(commands, _score, __doc__)
    arguments.add_input(parser)
    add = parser.add_argument
    add("--num-rows", type=int, default=20, metavar="N", help="number of problems to print")
    arguments.add_distance(parser)
    help = "score solutions, too, that marks or reference answers show to be wrong"
    add("--all", action="store_true", help=help)
    arguments.add_min_strategies(parser)
    arguments.add_correctness(parser)
    arguments.add_models(parser)
    arguments.add_evidence(parser)


def _score(args: argparse.Namespace) -> None:
    name, column = args.distance, args.correct_column
    filters = FilterConfig(
        min_solutions=1,
        require_complete=False,
        drop_duplicates=False,
        answers="any" if args.all else "reference",
        correct_column=column,
        answer_column=args.answer_column,
        min_strategies=args.min_strategies,
    )
    config = arguments.checked_config(args, ("models",), filters)
    chat = asks_chat_model(config.summarizer)
    # A chat model sorts the solutions, too, whatever the distance.
    config = replace(config, problems=GROUPS if chat else name, solutions=name)
    run, marked_by = RunSummary(), set[str | None]()
    rejects: list[Rejected] = []
    problems: list[dict[str, Any]] = []
    aurocs: list[float | None] = []  # of `strategy` against a chat model's groups

    async def score(source: Source) -> None:
        async for problem, scored in score_all(source, config, models):
            rejects.extend(scored.rejects)
            line.expect(source.num_problems)
            scored_one()
            aurocs.append(scored.groups_auroc)
            if too_few := uniform(problem, scored, config):
                rejects.extend(too_few)
                continue
            run.add(problem, scored)
            marks = mark_column(problem.extra, column)
            known = {"marks": marks, "reference": "reference answers"}
            marked_by.add(known.get(scored.marked_by))
            groups = [group for group in scored.strategies if group is not None]
            named = Counter(scored.strategy_names[group] for group in groups)
            problems.append(
                {
                    "problem": problem.problem,
                    "solutions": len(problem.solutions),
                    "usable": len(scored.usable),
                    "mean_distance": mean_pairwise(scored.chosen_by),
                    "problem_score": score_of(scored.chosen_by),
                    **({"strategies": dict(named.most_common())} if chat else {}),
                }
            )

    with tempfile.TemporaryDirectory() as scratch, Progress("Loading models") as line:
        models = load_models(config)
        evidence = evidence_of(config, models.embedder.name, models.summarizer.name, args.evidence)
        line.stage("Scoring problems")
        with scoring(models.flows, line) as scored_one:
            asyncio.run(score(arguments.open_input(args, Path(scratch), rejects.append)))
    measured = [row["mean_distance"] for row in problems if row["mean_distance"] is not None]
    mean = sum(measured) / len(measured) if measured else None
    sorted_ones = [len(row["strategies"]) for row in problems if row.get("strategies")]
    texts = kind_of(run.written)
    curve = evidence.curve(name, texts)
    right_by = ", ".join(sorted(filter(None, marked_by))) or None
    checks = {name: run.candidates[name] for name in CHECKS}
    checked = any(checks.values())
    trust = ReaderTrust.of(aurocs)
    counts = [] if trust.refuted else strategy_counts(run.labels, run.marks)
    summary = {
        "distance": name,
        "mean_distance": mean,
        "means": None if mean is None or curve is None else curve.phrase(mean),
        "measures": evidence.describe(name, texts),
        "strategies_a_problem": sum(sorted_ones) / len(sorted_ones) if sorted_ones else None,
        **{count.figure: vars(count) if args.json else str(count) for count in counts},
        "reader": trust.in_words() if chat else None,
        "num_problems": len(problems),
        "num_solutions": sum(row["solutions"] for row in problems),
        "num_left_out": len(rejects),
        "answers": (checks if args.json else in_three([*checks.values()])) if checked else None,
        "right_by": None if args.all else right_by,
        "summarizer": models.summarizer.name if chat or DISTANCES[name].reads_steps else None,
        "embedder": models.embedder.name,
        "ties": config.ties if name == "rpd" else None,
        "warning": too_many_unchecked([*checks.values()], run.unread),
    }
    if not args.json:
        first = problems[: args.num_rows]
        print_scored(
            [(row["problem"], row["mean_distance"], _lines(row, name, curve)) for row in first]
        )
        if len(problems) > args.num_rows:
            print(f"... and {len(problems) - args.num_rows:,} more problems")
        print()
    print_result(args, summary, problems=problems, left_out=[reject.as_row() for reject in rejects])


def _lines(row: dict[str, Any], name: str, curve: Calibration | None) -> list[str]:
    distance = row["mean_distance"]
    words = "" if curve is None or distance is None else f": {curve.phrase(distance)}"
    compared = f"{row['usable']} of {row['solutions']} solutions compared"
    # In this order a narrow window does not cut the words.
    first = f"{name}{words}; {compared}, problem score {cell(row['problem_score'])}"
    strategies = row.get("strategies") or {}
    return [first, *(f"{strategy}: {n} solutions" for strategy, n in strategies.items())]
