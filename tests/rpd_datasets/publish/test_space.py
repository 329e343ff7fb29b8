"""A Space: its files, and its page in a real browser without a network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from parts.browser import chromium, chromium_paths, screenshot
from rpd_datasets.cli import main
from rpd_datasets.publish.space.files import GRADIO, space_files, write_space
from rpd_metric import __version__
from rpd_metric.errors import InputError, OutputError
from rpd_metric.inference.registry import load_embedder

ROOT = Path(__file__).resolve().parents[3]
STEPS = "steps, one per line"


def test_a_written_space_holds_metric_card_page_and_requirements(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["space", str(tmp_path / "space")]) == 0
    written = {path.name: path.read_bytes() for path in (tmp_path / "space").iterdir()}
    assert written == space_files("rpd")
    assert written["rpd.py"] == (ROOT / "rpd_metric/metrics/rpd/rpd.py").read_bytes()
    assert written["requirements.txt"].decode() == f"rpd-metric[offline]=={__version__}\n"
    assert f"python {tmp_path / 'space' / 'app.py'}" in capsys.readouterr().out


def test_the_card_has_the_metadata_of_a_gradio_space() -> None:
    header = re.match(r"---\n(.*?)\n---\n", space_files()["README.md"].decode(), re.DOTALL)
    assert header is not None
    data = yaml.safe_load(header[1])
    assert data["sdk"] == "gradio"
    assert data["sdk_version"] == GRADIO
    assert data["app_file"] == "app.py"
    assert {"evaluate", "metric"} <= set(data["tags"])


def test_the_metric_file_is_called_as_the_space_is() -> None:
    assert "path-divergence.py" in space_files("path-divergence")


def test_another_package_can_be_named() -> None:
    files = space_files(package="rpd-metric[offline] @ git+https://example.org/rpd")
    assert files["requirements.txt"] == b"rpd-metric[offline] @ git+https://example.org/rpd\n"


def test_a_changed_file_is_replaced_only_if_that_is_said(tmp_path: Path) -> None:
    write_space(tmp_path)
    write_space(tmp_path)
    (tmp_path / "app.py").write_text("mine")
    with pytest.raises(OutputError, match="pass --overwrite"):
        write_space(tmp_path)
    assert (tmp_path / "app.py").read_text() == "mine"
    write_space(tmp_path, overwrite=True)
    assert (tmp_path / "app.py").read_bytes() == space_files()["app.py"]


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot write"):
        write_space(tmp_path / "file")


def test_text_is_shown_as_text_and_numbers_are_the_metrics() -> None:
    app = pytest.importorskip("rpd_datasets.publish.space.app", reason="needs gradio")
    minilm = load_embedder("minilm")
    page = app.compare(minilm, "", STEPS, "Factor <b>it</b>.\nCheck.", "", "Factor <b>it</b>.")

    assert "<b>it</b>" not in page
    assert "Factor &lt;b&gt;it&lt;/b&gt;." in page
    assert "Mean distance <b>0.000</b>" in page
    assert "Solution 1 and Solution 3" in page

    assert "Solution 1 and Solution 3, 0.00: almost surely the same method" in page
    assert "the chance of another method at a distance of 0.1: " in page
    assert "too little to judge by" not in page  # steps may be short

    short = app.compare(minilm, "", app.SOLUTIONS, app.EXAMPLE[2], "We count the pairs of numbers.")
    assert "Solution 2: fewer than 25 words." in short

    with pytest.raises(InputError, match="at least two"):
        app.compare(minilm, "", STEPS, "one", " ", "")
    with pytest.raises(InputError, match="Solution 2 has no steps"):
        app.compare(minilm, "", app.SOLUTIONS, "We count the pairs of numbers.", "?")
    with pytest.raises(InputError, match="100,000 characters"):
        app.compare(minilm, "", STEPS, "a" * 100_000, "b")


@pytest.fixture
def page(tmp_path: Path) -> Iterator[str]:
    gradio = pytest.importorskip("gradio", reason="needs gradio")
    assert gradio.__version__ == GRADIO, "the Space installs another version than is tested"
    chromium_paths()
    folder = write_space(tmp_path / "space")
    env = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "GRADIO_ANALYTICS_ENABLED": "False",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        "NO_PROXY": "127.0.0.1,localhost",
    }
    with (tmp_path / "log").open("w+") as log:
        server = subprocess.Popen(
            [sys.executable, "app.py"], cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield address(server, tmp_path / "log")
        finally:
            server.terminate()
            server.wait(30)


def address(server: subprocess.Popen[bytes], log: Path) -> str:
    for _ in range(1200):
        if found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text()):
            with urllib.request.urlopen(found[0], timeout=300):
                return found[0]
        assert server.poll() is None, log.read_text()
        time.sleep(0.1)
    raise AssertionError(f"the page is not served: {log.read_text()}")


def test_a_person_compares_solutions_on_the_page(page: str, tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    def text_of(window: Any, css: str) -> str:
        return str(window.find_element(By.CSS_SELECTOR, css).text)

    with chromium(tmp_path / "profile") as window:
        wait = WebDriverWait(window, 90)
        window.get(page)
        wait.until(lambda _: window.find_elements(By.ID, "compare"))

        # Nothing pasted yet: told so, in words.
        window.find_element(By.ID, "compare").click()
        wait.until(lambda _: "paste at least two solutions" in text_of(window, "[role=alert]"))

        window.find_element(By.ID, "example").click()
        boxes = window.find_elements(By.TAG_NAME, "textarea")
        wait.until(lambda _: boxes[3].get_property("value").startswith("We prove by induction"))
        window.find_element(By.ID, "compare").click()
        wait.until(lambda _: window.find_elements(By.CSS_SELECTOR, ".rpd table.heat"))

        heat = text_of(window, ".rpd table.heat")
        distances = [float(value) for value in re.findall(r"\d\.\d{3}", heat)]
        assert len(distances) == 9
        assert distances[0] == distances[4] == distances[8] == 0
        assert distances[1] == distances[3]
        # Adding columns is closer to adding pairs than to an induction.
        assert distances[1] < distances[2]
        assert "Solution 1 and Solution 2" in text_of(window, ".rpd")
        if wanted := os.environ.get("RPD_SCREENSHOTS"):
            screenshot(window, Path(wanted) / "space.png")

        # Steps of one's own.
        window.find_elements(By.CSS_SELECTOR, "input[type=radio]")[1].click()
        for box, text in zip(boxes[1:4], ("Factor.\nCheck.", "Factor.\nCheck.", ""), strict=True):
            # As a person does it: the page hears of keys, not of WebDriver's own clearing.
            box.send_keys(Keys.CONTROL, "a")
            box.send_keys(Keys.DELETE, text)
        window.find_element(By.ID, "compare").click()
        wait.until(lambda _: "Mean distance 0.000" in text_of(window, ".rpd"))

        outside = [
            entry["name"]
            for entry in window.execute_script("return performance.getEntriesByType('resource')")
            if not entry["name"].startswith((page, "data:", "blob:"))
        ]
        assert outside == [], "the page asks another host"
