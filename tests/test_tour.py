"""docs/tour.ipynb runs from its first cell to its last, and its report is alive."""

import os
from pathlib import Path
from typing import Any

import pytest

from parts.browser import chromium, drawn, enter_frame, ready

ROOT = Path(__file__).resolve().parents[1]
TOUR = ROOT / "docs" / "tour.ipynb"


@pytest.fixture(scope="module")
def executed(tmp_path_factory) -> Any:
    import nbformat
    from nbclient import NotebookClient

    folder = tmp_path_factory.mktemp("tour")
    notebook = nbformat.read(TOUR, as_version=4)
    with pytest.MonkeyPatch.context() as patch:
        # The kernel makes folders of its own there, else in HOME.
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            patch.setenv(name, str(folder / name.lower()))
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        where = {"metadata": {"path": str(folder)}}
        NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()
    return notebook, folder


def printed(notebook: Any) -> list[str]:
    """What each cell prints, but for progress bars and the report."""
    return [
        "".join(
            output.get("text") or output["data"]["text/plain"]
            for output in cell.get("outputs", ())
            if output.get("name") != "stderr" and "text/html" not in output.get("data", {})
        )
        for cell in notebook.cells
    ]


def test_the_tour_prints_what_it_shows(executed):
    import nbformat

    notebook, folder = executed
    shown = printed(nbformat.read(TOUR, as_version=4))
    assert printed(notebook) == shown
    assert "40 rows ['prompt', 'completion']" in "".join(shown)
    assert (folder / "curated" / "README.md").is_file()


def test_the_report_inside_the_notebook_is_alive(executed, tmp_path):
    notebook, _ = executed
    (report,) = [
        output["data"]["text/html"]
        for output in notebook.cells[-1].outputs
        if "text/html" in output.get("data", {})
    ]
    assert report.startswith("<iframe srcdoc=")
    page = tmp_path / "cell.html"
    page.write_text(f"<!doctype html><title>a cell</title>{report}", encoding="utf-8")
    with chromium(tmp_path / "profile") as browser:
        browser.get(page.as_uri())
        enter_frame(browser)
        ready(browser)
        shown = browser.execute_script("return document.body.innerText")
        assert "Answers 30 right" in " ".join(shown.split())
        browser.execute_script("document.querySelector('.entry').click()")
        drawn(browser)
        assert browser.find_element("css selector", "#problem .asked").text
        assert browser.get_log("browser") == []
