"""The `rpd` command: every step of the pipeline, one subcommand each.

Tables and results go to stdout, progress and messages to stderr. `--json` puts the same result
as one JSON object on stdout and nothing else there. An error that the user can fix ends in one
line and exit status 1 (2 for a wrong command line); Ctrl-C ends in 130 and loses nothing.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType

from threadpoolctl import threadpool_limits

from rpd_datasets.cli.compare import add_compare
from rpd_datasets.cli.curate import PRESETS, add_curate
from rpd_datasets.cli.judge import add_judge
from rpd_datasets.cli.output import Parser
from rpd_datasets.cli.plan import add_plan
from rpd_datasets.cli.push import add_push
from rpd_datasets.cli.register import add_register
from rpd_datasets.cli.report import add_report
from rpd_datasets.cli.score import add_score
from rpd_datasets.cli.space import add_space
from rpd_datasets.cli.store import add_store
from rpd_metric.errors import RPDError
from rpd_metric.inference.errors import Interrupted


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    parser = _parser()
    args = parser.parse_args(arguments)
    if preset := getattr(args, "preset", None):
        # A preset changes defaults only, so that options given beside it win.
        args.parser.set_defaults(**PRESETS[preset])
        args = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _stop)
    try:
        command: Callable[[argparse.Namespace], None] = args.command
        # The products here are small, and OpenBLAS's threads go on spinning after each of them: on
        # the cores that the encoder needs.
        with threadpool_limits(1, user_api="blas"):
            command(args)
    except Interrupted as error:
        print(f"rpd {args.name}: {error}", file=sys.stderr)
        return 130
    except RPDError as error:
        print(f"rpd {args.name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"rpd {args.name}: interrupted; {args.after_interrupt}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output went away, as `head` does: no error is worth printing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return 0


def _stop(_signum: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="rpd",
        description="Measure how differently problems were solved, and curate small, diverse "
        "training sets from many sampled solutions.",
        epilog="Try it: rpd curate sample --num-problems 10 --output my-first-set",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add_curate(commands)
    add_plan(commands)
    add_score(commands)
    add_compare(commands)
    add_report(commands)
    add_judge(commands)
    add_push(commands)
    add_space(commands)
    add_store(commands)
    add_register(commands)
    return parser
