"""`rpd curate`: curate a small, diverse training set.

Rank problems by how differently they were solved, choose the most different solutions of the best
ones, and write a dataset with a card. Resumable.

Example: rpd curate solutions.jsonl --num-problems 100 --output curated
"""

from __future__ import annotations

import argparse
import shlex
import sys
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rpd_datasets.account import outcome_lines
from rpd_datasets.cli import arguments
from rpd_datasets.cli.output import Progress, print_json, print_lines, print_scored, scoring
from rpd_datasets.cli.push import print_pushed, quiet_upload
from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.curated import Curated, check_input, curate_dataset
from rpd_datasets.curation.engines import EngineOptions
from rpd_datasets.curation.folder import check_folder
from rpd_datasets.curation.models import Models, load_models
from rpd_datasets.curation.run import RunOptions
from rpd_datasets.curation.scoring import Scored
from rpd_datasets.evaluation.decontamination import load_contamination
from rpd_datasets.options import add_options, options_from
from rpd_datasets.presets import PRESETS
from rpd_datasets.problem import UNNAMED, Problem, strategy_labels
from rpd_datasets.publish.pushing import check_access
from rpd_metric.distance.measured import read_evidence
from rpd_metric.errors import InputError

SHOWN = 10  # chosen problems that are printed


def preset_options(name: str) -> dict[str, Any]:
    """The options that a preset sets; `None` is for the user to name."""
    preset = PRESETS[name]
    models = {"summarizer": None, "embedder": None} if preset.names_models else {}
    return {**preset.settings, **vars(preset.filters), **models}


def add_to(commands: Any) -> None:
    """Add `rpd curate`."""
    after_interrupt = "run the same command again to continue"
    parser = arguments.add_command(commands, _curate, __doc__, after_interrupt)
    arguments.add_input(parser)
    add, help = parser.add_argument, "the folder to make"
    add("--output", "-o", type=Path, required=True, metavar="DIR", help=help)
    add_options(parser, RunOptions)
    help = "also publish it as this dataset (see --public)"
    add("--push-to-hub", metavar="REPO", help=help)
    arguments.add_push(parser)
    group = parser.add_argument_group("selection")
    add_options(group, CurationConfig, "choice")
    help = "also choose N problems (default: --num-problems) from another input (repeatable)"
    group.add_argument("--mix", action="append", metavar="INPUT[:N]", help=help)
    arguments.add_only(group, "--mix-only", "replaces --only for the inputs of --mix")
    help = "a training set of the paper, e.g. paper or random-1p3s (docs/presets.md)"
    group.add_argument("--preset", choices=tuple(PRESETS), metavar="NAME", help=help)
    arguments.add_filters(parser)
    help = "drop problems of benchmarks, e.g. aime25, of files, or of all benchmarks (known)"
    add("--decontaminate", nargs="+", metavar="NAME", help=help)
    arguments.add_models(parser)
    arguments.add_evidence(parser)
    add_options(parser.add_argument_group("engine (the result is the same)"), EngineOptions)


def _curate(args: argparse.Namespace) -> None:
    # What is wrong with the run is found before anything is loaded.
    reads = (args.input, args.config, *(args.decontaminate or ()))
    check_folder(args.output, args.overwrite, reads, args.store)
    filters = arguments.filter_config(args)
    config = arguments.checked_config(args, ("models", "choice", "tokens"), filters)
    spec, mixed = arguments.input_spec(args), _mixed_in(args, config.num_problems)
    mixed_spec = replace(spec, only=arguments.only_values("mix_only", args.mix_only))
    read_evidence(args.evidence)
    for name, _ in mixed:
        check_input(name, mixed_spec, config)
    if args.push_to_hub:
        check_access(args.push_to_hub, repo_type="dataset", private=not args.public)
    contamination = load_contamination(
        args.decontaminate or (), say=lambda line: print(line, file=sys.stderr)
    )
    engine = options_from(EngineOptions, args).load(config)
    chosen: list[dict[str, Any]] = []
    with ExitStack() as stack:
        line = stack.enter_context(Progress("Loading models"))
        models = load_models(config)
        line.stage("Scoring problems")
        # Where this process asks no server there is nothing to finish on Ctrl-C.
        scored_one = line.advance if engine else stack.enter_context(scoring(models.flows, line))
        options = options_from(
            RunOptions,
            args,
            ("", "evidence"),
            preset=args.preset,
            reads=reads,
            models=models,
            engine=engine,
            contamination=contamination,
            on_total=line.expect,
            on_problem=lambda _: scored_one(),
            on_stage=line.stage,
            on_read=line.read,
            on_chosen=lambda *choice: chosen.append(_chosen_row(*choice)),
        )
        curated = curate_dataset(
            args.input,
            args.output,
            config,
            spec=spec,
            mixed=mixed,
            mixed_spec=mixed_spec,
            **vars(options),
        )
    _print_result(args, curated, chosen, models)


