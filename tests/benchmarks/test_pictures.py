"""The pictures of the docs show what the demo prints today."""

from __future__ import annotations

from benchmarks.pictures import DOCS, run_demo, terminal_page, words_of


def test_the_words_of_the_picture_are_those_of_the_demo(tmp_path):
    printed = run_demo(tmp_path / "set")
    recorded = (DOCS / "demo.txt").read_text(encoding="utf-8")
    assert words_of(printed) == recorded, "docs/demo.png is stale: make pictures"
    assert str(tmp_path) not in terminal_page(printed)
