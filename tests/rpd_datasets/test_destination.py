"""Nothing of a user's is replaced: an output is new, empty, or what the same command wrote."""

import json
import os
import shutil
from pathlib import Path

import pytest

from parts.curate_rows import write_rows
from parts.kill_loop import contents
from parts.recipe_scripts import script
from rpd_datasets.cli import main
from rpd_datasets.training.merging import merge
from rpd_datasets.training.record import record_settings
from rpd_metric.errors import OutputError

TINY = ("--num-problems", "2", "--num-solutions", "2", "--embedder", "static", "--min-solutions=2")


def curate(*arguments: object) -> int:
    return main(["curate", *map(str, arguments), *TINY, "--no-require-complete"])


@pytest.fixture
def curated(tmp_path: Path) -> Path:
    write_rows(tmp_path / "rows.jsonl", num_solutions=3)
    assert curate(tmp_path / "rows.jsonl", "--output", tmp_path / "curated") == 0
    return tmp_path / "curated"


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    folder = tmp_path / "precious"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub/thesis.tex").write_text("ten years")
    write_rows(folder / "in.jsonl", num_solutions=3)
    return folder


@pytest.mark.parametrize("linked", ["nothing", "output", "input", "parent"])
def test_a_folder_with_the_input_is_never_replaced(precious, tmp_path, linked, capsys):
    before, source, output = contents(precious), precious / "in.jsonl", precious
    if linked == "output":
        (output := tmp_path / "out").symlink_to(precious)
    elif linked == "input":
        (source := tmp_path / "rows.jsonl").symlink_to(precious / "in.jsonl")
    elif linked == "parent":
        (tmp_path / "elsewhere").symlink_to(tmp_path)
        output = tmp_path / "elsewhere/precious"
    assert curate(source, "--overwrite", "--output", output) == 1
    assert contents(precious) == before
    assert f"{output} holds {source}, which this run uses" in capsys.readouterr().err


def test_what_a_run_did_not_write_is_named_and_kept(precious, curated, tmp_path, capsys):
    write_rows(rows := tmp_path / "rows.jsonl", num_solutions=3)
    before = contents(precious)
    assert curate(rows, "--overwrite", "--output", precious) == 1
    assert contents(precious) == before
    assert (
        "does not replace: in.jsonl, sub/thesis.tex. Nothing was changed" in capsys.readouterr().err
    )

    for name in ("figures/mine.svg", "data/more.parquet", "link"):
        shutil.copytree(curated, own := tmp_path / "own")
        (own / name).write_text("mine") if name != "link" else (own / name).symlink_to(precious)
        before = contents(own)
        assert curate(rows, "--overwrite", "--output", own) == 1
        assert contents(own) == before
        assert f"does not replace: {name}. Nothing" in capsys.readouterr().err
        shutil.rmtree(own)


def test_a_folder_that_a_run_wrote_is_replaced(curated, tmp_path):
    rows, first = tmp_path / "rows.jsonl", contents(curated)
    (curated / "report.html").write_text("looked at")
    assert curate(rows, "--overwrite", "--output", curated) == 0
    assert contents(curated) == first
    manifest = json.loads(first["manifest.json"])
    assert {*manifest.pop("files")} == {*first, "report.html"}
    # An earlier version listed no files and wrote more of them.
    (curated / "manifest.json").write_text(json.dumps(manifest))
    (curated / "data/train-00001-of-00002.parquet").touch()
    assert curate(rows, "--overwrite", "--output", curated) == 0
    assert contents(curated) == first
    (tmp_path / "empty").mkdir()
    assert curate(rows, "--output", tmp_path / "empty") == 0


def test_a_folder_that_the_run_uses_is_not_replaced(curated, tmp_path, monkeypatch, capsys):
    rows, before = tmp_path / "rows.jsonl", contents(curated)
    data = curated / "data/train-00000-of-00001.parquet"
    for arguments in (
        (data,),
        (curated,),
        (rows, "--config", curated / "manifest.json"),
        (rows, "--store", curated / "replies.sqlite"),
    ):
        assert curate(*arguments, "--overwrite", "--output", curated) == 1
        assert "which this run uses; choose another output" in capsys.readouterr().err
    assert curate(rows, "--output", tmp_path / "new", "--store", tmp_path / "new/store") == 1
    monkeypatch.chdir(curated)
    for output in (".", "..", "../curated", curated):
        assert curate(rows, "--overwrite", "--output", output) == 1
        assert "which this run uses; choose another output" in capsys.readouterr().err
    assert contents(curated) == before


