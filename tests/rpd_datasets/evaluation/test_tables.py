"""Tables of figures: Markdown in files, what fits the window on a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from rpd_datasets.evaluation.tables import table_text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_each_row_on_a_line_and_text_is_no_markup():
    rows = [["unbiased", "7.00"], ["paper, Table 2: [bold]RPD" * 9, ""]]
    lines = table_text(["estimator", "pass@1"], rows).splitlines()
    assert len(lines) == 4
    assert lines[3] == rows[1][0]


@pytest.mark.parametrize("columns", [80, 140])
def test_a_terminal_gets_what_fits_its_window(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "stdout", Terminal())
    wide = [["a method with a long name " * 4, *["12.34 [11.1, 13.3]"] * 5]]
    lines = table_text(["method", *(f"pass@{k} (%)" for k in range(5))], wide).splitlines()
    assert max(map(len, lines)) <= columns
    assert "".join(line.split("  ")[0].strip() for line in lines[2:]).count("long") == 4
