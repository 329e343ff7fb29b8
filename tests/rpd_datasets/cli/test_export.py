"""`rpd export`: rows that TRL's trainers take, in which a conversation with tools is whole."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from datasets import load_dataset
from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer, SFTConfig, SFTTrainer

from parts.rows import read_lines, write_rows
from parts.tiny_models import make_tokenizer, untrained
from rpd_datasets.cli import main
from rpd_datasets.inputs.source import open_source
from rpd_datasets.messages import solution_text, trajectories_of, without_ids

PARAMETERS = {"type": "object", "properties": {"expression": {"type": "string"}}}
TOOLS = [{"type": "function", "function": {"name": "compute", "parameters": PARAMETERS}}]
TOOLS[0]["function"]["description"] = "Computes."  # type: ignore[index]
ANSWERS = {"12*8": "It is 96.", "12*4*2": "So it is 96.", "12+8": "It is 20."}


def transcript(expression: str, words: str) -> list[dict[str, Any]]:
    """Two calls at once, after `words`."""
    names = (expression, "1+1")
    calls = [{"name": "compute", "arguments": {"expression": name}} for name in names]
    asks: dict[str, Any] = {"role": "assistant", "content": words}
    asks["tool_calls"] = [
        {"type": "function", "id": f"c{n}", "function": call} for n, call in enumerate(calls)
    ]
    talk = [{"role": "system", "content": "Compute."}, {"role": "user", "content": "12 times 8?"}]
    talk += [asks, *({"role": "tool", "content": "2", "tool_call_id": f"c{n}"} for n in range(2))]
    return [*talk, {"role": "assistant", "content": ANSWERS[expression]}]


TALKS = [transcript(way, "I compute." * (way != "12+8")) for way in ANSWERS]


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A task that an agent solved twice and missed once; two problems lack one kind."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {"id": "task", "messages": talk, "tools": TOOLS, "correct": n < 2}
        for n, talk in enumerate(TALKS)
    ]
    for name, right in (("easy", True), ("hard", False)):
        talk = [{"role": "user", "content": name}, {"role": "assistant", "content": "Hm: 5."}]
        rows.append({"id": name, "messages": talk, "tools": None, "correct": right})
    return write_rows(tmp_path / "pool.jsonl", rows)


def tiny(folder: Path) -> tuple[str, Any]:
    """A model on disk, from which TRL makes its reference, too, and a tokenizer."""
    template = files("trl").joinpath("chat_templates/qwen3_training.jinja").read_text("utf-8")
    special = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    tokenizer = make_tokenizer(["a"], special, template, vocab_size=300, length=4096)
    untrained("qwen3", tokenizer).save_pretrained(folder)
    return str(folder), tokenizer


OPTIONS = {"max_steps": 1, "report_to": "none", "use_cpu": True, "save_strategy": "no"}


@pytest.mark.parametrize(
    ("to", "trainer", "config"),
    [
        ("dpo", DPOTrainer, DPOConfig),
        ("kto", KTOTrainer, KTOConfig),
        ("openai", SFTTrainer, SFTConfig),
    ],
)
def test_a_trainer_of_trl_takes_the_rows_with_their_tools(pool, to, trainer, config, capsys):
    assert main(["export", "pool.jsonl", "--to", to, "--output", "rows", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    model, tokenizer = tiny(Path("model"))
    rows = load_dataset("rows", split="train")
    options: dict[str, Any] = {**OPTIONS, "output_dir": "run", "per_device_train_batch_size": 2}
    made = trainer(model, args=config(**options), train_dataset=rows, processing_class=tokenizer)
    assert made.train().global_step == 1
    row = made.train_dataset[0]
    texts = {name: tokenizer.decode(ids) for name, ids in row.items() if name.endswith("ids")}
    whole = next((texts[name] for name in ("chosen_ids", "completion_ids") if name in texts), "")
    whole = texts.get("prompt_ids", "") + (whole or texts.get("input_ids", ""))
    assert "<tools>" in whole
    assert '"expression": "1+1"' in whole
    kinds = {"dpo": ["no_wrong_solution", "no_right_solution"], "kto": []}
    assert sorted(result["reasons"]) == sorted(kinds.get(to, ["no_right_solution"]))
    assert {reject["problem"] for reject in result["left_out"]} <= {"easy", "hard"}
    assert result["num_rows"] == {"dpo": 1, "kto": 5, "openai": 3}[to]


def test_a_pair_has_solutions_of_like_length_and_method(pool, capsys):
    texts = ["short", "a" * 40, "b" * 41, "c" * 6, "d" * 39]
    row = {"problem": "?", "solutions": texts, "correct": [True, True, False, False, False]}
    row |= {"strategies": [0, 0, 1, 0, 0]}
    write_rows(pool, [row])
    assert main(["export", "pool.jsonl", "--to", "dpo", "--output", "rows"]) == 0
    pairs = [
        tuple(solution_text(row[name]) for name in ("chosen", "rejected"))
        for row in read_lines(Path("rows/train.jsonl"))
    ]
    assert pairs == [(texts[1], texts[4]), (texts[0], texts[3])]
    again = ["export", "pool.jsonl", "--to", "dpo", "--output", "rows", "--max-pairs", "1"]
    assert main(again) == 1
    assert "--overwrite" in capsys.readouterr().err
    assert main([*again, "--overwrite"]) == 0
    assert len(read_lines(Path("rows/train.jsonl"))) == 1


def bare(turn: dict[str, Any]) -> Any:
    """A message without ids of calls, which ShareGPT has not."""
    return {**without_ids(turn), "tool_calls": [c["function"] for c in turn.get("tool_calls", ())]}


@pytest.mark.parametrize("to", ["sharegpt", "axolotl", "openai"])
def test_an_export_reads_back_as_the_same_messages(pool, tmp_path, to):
    assert main(["export", "pool.jsonl", "--to", to, "--output", "rows"]) == 0
    source = open_source("rows/train.jsonl", scratch=tmp_path, on_reject=print)
    problem = next(iter(source))
    rows = trajectories_of(problem.extra, problem.problem, problem.solutions)
    for row, talk in zip(rows, TALKS[:2], strict=True):
        assert list(map(bare, row["prompt"] + row["completion"])) == list(map(bare, talk))
        assert row["tools"] == TOOLS


def test_llamafactory_and_verl_have_their_own_files_and_alpaca_no_tools(pool, capsys):
    for to in ("llamafactory", "verl", "alpaca"):
        assert main(["export", "pool.jsonl", "--to", to, "--output", to]) == 0
    rows = read_lines(Path("llamafactory/train.jsonl"))
    speakers = [turn["from"] for turn in rows[0]["conversations"]]
    assert speakers == ["system", "human", "function_call", "observation", "gpt"]
    assert json.loads(Path("llamafactory/dataset_info.json").read_text())["rpd"]["columns"]
    assert pq.read_table("verl/train.parquet")["tools"].to_pylist() == [TOOLS, TOOLS, []]
    (row,) = read_lines(Path("alpaca/train.jsonl"))
    assert row == {"instruction": "easy", "input": "", "output": "Hm: 5."}
    reasons = json.loads(Path("alpaca/export.json").read_text())["reasons"]
    assert reasons == {"not_in_format": 2, "no_right_solution": 1}