def test_files_that_come_while_a_run_works_are_kept(curated, tmp_path, monkeypatch, capsys):
    from rpd_datasets.curation import run

    def slow(*arguments, **options):
        (curated / "notes.md").write_text("mine")
        return write_scores(*arguments, **options)

    write_scores = run.write_scores
    monkeypatch.setattr(run, "write_scores", slow)
    assert curate(tmp_path / "rows.jsonl", "--overwrite", "--output", curated) == 1
    assert "does not replace: notes.md" in capsys.readouterr().err
    assert (curated / "notes.md").read_text() == "mine"
    assert (curated / "manifest.json").is_file()


def test_a_partial_folder_of_somebody_else_is_kept(curated, tmp_path, capsys):
    (mine := tmp_path / "new.partial").mkdir()
    (mine / "result").mkdir()
    (mine / "result/thesis.tex").write_text("ten years")
    assert curate(tmp_path / "rows.jsonl", "--output", tmp_path / "new") == 1
    assert "new.partial holds files that this command does not replace" in capsys.readouterr().err
    assert contents(mine) == {"result/thesis.tex": b"ten years"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_cannot_be_looked_into_is_not_replaced(curated, tmp_path, capsys):
    (locked := curated / "figures").chmod(0)
    try:
        assert curate(tmp_path / "rows.jsonl", "--overwrite", "--output", curated) == 1
    finally:
        locked.chmod(0o755)
    assert "cannot read" in capsys.readouterr().err


def test_a_page_replaces_only_a_page_of_this_project(curated, precious, capsys):
    page, other = precious / "page.html", precious / "sub/thesis.tex"
    page.write_text("<!doctype html><title>Mine</title>")
    report = ["report", str(curated), "--output"]
    assert main([*report, str(page)]) == 1
    assert "page.html is a file that this command does not replace" in capsys.readouterr().err
    rows = [f"{name}={precious / 'in.jsonl'}" for name in "ab"]
    assert main(["compare", *rows, "--distance", "none", "--output", str(page)]) == 1
    assert page.read_text() == "<!doctype html><title>Mine</title>"
    for _ in range(2):
        assert main([*report, str(precious / "report.html")]) == 0
    assert other.read_text() == "ten years"


def test_recipes_write_to_new_folders_and_to_their_own(precious, tmp_path, capsys):
    before, named = contents(precious), r"does not replace: in\.jsonl, sub/thesis\.tex\. Nothing"
    train = ["--model_name_or_path", "nobody/model", "--output_dir", str(precious), "--use_cpu"]
    with pytest.raises(OutputError, match=named):
        script("sft").main([*train, "--data", "x"])
    with pytest.raises(OutputError, match=named):
        script("grpo").main(train)
    (tuned := tmp_path / "tuned").mkdir()
    (tuned / "adapter_config.json").write_text("{}")
    with pytest.raises(OutputError, match=named):
        merge(tuned, precious)
    with pytest.raises(OutputError, match="is a file"):
        merge(tuned, precious / "in.jsonl")
    with pytest.raises(OutputError, match="is a file that this command does not replace"):
        script("pool").main([str(precious / "in.jsonl"), "--output", str(precious / "in.jsonl")])
    measure = ["--model", "tgi:http://127.0.0.1:9", "--benchmark", "aime24", "--output"]
    assert script("passk").main([*measure, str(precious)]) == 1
    assert "does not replace: in.jsonl, sub/thesis.tex" in capsys.readouterr().err
    assert contents(precious) == before
    # A run continues in its folder, whatever lies beside its record.
    record_settings(precious, {}, {})
    with pytest.raises(Exception, match="nobody/model") as error:
        script("sft").main([*train, "--data", "x"])
    assert not isinstance(error.value, OutputError)
