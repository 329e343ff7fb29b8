"""Make docs/demo.png and docs/report.png from the real thing, with docs/demo.txt beside them.

    python -m benchmarks.pictures

Runs what `make demo` runs, draws its terminal at 100 columns and the report's page at 1440 pixels.
`docs/demo.txt` holds the words of the picture; a test compares them with what the demo prints.
Needs Chromium and its driver (`apt-get install chromium chromium-driver`) and selenium.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
COLUMNS = 100
SHOWN_PROBLEMS = 4
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")


def demo_arguments() -> list[str]:
    """What `make demo` hands to `rpd`, read from the Makefile, but for where it writes."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    (line,) = re.findall(r"\$\(BIN\)/rpd (curate sample [^\n]*)", text)
    words = line.split()
    return words[: words.index("--output")]


def run_demo(output: Path) -> str:
    """Run the demo; returns what it prints on a terminal, colours and bars included."""
    command = [sys.executable, "-m", "rpd_datasets.cli", *demo_arguments(), "--output", str(output)]
    terminal = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    env = {**os.environ, "HF_HUB_OFFLINE": "1", **terminal}
    done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=ROOT, check=True)
    return done.stdout


def words_of(printed: str) -> str:
    """The demo's words, without colours and bars, and without where it wrote."""
    plain = Text.from_ansi(printed).plain
    lines = [re.sub(r" ?━+ ", "", line).rstrip() for line in plain.splitlines()]
    return "\n".join(line for line in lines if not line.startswith("Written to ")).strip() + "\n"


def terminal_page(printed: str) -> str:
    """The terminal as an HTML page: the first problems and the block at the end."""
    lines = printed.splitlines()
    heads = [at for at, line in enumerate(lines) if re.match(r"\d+  ", Text.from_ansi(line).plain)]
    last = next(at for at, line in enumerate(lines) if "problems and" in line)
    cut = [*lines[: heads[SHOWN_PROBLEMS]], "   ...", *lines[last - 1 : -2]]
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), color_system="truecolor")
    console.print(Text("$ make demo", style="bold"))
    console.print(Text.from_ansi("\n".join(cut)))
    code = console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")
    style = (
        "body{margin:0;background:#14181b;color:#e4e8ea}"
        "pre{font:15px/1.45 'DejaVu Sans Mono',monospace;padding:20px 24px;margin:0;"
        "width:max-content}"
    )
    return f"<!doctype html><meta charset=utf-8><style>{style}</style><body>{code}</body>"


def photograph(page: Path, picture: Path, width: int, height: int | None, script: str = "") -> None:
    """Save a page as it stands, once `script` has run; its own height if none is given."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    with tempfile.TemporaryDirectory() as profile:
        for flag in (
            *FLAGS,
            f"--user-data-dir={profile}",
            f"--window-size={width},{height or 900}",
        ):
            options.add_argument(flag)
        service = Service(shutil.which("chromedriver"))
        window = webdriver.Chrome(options=options, service=service)
        try:
            window.get(page.as_uri())
            time.sleep(1)
            if script:
                window.execute_script(script)
                time.sleep(1)
            if height is None:
                needed = window.execute_script(
                    "const r = document.querySelector('pre').getBoundingClientRect();"
                    "return [Math.ceil(r.width), Math.ceil(r.height)]"
                )
                window.set_window_size(needed[0], needed[1] + 143)
                time.sleep(0.3)
                window.find_element("css selector", "pre").screenshot(str(picture))
            else:
                window.save_screenshot(str(picture))
        finally:
            window.quit()


def main() -> None:
    """Make both pictures."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        printed = run_demo(folder / "set")
        (DOCS / "demo.txt").write_text(words_of(printed), encoding="utf-8")
        (folder / "terminal.html").write_text(terminal_page(printed), encoding="utf-8")
        photograph(folder / "terminal.html", DOCS / "demo.png", 1000, None)
        command = ["report", str(folder / "set"), "--no-figures"]
        subprocess.run([sys.executable, "-m", "rpd_datasets.cli", *command], check=True, cwd=ROOT)
        open_first = "document.querySelector('.entry').click()"
        page = folder / "set" / "report.html"
        photograph(page, DOCS / "report.png", 1440, 1000, open_first)


if __name__ == "__main__":
    main()
