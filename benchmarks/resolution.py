"""Do the packages resolve beside the trainers and generators that their users have?

    python benchmarks/resolution.py [NAME ...]

Asks uv for the versions that one environment with both would hold, for Python 3.12 on Linux, and
prints them with what this project needs of the other. Nothing is installed; the package index is
asked, so a network is needed. uv is in the extra `dev`.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from machine import markdown

ROOT = Path(__file__).resolve().parents[1]
# As PyPI calls them.
BESIDE = (
    *("verl", "openrlhf", "skyrl", "unsloth"),
    *("ms-swift", "llamafactory", "data-designer", "axolotl"),
)
SHOWN = ("datasets", "huggingface-hub", "evaluate", "numpy", "pyarrow")


def resolved(name: str) -> tuple[dict[str, str], str]:
    """The versions of an environment with this project and another, or what prevents it."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header"]
    command += ["--no-annotate", "--python-version", "3.12", "--python-platform", "linux", "-"]
    wanted = f"rpd-metric @ file://{ROOT}\n{name}\n"
    done = subprocess.run(command, input=wanted, capture_output=True, text=True, cwd="/")
    versions = dict(re.findall(r"^([\w.-]+)==(\S+)", done.stdout, re.M))
    return versions, " ".join(done.stderr.split())


def main() -> None:
    """Ask and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=BESIDE, help="default: all of them")
    rows, failed = [], False
    for name in parser.parse_args().names:
        versions, said = resolved(name)
        failed |= not versions
        found = versions.get(name, "-") if versions else f"does not resolve: {said}"
        row: dict[str, object] = {"beside": name, "version": found}
        rows.append(row | {one: versions.get(one, "-") for one in SHOWN})
    print(markdown(rows))
    sys.exit(failed)


if __name__ == "__main__":
    main()
