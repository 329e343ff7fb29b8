"""The `rpd` command: every step of the pipeline, one subcommand each.

Tables and results go to stdout, progress and messages to stderr. `--json` puts the same result
as one JSON object on stdout and nothing else there. An error that the user can fix ends in one
line and exit status 1 (2 for a wrong command line); Ctrl-C ends in 130 and loses nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from threadpoolctl import threadpool_limits

from rpd_datasets.cli.arguments import Parser, with_config
from rpd_datasets.cli.compare import add_compare
from rpd_datasets.cli.curate import add_curate, preset_options
from rpd_datasets.cli.judge import add_judge
from rpd_datasets.cli.label import add_label
from rpd_datasets.cli.plan import add_plan
from rpd_datasets.cli.push import add_push
from rpd_datasets.cli.register import add_register
from rpd_datasets.cli.report import add_report
from rpd_datasets.cli.score import add_score
from rpd_datasets.cli.space import add_space
from rpd_datasets.commands import run_command
from rpd_metric import __version__

COMMANDS = (
    add_curate,
    add_plan,
    add_score,
    add_compare,
    add_report,
    add_judge,
    add_label,
    add_push,
    add_space,
    add_register,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser, commands = _parser()
    name = given[0] if given and given[0] in commands else ""
    args = argparse.Namespace()

    def parse() -> None:
        if not name:
            parser.parse_args(given)  # help, the version, or an error: each of them ends here
        typed = with_config(commands[name], given[1:])
        commands[name].parse_args(typed, args)
        if preset := getattr(args, "preset", None):
            # A preset changes defaults only, so that options given beside it win.
            commands[name].set_defaults(**preset_options(preset))
            vars(args).clear()
            commands[name].parse_args(typed, args)

    def work() -> None:
        # The products here are small, and OpenBLAS's threads go on spinning after each of them: on
        # the cores that the encoder needs.
        with threadpool_limits(1, user_api="blas"):
            args.command(args)

    if status := run_command(f"rpd {name}", parse):
        return status
    return run_command(f"rpd {name}", work, after_interrupt=args.after_interrupt)


def _parser() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """The parser, and that of each command."""
    parser = Parser(
        prog="rpd",
        description="Measure how differently problems were solved, and curate small, diverse "
        "training sets from many sampled solutions.",
        epilog="Try it: rpd curate sample --num-problems 10 --output my-first-set",
    )
    parser.add_argument("--version", action="version", version=f"rpd {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in COMMANDS:
        add(commands)
    return parser, commands.choices
