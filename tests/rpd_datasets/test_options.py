"""Options: written once in a dataclass, on the command line, in a YAML file and in a manifest."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from rpd_datasets.cli import command_line, main
from rpd_datasets.cli.arguments import with_config
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 1\nseed: 2\n", "duplicate name 'seed'"),
        ("- 1\n", "one option a line"),
        ("seed: [1\n", "is not YAML"),
    ],
)
def test_a_file_of_options_is_read_strictly(tmp_path, text, message):
    file = tmp_path / "options.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_options(file)


def curate(*line: object) -> int:
    return main(["curate", *map(str, line)])


YAML = """
input: other.jsonl
output: out
num-problems: 3
num_solutions: 2
limit: 5
seed: null
quality_weight: -0.5
require_complete: false
drop_duplicates: false
json: true
only: {subject: algebra}
filter: [one, two]
decontaminate: [aime24, mine.jsonl]
"""


def test_options_come_from_a_yaml_file_and_typed_ones_win(tmp_path):
    file = tmp_path / "options.yaml"
    file.write_text(YAML)
    parser = command_line().commands["curate"]
    typed = ["sample", "--num-problems", "2", "--require-complete", "--filter", "three"]
    args = parser.parse_args(with_config(parser, [*typed, f"--config={file}"]))
    assert (args.input, args.output, args.num_problems) == ("sample", Path("out"), 2)
    assert (args.num_solutions, args.limit, args.seed, args.quality_weight) == (2, 5, 0, -0.5)
    assert (args.require_complete, args.drop_duplicates, args.json) == (True, False, True)
    assert (args.only, args.filter) == (["subject=algebra"], ["three"])
    assert args.decontaminate == ["aime24", "mine.jsonl"]
    assert parser.parse_args(with_config(parser, ["--config", str(file)])).input == "other.jsonl"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("num_problem: 3", "unknown key 'num_problem' in {file}; did you mean 'num_problems'?"),
        ("require_complete: maybe", "the option --require-complete does not take"),
        ("num_problems: [1, 2]", "the option --num-problems does not take"),
        ("input: 3", "it must be text"),
    ],
)
def test_what_a_file_gets_wrong_is_one_line(tmp_path, capsys, line, message):
    file = tmp_path / "options.yaml"
    file.write_text(line + "\n")
    assert curate("sample", "-o", tmp_path / "out", "--config", file) == 1
    error = capsys.readouterr().err
    assert message.format(file=file) in error
    assert error.count("\n") == 1


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("manifest") / "first"
    options = ["--preset", "rpd-1p2s", "--num-problems", 3, "--min-solutions", 4, "--seed", 5]
    options += ["--only", "subject=algebra", "--solutions", "strategy", "--max-mean-tokens", 900]
    assert curate("sample", *options, "-o", folder) == 0
    return folder


@pytest.mark.slow
def test_a_manifest_repeats_its_run_byte_for_byte(made, tmp_path):
    assert curate("--config", made / "manifest.json", "-o", tmp_path / "again") == 0
    for file in sorted(path for path in made.rglob("*") if path.is_file()):
        assert file.read_bytes() == (tmp_path / "again" / file.relative_to(made)).read_bytes(), file


@pytest.mark.slow
def test_a_manifest_whose_models_were_served_wants_them_named(made, tmp_path, capsys):
    manifest = tmp_path / "manifest.json"
    text = (made / "manifest.json").read_text()
    manifest.write_text(text.replace('"summarizer": "extractive"', '"summarizer": "Qwen3"'))
    assert curate("--config", manifest, "-o", tmp_path / "again") == 1
    assert "unknown summarizer 'Qwen3'; The forms are: " in capsys.readouterr().err
    manifest.write_text('{"format": 1, "options": {"seed": 0}, "input": {}}')
    assert curate("--config", manifest, "-o", tmp_path / "again") == 1
    assert "was written by another version" in capsys.readouterr().err
