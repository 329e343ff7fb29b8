"""A metric Space: the files from which the Hub serves `evaluate.load("USER/NAME")` and a page.

`evaluate` downloads one file from the Space, named after it, and runs it where `rpd_metric` is
installed; the page (`app.py`) runs in the Space. As long as the package is on no index, its wheel
lies beside the page, which imports it from there: a Space sees nothing but `requirements.txt`
while that is installed, and a private one may not download its own files.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from importlib import import_module, metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from rpd_datasets.publish.pushing import Pushed, publish
from rpd_metric.errors import InputError, OutputError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

# The version that the page is tested with; the Space installs exactly this one.
GRADIO = "6.31.0"
EXTRA = "offline"
WHEEL = "Wheel-Version: 1.0\nGenerator: rpd space\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def space_files(name: str = "rpd", *, package: str | None = None) -> dict[str, bytes]:
    """The files of a Space: contents by name.

    Args:
        name (`str`, defaults to `"rpd"`): The Space's name without its namespace; `evaluate` asks
            for the file `<name>.py`.
        package (`str`, *optional*): What pip installs in the Space: a requirement such as
            `"rpd-metric[offline] @ git+https://host/repo"`; if unset, what the package needs, and
            the package itself lies in the Space as a wheel.

    Raises:
        InputError: If `evaluate` could not load a module of that name.
    """
    if "." in name:
        raise InputError(
            f"evaluate cannot load a metric called {name!r}, because its file would be a module "
            "with a dot in its name: choose a name without one"
        )
    metric = resources.files("rpd_metric.metrics.rpd")
    card = (metric / "README.md").read_text(encoding="utf-8")
    needed, shipped = ([package], {}) if package else _wheel()
    card = card.replace("sdk: gradio\n", f"sdk: gradio\nsdk_version: {GRADIO}\n")
    return {
        **shipped,
        "README.md": card.encode(),
        f"{name}.py": (metric / "rpd.py").read_bytes(),
        "app.py": (resources.files("rpd_datasets.publish.space") / "app.py").read_bytes(),
        "requirements.txt": "".join(f"{line}\n" for line in needed).encode(),
    }


def write_space(folder: str | Path, *, package: str | None = None, overwrite: bool = False) -> Path:
    """Write the [`space_files`] into a folder; `evaluate` looks for a file of its name."""
    folder = Path(folder)
    files = space_files(folder.resolve().name, package=package)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        there = [folder / name for name in files if (folder / name).exists()]
        changed = [path for path in there if path.read_bytes() != files[path.name]]
        if overwrite or not changed:
            for name, content in files.items():
                (folder / name).write_bytes(content)
            return folder
    except OSError as error:
        raise OutputError(f"cannot write {error.filename or folder}: {error.strerror}") from error
    raise OutputError(
        f"{changed[0]} exists with another content: pass --overwrite to replace it, or choose "
        "another folder"
    )


def push_space(
    repo_id: str,
    *,
    package: str | None = None,
    private: bool = True,
    revision: str | None = None,
    commit_message: str | None = None,
    api: HfApi | None = None,
) -> Pushed:
    """Publish the [`space_files`] as [`~rpd_datasets.publish.pushing.push_folder`] would."""
    return publish(
        lambda full_id: space_files(full_id.rpartition("/")[2], package=package),
        repo_id,
        repo_type="space",
        private=private,
        revision=revision,
        commit_message=commit_message or "Reasoning Path Divergence",
        api=api,
    )


def _wheel() -> tuple[list[str], dict[str, bytes]]:
    """What the package needs, and its wheel by name: what is imported here, as pip would have it.

    Equal packages give equal bytes. Releases are made by `make dist`, from the sources.
    """
    try:
        installed = metadata.distribution("rpd-metric")
    except metadata.PackageNotFoundError as error:
        raise InputError(
            "rpd-metric is not installed, so there is nothing to put into the Space: pip "
            "install it, or name what pip shall install with --package"
        ) from error
    needed = set()
    for one in map(Requirement, installed.requires or ()):
        if one.marker is None or one.marker.evaluate({"extra": EXTRA}):
            one.marker = None
            needed.add(str(one))
    info = f"rpd_metric-{installed.version}.dist-info"
    # In a source tree the metadata lies in an egg-info folder, under another name.
    described = installed.read_text("METADATA") or installed.read_text("PKG-INFO") or ""
    entry_points = installed.read_text("entry_points.txt") or ""
    files = {
        f"{info}/WHEEL": WHEEL.encode(),
        f"{info}/METADATA": described.encode(),
        f"{info}/entry_points.txt": entry_points.encode(),
    }
    for package in ("rpd_metric", "rpd_datasets"):
        folder = Path(str(import_module(package).__file__)).parent
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                files[f"{package}/{path.relative_to(folder).as_posix()}"] = path.read_bytes()
    record = "".join(f"{name},{_digest(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as wheel:
        for name, data in files.items():
            # With the first date that a zip file can hold.
            wheel.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return sorted(needed), {f"rpd_metric-{installed.version}-py3-none-any.whl": buffer.getvalue()}


def _digest(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
    return f"sha256={digest.decode().rstrip('=')}"
