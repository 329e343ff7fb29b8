"""`rpd compare-graders`: count what graders of answers get wrong.

Grade the packaged pairs of a reference and a response, which a person judged, and count false
accepts and false rejects by form. The 525 pairs are held out: they mended no grader of this
package. Your own grader is a function of (reference, response), named as FILE.py:FUNCTION.

Example: rpd compare-graders --graders rpd checks.py:check
"""

import argparse
from dataclasses import asdict
from typing import Any

from rpd_datasets.cli.arguments import add_command
from rpd_datasets.cli.output import print_json, print_table
from rpd_datasets.judging.graders import ALL_FORMS, MATH_VERIFY, OWN, mistakes, read_pairs


def add_to(commands: Any) -> None:
    """Add `rpd compare-graders`."""
    add = add_command(commands, _compare, __doc__).add_argument
    help = "rpd, math-verify, lm-eval (if installed), FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION"
    add("--graders", nargs="+", default=[OWN, MATH_VERIFY], metavar="NAME", help=help)


def _compare(args: argparse.Namespace) -> None:
    pairs = read_pairs()
    results_of = {grader: mistakes(grader, pairs) for grader in dict.fromkeys(args.graders)}
    if args.json:
        results = [asdict(figures) for by_form in results_of.values() for figures in by_form]
        print_json({"pairs": len(pairs), "results": results})
        return
    rows = []
    for by_grader in zip(*results_of.values(), strict=True):
        first = by_grader[0]
        row: dict[str, Any] = {"form": first.form, "right": first.right, "wrong": first.wrong}
        for figures in by_grader:
            cell = f"{figures.false_accepts} / {figures.false_rejects}"
            if figures.form == ALL_FORMS:
                shares = (
                    count / len(pairs) for count in (figures.false_accepts, figures.false_rejects)
                )
                cell += " ({:.1%} / {:.1%})".format(*shares)
            row[figures.grader] = cell
        rows.append(row)
    print("held-out pairs: false accepts / false rejects")
    print_table(rows)
