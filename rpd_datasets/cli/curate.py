"""`rpd curate`: from an input to a curated folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rpd_datasets import presets
from rpd_datasets.cli.arguments import (
    add_command,
    add_engine,
    add_filters,
    add_input,
    add_models,
    curation_config,
    filter_config,
    input_spec,
    only_values,
)
from rpd_datasets.cli.output import Progress, print_json, print_lines, print_scored, scoring
from rpd_datasets.cli.push import print_pushed, quiet_upload
from rpd_datasets.curation.checks import check_input, check_models
from rpd_datasets.curation.engines import EngineOptions
from rpd_datasets.curation.outcome import outcome, outcome_lines
from rpd_datasets.curation.run_options import RunOptions
from rpd_datasets.curation.run_summary import counts
from rpd_datasets.curation.scoring import CurationConfig, Models, Scored, load_models
from rpd_datasets.curation.strategies import counting_distance, curve_of
from rpd_datasets.curation.working_folder import check_output
from rpd_datasets.evaluation.benchmarks import BENCHMARKS
from rpd_datasets.evaluation.decontamination import load_contamination
from rpd_datasets.inputs.counting import count_problems
from rpd_datasets.inputs.spec import InputSpec
from rpd_datasets.options import add_options, options_from
from rpd_datasets.presets import PAPER
from rpd_datasets.problem import Problem, strategy_labels
from rpd_datasets.curation.curated import Curated, curate_dataset
from rpd_datasets.publish.hub import check_access
from rpd_metric.errors import InputError

# What each preset sets; `None` is for the user to name.
PRESETS: dict[str, dict[str, Any]] = {
    name: {
        "ties": PAPER.ties,
        "selection": PAPER.selection,
        "problems": preset.problems,
        "solutions": preset.solutions,
        "num_problems": preset.num_problems,
        "num_solutions": preset.num_solutions,
        "min_solutions": preset.filters.min_solutions,
        "max_mean_tokens": preset.filters.max_mean_tokens,
        "require_complete": preset.filters.require_complete,
        "drop_duplicates": preset.filters.drop_duplicates,
        "answers": preset.filters.answers,
        **({"summarizer": None, "embedder": None} if preset.names_models else {}),
        **({"mix": None} if preset.mixed else {}),
    }
    for name, preset in presets.PRESETS.items()
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
    add_options(parser, RunOptions)
    parser.add_argument(
        "--show", type=int, default=10, metavar="N", help="chosen problems to print in the table"
    )
    parser.add_argument(
        "--push-to-hub",
        metavar="REPO",
        help="publish the folder as this dataset, private unless --public (rpd push does it later)",
    )
    parser.add_argument("--public", action="store_true", help="let everybody read what is pushed")
    parser.add_argument("--message", metavar="TEXT", help="the commit message on the Hub")
    group = parser.add_argument_group("what is chosen")
    add_options(group, CurationConfig, "choice")
    group.add_argument(
        "--mix",
        action="append",
        metavar="INPUT[:N]",
        help="choose so many problems from a further input as well (default: --num-problems); it "
        "is ranked by itself and read with the same options. May be repeated",
    )
    group.add_argument(
        "--mix-only",
        action="append",
        default=[],
        metavar="COLUMN=VALUE",
        help="takes the place of --only where mixed-in inputs are read",
    )
    group.add_argument(
        "--preset",
        choices=tuple(PRESETS),
        help="the training set of a row of the paper's tables: its choices and numbers, its "
        "filters (14000 tokens on average, complete, 10 solutions or more) and ties as in "
        "Algorithm 3. paper also wants its models named with --summarizer and --embedder. Options "
        "given beside it win",
    )
    add_filters(parser)
    parser.add_argument(
        "--decontaminate",
        nargs="+",
        default=None,
        metavar="NAME",
        help="leave out problems that stand in these benchmarks, with the match: "
        f"{', '.join(name for name, one in BENCHMARKS.items() if one.hub)}, files of problems, or "
        "known for all of those that can be had here",
    )
    add_models(parser)
    add_engine(parser)


def _curate(args: argparse.Namespace) -> None:
    filters = filter_config(args, args.num_solutions)
    config = curation_config(args, ("models", "choice", "tokens"), filters)
    mixed = _mixed_in(args, config.num_problems)
    _check(args, config, mixed)
    if args.push_to_hub:
        # Checked now rather than after hours of work.
        check_access(args.push_to_hub, repo_type="dataset", private=not args.public)
    chosen: list[dict[str, Any]] = []
    curated, models = _curate_with_progress(args, config, mixed, chosen)
    summary = curated.summary
    assert summary is not None, "a folder that was just made has one"
    pushed = None
    if args.push_to_hub:
        again = f"rpd push {args.output} {args.push_to_hub}{' --public' * args.public}"
        print(f"{args.output} is complete; should publishing break: {again}", file=sys.stderr)
        with quiet_upload():
            pushed = curated.push_to_hub(
                args.push_to_hub, private=not args.public, commit_message=args.message
            )
    if args.json:
        result = {"output": str(args.output), "counts": counts(summary), "chosen": chosen}
        print_json(result | ({"pushed": asdict(pushed)} if pushed else {}))
        return
    _print_chosen(chosen, args.show)
    print(
        f"\n{len(chosen):,} problems and {summary.num_selected:,} solutions, from "
        f"{len(summary.scores):,} problems with {counts(summary)['solutions_read']:,} solutions.\n"
    )
    print_lines(outcome_lines(outcome(summary, config), models.summarizer.name))
    if texts_cut := getattr(models.embedder, "texts_cut", 0):
        print(
            f"{texts_cut:,} texts were longer than the encoder takes and were cut", file=sys.stderr
        )
    print()
    print(f"Written to {args.output}: see README.md there, or load_dataset({str(args.output)!r})")
    if pushed:
        print_pushed(pushed)


def _check(
    args: argparse.Namespace, config: CurationConfig, mixed: Sequence[tuple[str, int]]
) -> None:
    """Find what is wrong with the run before anything is loaded."""
    check_output(args.output, args.overwrite)
    check_models(config)
    if args.calibration is not None:
        curve_of(counting_distance(config), config, config.embedder, args.calibration)
    check_input(args.input, input_spec(args), config)
    for name, _ in mixed:
        check_input(name, _mixed_spec(args), config)


def _mixed_spec(args: argparse.Namespace) -> InputSpec:
    return replace(input_spec(args), only=only_values("--mix-only", args.mix_only))


def _curate_with_progress(
    args: argparse.Namespace,
    config: CurationConfig,
    mixed: Sequence[tuple[str, int]],
    chosen: list[dict[str, Any]],
) -> tuple[Curated, Models]:
    """Make the folder; the chosen problems are appended to `chosen`, best first."""
    contamination = load_contamination(
        args.decontaminate or (), say=lambda line: print(line, file=sys.stderr)
    )
    engine = options_from(EngineOptions, args).load(config)
    spec = input_spec(args)
    with ExitStack() as stack:
        line = stack.enter_context(Progress("Loading models", None))
        models = load_models(config, here=engine is None)

        def remember(problem: Problem, scored: Scored, selected: list[int]) -> None:
            chosen.append(_chosen_row(problem, scored, selected))

        if args.engine == "ray":
            from rpd_datasets.curation.engines.ray_cluster import core_log_aside

            stack.enter_context(core_log_aside())
        line.stage("Scoring problems", count_problems(args.input, spec))
        # Where this process asks no server there is nothing to finish on Ctrl-C.
        scored_one = line.advance if engine else stack.enter_context(scoring(models, line))
        options = options_from(
            RunOptions,
            args,
            preset=args.preset,
            models=models,
            engine=engine,
            contamination=contamination,
            shard_size=args.shard_size,
            on_total=line.expect,
            on_problem=lambda _: scored_one(),
            on_stage=line.stage,
            on_read=line.read,
            on_chosen=remember,
        )
        curated = curate_dataset(
            args.input,
            args.output,
            config,
            spec=spec,
            mixed=mixed,
            mixed_spec=_mixed_spec(args),
            options=options,
        )
    return curated, models


def _print_chosen(chosen: list[dict[str, Any]], most: int) -> None:
    rows = []
    for row in chosen[:most]:
        numbers = "solutions " + ", ".join(map(str, row["chosen"]))
        names = row.get("strategies")
        if not names:
            rows.append((row["problem"], row["score"], [numbers]))
            continue
        below = [f"solution {i}: {name}" for i, name in zip(row["chosen"], names, strict=True)]
        rows.append((row["problem"], row["score"], below))
    print_scored(rows)
    if len(chosen) > most:
        print(f"... and {len(chosen) - most:,} more problems")


def _chosen_row(problem: Problem, scored: Scored, selected: list[int]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "problem": problem.problem,
        "score": scored.score if scored.problem_score is None else scored.problem_score,
        "chosen": selected,
    }
    labels = strategy_labels(problem.extra, len(problem.solutions))
    if labels is not None:  # so that one sees whether strategies were told apart
        row["strategies"] = [labels[index] for index in selected]
        row["num_strategies"] = len(set(row["strategies"]))
    return row


def _mixed_in(args: argparse.Namespace, num_problems: int) -> list[tuple[str, int]]:
    """The further inputs that the options name, and how many problems each gives."""
    if args.mix is None and args.preset and "mix" in PRESETS[args.preset]:
        raise InputError(
            f"the preset {args.preset} mixes two inputs, mathematics and code in the paper: name "
            "the second with --mix INPUT (and --mix-only domain=code where both are in one)"
        )
    found = []
    for mix in args.mix or ():
        name, colon, number = mix.rpartition(":")
        # A colon may belong to the name; a number of problems is all digits.
        numbered = bool(colon and number.isdigit())
        found.append((name if numbered else mix, int(number) if numbered else num_problems))
        if found[-1][1] < 1:
            raise InputError(f"--mix {mix!r} asks for no problems; name 1 or more")
    return found
