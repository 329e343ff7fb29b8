"""Options: written once in a dataclass, on the command line, in a YAML file and in a manifest."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

import pytest

from rpd_datasets import CurationConfig
from rpd_datasets.cli import _parser, main
from rpd_datasets.options import add_options, option, options_from, read_options
from rpd_metric.errors import InputError


@dataclass(frozen=True)
class Some:
    number: int = option(3, "how many", metavar="N")
    part: Literal["all", "some"] = option("all", "which part")
    loud: bool = option(False, "say more")
    name: str | None = option(None, "what it is called")
    inner: int = option(7, "not on the command line", group=None)


def parsed(*line: str) -> Some:
    parser = argparse.ArgumentParser()
    add_options(parser, Some)
    return options_from(Some, parser.parse_args(list(line)))


def test_a_dataclass_makes_the_command_line_and_is_made_of_it():
    assert parsed() == Some()
    assert parsed("--number", "5", "--part", "some", "--loud", "--name", "x") == Some(
        5, "some", True, "x"
    )
    assert parsed("--no-loud") == Some()
    with pytest.raises(SystemExit):
        parsed("--inner", "1")
    with pytest.raises(SystemExit):
        parsed("--part", "none")


def test_every_option_of_curation_has_help_and_is_documented():
    for one in fields(CurationConfig):
        assert one.metadata["help"]
        assert f"{one.name}: " in CurationConfig.__doc__


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 1\nseed: 2\n", "'seed' stands there twice"),
        ("- 1\n", "one option a line"),
        ("seed: [1\n", "is not YAML"),
    ],
)
def test_a_file_of_options_is_read_strictly(tmp_path, text, message):
    file = tmp_path / "options.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_options(file)


def curate(tmp_path: Path, *line: object) -> int:
    return main(["curate", *map(str, line)])


def test_options_come_from_a_yaml_file_and_typed_ones_win(tmp_path, capsys):
    file = tmp_path / "options.yaml"
    file.write_text(
        f"input: sample\noutput: {tmp_path / 'out'}\nnum-problems: 3\nnum_solutions: 2\n"
        "limit: 5\nrequire_complete: false\n"
    )
    assert curate(tmp_path, "--config", file, "--num-problems", 2, "--require-complete") == 0
    written = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert written["input"]["limit"] == 5
    options = written["options"]
    assert (options["num_problems"], options["num_solutions"]) == (2, 2)
    assert options["filters"]["require_complete"] is True


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("num_problem: 3", "unknown key 'num_problem' in {file}; did you mean 'num_problems'?"),
        ("require_complete: maybe", "the option --require-complete does not take"),
        ("num_problems: [1, 2]", "the option --num-problems does not take"),
    ],
)
def test_what_a_file_gets_wrong_is_one_line(tmp_path, capsys, line, message):
    file = tmp_path / "options.yaml"
    file.write_text(line + "\n")
    assert curate(tmp_path, "sample", "-o", tmp_path / "out", "--config", file) == 1
    error = capsys.readouterr().err
    assert message.format(file=file) in error
    assert error.count("\n") == 1


def test_a_manifest_repeats_its_run_byte_for_byte(tmp_path, capsys):
    first, again = tmp_path / "first", tmp_path / "again"
    options = ["--preset", "rpd-1p2s", "--num-problems", 3, "--min-solutions", 4, "--seed", 5]
    options += ["--only", "subject=algebra", "--solutions", "strategy", "--near-duplicate", 0.9]
    assert curate(tmp_path, "sample", *options, "-o", first) == 0
    assert curate(tmp_path, "--config", first / "manifest.json", "-o", again) == 0
    for file in sorted(path for path in first.rglob("*") if path.is_file()):
        assert file.read_bytes() == (again / file.relative_to(first)).read_bytes(), file


def test_a_manifest_whose_models_were_served_wants_them_named(tmp_path, capsys):
    assert curate(tmp_path, "sample", "--limit", 2, "-o", tmp_path / "out") == 0
    manifest = tmp_path / "out" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"name": "extractive"', '"name": "Qwen3"'))
    capsys.readouterr()
    assert curate(tmp_path, "--config", manifest, "-o", tmp_path / "again") == 1
    assert "name it with --summarizer" in capsys.readouterr().err


def test_every_command_takes_a_file_of_options(tmp_path, capsys):
    _, commands = _parser()
    for name, parser in commands.items():
        assert any(action.dest == "config" for action in parser._actions), name
    file = tmp_path / "score.yaml"
    file.write_text("input: sample\nlimit: 1\nnum_rows: 1\n")
    assert main(["score", "--config", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["num_problems"] == 1


def test_the_manifest_says_which_columns_of_a_well_known_dataset_were_read(tmp_path, capsys):
    solutions = [f"First {way} it. Then check. The answer is 5." for way in ("factor", "draw")]
    row = {"problem": "2 + 3?", "solution": "5", "generations": solutions}
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row) + "\n")
    first, again = tmp_path / "first", tmp_path / "again"
    assert curate(tmp_path, file, "--num-solutions", 2, "-o", first) == 0
    manifest = first / "manifest.json"
    assert json.loads(manifest.read_text())["input"]["columns"]["solutions"] == "generations"
    assert curate(tmp_path, file, "--config", manifest, "-o", again) == 0
    assert manifest.read_bytes() == (again / "manifest.json").read_bytes()
