"""How large and how quick the report of 1,500 problems x 16 solutions is, in headless Chromium.

    PYTHONPATH=.:tests python benchmarks/report.py

Times are those until the page is drawn. Texts are made up: words drawn by Zipf's law, lengths
log-normal around 250 words, so that they are as hard to compress as real ones.
"""

import argparse
import random
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from machine import machine, markdown

from parts.browser import chromium
from parts.curated_folder import a_row, write_folder
from rpd_datasets.report import read_curated, write_report

VOCABULARY, WORDS, SPREAD, SEARCHES = 20_000, 250, 0.6, 20
# Notes the time, counted from the navigation, at which the page says that it is ready.
WATCH = """
window.reached = {};
new MutationObserver(() => {
  const stage = document.documentElement?.dataset.ready;
  if (stage && !(stage in window.reached)) window.reached[stage] = performance.now();
}).observe(document, { attributes: true, subtree: true, attributeFilter: ["data-ready"] });
"""
# Two frames later what was changed has been drawn.
DRAWN = """
const [act, value] = [arguments[0], arguments[1]], done = arguments[arguments.length - 1];
const from = performance.now();
if (act === "search") {
  const box = document.getElementById("search");
  box.value = value;
  box.dispatchEvent(new Event("input"));
} else document.querySelectorAll(".entry")[value].click();
requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - from)));
"""


def make_folder(folder: Path, problems: int, solutions: int) -> Path:
    """A curated folder of made-up texts, as `rpd curate` writes it."""
    rng, shuffled = np.random.default_rng(0), random.Random(0)
    letters = "etaoinshrdlucmfwypvbgk"
    words = [
        "".join(shuffled.choices(letters, k=shuffled.randint(2, 10))) for _ in range(VOCABULARY)
    ]

    def text(length: int) -> str:
        chosen = (rng.zipf(1.3, length) - 1) % VOCABULARY
        return " ".join(words[index] for index in chosen).capitalize() + "."

    def solution() -> str:
        length = int(rng.lognormal(np.log(WORDS), SPREAD))
        return "\n\n".join(text(40) for _ in range(1 + length // 40))

    rows = [
        a_row(
            f"Problem {index}: {text(40)}",
            solutions=[solution() for _ in range(solutions)],
            steps=[[text(12) for _ in range(4)] for _ in range(solutions)],
            selected=shuffled.sample(range(solutions), 3),
            drop_reasons=[""] * solutions,
            num_tokens=[300] * solutions,
        )
        for index in range(problems)
    ]
    return write_folder(folder, rows)


def watch(page: Path, profile: Path) -> dict[str, Any]:
    """Open the page and use it; times in milliseconds."""
    with chromium(profile, width=1440) as window:
        window.set_script_timeout(120)
        window.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
        window.get(page.as_uri())
        while not (reached := window.execute_script("return window.reached")).get("texts"):
            time.sleep(0.2)
        queries = [f"problem {number}:" for number in range(SEARCHES // 2)]
        queries += ["eta", "sho", "no such words", "an in", *("tea" for _ in range(6))]
        times = [window.execute_async_script(DRAWN, "search", query) for query in queries]
        window.execute_async_script(DRAWN, "search", "")
        opened = [window.execute_async_script(DRAWN, "open", place) for place in range(8)]
        return {
            "list": reached["list"],
            "texts": reached["texts"],
            "search": median(times),
            "slowest search": max(times),
            "open": median(opened),
        }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--problems", type=int, default=1500)
    parser.add_argument("--solutions", type=int, default=16)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = make_folder(Path(scratch) / "curated", options.problems, options.solutions)
        curated = read_curated(folder, options.problems)
        characters = sum(len(text) for row in curated.shown for text in row.solutions)
        page = Path(scratch) / "report.html"
        began = time.perf_counter()
        write_report(curated, page)
        written = time.perf_counter() - began
        size = page.stat().st_size / 1e6
        seen = watch(page, Path(scratch) / "profile")
    print(f"{options.problems:,} problems x {options.solutions} solutions, {machine()}")
    rows = (
        ("texts of the solutions", f"{characters / 1e6:.1f} MB", ""),
        ("page", f"{size:.2f} MB", "10 MB"),
        ("writing it", f"{written:.1f} s", ""),
        ("list usable after", f"{seen['list'] / 1e3:.2f} s", "2 s"),
        ("all texts searchable after", f"{seen['texts'] / 1e3:.2f} s", ""),
        ("a search, drawn (median)", f"{seen['search']:.0f} ms", "100 ms"),
        ("the slowest search", f"{seen['slowest search']:.0f} ms", "100 ms"),
        ("opening a problem, drawn (median)", f"{seen['open']:.0f} ms", ""),
    )
    print(markdown([dict(zip(("What", "Measured", "Goal"), row, strict=True)) for row in rows]))


if __name__ == "__main__":
    main()
