"""Make the pictures of the docs from the real thing, with docs/demo.txt beside them.

    PYTHONPATH=.:tests python -m benchmarks.pictures

Runs what `make demo` runs, draws its terminal at 100 columns, and the report's page at 1440 pixels
in the light, in the dark and on a phone of 390 pixels.
`docs/demo.txt` holds the words of the picture; a test compares them with what the demo prints.
"""

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
OPEN_FIRST = "document.querySelector('.entry').click()"


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
    return done.stdout.replace(str(output), "demo-output")


def words_of(printed: str) -> str:
    """The demo's words, without colours and bars, and without where it wrote."""
    plain = Text.from_ansi(printed).plain
    lines = [re.sub(r" ?━+ ", "", line).rstrip() for line in plain.splitlines()]
    shown = [line for line in lines if not line.startswith(("Written to ", "Next: "))]
    return "\n".join(shown).strip() + "\n"


def terminal_page(printed: str) -> str:
    """The terminal as an HTML page: the first problems and the block at the end."""
    lines = [line for line in printed.splitlines() if not line.startswith("Next: ")]
    heads = [at for at, line in enumerate(lines) if re.match(r"\d+  ", Text.from_ansi(line).plain)]
    last = next(at for at, line in enumerate(lines) if "Answers " in line)
    cut = [*lines[: heads[4]], "   ...", *lines[last - 1 : -2]]
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), color_system="truecolor")
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
        window.execute_script(script)
        time.sleep(1)
        if terminal := window.find_elements("css selector", "body > pre"):
            terminal[0].screenshot(str(picture))  # as large as its text
        else:
            window.save_screenshot(str(picture))


def main() -> None:
    """Make the pictures."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        printed = run_demo(scratch / "set")
        (DOCS / "demo.txt").write_text(words_of(printed), encoding="utf-8")
        terminal = scratch / "terminal.html"
        terminal.write_text(terminal_page(printed), encoding="utf-8")
        photograph(terminal, DOCS / "demo.png", 10 * COLUMNS, 1200)
        command = [sys.executable, "-m", "rpd_datasets.cli", "report", str(scratch / "set")]
        subprocess.run(command, check=True, cwd=ROOT)
        page = scratch / "set" / "report.html"
        photograph(page, DOCS / "report.png", 1440, 1000, OPEN_FIRST)
        photograph(page, DOCS / "report-dark.png", 1440, 900, dark=True)
        photograph(page, DOCS / "report-phone.png", 390, 844, OPEN_FIRST)


if __name__ == "__main__":
    main()
