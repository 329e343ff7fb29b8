"""The scripts `rpd` and `hf-rpd`, in a module of its own: packages take a second to import."""

import sys


def main() -> int:
    """Run a command; Ctrl-C while it is imported is one line, as it is later."""
    try:
        from rpd_datasets.cli import main as rpd

        return rpd()
    except KeyboardInterrupt:
        sys.stderr.write("rpd: interrupted; nothing was written\n")
        return 130
