"""`rpd report`: a page about a curated folder, to look at."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rpd_datasets.cli.arguments import add_command
from rpd_datasets.cli.output import print_json, progress
from rpd_metric.errors import MissingExtraError, RPDError, first_line
from rpd_metric.inference.embedders import Embedder
from rpd_metric.inference.registry import load_embedder

if TYPE_CHECKING:
    from rpd_datasets.report import WrittenReport

NO_EMBEDDER = "none"
MAX_PROBLEMS = 2000
MEASURED = 100


def add_report(commands: Any) -> None:
    """Add `rpd report`."""
    parser = add_command(
        commands,
        "report",
        _report,
        "look at a curated folder",
        "Write one HTML file about a folder that rpd curate made, for a browser without a network: "
        "a list of all problems to search, and for each its solutions side by side, the steps that "
        "matched, and why others were not chosen. Figures are written beside it as PNGs.",
        "rpd report curated --max-problems 50",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="a folder that rpd curate made")
    parser.add_argument(
        "--output", "-o", type=Path, metavar="FILE", help="(default: DIR/report.html)"
    )
    parser.add_argument(
        "--embedder",
        metavar="SPEC",
        help="who encodes steps and texts (default: the one that DIR was made with), or none for "
        "a report without raw-text distances and step matches",
    )
    parser.add_argument("--device", help="where an embedder of this machine runs, e.g. cuda")
    parser.add_argument(
        "--max-problems",
        type=int,
        default=MAX_PROBLEMS,
        metavar="N",
        help="chosen problems to show, spread over the ranks",
    )
    parser.add_argument(
        "--measure",
        type=int,
        default=MEASURED,
        metavar="N",
        help="problems to encode again for raw-text distances and step matches, spread over those",
    )
    parser.add_argument(
        "--no-figures", action="store_true", help="write the page only, without PNGs"
    )


def _report(args: argparse.Namespace) -> None:
    # Templates and tables are of no use to the other commands.
    from rpd_datasets.report import read_curated, write_report

    folder = read_curated(args.folder, args.max_problems)
    embedder = _embedder(args, folder.manifest)
    with progress("Reading problems", len(folder.shown)) as measured_one:
        report = write_report(
            folder,
            args.output or args.folder / "report.html",
            embedder,
            figures=not args.no_figures,
            measured=args.measure,
            on_problem=measured_one,
        )
    summary = _summary(report)
    if args.json:
        print_json(summary)
        return
    print(
        f"{summary['problems_shown']:,} of {summary['problems_chosen']:,} chosen problems, "
        f"{summary['pairs']:,} pairs of solutions"
    )
    for name, value in (
        ("RPD", summary["median_rpd"]),
        ("raw-text distance", summary["median_raw"]),
    ):
        if value is not None:
            print(f"Median {name} {value:.3f}")
    print(f"Written to {report.page}")
    if report.figures:
        print(f"Figures in {report.figures[0].parent}")


def _embedder(args: argparse.Namespace, manifest: dict[str, Any]) -> Embedder | None:
    if args.embedder == NO_EMBEDDER:
        return None
    options = manifest["options"]
    spec = args.embedder or manifest["embedder"]["name"]
    try:
        embedder = load_embedder(
            spec,
            device=args.device,
            dtype=options["dtype"],
            # Another model's dimensions are its own business.
            truncate_dim=options["truncate_dim"] if args.embedder is None else None,
        )
        embedder.encode(["Is anybody there?"])  # a server is found missing only when it is asked
        return embedder
    except MissingExtraError:
        raise
    except RPDError as error:
        if args.embedder:
            raise
        # A server that is gone, for instance: what is stored is enough for most of the report.
        print(
            f"The embedder {spec!r} that made {args.folder} cannot be loaded "
            f"({first_line(error)}): the report has the stored distances, but no raw-text "
            "distances and step matches. Name one with --embedder",
            file=sys.stderr,
        )
        return None


def _summary(report: WrittenReport) -> dict[str, Any]:
    measures = report.measures
    return {
        "report": str(report.page),
        "figures": [str(path) for path in report.figures],
        "problems_chosen": report.folder.manifest["counts"]["problems_chosen"],
        "problems_shown": len(measures.cases),
        "pairs": len(measures.rpd),
        "median_rpd": float(np.median(measures.rpd)) if len(measures.rpd) else None,
        "median_raw": float(np.median(measures.raw)) if len(measures.raw) else None,
        "embedder": measures.embedder,
    }