def _print_result(
    args: argparse.Namespace, curated: Curated, chosen: list[dict[str, Any]], models: Models
) -> None:
    """Publish the folder if that is wanted, and say what was made."""
    pushed = None
    if repo := args.push_to_hub:
        command = f"rpd push {args.output} {repo}{' --public' * args.public}"
        print(f"{args.output} is complete; should publishing break: {command}", file=sys.stderr)
        with quiet_upload():
            pushed = curated.push_to_hub(repo, private=not args.public, commit_message=args.message)
    if args.json:
        happened = {name: curated.manifest[name] for name in ("counts", "outcome")}
        result = {"output": str(args.output), **happened, "chosen": chosen}
        print_json(result | ({"pushed": asdict(pushed)} if pushed else {}))
        return
    print_scored([(row["problem"], row["score"], _chosen_lines(row)) for row in chosen[:SHOWN]])
    if len(chosen) > SHOWN:
        print(f"... and {len(chosen) - SHOWN:,} more problems")
    print()
    lines = outcome_lines(curated.manifest)
    print_lines(lines[:2])
    # Not wrapped, so that it can be copied.
    print(f"Next: rpd report {shlex.quote(str(args.output))}\n")
    print_lines(lines[2:])
    if cut := getattr(models.embedder, "texts_cut", 0):
        print(f"{cut:,} texts were longer than the encoder takes and were cut", file=sys.stderr)
    print(f"\nWritten to {args.output}: see README.md there, or load_dataset({str(args.output)!r})")
    if pushed:
        print_pushed(pushed)


def _chosen_row(problem: Problem, scored: Scored, selected: list[int]) -> dict[str, Any]:
    score = scored.score if scored.problem_score is None else scored.problem_score
    row: dict[str, Any] = {"problem": problem.problem, "score": score, "chosen": selected}
    sorted_columns = {"strategies": scored.strategies, "strategy_names": scored.strategy_names}
    columns = sorted_columns if scored.strategy_names else problem.extra
    labels = strategy_labels(columns, len(problem.solutions))
    if labels is not None:  # so that one sees whether strategies were told apart
        row["strategies"] = [labels[index] for index in selected]
        row["num_strategies"] = len(set(row["strategies"]) - {UNNAMED})
    return row


def _chosen_lines(row: dict[str, Any]) -> list[str]:
    if names := row.get("strategies"):
        return [f"solution {i}: {name}" for i, name in zip(row["chosen"], names, strict=True)]
    return ["solutions " + ", ".join(map(str, row["chosen"]))]


def _mixed_in(args: argparse.Namespace, num_problems: int) -> list[tuple[str, int]]:
    """The further inputs that the options name, and how many problems each gives."""
    if args.mix is None and args.preset and PRESETS[args.preset].mixed:
        raise InputError(
            f"the preset {args.preset} mixes two inputs, mathematics and code in the paper: name "
            "the second with {mix=INPUT} (and {mix_only=domain=code} where both are in one)",
            option=("mix", "mix_only"),
        )
    inputs = []
    for mix in args.mix or ():
        # A colon may belong to the name; a number of problems is all digits.
        name, colon, number = mix.rpartition(":")
        entry = (name, int(number)) if colon and number.isdigit() else (mix, num_problems)
        if entry[1] < 1:
            raise InputError(f"{{mix}} {mix!r} asks for no problems; name 1 or more", option="mix")
        inputs.append(entry)
    return inputs
