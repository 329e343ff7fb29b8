"""Registries: ours first, then what installed packages bring, loaded when it is asked for."""

import sys

import numpy as np
import pytest

from rpd_metric.errors import InputError, PluginError
from rpd_metric.plugins import Registry, checked_distances

MODULE = "red = '#f00'\nnumber = 7\n"
POINTS = """[their.colours]
blue = their_package:red
number = their_package:number
gone = their_package:nothing
missing = no_such_package:red
green = their_package:number
"""


@pytest.fixture
def colours(tmp_path, monkeypatch):
    """A registry, and an installed package that brings entries of every quality."""
    (tmp_path / "their_package.py").write_text(MODULE)
    info = tmp_path / "their_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    yield Registry("colour", str, {"green": "#0f0"}, "their.colours")
    sys.modules.pop("their_package", None)


def test_ours_come_first_and_others_are_imported_when_they_are_asked_for(colours):
    assert list(colours) == ["green", "blue", "number", "gone", "missing"]
    assert (colours["green"], colours.get("white")) == ("#0f0", None)
    assert "their_package" not in sys.modules
    assert colours.find("blue") == "#f00"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("number", "colour 'number' of the package their-package must be a str, not int"),
        ("gone", "of the package their-package cannot be imported: .*no attribute 'nothing'"),
        ("missing", "of the package their-package cannot be imported: No module named"),
        ("bleu", "unknown colour 'bleu'; did you mean 'blue'. There are: green, blue"),
        ("xxx", "unknown colour 'xxx'. There are: green, blue"),
    ],
)
def test_what_cannot_be_had_is_one_clear_line(colours, name, message):
    with pytest.raises(InputError, match=message) as caught:
        colours.find(name)
    assert "\n" not in str(caught.value)


def test_rounding_of_another_package_is_evened_out_and_more_is_an_error():
    matrix = np.array([[1e-9, 0.5], [0.5 + 1e-7, -1e-9]])
    even = checked_distances(matrix, 2, "it")
    assert (even == even.T).all()
    assert even.diagonal().tolist() == [0, 0]
    with pytest.raises(PluginError, match="it is not 0 between a solution and itself"):
        checked_distances([[0.1, 0.5], [0.5, 0]], 2, "it")
