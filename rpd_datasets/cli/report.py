"""`rpd report`: write an HTML report of a curated folder, or of the log of an evaluation.

Write one HTML page about a folder that rpd curate made: all problems with their solutions side by
side, their distances, and why others were not chosen. For a log, or any file of solutions, it shows
the most different right solutions of each problem.

Example: rpd report curated --max-problems 50
"""

import argparse
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from rpd_datasets.account import outcome_lines
from rpd_datasets.cli.arguments import (
    DISTANCE,
    add_command,
    add_correctness,
    add_distance,
    add_evidence,
    add_reading,
    input_spec,
    read_problems,
)
from rpd_datasets.cli.output import Progress, print_lines, print_result
from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.curated import curate_dataset
from rpd_datasets.curation.models import load_models
from rpd_datasets.filters.answer_checks import mark_column
from rpd_datasets.filters.candidates import FilterConfig
from rpd_datasets.problem import Rejected
from rpd_datasets.report import check_page, read_curated, write_report
from rpd_metric.errors import InputError


def add_to(commands: Any) -> None:
    """Add `rpd report`."""
    parser = add_command(commands, _report, __doc__)
    add = parser.add_argument
    help = "a folder that rpd curate made, or a file that rpd curate reads, e.g. LOG.eval"
    add("input", type=Path, metavar="DIR|LOG", help=help)
    help = "the page to write (default: DIR/report.html, or LOG-report.html of a log)"
    add("--output", "-o", type=Path, metavar="FILE", help=help)
    help = "number of chosen problems to show, spread over the ranks"
    add("--max-problems", type=int, default=2000, metavar="N", help=help)
    group = parser.add_argument_group("a log or a file of solutions")
    add = group.add_argument
    add_distance(group, None, f" (default: {DISTANCE})")
    help = "number of right solutions per problem; problems with fewer are dropped"
    add("--num-solutions", type=int, default=2, metavar="N", help=help)
    add_correctness(group)
    add_evidence(group)
    add_reading(parser)


def _report(args: argparse.Namespace) -> None:
    source = args.input
    if not source.exists():
        raise InputError(f"{source} does not exist; name a folder of rpd curate, or a log")
    if args.distance and source.is_dir():
        raise InputError(
            f"--distance is for a log or a file: {source} shows the distance that chose; curate "
            f"again with --problems {args.distance} --solutions {args.distance}"
        )
    beside = source.with_name(f"{source.stem}-report.html")
    page = args.output or (source / "report.html" if source.is_dir() else beside)
    check_page(page)
    with ExitStack() as stack:
        place = source
        if source.is_file():
            place = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "curated"
            _curate(args, place)
        folder = read_curated(place, args.max_problems)
        if source.is_file():
            folder = replace(folder, word="picked")
        write_report(folder, page)
    manifest = folder.manifest
    facts = {
        "problems_chosen": manifest["counts"]["problems_chosen"],
        "problems_shown": len(folder.shown),
        "chosen_by": folder.chosen_by,
    }
    print_result(args, facts, outcome=manifest["outcome"], report=str(page))
    if not args.json:
        print()
        print_lines(outcome_lines(manifest, folder.word))
        print(f"\nWritten to {page}")


def _curate(args: argparse.Namespace, place: Path) -> None:
    """Curate a log for its page: of every problem the most different right solutions."""
    name, rejects = args.distance or DISTANCE, list[Rejected]()
    columns = [mark_column(problem.extra) for problem in read_problems(args, rejects)]
    marks = args.correct_column or next(filter(None, columns), None)
    filters = FilterConfig(
        min_solutions=max(2, args.num_solutions),
        correct_column=marks,
        answer_column=args.answer_column,
        require_complete=marks is None,  # right solutions are complete
    )
    config = CurationConfig(
        num_problems=max(1, min(args.max_problems, len(columns))),
        num_solutions=args.num_solutions,
        problems=name,
        solutions=name,
        filters=filters,
    )
    with Progress("Loading models") as line:
        options: dict[str, Any] = {"models": load_models(config), "evidence": args.evidence}
        line.stage("Scoring problems")
        spec = input_spec(args)
        curate_dataset(args.input, place, config, spec=spec, progress=line, **options)
