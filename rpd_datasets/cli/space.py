"""`rpd space`: make a Space with the metric and a page to try it.

Write the files of a Space into a folder, or publish them with --push: the metric for
evaluate.load("USER/NAME"), its card, a page to compare solutions, and this package as a wheel. Try
the page first: pip install -e '.[offline,space]', then python DIR/app.py.

Example: rpd space my-space; rpd space me/rpd --push --public
"""

import argparse
from typing import Any

from rpd_datasets.cli.arguments import add_command, add_push
from rpd_datasets.cli.output import print_json
from rpd_datasets.cli.push import print_pushed
from rpd_datasets.publish.pushing import publish
from rpd_datasets.publish.space.space_files import space_files, write_space


def add_to(commands: Any) -> None:
    """Add `rpd space`."""
    parser = add_command(commands, _space, __doc__, "run the same command again to finish")
    add = parser.add_argument
    add("target", metavar="DIR|REPO", help="a folder, or with --push the id of a Space")
    add("--push", action="store_true", help="publish instead of writing a folder")
    add("--overwrite", action="store_true", help="replace a Space that this command wrote")
    add_push(parser)


def _space(args: argparse.Namespace) -> None:
    if args.push:
        pushed = publish(
            lambda full_id: space_files(full_id.rpartition("/")[2]),
            args.target,
            repo_type="space",
            private=not args.public,
            commit_message=args.message,
        )
        print_pushed(pushed, as_json=args.json)
        return
    folder = write_space(args.target, overwrite=args.overwrite)
    if args.json:
        print_json({"folder": str(folder)})
    else:
        print(f"The Space is in {folder}. Try it: python {folder / 'app.py'}")
