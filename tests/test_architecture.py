"""docs/architecture.md shows the house as it is: every room, and no file that is gone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
(PICTURE,) = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def rooms(package: str) -> set[str]:
    """The folders and files directly in a package."""
    return {
        path.stem
        for path in (ROOT / package).iterdir()
        if not path.name.startswith("_") and (path.is_dir() or path.suffix == ".py")
    }


@pytest.mark.parametrize("package", ["rpd_metric", "rpd_datasets"])
def test_every_room_is_in_the_picture_and_has_its_paragraph(package):
    (part,) = re.findall(rf"^## {package}:(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    described = {
        name for names in re.findall(r"^\*\*(.+?)\.\*\*", part, re.M) for name in names.split(", ")
    }
    assert described == rooms(package)
    assert rooms(package) <= set(re.findall(r"\w+", PICTURE))


def test_every_file_that_the_page_names_is_there():
    for path in re.findall(r"`((?:rpd_metric|rpd_datasets)/[\w/.]+)`", PAGE):
        assert (ROOT / path).is_file(), path
    everywhere = {
        path.name
        for package in ("rpd_metric", "rpd_datasets", "recipes")
        for path in (ROOT / package).rglob("*.py")
    }
    assert set(re.findall(r"\b\w+\.py\b", PAGE)) <= everywhere | {
        path.name for path in (ROOT / "tests").glob("*.py")
    }
    for link in re.findall(r"\]\(([^)]+)\)", PAGE):
        assert (ROOT / "docs" / link).exists(), link
