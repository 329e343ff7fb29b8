"""The `rpd` command: every step of the pipeline, one subcommand each.

Results go to stdout, with `--json` as one JSON object; progress and messages go to stderr. Errors
that the user can fix are one line with exit status 1 (2 for a wrong command line); Ctrl-C exits
with 130 and loses nothing.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from threadpoolctl import threadpool_limits

from rpd_datasets.cli import (
    compare,
    compare_graders,
    compare_metrics,
    curate,
    export,
    judge,
    label,
    plan,
    push,
    report,
    score,
    space,
)
from rpd_datasets.cli.arguments import Parser, with_config, worded_for
from rpd_datasets.commands import run_command
from rpd_metric import __version__

COMMANDS = (
    *(curate, plan, score, compare, compare_metrics, compare_graders),
    *(report, judge, label, export, push, space),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    line = list(sys.argv[1:] if arguments is None else arguments)
    if line[:1] == ["help"]:
        line = [*line[1:2], "--help"]
    parser = command_line()
    commands = parser.commands
    name = line[0] if line and line[0] in commands else ""
    args = argparse.Namespace()

    def parse() -> None:
        if not name:
            parser.parse_args(line)  # help, the version, or an error: each of them ends here
        typed = with_config(commands[name], line[1:])
        commands[name].parse_args(typed, args)
        if preset := getattr(args, "preset", None):
            # A preset only changes defaults, so that typed options win.
            commands[name].set_defaults(**curate.preset_options(preset))
            vars(args).clear()
            commands[name].parse_args(typed, args)

    def work() -> None:
        # The products are small, and OpenBLAS's threads would spin on the encoder's cores.
        with threadpool_limits(1, user_api="blas"):
            args.command(args)

    wording = partial(worded_for, commands[name]) if name else str
    if status := run_command(f"rpd {name}", parse, wording=wording):
        return status
    return run_command(f"rpd {name}", work, after_interrupt=args.after_interrupt, wording=wording)


def command_line() -> Parser:
    """The parser of `rpd`: what `shtab` makes a shell's completion of."""
    parser = Parser(
        prog="rpd",
        description="Measure how differently problems were solved, and curate small, diverse "
        "training sets from many sampled solutions.",
        epilog="Try it: rpd curate sample --num-problems 10 --output my-first-set",
    )
    parser.add_argument("--version", action="version", version=f"rpd {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_to(commands)
    parser.commands = commands.choices
    return parser
