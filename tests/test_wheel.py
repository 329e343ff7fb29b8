"""The wheel that `make dist` builds is the whole project: it needs nothing of the checkout."""

import io
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

from rpd_datasets.publish.space.space_files import PACKAGES, space_files

ROOT = Path(__file__).resolve().parents[1]
FILES = ("rpd_command.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")
pytestmark = pytest.mark.slow


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
def source(tmp_path_factory):
    """What a wheel is built of; a copy, so that the checkout is left alone."""
    folder = tmp_path_factory.mktemp("source")
    for name in ("Makefile", *FILES):
        shutil.copy(ROOT / name, folder)
    ignored = shutil.ignore_patterns("__pycache__")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=ignored)
    return folder


@pytest.fixture(scope="module")
def wheel(source):
    # A file that an earlier build left must not get into this one.
    (source / "build" / "lib" / "rpd_metric").mkdir(parents=True)
    (source / "build" / "lib" / "rpd_metric" / "of_an_earlier_build.py").touch()
    # The environment is there already: make is not to look whether it is older than setup.cfg.
    run("make", "dist", f"BIN={sys.prefix}/bin", "--old-file=.venv/installed", cwd=source)
    (found,) = (source / "dist").glob("*.whl")
    return found


def test_every_file_of_the_packages_is_in_the_wheel_and_no_other(source, wheel):
    files = (path for package in PACKAGES for path in (source / package).rglob("*"))
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = {str(path.relative_to(source)) for path in files if path.is_file()}
    assert found == files | {"rpd_command.py"}
    # The wheel of a Space is packed without a build tool, and holds the same.
    (content,) = (text for name, text in space_files("rpd").items() if name.endswith(".whl"))
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        names = set(packed.namelist())
    assert {name for name in names if ".dist-info/" not in name} == found
    assert {Path(name).name for name in names - found} == {
        *("METADATA", "WHEEL", "RECORD", "entry_points.txt")
    }


def test_the_installed_wheel_curates_reports_and_measures_from_another_folder(wheel, tmp_path):
    venv.create(tmp_path / "environment", symlinks=True)
    python = tmp_path / "environment" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--quiet", "--python", python)
    run(*pip, "install", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    (purelib,) = (tmp_path / "environment" / "lib").glob("python*/site-packages")
    # A plain path: the .pth files there, such as this checkout's own, are not read.
    (purelib / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    rpd = python.with_name("rpd")
    options = ("--limit", "2", "--num-problems", "1", "--num-solutions", "2")
    run(rpd, "curate", "sample", "--output", "curated", *options, cwd=tmp_path)
    run(rpd, "report", "curated", cwd=tmp_path)
    assert list((tmp_path / "curated").rglob("*.parquet"))
    assert list((tmp_path / "curated").rglob("*.html"))
    # What `hf extensions install OWNER/hf-rpd` leaves behind, with this environment.
    extension = tmp_path / ".local/share/hf/extensions/hf-rpd/manifest.json"
    extension.parent.mkdir(parents=True)
    names = dict.fromkeys(("owner", "repo", "repo_id", "short_name"), "hf-rpd")
    place = {"executable_path": str(python.with_name("hf-rpd")), "type": "python"}
    extension.write_text(json.dumps(names | place | {"installed_at": "2026-01-01"}))
    hf = ("env", f"HOME={tmp_path}", "HF_HUB_DISABLE_UPDATE_CHECK=1", f"{sys.prefix}/bin/hf")
    assert run(*hf, "rpd", "--version", cwd=tmp_path).startswith("rpd ")
    code = """if True:
        import evaluate, rpd_metric
        assert "environment" in rpd_metric.__file__
        rpd = evaluate.load("rpd", embedder="minilm")
        texts = ["Expand the product. Collect like terms.", "Set x to 0. Then add the results."]
        assert 0 < rpd.compute(predictions=[texts])["rpd"] < 2
    """
    run(python, "-c", code, cwd=tmp_path)
