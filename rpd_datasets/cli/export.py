"""`rpd export`: write training rows for another trainer, or preferences.

Of a folder of rpd curate, take the chosen solutions; of any other input, those that marks or
reference answers show to be right. dpo pairs each with a wrong solution of its problem, of about
its length, and of its method where strategies are known; kto has right and wrong solutions with
labels. rejects.jsonl names what was left out, with the reason.

Example: rpd export curated --to axolotl --output for-axolotl
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

from rpd_datasets.cli import arguments
from rpd_datasets.cli.output import print_result
from rpd_datasets.destination import check_output, whole_file
from rpd_datasets.filters.answer_checks import AnswerChecker
from rpd_datasets.messages import solution_text
from rpd_datasets.problem import Rejected
from rpd_datasets.publish.publishable import curated_files
from rpd_datasets.trainer_formats import DATASET_INFO, FORMATS, TrainingRow, rows_of
from rpd_metric.errors import InputError

MARK = "export.json"
FILES = (MARK, "train.*", "dataset_info.json", "rejects.jsonl", "*.partial")


def add_to(commands: Any) -> None:
    """Add `rpd export`."""
    parser = arguments.add_command(commands, _export, __doc__)
    arguments.add_input(parser)
    add = parser.add_argument
    formats, help = ("dpo", "kto", *FORMATS), "the format, one of %(choices)s"
    add("--to", choices=formats, required=True, metavar="FORMAT", help=help)
    add("--output", "-o", type=Path, required=True, metavar="DIR", help="the folder to write")
    add("--overwrite", action="store_true", help="replace a folder that this command wrote")
    arguments.add_correctness(parser)


def _export(args: argparse.Namespace) -> None:
    output, source, rejects = args.output, Path(args.input), list[Rejected]()
    check_output(output, _written, overwrite=args.overwrite, reads=[source])
    if (source / "manifest.json").is_file():
        curated_files(source)  # it is complete
        args.input = str(source / "data")
    count, ratios = Counter[str](), list[float]()
    rows = _rows(args, rejects, count, ratios)
    if (first := next(rows, None)) is None:
        why = ", ".join(f"{reason} ({n})" for reason, n in _reasons(rejects).items())
        raise InputError(f"{source} has no rows for {{to={args.to}}}: {why}", option="to")
    for path in (path for pattern in FILES for path in output.glob(pattern)):
        path.unlink()
    facts: dict[str, Any] = {"output": str(output), "format": args.to}
    _save(output / MARK, [facts])  # so that another run may replace what an interrupted one leaves
    if args.to == "verl":
        _save_parquet(output / "train.parquet", [first, *rows])
    else:
        _save(output / "train.jsonl", chain([first], rows))
    if args.to == "llamafactory":
        _save(output / "dataset_info.json", [DATASET_INFO])
    records = [reject.as_row() for reject in rejects]
    _save(output / "rejects.jsonl", records)
    facts |= {
        "num_rows": count["rows"],
        "num_problems": count["problems"],
        "num_left_out": len(rejects),
        "reasons": _reasons(rejects),
        "length_ratio": median(ratios) if ratios else None,
    }
    _save(output / MARK, [facts])
    print_result(args, facts, left_out=records)


def _rows(
    args: argparse.Namespace, rejects: list[Rejected], count: Counter[str], ratios: list[float]
) -> Iterator[TrainingRow]:
    """The rows of all problems; the other arguments receive what is left out, and figures."""
    with closing(AnswerChecker()) as checker:
        for problem in arguments.read_problems(args, rejects):
            # The choice of a curated folder holds, whatever the answers are.
            chosen = "drop_reasons" in problem.extra and args.to in FORMATS
            columns = args.correct_column, args.answer_column
            marks = () if chosen else checker.check(problem, *columns).marks
            made = list(rows_of(problem, args.to, marks, rejects.append))
            count.update(rows=len(made), problems=bool(made))
            if args.to == "dpo":
                texts = [[solution_text(row[k]) for k in ("chosen", "rejected")] for row in made]
                ratios += [len(chosen) / max(1, len(rejected)) for chosen, rejected in texts]
            yield from made


def _reasons(rejects: Iterable[Rejected]) -> dict[str, int]:
    return dict(Counter(reject.reason for reject in rejects).most_common())


def _written(folder: Path) -> tuple[str, ...] | None:
    return FILES if (folder / MARK).is_file() else None


def _save(path: Path, rows: Iterable[Any]) -> None:
    with whole_file(path) as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _save_parquet(path: Path, rows: Sequence[TrainingRow]) -> None:
    """A file of Parquet, whose tools read back as they are."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist(rows)
    if table["tools"].to_pylist() != [row["tools"] for row in rows]:
        raise InputError(
            "in Parquet, tools of different shapes would get each other's keys; export the "
            "problems of each set of tools by themselves ({only})",
            option="only",
        )
    pq.write_table(table, path)
