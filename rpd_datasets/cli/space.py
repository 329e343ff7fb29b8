"""`rpd space`: make a Space with the metric and a page to try it.

Write the files of a Space into a folder, or publish them with --push: the metric for
evaluate.load("USER/NAME"), its card, and a page on which one pastes solutions and sees their
distances and matching steps. Try the page here first: pip install -e '.[offline,space]', then
python DIR/app.py. evaluate.load(DIR) works as long as DIR keeps its name.

Example: rpd space my-space; rpd space me/rpd --push --public
"""

from __future__ import annotations

import argparse
from typing import Any

from rpd_datasets.cli.arguments import add, add_command
from rpd_datasets.cli.output import print_json
from rpd_datasets.cli.push import print_pushed


def add_to(commands: Any) -> None:
    """Add `rpd space`."""
    parser = add_command(commands, _space, __doc__, "run the same command again to finish")
    help = "a folder, or with --push the id of a Space"
    parser.add_argument("target", metavar="DIR|REPO", help=help)
    help = "publish instead of writing a folder"
    parser.add_argument("--push", action="store_true", help=help)
    help = (
        "what pip installs in the Space, e.g. 'rpd-metric[offline] @ git+https://...' "
        "(default: what this package needs, with the package itself as a wheel in the Space)"
    )
    parser.add_argument("--package", metavar="REQUIREMENT", help=help)
    help = "replace other files of the same names in DIR"
    parser.add_argument("--overwrite", action="store_true", help=help)
    add(parser, "public", "revision", "message")


def _space(args: argparse.Namespace) -> None:
    from rpd_datasets.publish.space.space_files import push_space, write_space

    if args.push:
        pushed = push_space(
            args.target,
            package=args.package,
            private=not args.public,
            revision=args.revision,
            commit_message=args.message,
        )
        print_pushed(pushed, as_json=args.json)
        return
    folder = write_space(args.target, package=args.package, overwrite=args.overwrite)
    if args.json:
        print_json({"folder": str(folder)})
    else:
        print(f"The Space is in {folder}. Try it: python {folder / 'app.py'}")
