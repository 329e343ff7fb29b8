"""Curated datasets from Python: one way for rows, files and scored rows, the same card for all."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset, DatasetDict
from huggingface_hub import HfApi, constants

from parts.fake_tgi import FakeTGI
from parts.local_hub import TOKEN, LocalHub
from rpd_datasets import (
    Curated,
    CurationConfig,
    FilterConfig,
    curate_dataset,
    load_curated,
    rpd_curate,
)
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
def bare() -> Dataset:
    return Dataset.from_list(some_rows())


@pytest.fixture(scope="module")
def mapped(bare: Dataset) -> Dataset:
    return bare.map(rpd_curate, fn_kwargs={"config": CONFIG})


def summary_of(body: dict[str, Any]) -> str:
    """A reply in the wanted form, another one for each way of solving."""
    text = str(body["messages"])
    word = next(word for word in WORDS if f"First {word} the sum" in text)
    steps = [
        {"step_title": title, "step_description": f"{title} by {word}ing."}
        for title in ("Begin", "Check", "Conclude")
    ]
    return "//boxed" + json.dumps({"logical_steps": steps})


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def changed(rows: Dataset, number: int, **values: Any) -> Dataset:
    listed = rows.to_list()
    listed[number] |= values
    return Dataset.from_list(listed, features=rows.features)


def test_scored_rows_give_the_very_folder_that_bare_rows_give(
    bare: Dataset, mapped: Dataset, tmp_path: Path
) -> None:
    curate_dataset(bare, tmp_path / "scored", CONFIG, license="mit", language="en")
    Curated.from_rows(mapped, tmp_path / "taken", CONFIG, license="mit", language="en")

    scored, taken = contents(tmp_path / "scored"), contents(tmp_path / "taken")
    assert "figures/problem_scores.svg" in scored
    assert json.loads(scored["manifest.json"])["drops"], "nothing was left out, as it should be"
    assert scored == taken


def test_rows_in_memory_give_the_folder_of_their_file_but_for_its_fingerprint(
    bare: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some_rows()))
    asked = ["--num-problems", "4", "--num-solutions", "2"]
    assert main(["curate", "rows.jsonl", *asked, "--output", "cli"]) == 0

    curate_dataset(bare, "python", CONFIG, name="rows.jsonl")

    cli, python = contents(Path("cli")), contents(Path("python"))
    prints = [json.loads(files["manifest.json"])["input"]["fingerprint"] for files in (cli, python)]
    for name in ("README.md", "manifest.json"):
        cli[name] = cli[name].replace(prints[0].encode(), prints[1].encode())
    assert cli == python


@pytest.mark.parametrize(
    "options",
    [
        {"problems": "random", "solutions": "random"},
        {"problems": "raw", "solutions": "summary", "selection": "maxavg"},
        {"solutions": "all", "num_solutions": 3},
    ],
    ids=lambda options: options.get("problems", "all"),
)
def test_other_ways_of_choosing_go_through_scored_rows_unchanged_too(
    bare: Dataset, tmp_path: Path, options: dict[str, Any]
) -> None:
    config = replace(CONFIG, **options)
    curate_dataset(bare, tmp_path / "scored", config)
    rows = bare.map(rpd_curate, fn_kwargs={"config": config})
    Curated.from_rows(rows, tmp_path / "taken", config)
    assert contents(tmp_path / "scored") == contents(tmp_path / "taken")


def test_columns_of_other_names_and_rows_that_cannot_be_used_go_through_too(
    tmp_path: Path,
) -> None:
    rows = some_rows()
    rows[4]["solutions"][1] = None
    rows[5]["problem"] = None
    config = replace(CONFIG, num_problems=2, problem_column="question", solutions_column="answers")
    named = Dataset.from_list(rows).rename_columns({"problem": "question", "solutions": "answers"})
    curate_dataset(named, tmp_path / "scored", config)
    scored = named.map(rpd_curate, fn_kwargs={"config": config})
    curated = Curated.from_rows(scored, tmp_path / "taken", config)

    assert contents(tmp_path / "scored") == contents(tmp_path / "taken")
    assert curated.summary is not None
    assert {reason for stage, reason, _ in curated.summary.drops if stage in ("read", "group")} == {
        "null_problem",
        "null_solution",
    }


def test_rows_that_were_scored_one_by_one_are_not_put_together_afterwards(tmp_path: Path) -> None:
    rows = some_rows()
    rows[6]["problem"] = rows[0]["problem"]
    bare = Dataset.from_list(rows)
    scored = bare.map(rpd_curate, fn_kwargs={"config": CONFIG})
    taken = Curated.from_rows(scored, tmp_path / "taken", CONFIG).summary
    read = curate_dataset(bare, tmp_path / "scored", CONFIG).summary
    assert taken is not None
    assert read is not None
    assert read.scores[0].num_solutions == sum(len(rows[n]["solutions"]) for n in (0, 6))
    assert taken.scores[0].num_solutions == len(rows[0]["solutions"])
    assert ("group", "duplicate_problem", "problem") in taken.drops


def test_rows_that_the_configuration_does_not_make_are_refused(
    bare: Dataset, mapped: Dataset, tmp_path: Path
) -> None:
    for rows, config, says in (
        (bare, CONFIG, "no column 'steps'"),
        (mapped.remove_columns("problem_score"), CONFIG, "no column 'problem_score'"),
        (mapped, replace(CONFIG, problems="raw"), "row 1 was not made by this configuration"),
        (mapped, replace(CONFIG, num_solutions=3), "row 1 was not made by this configuration"),
        (mapped, replace(CONFIG, filters=FilterConfig(min_solutions=5)), "row 1 was not made"),
        (mapped, replace(CONFIG, ties="first"), "row 1 was not made"),
        (changed(mapped, 3, rpd_fingerprint="0" * 32), CONFIG, "row 4 was not made"),
    ):
        with pytest.raises(InputError, match=says):
            Curated.from_rows(rows, tmp_path / "out", config)
    assert not (tmp_path / "out").exists()


def test_rows_that_a_server_summarised_ask_it_nothing_more(bare: Dataset, tmp_path: Path) -> None:
    with FakeTGI(reply=summary_of) as server:
        config = replace(
            CONFIG,
            summarizer=f"openai:{server.url}/v1#Qwen/Qwen3-14B",
            store=str(tmp_path / "replies.sqlite"),
        )
        curate_dataset(bare, tmp_path / "scored", config)
        rows = bare.map(rpd_curate, fn_kwargs={"config": config})
        asked = len(server.requests)
        Curated.from_rows(rows, tmp_path / "taken", config)
        assert len(server.requests) == asked
        other = replace(config, embedder="minilm", truncate_dim=8)
        with pytest.raises(InputError, match="was not made by this configuration"):
            Curated.from_rows(rows, tmp_path / "other", other)

    assert contents(tmp_path / "scored") == contents(tmp_path / "taken")


def test_rows_of_a_judge_are_sent_another_way(mapped: Dataset, tmp_path: Path) -> None:
    config = replace(CONFIG, problems="llm", judge="tgi:http://127.0.0.1:9")
    with pytest.raises(InputError, match="make the folder with curate_dataset"):
        Curated.from_rows(mapped, tmp_path / "out", config)


def test_what_is_no_dataset_is_one_line(bare: Dataset, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="take one split of a DatasetDict"):
        curate_dataset(DatasetDict(train=bare), tmp_path / "out", CONFIG)
    with pytest.raises(InputError, match=r"Dataset\.from_list"):
        Curated.from_rows(some_rows(), tmp_path / "out", CONFIG)


def test_a_folder_is_loaded_again_with_data_training_rows_card_and_manifest(
    bare: Dataset, tmp_path: Path
) -> None:
    made = curate_dataset(bare, tmp_path / "out", CONFIG, license="mit")
    curated = load_curated(tmp_path / "out")

    assert curated == made
    assert [len(curated.dataset), len(curated.sft)] == [4, 8]
    first = curated.dataset[0]
    assert curated.sft[0]["completion"][0]["content"] == first["solutions"][first["selected"][0]]
    assert curated.card.data.license == "mit"
    assert curated.manifest["counts"]["problems_chosen"] == 4
    with pytest.raises(OutputError, match="exists and is not empty"):
        curate_dataset(bare, tmp_path / "out", CONFIG)
    (tmp_path / "out/manifest.json").unlink()
    with pytest.raises(InputError, match=r"has no manifest\.json"):
        load_curated(tmp_path / "out")


def test_it_works_where_an_event_loop_is_running_as_in_a_notebook(
    bare: Dataset, tmp_path: Path
) -> None:
    async def cell() -> Curated:
        return curate_dataset(bare, tmp_path / "out", CONFIG)

    assert len(asyncio.run(cell()).dataset) == 4


def test_push_to_hub_from_python_publishes_what_the_command_line_publishes(
    mapped: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    curated = Curated.from_rows(mapped, tmp_path / "out", CONFIG)
    with LocalHub() as hub:
        pushed = curated.push_to_hub("set", api=HfApi(hub.url, token=TOKEN))
        files = hub.files("datasets/ada/set")

    assert pushed.repo_id == "ada/set"
    assert pushed.private
    card = (tmp_path / "out/README.md").read_text().replace("PATH_OR_ID", "ada/set")
    assert files["README.md"].decode() == card
    local = contents(tmp_path / "out")
    assert {**files, "README.md": b""} == {
        **local,
        "README.md": b"",
        ".gitattributes": files[".gitattributes"],
    }
