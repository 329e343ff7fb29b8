"""`rpd register`: let evaluate.load("rpd") work without importing rpd_metric.

Copy the metrics into the modules cache of evaluate. Needed only in programs that do not import
rpd_metric themselves; offline, set HF_HUB_OFFLINE=1 there so that the Hub is not asked first.

Example: rpd register
"""

from __future__ import annotations

import argparse
from typing import Any

from rpd_datasets.cli.arguments import add_command
from rpd_datasets.cli.output import print_facts, print_json
from rpd_metric.registration import write_to_cache


def add_to(commands: Any) -> None:
    """Add `rpd register`."""
    add_command(commands, _register, __doc__)


def _register(args: argparse.Namespace) -> None:
    folders = {name: str(folder) for name, folder in write_to_cache().items()}
    if args.json:
        print_json({"folders": folders})
    else:
        print_facts(folders)
