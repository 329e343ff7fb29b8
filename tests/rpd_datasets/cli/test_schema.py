"""`rpd COMMAND --json` prints what `output.schema.json` says, for every command."""

import json
import re
from importlib.resources import files

import pytest
from jsonschema import Draft202012Validator

from parts.fake_judge import judge_reply, kind_of
from parts.fake_tgi import FakeTGI
from parts.rows import write_rows
from rpd_datasets.cli import command_line, main

SCHEMA = json.loads(files("rpd_datasets.cli").joinpath("output.schema.json").read_text())
SMALL = ("--limit", "3", "--embedder", "static")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A curated folder, and two models' solutions of the same problems."""
    place = tmp_path_factory.mktemp("schema")
    options = ("--num-problems", "2", "--num-solutions", "2", "--output", str(place / "curated"))
    assert main(["curate", "sample", *SMALL, *options]) == 0
    for name, marks in {"a": [True, True, False], "b": [True, False, False]}.items():
        rows = [
            {
                "problem": f"{n} + {n}?",
                "solutions": [f"{n} and {n}", "twice", "so", "sum"],
                "correct": [*marks, True],
            }
            for n in range(4)
        ]
        write_rows(place / f"{name}.jsonl", rows)
    return place


SERVER = ("--judge", "SERVER", "--store", "replies.sqlite")
LINES = {
    "curate": ("sample", *SMALL, "--num-problems", "1", "--num-solutions", "2", "--output", "new"),
    "plan": ("sample", *SMALL),
    "score": ("sample", *SMALL),
    "compare": ("a.jsonl", "b.jsonl", "--distance", "none"),
    "compare-metrics": ("sample", *SMALL, "--methods", "rpd", "raw", "--num-bootstrap", "5"),
    "compare-graders": ("--graders", "checks.py:check"),
    "report": ("curated",),
    "judge": ("sample", "--limit", "2", *SERVER),
    "label": ("sample", "--limit", "2", *SERVER, "--output", "labelled.jsonl"),
    "export": ("a.jsonl", "--to", "dpo", "--output", "pairs"),
    "push": ("curated", "--dry-run"),
    "space": ("my-space",),
}


def reply(body):
    """A judge's, or one strategy for the first solution and another for the rest."""
    if kind_of(body) != "summarize":
        return judge_reply(body)
    count = len(re.findall(r"^Solution \d+:$", body["messages"][-1]["content"], re.M))
    groups = [{"name": "one", "solutions": [1]}]
    groups += [{"name": "other", "solutions": list(range(2, count + 1))}]
    return json.dumps({"strategies": groups})


def test_the_schema_knows_every_command_and_is_one():
    Draft202012Validator.check_schema(SCHEMA)
    assert LINES.keys() == command_line().commands.keys() <= SCHEMA["$defs"].keys()


@pytest.mark.parametrize("name", LINES)
def test_what_a_command_prints_fits_the_schema(name, place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    (place / "checks.py").write_text("def check(a, b):\n    return a in b\n")
    with FakeTGI(reply=reply) as server:
        line = [part.replace("SERVER", f"tgi:{server.url}") for part in LINES[name]]
        assert main([name, *line, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    schema = {"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]}
    assert [error.message for error in Draft202012Validator(schema).iter_errors(printed)] == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("plan", ("--evaluation", "30")),
        ("plan", ("--student-results", "a.jsonl")),
        ("push", ("curated", "--dry-run")),
    ],
)
def test_an_unknown_key_does_not_fit(name, line, place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    assert main([name, *line, "--json"]) == 0
    schema = {"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]}
    printed = json.loads(capsys.readouterr().out)
    assert Draft202012Validator(schema).is_valid(printed)
    assert not Draft202012Validator(schema).is_valid(printed | {"unknown": 1})
