"""`rpd export`: rows that TRL's trainers take, in which a conversation with tools is whole."""

import json
import re
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
    again = ["export", "pool.jsonl", "--to", "kto", "--output", "rows"]
    assert main(again) == 1
    assert "--overwrite" in capsys.readouterr().err
    assert main([*again, "--overwrite"]) == 0
    assert len(read_lines(Path("rows/train.jsonl"))) == 5


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


# The readers of other trainers: run wherever these are installed, and skipped elsewhere.


def reader(module: str) -> Any:
    return pytest.importorskip(module, exc_type=ImportError)


@pytest.mark.parametrize("to", ["llamafactory", "sharegpt", "alpaca"])
def test_the_reader_of_llamafactory_gives_the_turns(pool, to):
    converters, parser = reader("llamafactory.data.converter"), reader("llamafactory.data.parser")
    talk = TALKS[0]
    if to == "sharegpt":  # without words beside calls, and with one result after the other
        talk = [turn for turn in TALKS[2] if turn.get("tool_call_id") != "c1"]
        write_rows(pool, [{"messages": talk, "tools": TOOLS, "correct": True}])
    assert main(["export", "pool.jsonl", "--to", to, "--output", "rows"]) == 0
    info: dict[str, Any] = {"rpd": {"file_name": "train.jsonl", "formatting": to}}
    if to == "sharegpt":
        info["rpd"] |= {"columns": {"messages": "conversations", "tools": "tools"}}
    if to == "llamafactory":
        (info,) = read_lines(Path("rows/dataset_info.json"))
    (attributes,) = parser.get_dataset_list(["rpd"], info)
    convert = converters.get_dataset_converter(attributes.formatting, attributes, None)
    row = convert(read_lines(Path("rows/train.jsonl"))[0])
    turns = [turn["content"] for turn in [*row["_prompt"], *row["_response"]]]
    if to == "alpaca":
        assert turns == ["easy", "Hm: 5."]
        return
    assert (row["_system"], json.loads(row["_tools"])) == ("Compute.", TOOLS)
    assert (turns[0], turns[-1]) == ("12 times 8?", talk[-1]["content"])
    formatter = reader("llamafactory.data.formatter").FunctionFormatter(
        slots=["{{content}}"], tool_format="qwen"
    )
    (text,) = formatter.apply(content=turns[1], tool_call_words=("<tool_call>", "</tool_call>"))
    assert text.startswith(talk[2]["content"])
    calls = [json.loads(call) for call in re.findall("<tool_call>(.*?)</tool_call>", text, re.S)]
    assert calls == [call["function"] for call in talk[2]["tool_calls"]]


def test_the_reader_of_axolotl_trains_on_the_turns_of_the_model(pool):
    load, dicts = (
        reader("axolotl.prompt_strategies.chat_template").load,
        reader("axolotl.utils.dict"),
    )
    assert main(["export", "pool.jsonl", "--to", "axolotl", "--output", "rows"]) == 0
    _, tokenizer = tiny(Path("model"))
    options = {"sequence_len": 4096, "train_on_inputs": False, "chat_template": "tokenizer_default"}
    strategy = load(tokenizer, dicts.DictDefault(options), {"type": "chat_template"})
    row = strategy.tokenize_prompt(load_dataset("rows", split="train")[0])
    texts = [tokenizer.decode(row["input_ids"])]
    texts += [tokenizer.decode([token for token in row["labels"] if token >= 0])]
    assert "<tools>" in texts[0]
    for words in ('"expression": "1+1"', "It is 96."):
        assert all(words in text for text in texts)
    assert "12 times 8?" not in texts[1]


def test_the_reader_of_verl_trains_on_the_turns_of_the_model(pool):
    module = reader("verl.utils.dataset.multiturn_sft_dataset")
    assert main(["export", "pool.jsonl", "--to", "verl", "--output", "rows"]) == 0
    _, tokenizer = tiny(Path("model"))
    options = {"max_length": 4096, "ignore_input_ids_mismatch": True}
    rows = module.MultiTurnSFTDataset("rows/train.parquet", tokenizer, options)
    assert len(rows) == 3
    ids, mask = rows[0]["input_ids"], rows[0]["loss_mask"].bool()
    assert "<tools>" in tokenizer.decode(ids)
    learnt = tokenizer.decode(ids[mask])
    assert '"expression": "1+1"' in learnt
    assert "It is 96." in learnt
    assert "12 times 8?" not in learnt
