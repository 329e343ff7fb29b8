"""Rows become token ids: nothing is cut, the end of an answer is learnt, steps are known."""

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from parts.rows import write_rows
from parts.tiny_models import END, FAMILIES, PAD, dialogues, make_tokenizer, sums, tiny_model
from rpd_datasets.training.tokenizer import assistant_template, load_tokenizer
from rpd_datasets.training.training_rows import (
    load_rows,
    other_turns_learnt,
    tokenize_rows,
    with_prompt,
)
from rpd_metric.errors import InputError

TOO_LONG = "samples left out as too long"
CHANGED = "samples left out as changed by the template"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {family: tiny_model(folder / family, family) for family in FAMILIES}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load_rows([str(sums(tmp_path_factory.mktemp("rows") / "sums.jsonl", 6))])[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_only_the_completion_is_learnt_and_its_end_token_with_it(models, rows, family):
    tokenizer = load_tokenizer(str(models[family]))
    samples = tokenize_rows(rows, tokenizer, max_length=512, too_long="refuse")
    for sample, row in zip(samples.dataset, rows, strict=True):
        pairs = zip(sample["input_ids"], sample["labels"], strict=True)
        learnt = [token for token, label in pairs if label != -100]
        assert tokenizer.decode(learnt) == row["completion"][0]["content"] + END[family] + "\n"
    assert samples.counts["of them learnt"] < samples.counts["tokens per epoch"]


def test_with_marks_only_the_turns_of_the_model_are_learnt(tmp_path):
    ask = {"type": "function", "function": {"name": "add", "arguments": {"numbers": [2, 3]}}}
    rows = [
        {
            "prompt": [{"role": "user", "content": "2 + 3"}],
            "completion": [
                {"role": "assistant", "content": "", "tool_calls": [ask]},
                {"role": "tool", "content": "SUM"},
                {"role": "assistant", "content": "It is 5."},
            ],
            "tools": [{"type": "function", "function": {"name": "add", "parameters": {}}}],
        }
    ]
    rows = load_rows([str(write_rows(tmp_path / "rows.jsonl", rows))])[0]
    assert "1 of 1 completions" in str(other_turns_learnt(rows))
    template = files("trl").joinpath("chat_templates/qwen3.jinja").read_text("utf-8")
    special = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    tokenizer = make_tokenizer(["a"], special, template, vocab_size=300, length=4096)
    options: dict[str, Any] = {"max_length": None, "too_long": "refuse"}
    marked = assistant_template(tokenizer)  # TRL's own for Qwen3
    (sample,) = tokenize_rows(rows, tokenizer, assistant_template=marked, **options).dataset
    pairs = zip(sample["input_ids"], sample["labels"], strict=True)
    learnt = tokenizer.decode([token for token, label in pairs if label != -100])
    assert learnt.count("<|im_end|>") == 2
    assert "SUM" not in learnt
    assert '{"name": "add", "arguments": {"numbers": [2, 3]}}' in learnt
    # A template that drops calls would train on half of the row.
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}"
    with pytest.raises(InputError, match="changes the completions of 1 of 1"):
        tokenize_rows(rows, tokenizer, **options)
    with pytest.raises(InputError, match="marks the model's turns"):
        assistant_template(tokenizer)


def test_a_sample_that_is_too_long_is_refused_or_dropped_but_never_cut(models, tmp_path):
    rows = sample(tmp_path, *"abcde", "A longer answer.")
    tokenizer = load_tokenizer(str(models["qwen3"]))
    whole = tokenize_rows(rows, tokenizer, max_length=None, too_long="refuse")
    lengths = [len(ids) for ids in whole.dataset["input_ids"]]
    limit = max(lengths) - 1
    over = sum(n > limit for n in lengths)
    with pytest.raises(InputError, match=f"{over} of 6 samples are longer than max_length {limit}"):
        tokenize_rows(rows, tokenizer, max_length=limit, too_long="refuse")
    kept = tokenize_rows(rows, tokenizer, max_length=limit, too_long="drop")
    assert kept.counts[TOO_LONG] == over
    assert [len(ids) for ids in kept.dataset["input_ids"]] == [n for n in lengths if n <= limit]
    with pytest.raises(InputError, match="no sample is left"):
        tokenize_rows(rows, tokenizer, max_length=3, too_long="drop")


