"""The installed package as a wheel, for places that cannot install it from an index.

Built from what is installed, also where that is a source tree in editable mode: the two packages
as they are imported, and the metadata of their installation. Equal packages give equal bytes. Not
for releases: `make dist` builds those from the sources.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from importlib import import_module, metadata
from pathlib import Path

from packaging.requirements import Requirement

from rpd_metric.errors import InputError

DISTRIBUTION = "rpd-metric"
PACKAGES = ("rpd_metric", "rpd_datasets")
WHEEL = "Wheel-Version: 1.0\nGenerator: rpd space\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
# A zip file wants a date; this is the first that it can hold.
DATE = (1980, 1, 1, 0, 0, 0)


def build_wheel() -> tuple[str, bytes]:
    """The wheel of this very package.

    Returns:
        `tuple[str, bytes]`: Its file name and content.

    Raises:
        InputError: If the package runs from a folder without being installed.
    """
    installed = _installed()
    info = f"rpd_metric-{installed.version}.dist-info"
    files = {f"{info}/WHEEL": WHEEL.encode()}
    # In a source tree the metadata lies in an egg-info folder, under another name.
    described = installed.read_text("METADATA") or installed.read_text("PKG-INFO") or ""
    files[f"{info}/METADATA"] = described.encode()
    files[f"{info}/entry_points.txt"] = (installed.read_text("entry_points.txt") or "").encode()
    for package in PACKAGES:
        folder = Path(str(import_module(package).__file__)).parent
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                files[f"{package}/{path.relative_to(folder).as_posix()}"] = path.read_bytes()
    record = "".join(f"{name},{_digest(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    return f"rpd_metric-{installed.version}-py3-none-any.whl", buffer.getvalue()


def requirements(extra: str) -> list[str]:
    """What the package and one of its extras need, for a `requirements.txt`.

    Raises:
        InputError: As [`build_wheel`].
    """
    wanted = set()
    for line in _installed().requires or ():
        one = Requirement(line)
        if one.marker is None or one.marker.evaluate({"extra": extra}):
            one.marker = None
            wanted.add(str(one))
    return sorted(wanted)


def _installed() -> metadata.Distribution:
    try:
        return metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError as error:
        raise InputError(
            f"{DISTRIBUTION} is not installed, so there is nothing to put into the Space: pip "
            "install it, or name what pip shall install with --package"
        ) from error


def _digest(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
    return f"sha256={digest.decode()}"
