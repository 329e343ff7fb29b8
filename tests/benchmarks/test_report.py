"""The benchmark of the report measures a real page in a real browser."""

from __future__ import annotations

from pathlib import Path

from parts.browser import chromium_paths
from rpd_datasets.report import read_curated, write_report

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def test_a_small_page_is_timed_from_the_navigation_to_the_last_search(monkeypatch, tmp_path):
    chromium_paths()
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from report import make_folder, watch

    folder = read_curated(make_folder(tmp_path / "curated", 12, 4), 12)
    page = write_report(folder, tmp_path / "report.html", None).page
    seen = watch(page, tmp_path / "profile")
    assert 0 < seen["list"] <= seen["texts"]
    assert 0 < seen["search"] <= seen["slowest search"]
    assert seen["open"] > 0
