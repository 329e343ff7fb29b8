"""`rpd score`: measure the diversity of a file of solutions.

Print the metric of every problem of a file, and the mean over all: what evaluate.load("rpd")
computes.

Example: rpd score generations.jsonl --num-rows 10
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path
from typing import Any

from rpd_datasets.cli import arguments
from rpd_datasets.cli.output import Progress, cell, print_result, print_scored, scoring
from rpd_datasets.curation.models import load_models
from rpd_datasets.curation.scoring import score_all
from rpd_datasets.filters.answer_checks import mark_column
from rpd_datasets.filters.pipeline import FilterConfig
from rpd_datasets.inputs.source import Source, look_at_head
from rpd_datasets.rejects import Rejected
from rpd_metric.arrays import nan_for_none
from rpd_metric.distance.calibration import Calibration, calibration, reading
from rpd_metric.distance.core import mean_pairwise
from rpd_metric.steps.summarizers import asks_chat_model


def add_to(commands: Any) -> None:
    """Add `rpd score`."""
    parser = arguments.add_command(commands, _score, __doc__)
    arguments.add_input(parser)
    add = parser.add_argument
    add("--num-rows", type=int, default=20, metavar="N", help="problems to print in the table")
    add = parser.add_argument_group("which solutions count").add_argument
    help = "wrong ones, too (default: where the input has marks, only those marked as correct)"
    add("--all", action="store_true", help=help)
    add("--correct-column", metavar="NAME", help="the column with the marks")
    arguments.add_models(parser)


def _score(args: argparse.Namespace) -> None:
    column = args.correct_column
    if not args.all and column is None:
        columns, _ = look_at_head(args.input, arguments.input_spec(args))
        column = mark_column(dict.fromkeys(columns, True))
    filters = FilterConfig(
        min_solutions=1,
        require_complete=False,
        drop_duplicates=False,
        answers="any",
        only_correct=not args.all and column is not None,
        correct_column=column,
    )
    config = arguments.checked_config(args, ("models",), filters)
    rejects: list[Rejected] = []
    problems: list[dict[str, Any]] = []

    async def score(source: Source) -> None:
        async for problem, scored in score_all(source, config, models):
            rejects.extend(scored.rejects)
            problems.append(
                {
                    "problem": problem.problem,
                    "solutions": len(problem.solutions),
                    "usable": len(scored.usable),
                    "rpd": mean_pairwise(nan_for_none(scored.matrix)),
                    "problem_score": scored.score,
                }
            )
            line.expect(source.num_problems)
            scored_one()

    with tempfile.TemporaryDirectory() as scratch, Progress("Loading models") as line:
        models = load_models(config)
        line.stage("Scoring problems")
        with scoring(models.flows, line) as scored_one:
            asyncio.run(score(arguments.open_input(args, Path(scratch), rejects.append)))
    measured = [row["rpd"] for row in problems if row["rpd"] is not None]
    rpd = sum(measured) / len(measured) if measured else None
    chat = asks_chat_model(config.summarizer)
    curve = calibration("rpd", models.embedder.name, chat=chat, truncate_dim=config.truncate_dim)
    summary = {
        "rpd": rpd,
        "reading": None if rpd is None else reading(rpd, curve),
        "num_problems": len(problems),
        "num_solutions": sum(row["solutions"] for row in problems),
        "num_left_out": len(rejects),
        "correct_column": None if args.all else column,
        "summarizer": models.summarizer.name,
        "embedder": models.embedder.name,
        "ties": config.ties,
    }
    if not args.json:
        shown = problems[: args.num_rows]
        print_scored([(row["problem"], row["rpd"], [_said(row, curve)]) for row in shown])
        if len(problems) > args.num_rows:
            print(f"... and {len(problems) - args.num_rows:,} more problems")
        print()
    print_result(args, summary, problems=problems, left_out=[one.as_row() for one in rejects])


def _said(row: dict[str, Any], curve: Calibration | None) -> str:
    compared = f"{row['usable']} of {row['solutions']} solutions compared"
    said = f"{compared}, problem score {cell(row['problem_score'])}"
    if curve is None or row["rpd"] is None:
        return said
    return f"{curve.phrase(row['rpd'])}; {said}"  # in this order a narrow window does not cut it
