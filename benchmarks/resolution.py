"""Do the packages resolve beside the trainers and generators that their users have?

    python benchmarks/resolution.py [NAME ...]

Asks uv for the versions that one environment with both would hold, for Python 3.12 on Linux, and
prints them with what this project needs of the other. Without names, also whether each extra of
this project has versions that constraints.txt allows, and whether its extras take the newest
versions of what moves fastest. Nothing is installed; the package index is
asked, so a network is needed. uv is in the extra `dev`.
"""

import argparse
import re
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path

from machine import markdown

ROOT = Path(__file__).resolve().parents[1]
# As PyPI calls them.
BESIDE = (
    *("verl", "openrlhf", "skyrl", "unsloth"),
    *("ms-swift", "llamafactory", "data-designer", "axolotl"),
)
# What moves fastest, each with the extras beside which its newest version is tried.
MOVING = {
    "vllm": "training",
    "trl": "training",
    "transformers": "training",
    "inspect-ai": "inspect",
    "verifiers": "verifiers",
}
PYTHONS = ("3.11", "3.12", "3.13")
SHOWN = ("datasets", "huggingface-hub", "evaluate", "numpy", "transformers", "trl")


def resolved(
    requirements: str, *options: str | Path, python: str = "3.12"
) -> tuple[dict[str, str], str]:
    """The versions of an environment with what is wanted, or what prevents it."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "-"]
    command += ["--no-annotate", f"--python-version={python}", "--python-platform=linux", *options]
    done = subprocess.run(command, input=requirements, capture_output=True, text=True, cwd="/")
    versions = dict(re.findall(r"^([\w.-]+)==(\S+)", done.stdout, re.M))
    return versions, " ".join(done.stderr.split())


def main() -> None:
    """Ask and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="default: all of them, and the extras")
    names = parser.parse_args().names
    failed = False

    def row(requirements: str, *options: str | Path, python: str = "3.12") -> dict[str, object]:
        nonlocal failed
        versions, error = resolved(requirements, *options, python=python)
        failed |= not versions
        return {name: versions.get(name, "-") for name in SHOWN} | {"why not": error}

    project = f"@ file://{ROOT}\n"
    tables = [[{"beside": name} | row(f"rpd-metric {project}{name}") for name in names or BESIDE]]
    if not names:
        allowed = ("-c", ROOT / "constraints.txt")
        tables.append(
            [
                {"extra": f"{extra} on {python}"}
                | row(f"rpd-metric[{extra}] {project}", *allowed, python=python)
                for extra in metadata("rpd-metric").get_all("Provides-Extra", ())
                for python in PYTHONS
            ]
        )
        newest = {name: resolved(name, "--no-deps")[0].get(name, "-") for name in MOVING}
        tables.append(
            [
                {"newest": f"{name} {newest[name]} beside [{extra}]"}
                | row(f"rpd-metric[{extra}] {project}{name}=={newest[name]}")
                for name, extra in MOVING.items()
            ]
        )
    print(*map(markdown, tables), sep="\n\n")
    sys.exit(failed)


if __name__ == "__main__":
    main()
