"""`rpd push`: publish a curated folder or a model on the Hub.

Publish a folder that rpd curate or make sets made, or a model of a recipe, in one commit. The
folder must be complete, and without secrets and local paths (the extra "secrets" adds several
hundred rules). The token comes from HF_TOKEN or hf auth login. If large files cannot be sent, try
HF_HUB_DISABLE_XET=1.

Example: rpd push curated me/diverse-math
"""

import argparse
from dataclasses import asdict
from logging import ERROR
from pathlib import Path
from typing import Any

from rpd_datasets.cli.arguments import add_command, add_push
from rpd_datasets.cli.output import Progress, print_json
from rpd_datasets.publish.pushing import Pushed, push_folder, to_publish
from rpd_metric.errors import InputError


def add_to(commands: Any) -> None:
    """Add `rpd push`."""
    again = "run the same command again to finish; what has arrived is not sent twice"
    parser = add_command(commands, _push, __doc__, again)
    add = parser.add_argument
    add("folder", type=Path, metavar="DIR", help="what rpd curate or a recipe made")
    help = "the repository id; NAME alone is one of your own"
    add("repo", metavar="REPO", nargs="?", help=help)
    help = "only list the files, and every secret, address and path found in them"
    add("--dry-run", action="store_true", help=help)
    add_push(parser)
    help = "leave out these files, e.g. rejects.jsonl or '*.png' (repeatable)"
    add("--exclude", action="append", default=[], metavar="FILE", help=help)
    help = "allow secrets of this kind, as named in the error (repeatable)"
    add("--allow-secret", action="append", default=[], metavar="KIND", help=help)


def _push(args: argparse.Namespace) -> None:
    if args.dry_run:
        _show(args)
        return
    if args.repo is None:
        raise InputError("name the repository: rpd push DIR REPO")
    with quiet_upload():
        pushed = push_folder(
            args.folder,
            args.repo,
            private=not args.public,
            commit_message=args.message,
            exclude=args.exclude,
            allowed_secrets=args.allow_secret,
        )
    print_pushed(pushed, as_json=args.json)


def _show(args: argparse.Namespace) -> None:
    allowed = args.allow_secret
    repo_type, files, findings = to_publish(args.folder, exclude=args.exclude, allowed=allowed)
    if args.json:
        records = list(map(asdict, findings))
        print_json({"repo_type": repo_type, "files": sorted(files), "findings": records})
    else:
        print(f"{len(files)} files of a {repo_type} would be sent:", *sorted(files), sep="\n  ")
        if not findings:
            print("No secrets, e-mail addresses or paths of this machine were found in them.")
        for finding in findings:
            print("Refused" if finding.refused else "Look at", finding)
    if refused := sum(finding.refused for finding in findings):
        raise InputError(
            f"{refused} of these would stop a push: remove them and make the folder again, exclude "
            "a file (--exclude FILE), or allow a kind (--allow-secret KIND)"
        )


def quiet_upload() -> Progress:
    """One line of progress instead of the hub client's bars and messages."""
    from huggingface_hub.utils import logging
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    logging.set_verbosity(ERROR)
    return Progress("Looking through the files and uploading")


def print_pushed(pushed: Pushed, *, as_json: bool = False) -> None:
    """What was published, and how to read it."""
    if as_json:
        print_json(asdict(pushed))
        return
    print(
        f"{'Published' if pushed.changed else 'Already there:'} {pushed.files} files, "
        f"{'private' if pushed.private else 'public'}: {pushed.url}"
    )
    if "/datasets/" in pushed.url:
        print(f"Read it with load_dataset({pushed.repo_id!r}, split='train')")
    if "/spaces/" in pushed.url:
        print(f"Load it with evaluate.load({pushed.repo_id!r}) where rpd-metric is installed")
    print(f"Commit {pushed.commit}", *(f"Note: {note}" for note in pushed.notes), sep="\n")
