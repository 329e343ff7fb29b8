"""The pictures of the docs show what the demo prints today."""

from __future__ import annotations

from benchmarks.pictures import DOCS, demo_arguments, run_demo, terminal_page, words_of


def test_the_words_of_the_picture_are_those_of_the_demo(tmp_path):
    assert demo_arguments()[:2] == ["curate", "sample"]
    printed = run_demo(tmp_path / "set")
    recorded = (DOCS / "demo.txt").read_text(encoding="utf-8")
    assert words_of(printed) == recorded, "docs/demo.png is stale: make pictures"
    for name in ("demo", "report", "report-dark", "report-phone"):
        picture = DOCS / f"{name}.png"
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size < 300_000, f"{picture} is too large for a clone"
    page = terminal_page(printed)
    assert "effective number of strategies" in page
    assert str(tmp_path) not in page
