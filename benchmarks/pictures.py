"""Make the pictures of the docs from the real thing, with docs/demo.txt beside them.

    PYTHONPATH=.:tests python -m benchmarks.pictures

Runs what `make demo` runs, draws its terminal at 100 columns, and the report's page at 1440 pixels
in the light, in the dark and on a phone of 390 pixels. With a folder as argument, everything goes
there instead, with the terminal at 80 and 140 columns, too, the overview, the reading view, and the
whole of each page: to be looked at after a change.
`docs/demo.txt` holds the words of the picture; a test compares them with what the demo prints.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
COLUMNS = 100
SHOWN_PROBLEMS = 4
OPEN_FIRST = "document.querySelector('.entry').click()"


def demo_arguments() -> list[str]:
    """What `make demo` hands to `rpd`, read from the Makefile, but for where it writes."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    (line,) = re.findall(r"\$\(BIN\)/rpd (curate sample [^\n]*)", text)
    words = line.split()
    return words[: words.index("--output")]


def run_demo(output: Path, columns: int = COLUMNS) -> str:
    """Run the demo; returns what it prints on a terminal, colours and bars included."""
    command = [sys.executable, "-m", "rpd_datasets.cli", *demo_arguments(), "--output", str(output)]
    terminal = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": str(columns)}
    env = {**os.environ, "HF_HUB_OFFLINE": "1", **terminal}
    done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=ROOT, check=True)
    return done.stdout


def words_of(printed: str) -> str:
    """The demo's words, without colours and bars, and without where it wrote."""
    plain = Text.from_ansi(printed).plain
    lines = [re.sub(r" ?━+ ", "", line).rstrip() for line in plain.splitlines()]
    return "\n".join(line for line in lines if not line.startswith("Written to ")).strip() + "\n"


def terminal_page(printed: str, columns: int = COLUMNS) -> str:
    """The terminal as an HTML page: the first problems and the block at the end."""
    lines = printed.splitlines()
    heads = [at for at, line in enumerate(lines) if re.match(r"\d+  ", Text.from_ansi(line).plain)]
    last = next(at for at, line in enumerate(lines) if "problems and" in line)
    cut = [*lines[: heads[SHOWN_PROBLEMS]], "   ...", *lines[last - 1 : -2]]
    console = Console(record=True, width=columns, file=io.StringIO(), color_system="truecolor")
    console.print(Text("$ make demo", style="bold"))
    console.print(Text.from_ansi("\n".join(cut)))
    code = console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")
    style = "body{margin:0;background:#14181b;color:#e4e8ea} pre{font:15px/1.45 'DejaVu Sans Mono',"
    style += "monospace;padding:20px 24px;margin:0;width:max-content}"
    return f"<!doctype html><meta charset=utf-8><style>{style}</style><body>{code}</body>"


def photograph(
    page: Path, picture: Path, width: int, height: int, script: str = "", *, dark: bool = False
) -> None:
    """Save the upper part of a page, once `script` has run."""
    from parts.browser import chromium

    with (
        tempfile.TemporaryDirectory() as profile,
        chromium(Path(profile) / "new", dark=dark, width=width) as window,
    ):
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        window.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        window.get(page.as_uri())
        time.sleep(1)
        if script:
            window.execute_script(script)
            time.sleep(1)
        if terminal := window.find_elements("css selector", "body > pre"):
            terminal[0].screenshot(str(picture))  # as large as its text
        else:
            window.save_screenshot(str(picture))


def make_terminal(printed: str, picture: Path, scratch: Path, columns: int = COLUMNS) -> None:
    """Draw what the demo printed."""
    page = scratch / "terminal.html"
    page.write_text(terminal_page(printed, columns), encoding="utf-8")
    photograph(page, picture, 10 * columns, 900)


def report_of(folder: Path) -> Path:
    """The report of a curated folder."""
    command = [sys.executable, "-m", "rpd_datasets.cli", "report", str(folder), "--no-figures"]
    subprocess.run(command, check=True, cwd=ROOT)
    return folder / "report.html"


def look(pictures: Path, scratch: Path) -> None:
    """Everything that a person should look at after a change, into a folder."""
    pictures.mkdir(parents=True, exist_ok=True)
    for columns in (80, 140):
        folder = scratch / f"set-{columns}"
        make_terminal(run_demo(folder, columns), pictures / f"demo-{columns}.png", scratch, columns)
    page = report_of(folder)
    views = {
        "overview": "",
        "problem": OPEN_FIRST,
        "reading": f"{OPEN_FIRST}; setTimeout(() => document.getElementById('read').click(), 300)",
    }
    for name, script in views.items():
        for width, height in ((1440, 2200), (390, 3000)):
            for dark in (False, True):
                shade = "dark" if dark else "light"
                picture = pictures / f"{name}-{width}-{shade}.png"
                shown = script
                if name == "overview" and width < 500:
                    shown = "document.body.classList.add('open')"  # beside the list otherwise
                photograph(page, picture, width, height, shown, dark=dark)
    photograph(page, pictures / "list-390-light.png", 390, 844)


def main() -> None:
    """Make the pictures."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        if sys.argv[1:]:
            look(Path(sys.argv[1]), scratch)
            return
        printed = run_demo(scratch / "set")
        (DOCS / "demo.txt").write_text(words_of(printed), encoding="utf-8")
        make_terminal(printed, DOCS / "demo.png", scratch)
        page = report_of(scratch / "set")
        photograph(page, DOCS / "report.png", 1440, 1000, OPEN_FIRST)
        photograph(page, DOCS / "report-dark.png", 1440, 900, dark=True)
        photograph(page, DOCS / "report-phone.png", 390, 844, OPEN_FIRST)


if __name__ == "__main__":
    main()
