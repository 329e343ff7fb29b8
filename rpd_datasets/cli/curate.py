"""`rpd curate`: from an input to a curated folder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rpd_datasets.cli.arguments import (
    DEFAULTS,
    add_command,
    add_filters,
    add_input,
    add_models,
    filter_config,
    model_options,
    open_input,
    reading,
)
from rpd_datasets.cli.output import print_json, print_table, scoring, shortened
from rpd_datasets.curate import CurationConfig, Scored, load_models
from rpd_datasets.problem import Problem
from rpd_datasets.select import SELECTIONS

PAPER = CurationConfig.paper("", "")
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "summarizer": None,
        "embedder": None,
        "ties": PAPER.ties,
        "selection": PAPER.selection,
        "num_problems": PAPER.num_problems,
        "num_solutions": PAPER.num_solutions,
        "min_solutions": PAPER.filters.min_solutions,
        "max_mean_tokens": PAPER.filters.max_mean_tokens,
        "require_complete": PAPER.filters.require_complete,
    }
}


def add_curate(commands: Any) -> None:
    """Add `rpd curate`."""
    parser = add_command(
        commands,
        "curate",
        _curate,
        "curate a small, diverse training set",
        "Rank problems by how differently they were solved, choose the most different solutions "
        "of the best ones, and write them as a dataset with a card. An interrupted run goes on "
        "where it stopped when it is started again.",
        "rpd curate solutions.jsonl --num-problems 100 --num-solutions 3 --output curated",
        "run the same command again to go on where it stopped",
    )
    add_input(parser)
    parser.add_argument(
        "--output", "-o", type=Path, required=True, metavar="DIR", help="the folder to make"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace an existing output folder"
    )
    parser.add_argument(
        "--show", type=int, default=10, metavar="N", help="chosen problems to print in the table"
    )
    group = parser.add_argument_group("what is chosen")
    group.add_argument(
        "--num-problems", type=int, default=DEFAULTS.num_problems, metavar="N", help="problems"
    )
    group.add_argument(
        "--num-solutions",
        type=int,
        default=DEFAULTS.num_solutions,
        metavar="N",
        help="solutions for each problem",
    )
    group.add_argument(
        "--selection",
        choices=SELECTIONS,
        default=DEFAULTS.selection,
        help="how solutions are chosen: maxmin is the paper's Algorithm 2, maxavg its text",
    )
    group.add_argument(
        "--seed", type=int, default=DEFAULTS.seed, help="for everything that is random"
    )
    group.add_argument(
        "--preset",
        choices=tuple(PRESETS),
        help="paper: its filters (14000 tokens on average, complete, 10 solutions or more), ties "
        "as in Algorithm 3, 100 problems x 3 solutions; name its models with --summarizer and "
        "--embedder. Options given beside it win",
    )
    add_filters(parser)
    add_models(parser)


def _curate(args: argparse.Namespace) -> None:
    from rpd_datasets.card import counts, dataset_card, manifest
    from rpd_datasets.folder import Report, curate_folder

    config = curation_config(args)
    models = load_models(config)
    chosen: list[dict[str, Any]] = []

    def remember(problem: Problem, scored: Scored, selected: list[int]) -> None:
        chosen.append(_chosen_row(problem, scored, selected))

    def describe(report: Report) -> dict[str, str]:
        return {
            "README.md": dataset_card(report, config, models),
            "manifest.json": manifest(report, config, models, reading(args)),
        }

    with scoring(models, args.limit) as scored_one:
        report = curate_folder(
            lambda scratch, reject: open_input(args, scratch, reject),
            args.output,
            config,
            models,
            describe=describe,
            overwrite=args.overwrite,
            on_problem=lambda _: scored_one(),
            on_chosen=remember,
        )
    if args.json:
        print_json({"output": str(args.output), "counts": counts(report), "chosen": chosen})
        return
    print_table(
        [
            {
                **row,
                "problem": shortened(row["problem"]),
                "chosen": "\n".join(map(str, row["chosen"])),
                **({"strategies": "\n".join(row["strategies"])} if "strategies" in row else {}),
            }
            for row in chosen[: args.show]
        ],
        lines=True,
    )
    if len(chosen) > args.show:
        print(f"... and {len(chosen) - args.show} more problems")
    print(
        f"\n{len(chosen)} problems and {report.num_selected} solutions, from "
        f"{len(report.scores)} problems with {counts(report)['solutions_read']} solutions."
    )
    for (stage, reason, unit), count in report.drops.most_common():
        print(f"Left out: {count} {unit}{'s' if count > 1 else ''} ({stage}: {reason})")
    if len(chosen) < config.num_problems:
        print(f"Fewer problems than the {config.num_problems} asked for had enough solutions.")
    print(f"Written to {args.output}: see README.md there, or load_dataset({str(args.output)!r})")


def _chosen_row(problem: Problem, scored: Scored, selected: list[int]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "problem": problem.problem,
        "score": scored.score,
        "chosen": selected,
    }
    labels = problem.extra.get("strategies")
    if isinstance(labels, list) and len(labels) == len(problem.solutions):
        # Labelled as the packaged sample is, so that one sees whether strategies were told apart.
        names = problem.extra.get("strategy_names") or {}
        row["strategies"] = [
            str(names.get(str(labels[index])) or labels[index]) for index in selected
        ]
        row["num_strategies"] = len({labels[index] for index in selected})
    return row


def curation_config(args: argparse.Namespace) -> CurationConfig:
    """The configuration that the options make."""
    return CurationConfig(
        **model_options(args),
        num_problems=args.num_problems,
        num_solutions=args.num_solutions,
        selection=args.selection,
        seed=args.seed,
        tokenizer=args.tokenizer,
        # Eq. 3 needs two solutions, whatever is chosen from them.
        filters=filter_config(args, args.min_solutions or max(2, args.num_solutions)),
    )
