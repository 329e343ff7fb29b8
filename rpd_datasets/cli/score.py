"""`rpd score`: the metric of every problem of a file."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from contextlib import aclosing
from pathlib import Path
from typing import Any

from rpd_datasets.cli.arguments import (
    add_command,
    add_input,
    add_models,
    curation_config,
    input_spec,
    open_input,
)
from rpd_datasets.cli.output import Progress, cell, print_json, print_scored, scoring
from rpd_datasets.curation.checks import check_input, check_models
from rpd_datasets.curation.reading import reading
from rpd_datasets.curation.scoring import Scored, load_models, score_problem
from rpd_datasets.curation.strategies import curve_of
from rpd_datasets.filters.pipeline import FilterConfig
from rpd_datasets.inputs.counting import count_problems
from rpd_datasets.inputs.source import Source
from rpd_datasets.problem import Problem
from rpd_datasets.rejects import Rejected
from rpd_metric.arrays import nan_for_none
from rpd_metric.distance.calibration import Calibration
from rpd_metric.distance.core import mean_pairwise
from rpd_metric.models.concurrency import run_bounded

MAX_PROMPTED = 3


def add_score(commands: Any) -> None:
    """Add `rpd score`."""
    parser = add_command(
        commands,
        "score",
        _score,
        "measure the diversity of a file of solutions",
        "Print the metric of every problem of a file, and the mean over all: what "
        'evaluate.load("rpd") computes.',
        "rpd score generations.jsonl --num-rows 10",
    )
    add_input(parser)
    parser.add_argument(
        "--num-rows", type=int, default=20, metavar="N", help="problems to print in the table"
    )
    add_models(parser)


def _score(args: argparse.Namespace) -> None:
    filters = FilterConfig(
        min_solutions=1, require_complete=False, drop_duplicates=False, answers="any"
    )
    config = curation_config(args, ("models",), filters)
    check_models(config)
    check_input(args.input, input_spec(args), config)
    rejects: list[Rejected] = []
    problems: list[dict[str, Any]] = []

    async def score_all(source: Source) -> None:
        async def work(problem: Problem) -> tuple[Problem, Scored]:
            return problem, await score_problem(problem, config, models)

        async with aclosing(run_bounded(source, work, max_in_flight=8)) as results:
            async for problem, scored in results:
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
                scored_one()

    with tempfile.TemporaryDirectory() as scratch, Progress("Loading models", None) as line:
        models = load_models(config)
        line.stage("Scoring problems", count_problems(args.input, input_spec(args)))
        with scoring(models, line) as scored_one:
            asyncio.run(score_all(open_input(args, Path(scratch), rejects.append)))
    measured = [row["rpd"] for row in problems if row["rpd"] is not None]
    summary = {
        "rpd": sum(measured) / len(measured) if measured else None,
        "num_problems": len(problems),
        "num_solutions": sum(row["solutions"] for row in problems),
        "num_left_out": len(rejects),
        "summarizer": models.summarizer.name,
        "embedder": models.embedder.name,
        "ties": config.ties,
    }
    curve = curve_of("rpd", config, models.embedder.name)
    if summary["rpd"] is not None:
        summary["reading"] = reading(summary["rpd"], curve)
    if args.json:
        left_out = [rejected.as_row() for rejected in rejects]
        print_json({**summary, "problems": problems, "left_out": left_out})
    else:
        _print_scores(summary, problems, rejects, curve, args.num_rows)


def _print_scores(
    summary: dict[str, Any],
    problems: list[dict[str, Any]],
    rejects: list[Rejected],
    curve: Calibration | None,
    num_rows: int,
) -> None:
    print_scored([_scored_row(row, curve) for row in problems[:num_rows]])
    if len(problems) > num_rows:
        print(f"... and {len(problems) - num_rows:,} more problems")
    for rejected in rejects[:MAX_PROMPTED]:
        print(f"Left out: {rejected.where}: {rejected.detail}")
    if len(rejects) > MAX_PROMPTED:
        print(f"... and {len(rejects) - MAX_PROMPTED} more left out; --json names all of them")
    measured = sum(row["rpd"] is not None for row in problems)
    mean = "not measurable" if summary["rpd"] is None else f"{summary['rpd']:.3f}"
    print(
        f"\nRPD {mean}, the mean over {measured} problems "
        f"(steps: {summary['summarizer']}, embeddings: {summary['embedder']})"
    )
    if "reading" in summary:
        print(summary["reading"][:1].upper() + summary["reading"][1:])


def _scored_row(
    row: dict[str, Any], curve: Calibration | None
) -> tuple[str, float | None, list[str]]:
    said = f"{row['usable']} of {row['solutions']} solutions compared"
    said += f", problem score {cell(row['problem_score'])}"
    if curve is not None and row["rpd"] is not None:
        # First, so that a narrow window does not cut it.
        said = f"{curve.phrase(row['rpd'])}; {said}"
    return row["problem"], row["rpd"], [said]
