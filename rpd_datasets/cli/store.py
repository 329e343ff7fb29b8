"""`rpd store`: look into the store of model replies, thin it out, or take it elsewhere."""

from __future__ import annotations

import argparse
from datetime import timedelta
from pathlib import Path
from typing import Any

from rpd_datasets.cli.arguments import add_command
from rpd_datasets.cli.output import print_json, print_table
from rpd_datasets.curation.scoring import default_store
from rpd_metric.models.store import ReplyStore


def add_store(commands: Any) -> None:
    """Add `rpd store`."""
    parser = add_command(
        commands,
        "store",
        _store,
        "look into the store of model replies",
        "Every reply of a chat model is kept in one file, so that the same request is never paid "
        "for twice. info sums it up, prune deletes replies, export writes them as JSON lines.",
        "rpd store prune --model Qwen/Qwen3-14B --older-than 90",
    )
    parser.add_argument("action", choices=("info", "prune", "export"))
    parser.add_argument("file", nargs="?", metavar="FILE", help="for export: the file to write")
    parser.add_argument(
        "--store",
        metavar="FILE",
        help="the store (default: $RPD_STORE, or the user's cache folder)",
    )
    group = parser.add_argument_group("what prune deletes: replies that meet all that is given")
    group.add_argument("--model", metavar="NAME", help="replies of this model")
    group.add_argument("--template", metavar="HASH", help="replies to this prompt template")
    group.add_argument(
        "--older-than", type=float, metavar="DAYS", help="replies that came longer ago"
    )


def _store(args: argparse.Namespace) -> None:
    path = Path(args.store) if args.store else default_store()
    with ReplyStore(path, create=False) as store:
        if args.action == "info":
            _info(store, args.json)
        elif args.action == "prune":
            age = None if args.older_than is None else timedelta(days=args.older_than)
            deleted = store.prune(model=args.model, template=args.template, older_than=age)
            if args.json:
                print_json({"deleted": deleted, "entries": store.count()})
            else:
                print(f"Deleted {deleted} replies; {store.count()} are left.")
        else:
            if args.file is None:
                args.parser.error("export needs the FILE to write")
            count = store.export(args.file)
            if args.json:
                print_json({"file": args.file, "entries": count})
            else:
                print(f"Wrote {count} replies to {args.file}.")


def _info(store: ReplyStore, as_json: bool) -> None:
    info = store.info()
    oldest = info.oldest.isoformat(timespec="seconds") if info.oldest else None
    newest = info.newest.isoformat(timespec="seconds") if info.newest else None
    if as_json:
        print_json(
            {
                "path": info.path,
                "entries": info.entries,
                "bytes": info.bytes,
                "models": info.models,
                "templates": info.templates,
                "oldest": oldest,
                "newest": newest,
            }
        )
        return
    print(f"{info.path}: {info.entries:,} replies, {info.bytes / 1e6:,.1f} MB")
    if info.entries:
        print(f"From {oldest} to {newest}\n")
        print_table([{"model": name, "replies": count} for name, count in info.models.items()])
        print()
        print_table(
            [{"template": name, "replies": count} for name, count in info.templates.items()]
        )
