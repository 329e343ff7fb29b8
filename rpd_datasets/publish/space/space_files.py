"""A metric Space: the files for `evaluate.load("USER/NAME")` and for a page.

`evaluate` downloads one file from the Space, named after it, and runs it where `rpd_metric` is
installed; the page (`app.py`) runs in the Space and imports the package from a wheel beside it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement

from rpd_datasets.destination import check_output
from rpd_metric.errors import InputError, OutputError

# The version that the page is tested with; the Space installs exactly this one.
GRADIO = "6.31.0"
EXTRA = "offline"
WRITTEN = ("rpd_metric-*.whl", "requirements.txt", "README.md", "app.py")
ROOT = Path(__file__).resolve().parents[3]
FILES = ("rpd_command.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")
SOURCES = ("rpd_metric", "rpd_datasets", *FILES)


def space_files(name: str) -> dict[str, bytes]:
    """The files of a Space: contents by name.

    Args:
        name (`str`): The Space's name without its namespace; `evaluate` asks for `<name>.py`.

    Raises:
        InputError: `evaluate` cannot load a module of that name, or this is not a checkout.
        OutputError: The wheel cannot be built.
    """
    if "." in name:
        raise InputError(
            f"evaluate cannot load a metric called {name!r}, because its file would be a module "
            "with a dot in its name: choose a name without one"
        )
    metric = ROOT / "rpd_metric/metrics/rpd"
    card = (metric / "README.md").read_text(encoding="utf-8")
    card = card.replace("sdk: gradio\n", f"sdk: gradio\nsdk_version: {GRADIO}\n")
    return {
        "README.md": card.encode(),
        f"{name}.py": (metric / "rpd.py").read_bytes(),
        "app.py": Path(__file__).with_name("app.py").read_bytes(),
        **_wheel(),
    }


def write_space(folder: str | Path, *, overwrite: bool = False) -> Path:
    """Write the [`space_files`] into a folder; `evaluate` looks for a file of its name."""
    folder = Path(folder)
    name = folder.resolve().name

    def written(place: Path) -> Sequence[str] | None:
        # .git: a Space is a repository, which may have been cloned.
        return (*WRITTEN, f"{name}.py", ".git*") if any(place.glob(WRITTEN[0])) else None

    check_output(folder, written, overwrite=overwrite)
    files = space_files(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise OutputError(f"cannot write {error.filename or folder}: {error.strerror}") from error
    return folder


def _wheel() -> dict[str, bytes]:
    """The wheel of this checkout, and what it needs. Equal sources give equal bytes."""
    if not (ROOT / "setup.cfg").is_file():
        raise InputError(
            "the package is on no index, so a Space brings it along as a wheel, and that is built "
            "from a clone of the repository: run rpd space there, after pip install -e '.[offline]'"
        )
    with TemporaryDirectory() as scratch:
        # In the checkout setuptools would leave folders, and pack what it finds in older ones.
        for source in (ROOT / name for name in SOURCES):
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, Path(scratch) / source.name)
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
        command = [*pip, "--wheel-dir", scratch, scratch]
        env = {**os.environ, "SOURCE_DATE_EPOCH": "315532800"}  # the first that a zip file can hold
        built = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if built.returncode:
            raise OutputError(f"pip cannot build the wheel: {built.stderr.strip()[-300:]}")
        (wheel,) = Path(scratch).glob("*.whl")
        (built_of,) = metadata.distributions(path=[str(wheel)])
        needed = set()
        for requirement in map(Requirement, built_of.requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": EXTRA}):
                requirement.marker = None
                needed.add(f"{requirement}\n")
        return {
            wheel.name: wheel.read_bytes(),
            "requirements.txt": "".join(sorted(needed)).encode(),
        }
