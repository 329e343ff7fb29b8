"""Curated datasets from Python: one way for rows, files and scored rows, the same card for all."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset, DatasetDict
from huggingface_hub import HfApi, constants

from parts.fake_tgi import FakeTGI
from parts.kill_loop import contents
from parts.local_hub import TOKEN, LocalHub
from parts.rows import write_rows
from rpd_datasets import (
    CurationConfig,
    FilterConfig,
    curate_dataset,
    load_curated,
    rpd_curate,
)
from rpd_datasets.account import better_line
from rpd_datasets.cli import main
from rpd_metric.errors import InputError, OutputError

CONFIG = CurationConfig(num_problems=4, num_solutions=2, filters=FilterConfig(min_solutions=2))
WORDS = ("factor", "integrate", "count", "draw", "guess", "induct")


def some_rows() -> list[dict[str, Any]]:
    """Seven problems, of which one has too few solutions, one a copy and one a cut-off one."""
    rows = [
        {
            "problem": f"What is {n} + {n}?",
            "solutions": [
                f"First {WORDS[(n + i) % 6]} the sum of {n} and itself. Then check it. "
                f"Hence the answer is {2 * n}."
                for i in range(4)
            ],
            "level": n,
        }
        for n in range(7)
    ]
    rows[1]["solutions"] = rows[1]["solutions"][:1]
    rows[2]["solutions"][3] = rows[2]["solutions"][0]
    rows[3]["solutions"][0] = "<think> We begin with"
    return rows


@pytest.fixture(scope="module")
def bare():
    return Dataset.from_list(some_rows())


def test_scored_rows_give_the_very_folder_that_bare_rows_give(bare, tmp_path):
    curate_dataset(bare, tmp_path / "scored", CONFIG, license="mit", language="en")
    mapped = bare.map(rpd_curate, fn_kwargs={"config": CONFIG})
    curate_dataset(mapped, tmp_path / "taken", CONFIG, license="mit", language="en")

    scored, taken = contents(tmp_path / "scored"), contents(tmp_path / "taken")
    assert "figures/problem_scores.svg" in scored
    assert json.loads(scored["manifest.json"])["drops"], "nothing was left out, as it should be"
    assert scored == taken


def test_rows_in_memory_give_the_folder_of_their_file_but_for_its_fingerprint(
    bare, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    write_rows(Path("rows.jsonl"), some_rows())
    asked = ["--num-problems", "4", "--num-solutions", "2"]
    assert main(["curate", "rows.jsonl", *asked, "--output", "cli"]) == 0

    curate_dataset(bare, "python", CONFIG, name="rows.jsonl")

    cli, python = contents(Path("cli")), contents(Path("python"))
    prints = [json.loads(files["manifest.json"])["input"]["fingerprint"] for files in (cli, python)]
    for name in ("README.md", "manifest.json"):
        cli[name] = cli[name].replace(prints[0].encode(), prints[1].encode())
    assert cli == python


def test_errors_in_python_name_parameters(bare, tmp_path):
    config = replace(CONFIG, quality_column="reward")
    with pytest.raises(InputError, match=r"another with quality_column$|for quality_column"):
        curate_dataset(bare, tmp_path / "out", config)


def test_a_link_to_a_folder_stays_a_link_and_its_folder_is_written(bare, tmp_path):
    curate_dataset(bare, tmp_path / "disk", CONFIG)
    (tmp_path / "disk" / "report.html").touch()
    (tmp_path / "out").symlink_to(tmp_path / "disk")
    made = curate_dataset(bare, tmp_path / "out", CONFIG, overwrite=True)
    assert (tmp_path / "out").is_symlink()
    assert not (tmp_path / "disk" / "report.html").exists()
    assert (tmp_path / "disk" / "manifest.json").is_file()
    assert made.folder == tmp_path / "out"


def test_a_file_name_is_text_in_the_cards_tables(bare, tmp_path):
    name = "a|b <img src=x>\n`c` [d](e) *f* $g$.jsonl"
    write_rows(tmp_path / name, some_rows())
    made = curate_dataset(tmp_path / name, tmp_path / "out", CONFIG)
    shown = r"a\|b \<img src=x> \`c\` [d\](e) \*f\* \$g\$.jsonl"
    assert f"| Input | {shown}, read as" in made.card.text
    rows = [line for line in made.card.text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}


def test_without_a_usable_reply_the_last_line_is_the_reason(tmp_path, capsys):
    rows, said = write_rows(tmp_path / "rows.jsonl", some_rows()), "Sorry, I cannot do that."
    with FakeTGI(reply=lambda _: said) as server:
        models = ["--summarizer", f"tgi:{server.url}", "--store", str(tmp_path / "store.sqlite")]
        output = ["--num-problems", "4", "--num-solutions", "2", "--output", str(tmp_path / "out")]
        assert main(["curate", str(rows), *models, *output]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("rpd curate: no problem of ")
    assert "no_envelope" in last


@pytest.mark.parametrize("depth", [60, 900, 200_000])
@pytest.mark.parametrize("column", ["level", "solutions", "problem"])
def test_a_deeply_nested_row_costs_only_itself(depth, column, tmp_path):
    rows = [row for n, row in enumerate(some_rows()) if n not in (1, 2, 3)]
    deep = {**rows[2], "problem": "A deep one?", "level": 1, column: "NESTED"}
    nested = '{"inner": ' * depth + "1" + "}" * depth
    lines = [json.dumps(row) for row in (*rows[:2], deep, *rows[2:])]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines).replace('"NESTED"', nested))
    curated = curate_dataset(
        tmp_path / "rows.jsonl", tmp_path / "out", replace(CONFIG, num_problems=9)
    )
    problems, rejects = (
        set(curated.dataset["problem"]),
        (tmp_path / "out/rejects.jsonl").read_text(),
    )
    assert problems - {"A deep one?"} == {row["problem"] for row in rows}
    assert ("A deep one?" in problems) == ((column, depth) == ("level", 60))
    if depth > 60:
        (reject,) = map(json.loads, rejects.splitlines())
        assert reject["where"] == "rows.jsonl:3"
        assert reject["reason"] in ("too_deep", "malformed_json")


def test_what_is_no_dataset_is_one_line(bare, tmp_path):
    with pytest.raises(InputError, match="take one split of a DatasetDict"):
        curate_dataset(DatasetDict(train=bare), tmp_path / "out", CONFIG)
    with pytest.raises(InputError, match=r"Dataset\.from_list"):
        curate_dataset(some_rows(), tmp_path / "out", CONFIG)


def test_a_folder_is_loaded_again_with_data_training_rows_card_and_manifest_and_pushed(
    bare, tmp_path, monkeypatch
):
    made = curate_dataset(bare, tmp_path / "out", CONFIG, license="mit")
    curated = load_curated(tmp_path / "out")

    assert curated == made
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    with LocalHub() as hub:
        assert curated.push_to_hub("set", api=HfApi(hub.url, token=TOKEN)).private
        assert contents(tmp_path / "out").keys() < hub.files("datasets/ada/set").keys()
    assert [len(curated.dataset), len(curated.sft)] == [4, 8]
    first = curated.dataset[0]
    assert curated.sft[0]["completion"][0]["content"] == first["solutions"][first["selected"][0]]
    assert curated.card.data.license == "mit"
    assert curated.manifest["counts"]["problems_chosen"] == 4
    first, second, third, fourth = repr(curated).splitlines()
    assert first == f"Curated('{tmp_path / 'out'}')"
    better = better_line(curated.manifest["outcome"]["better_than_random"])
    assert third == f"Better than random: {better}"
    assert second == "4 of 7 problems, 8 of 25 solutions, chosen by taught"
    assert ".report()" in fourth
    # A notebook stores the page, and not all texts beside it.
    assert len(repr(curated.report())) < 300
    with pytest.raises(OutputError, match=r"not empty; .* or pass overwrite=True to replace it"):
        curate_dataset(bare, tmp_path / "out", CONFIG)
    again = curate_dataset(bare, tmp_path / "out", CONFIG, license="mit", overwrite=True)
    assert again.manifest == made.manifest
    (tmp_path / "out/manifest.json").unlink()
    with pytest.raises(InputError, match=r"has no manifest\.json"):
        load_curated(tmp_path / "out")
