r"""Draw the paper's pool: so many problems of a dataset, at random, each with all its solutions.

    python recipes/pool.py open-thoughts/OpenThoughts3-1.2M --only domain=math --exactly 16 \
        --num-problems 10000 --seed 0 --output data/pool.jsonl

The paper starts from 10,000 mathematical problems of OpenThoughts3 (App. C.1) and does not say how
they were drawn. Here a problem's place in the draw is a hash of its text and the seed: the same
problems come out whatever the order of the rows, and a larger draw holds every smaller one. The
input is read twice, so that it need not fit into memory.
"""

import argparse
import hashlib
import heapq
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from rpd_datasets.cli.arguments import worded_for
from rpd_datasets.commands import run_command
from rpd_datasets.destination import check_output, whole_file
from rpd_datasets.inputs.source import InputSpec, open_source
from rpd_metric.errors import InputError


def main(arguments: Sequence[str]) -> None:
    """Draw as the command line says; see the module's docstring."""
    args = _parser().parse_args(arguments)
    if args.num_problems < 1:
        raise InputError(f"num-problems is {args.num_problems}; use 1 or more")
    check_output(args.output)
    for pair in args.only:
        if "=" not in pair.lstrip("="):
            raise InputError(f"{{only}} {pair!r} is not of the form COLUMN=VALUE", option="only")
    left_out: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        source = open_source(
            args.input,
            InputSpec(exactly=args.exactly, only=dict(pair.split("=", 1) for pair in args.only)),
            scratch=Path(scratch),
            on_reject=lambda rejected: left_out.update([rejected.reason]),
        )
        drawn, total = draw((problem.problem for problem in source), args.num_problems, args.seed)
        with whole_file(args.output) as file:
            for problem in source:
                if _place(problem.problem, args.seed) in drawn:
                    own = {"problem": problem.problem, "solutions": list(problem.solutions)}
                    file.write(json.dumps({**problem.extra, **own}, ensure_ascii=False) + "\n")
    reasons = "".join(f", {reason} {number:,}" for reason, number in left_out.most_common())
    sys.stderr.write(
        f"drew {len(drawn):,} of {total:,} problems with seed {args.seed} into {args.output}"
        f" (left out: {left_out.total():,}{reasons})\n"
    )


def draw(problems: Iterable[str], number: int, seed: int) -> tuple[set[bytes], int]:
    """The hashes of the problems that are drawn, all where there are fewer, and how many there are.

    Each text must come once.
    """
    places = [_place(text, seed) for text in problems]
    return set(heapq.nsmallest(number, places)), len(places)


def _place(text: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\0{text}".encode()).digest()


def _parser() -> argparse.ArgumentParser:
    summary, _, details = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="recipes/pool.py",
        description=summary,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("input", help="a file, a folder, or a dataset id on the Hub")
    parser.add_argument("--num-problems", type=int, default=10_000, metavar="N", help="how many")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument(
        "--only", action="append", default=[], metavar="COLUMN=VALUE", help="rows with this value"
    )
    parser.add_argument(
        "--exactly", type=int, metavar="N", help="problems with so many solutions only"
    )
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="a JSONL file")
    return parser


if __name__ == "__main__":
    wording = partial(worded_for, _parser())
    sys.exit(run_command("recipes/pool.py", lambda: main(sys.argv[1:]), wording=wording))
