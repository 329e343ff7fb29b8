"""Do the packages resolve beside the trainers and generators that their users have?

    python benchmarks/resolution.py [NAME ...]

Asks uv for the versions that one environment with both would hold, for Python 3.12 on Linux, and
prints them with what this project needs of the other. Without names, also whether each extra of
this project has versions that constraints.txt allows, and whether its extras take the newest
versions of what moves fastest. Nothing is installed; the package index is
asked, so a network is needed. uv is in the extra `dev`.
"""

from __future__ import annotations

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
SHOWN = ("datasets", "huggingface-hub", "evaluate", "numpy", "pyarrow")


def resolved(
    requirements: str, *options: str | Path, python: str = "3.12"
) -> tuple[dict[str, str], str]:
    """The versions of an environment with what is wanted, or what prevents it."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", *options]
    command += ["--no-annotate", "--python-version", python, "--python-platform", "linux", "-"]
    done = subprocess.run(command, input=requirements, capture_output=True, text=True, cwd="/")
    versions = dict(re.findall(r"^([\w.-]+)==(\S+)", done.stdout, re.M))
    return versions, " ".join(done.stderr.split())


def main() -> None:
    """Ask and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="default: all of them, and the extras")
    names = parser.parse_args().names
    rows: list[dict[str, object]] = []
    failed = False
    for name in names or BESIDE:
        versions, error = resolved(f"rpd-metric @ file://{ROOT}\n{name}\n")
        failed |= not versions
        version = versions.get(name, "-") if versions else f"does not resolve: {error}"
        rows.append(
            {"beside": name, "version": version}
            | {package: versions.get(package, "-") for package in SHOWN}
        )
    print(markdown(rows))
    for extra in () if names else metadata("rpd-metric").get_all("Provides-Extra", ()):
        for python in PYTHONS:
            requirement = f"rpd-metric[{extra}] @ file://{ROOT}\n"
            versions, error = resolved(requirement, "-c", ROOT / "constraints.txt", python=python)
            failed |= not versions
            print(f"[{extra}] on {python}: {'resolves' if versions else error}")
    rows = []
    for name, extra in {} if names else MOVING.items():
        newest = resolved(name, "--no-deps")[0].get(name, "-")
        requirement = f"rpd-metric[{extra}] @ file://{ROOT}\n{name}=={newest}\n"
        versions, error = resolved(requirement)
        failed |= not versions
        tried = {"newest": f"{name} {newest}", "beside": f"[{extra}]"}
        rows.append(
            tried
            | {package: versions.get(package, error or "-") for package in ("transformers", "trl")}
        )
    if rows:
        print(markdown(rows))
    sys.exit(failed)


if __name__ == "__main__":
    main()
