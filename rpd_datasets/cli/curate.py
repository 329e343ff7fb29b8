"""`rpd curate`: curate a small, diverse training set.

Rank problems by how differently they were solved, choose the most different solutions of the best
ones, and write a dataset with a card. Resumable.

Example: rpd curate solutions.jsonl --num-problems 100 --output curated
"""

import argparse
import shlex
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rpd_datasets.account import outcome_lines
from rpd_datasets.cli import arguments
from rpd_datasets.cli.output import Progress, print_json, print_lines, print_scored, scoring
from rpd_datasets.cli.push import print_pushed, quiet_upload
from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.curated import Curated, curate_dataset
from rpd_datasets.curation.engines import EngineOptions
from rpd_datasets.curation.folder import check_folder
from rpd_datasets.curation.models import Models, load_models
from rpd_datasets.curation.parquet import FOLDERS, SHARD
from rpd_datasets.curation.run import RunOptions
from rpd_datasets.evaluation.decontamination import load_contamination
from rpd_datasets.options import add_options, options_from
from rpd_datasets.presets import PRESETS
from rpd_datasets.problem import UNNAMED, strategy_labels
from rpd_datasets.publish.pushing import check_access
from rpd_metric.distance.measured import read_evidence
from rpd_metric.errors import OutputError, RPDError

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
    read_evidence(args.evidence)
    if args.push_to_hub:
        check_access(args.push_to_hub, repo_type="dataset", private=not args.public)
    contamination = load_contamination(
        args.decontaminate or (), say=lambda line: print(line, file=sys.stderr)
    )
    engine = options_from(EngineOptions, args).load(config)
    with ExitStack() as stack:
        line = stack.enter_context(Progress("Loading models"))
        models = load_models(config)
        line.stage("Scoring problems")
        if engine is None:  # else this process asks no server: nothing to finish on Ctrl-C
            stack.enter_context(scoring(models.flows, line))
        options = options_from(
            RunOptions,
            args,
            ("", "evidence"),
            preset=args.preset,
            reads=reads,
            models=models,
            engine=engine,
            contamination=contamination,
            progress=line,
        )
        spec = arguments.input_spec(args)
        try:
            curated = curate_dataset(args.input, args.output, config, spec=spec, **vars(options))
        except RPDError as error:
            partial = args.output.with_name(f"{args.output.name}.partial")
            if partial.exists() and not isinstance(error, OutputError):
                line.write(f"{partial} keeps the scores for another run to the same output")
            raise
    _print_result(args, curated, models)


def _print_result(args: argparse.Namespace, curated: Curated, models: Models) -> None:
    """Publish the folder if that is wanted, and say what was made."""
    pushed = None
    if repo := args.push_to_hub:
        command = f"rpd push {args.output} {repo}{' --public' * args.public}"
        print(f"{args.output} is complete; should publishing break: {command}", file=sys.stderr)
        with quiet_upload():
            pushed = curated.push_to_hub(repo, private=not args.public, commit_message=args.message)
    chosen = _chosen_rows(curated.folder)
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


def _chosen_rows(folder: Path) -> list[dict[str, Any]]:
    """The chosen problems of a folder, best first, with their chosen solutions' strategies."""
    file = folder / FOLDERS["default"] / SHARD
    names = ("problem", "rpd_score", "problem_score", "selected", "drop_reasons")
    labels_and_names = ("strategies", "strategy_names")
    rows = []
    # A column that is not there is left out.
    for columns in pq.ParquetFile(file).read([*names, *labels_and_names]).to_pylist():
        score, selected = columns.get("problem_score"), columns["selected"]
        score = columns["rpd_score"] if score is None else score
        row = {"problem": columns["problem"], "score": score, "chosen": selected}
        labels = strategy_labels(columns, len(columns["drop_reasons"]))
        if labels is not None:  # so that one sees whether strategies were told apart
            row["strategies"] = [labels[index] for index in selected]
            row["num_strategies"] = len(set(row["strategies"]) - {UNNAMED})
        rows.append(row)
    return rows


def _chosen_lines(row: dict[str, Any]) -> list[str]:
    if names := row.get("strategies"):
        return [f"solution {i}: {name}" for i, name in zip(row["chosen"], names, strict=True)]
    return ["solutions " + ", ".join(map(str, row["chosen"]))]