def test_an_end_token_that_the_template_does_not_write_is_refused(models, rows):
    # As with Qwen's base models, whose tokenizer ends texts and not turns.
    tokenizer = load_tokenizer(str(models["qwen3"]))
    tokenizer.eos_token, tokenizer.pad_token = PAD["qwen3"], END["qwen3"]
    with pytest.raises(InputError, match="never learn to stop"):
        tokenize_rows(rows, tokenizer, max_length=512, too_long="refuse")


def test_padding_with_the_end_token_and_an_unknown_token_are_refused(models):
    with pytest.raises(InputError, match=r"--padding_token '<\|finetune_right_pad_id\|>'"):
        load_tokenizer(str(models["llama"]), padding_token=END["llama"])
    with pytest.raises(InputError, match="eos_token '<end>' is not in the vocabulary"):
        load_tokenizer(str(models["llama"]), end_token="<end>")


def test_a_source_that_is_not_there_or_has_other_columns_is_refused_in_one_line(tmp_path):
    other = write_rows(tmp_path / "x.jsonl", [{"text": "hello"}])
    sources = {"nowhere/at/all": None, "missing.jsonl": None, other: "no column 'prompt'"}
    for spec, says in sources.items():
        with pytest.raises(InputError, match=says) as caught:
            load_rows([str(spec)])
        assert "\n" not in str(caught.value)


TEMPLATES = files("trl") / "chat_templates"
# The template's file, and the tiny model whose markers it writes.
REAL = {"qwen3": "qwen3", "qwen2_5": "qwen2", "llama3": "llama"}


def real_template(models: dict[str, Path], name: str) -> Any:
    tokenizer = load_tokenizer(str(models[REAL[name]]), template=str(TEMPLATES / f"{name}.jinja"))
    tokenizer.bos_token = tokenizer.bos_token or tokenizer.pad_token
    return tokenizer


def sample(tmp_path: Path, *completions: str) -> Any:
    pairs = ((f"1 + {n}", text) for n, text in enumerate(completions))
    return load_rows([str(dialogues(tmp_path / "rows.jsonl", pairs))])[0]


WHOLE = ["The sum is 2.", "<think>One more.</think>\n\nThe sum is 2.", "  Indented.\n\nAnd on."]


@pytest.mark.parametrize("name", REAL)
def test_real_templates_keep_a_completion(models, tmp_path, name):
    rows = sample(tmp_path, *WHOLE)
    found = tokenize_rows(rows, real_template(models, name), max_length=None, too_long="refuse")
    assert (len(found.dataset), found.counts[CHANGED]) == (3, 0)


# What stood between two ends of a think block is lost; an unfinished one becomes an empty one.
@pytest.mark.parametrize("text", ["<think>a</think>b</think>c", "<think>a and no end"])
def test_a_completion_that_qwen3s_template_changes_is_refused_or_counted(models, tmp_path, text):
    tokenizer, rows = real_template(models, "qwen3"), sample(tmp_path, WHOLE[0], text)
    with pytest.raises(InputError, match=r"changes the completions of 1 of 2 .* row 1"):
        tokenize_rows(rows, tokenizer, max_length=None, too_long="refuse")
    found = tokenize_rows(rows, tokenizer, max_length=None, too_long="refuse", rewritten="drop")
    assert (len(found.dataset), found.counts[CHANGED], found.counts[TOO_LONG]) == (1, 1, 0)
    # Templates that know no think blocks leave it as it is.
    other = real_template(models, "qwen2_5")
    assert not tokenize_rows(rows, other, max_length=None, too_long="refuse").counts[CHANGED]


def test_a_prompt_is_put_around_the_problem(tmp_path):
    rows = with_prompt(sample(tmp_path, "2"), "box")
    assert rows[0]["prompt"][0]["content"] == "1 + 0\n\nPut your final answer within \\boxed{}."
