"""A metric Space: the files for `evaluate.load("USER/NAME")` and for a page.

`evaluate` downloads one file from the Space, named after it, and runs it where `rpd_metric` is
installed; the page (`app.py`) runs in the Space and imports the package from a wheel beside it.
"""

import base64
import hashlib
import io
import zipfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement

from rpd_datasets.destination import check_output
from rpd_metric.errors import InputError, OutputError

# The version that the page is tested with; the Space installs exactly this one.
GRADIO = "6.31.0"
EXTRA = "offline"
WRITTEN = ("rpd_metric-*.whl", "requirements.txt", "README.md", "app.py")
ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("rpd_metric", "rpd_datasets")


def space_files(name: str) -> dict[str, bytes]:
    """The files of a Space: contents by name.

    Args:
        name (`str`): The Space's name without its namespace; `evaluate` asks for `<name>.py`.

    Raises:
        InputError: `evaluate` cannot load a module of that name, or the package is not installed.
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
    """The installed package as a wheel, and what it needs. Equal sources give equal bytes.

    A wheel of Python alone is a zip file with its metadata: no build tool has to be there.
    """
    try:
        installed = metadata.distribution("rpd-metric")
    except metadata.PackageNotFoundError:
        raise InputError(
            "a Space brings the package along with the requirements of its installation, and it is "
            "not installed: run pip install -e . in the clone"
        ) from None
    about = f"rpd_metric-{installed.version}.dist-info"
    tag = "Wheel-Version: 1.0\nGenerator: rpd\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {
        f"{about}/WHEEL": tag.encode(),
        "rpd_command.py": (ROOT / "rpd_command.py").read_bytes(),
    }
    # A clone's own folder of metadata, which Python finds first there, calls METADATA "PKG-INFO".
    texts = {
        name: installed.read_text(name) for name in ("METADATA", "PKG-INFO", "entry_points.txt")
    }
    files[f"{about}/METADATA"] = (texts["METADATA"] or texts["PKG-INFO"] or "").encode()
    files[f"{about}/entry_points.txt"] = (texts["entry_points.txt"] or "").encode()
    for path in chain.from_iterable((ROOT / package).rglob("*") for package in PACKAGES):
        if path.is_file() and "__pycache__" not in path.parts:
            files[path.relative_to(ROOT).as_posix()] = path.read_bytes()
    needed = set()
    for requirement in map(Requirement, installed.requires or ()):
        if requirement.marker is None or requirement.marker.evaluate({"extra": EXTRA}):
            requirement.marker = None
            needed.add(f"{requirement}\n")
    return {
        f"rpd_metric-{installed.version}-py3-none-any.whl": _zipped(files, f"{about}/RECORD"),
        "requirements.txt": "".join(sorted(needed)).encode(),
    }


def _zipped(files: Mapping[str, bytes], record: str) -> bytes:
    """A zip file of these files and of the record of their hashes."""
    lines = [f"{record},,"]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            lines.insert(-1, f"{name},sha256={digest},{len(content)}")
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
        archive.writestr(zipfile.ZipInfo(record), "\n".join(lines) + "\n")
    return packed.getvalue()
