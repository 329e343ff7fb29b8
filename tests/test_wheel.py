"""The wheel that `make dist` builds is the whole project: it needs nothing of the checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("rpd_metric", "rpd_datasets")
MODULE_FILES = {".py", ".pyc"}


def run(*command: str | Path, cwd: Path) -> str:
    """What a command prints, with nothing of the checkout on its import path.

    PATH is short, because pip runs whatever `rustc` is on it.
    """
    env = os.environ | {"PATH": os.defpath}
    env.pop("PYTHONPATH", None)
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a wheel is built of; a copy, so that the checkout is left alone."""
    folder = tmp_path_factory.mktemp("source")
    for name in ("Makefile", "LICENSE", "README.md", "pyproject.toml", "setup.cfg"):
        shutil.copy(ROOT / name, folder)
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    return folder


@pytest.fixture(scope="module")
def wheel(source: Path) -> Path:
    # A file that an earlier build left must not get into this one.
    (source / "build" / "lib" / "rpd_metric").mkdir(parents=True)
    (source / "build" / "lib" / "rpd_metric" / "of_an_earlier_build.py").touch()
    # The environment is there already: make is not to look whether it is older than setup.cfg.
    run("make", "dist", f"BIN={sys.prefix}/bin", "--old-file=.venv/installed", cwd=source)
    (found,) = (source / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment that has the wheel, and the tests' own for what it needs."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--quiet", "--python", python)
    run(*pip, "install", "--no-deps", "--no-index", wheel, cwd=folder)
    (purelib,) = (folder / "lib").glob("python*/site-packages")
    # A plain path: the .pth files there, such as this checkout's own, are not read.
    (purelib / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin"


def test_every_file_of_the_packages_is_in_the_wheel_and_no_other(source, wheel):
    expected = {
        str(path.relative_to(source))
        for package in PACKAGES
        for path in (source / package).rglob("*")
        if path.is_file()
    }
    assert any(Path(name).suffix not in MODULE_FILES for name in expected)
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert found == expected


def test_nothing_is_imported_from_the_checkout(environment, tmp_path):
    code = "import rpd_metric, rpd_datasets; print(rpd_metric.__file__, rpd_datasets.__file__)"
    for path in run(environment / "python", "-c", code, cwd=tmp_path).split():
        assert Path(path).is_relative_to(environment.parent)


def test_rpd_curates_and_reports_from_another_folder(environment, tmp_path):
    curate = (environment / "rpd", "curate", "sample", "--limit", "2", "--output", "curated")
    run(*curate, "--num-problems", "1", "--num-solutions", "2", cwd=tmp_path)
    run(
        environment / "rpd", "report", "curated", "--no-figures", "--embedder", "none", cwd=tmp_path
    )
    assert list((tmp_path / "curated").rglob("*.parquet"))
    assert "dataset_info" in (tmp_path / "curated" / "README.md").read_text(encoding="utf-8")
    assert list((tmp_path / "curated").rglob("*.html"))


def test_both_metrics_load_by_name_from_another_folder(environment, tmp_path):
    code = """if True:
        import evaluate, json, rpd_metric
        rpd = evaluate.load("rpd", embedder="minilm")
        texts = ["Expand the product. Collect like terms.", "Set x to 0. Then add the results."]
        found = rpd.compute(predictions=[texts])["rpd"]
        passed = evaluate.load("pass_at_k").compute(predictions=[[True, False]], k=[1])
        print(json.dumps([found, passed["pass@1"]]))
    """
    found, passed = json.loads(run(environment / "python", "-c", code, cwd=tmp_path))
    assert 0 < found < 2
    assert passed == 0.5


def test_prompts_are_found(environment, tmp_path):
    spec = "openai:http://127.0.0.1:9/v1#none"  # a plan sends nothing
    plan = (environment / "rpd", "plan", "sample", "--limit", "2", "--summarizer", spec)
    assert "requests" in run(*plan, "--store", str(tmp_path / "store.sqlite"), cwd=tmp_path)
