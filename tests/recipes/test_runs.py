"""The recipes really train tiny models on a CPU: they start, finish, resume, merge and reward."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from parts.recipe_scripts import RECIPES, fine_tune, history, launch, script
from parts.rows import write_rows
from parts.tiny_models import END, FAMILIES, PAD, sums, tiny_model
from rpd_datasets import CurationConfig, curate_dataset
from rpd_datasets.training.record import last_checkpoint
from rpd_metric.errors import InputError, OutputError

GRPO = ["--config", str(RECIPES / "configs/tiny/grpo.yaml"), "--disable_tqdm", "true"]
# As on a GPU: weights in bfloat16, and an optimizer step after each batch at the paper's rate.
LIKE_A_GPU = ["--dtype", "bfloat16", "--bf16", "true", "--max_steps", "2", "--save_steps", "1"]
WHOLE = ["--use_peft", "false", "--load_in_4bit", "false"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for family in FAMILIES:
        tiny_model(folder / family, family)
    # As Qwen's base models have it: vLLM would cap every reply there.
    caps = {"max_new_tokens": 2048, "do_sample": True, "eos_token_id": 2, "temperature": 0.6}
    (folder / "qwen3/generation_config.json").write_text(json.dumps(caps))
    sums(folder / "sums.jsonl")
    fours = [{"problem": f"{a} + {4 - a}", "answer": "4"} for a in range(4)]
    (folder / "fours.json").write_text(json.dumps(fours), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def tuned(here: Path) -> Path:
    return fine_tune(here, "qwen3", "tuned")


@pytest.fixture(scope="module")
def merged(here: Path, tuned: Path) -> Path:
    return merge(tuned, here / "merged", "--dtype", "float32")


def merge(adapter: Path, output: Path, *more: str) -> Path:
    script("merge").main(["--adapter", str(adapter), "--output", str(output), *more])
    return output


def test_a_transcript_with_calls_of_tools_trains_on_the_turns_of_the_model(here, capsys):
    """From rows with calls through curation to the loss, which sees no result of a tool."""
    ways = ["Count on from the first number.", "Double the number, then correct it."]
    rows = [
        {
            "messages": [
                {"role": "user", "content": f"{n} + 4"},
                {"role": "assistant", "content": None, "tool_calls": [add(n, side)]},
                {"role": "tool", "content": "RESULT " * 50},
                {"role": "assistant", "content": f"{way} It is {n + 4}."},
            ]
        }
        for n in range(4)
        for side, way in enumerate(ways)
    ]
    data = write_rows(here / "tools.jsonl", rows)
    config = CurationConfig(num_problems=4, num_solutions=2, embedder="static")
    curate_dataset(str(data), here / "tools", config)
    template = files("trl").joinpath("chat_templates/qwen3_training.jinja").read_text("utf-8")
    (here / "marked.jinja").write_text(template, encoding="utf-8")
    more = [
        "--data",
        str(here / "tools"),
        "--num_train_epochs",
        "2",
        "--assistant_only_loss",
        "true",
    ]
    with pytest.raises(InputError, match="--chat_template_path FILE"):
        fine_tune(here, "qwen3", "unmarked", *more)
    more += ["--chat_template_path", str(here / "marked.jinja")]
    output = fine_tune(here, "qwen3", "transcripts", *more)
    assert (output / "adapter_model.safetensors").is_file()
    counts = json.loads((output / "recipe.json").read_text(encoding="utf-8"))["counts"]
    # The results alone are hundreds of tokens a row.
    assert counts["of them learnt"] < 0.4 * counts["tokens per epoch"]
    assert [row["loss"] > 0 for row in history(output, "loss")] == [True] * 2
    fine_tune(here, "qwen3", "all", *more[:4], *more[6:], "--dry_run", "true")
    assert "8 of 8 completions have turns of tools or users" in capsys.readouterr().err


def add(first: int, second: int) -> dict[str, Any]:
    arguments = json.dumps({"first": first, "second": second})
    return {"id": "1", "type": "function", "function": {"name": "add", "arguments": arguments}}


def reinforce(model: Path, problems: Path, output: Path, *more: str) -> Path:
    line = ["--model_name_or_path", str(model), "--problems", str(problems)]
    script("grpo").main([*GRPO, *line, "--output_dir", str(output), *more])
    return output


def losses(output: Path) -> list[float]:
    return [row["loss"] for row in history(output, "loss")]


def weights_of(folder: Path, name: str = "adapter_model") -> dict[str, Any]:
    from safetensors.torch import load_file

    weights: dict[str, Any] = load_file(folder / f"{name}.safetensors")
    return weights


def test_the_walk_through_of_the_readme_works_as_it_is_written(tmp_path: Path):
    text = (RECIPES / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    blocks = re.findall(r"```bash\n(.*?)```", text, flags=re.DOTALL)
    # The walk-through, and what curation costs.
    blocks = [block for block in blocks if "tiny/qwen3" in block or "POOL" in block]
    assert len(blocks) == 2
    for name in ("recipes", "tests"):
        (tmp_path / name).symlink_to(RECIPES.parent / name)
    launcher = "-m accelerate.commands.accelerate_cli"
    programs = {"python": "", "rpd": "-m rpd_datasets.cli", "accelerate": launcher}
    functions = [f'{name}() {{ {sys.executable} {run} "$@"; }}' for name, run in programs.items()]
    lines = ["bash", "-c", "\n".join(["set -e", *functions, *blocks])]
    env = os.environ | {"PYTHONPATH": str(RECIPES.parent), "HF_HUB_OFFLINE": "1"}
    env |= {"POOL": "sample", "MODELS": ""}
    done = subprocess.run(lines, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "samples: 12\n" in done.stderr
    assert "generated_text" in done.stdout
    tuned = losses(tmp_path / "tiny/tuned")
    assert tuned[-1] < tuned[0]
    card = (tmp_path / "tiny/merged/README.md").read_text(encoding="utf-8")
    assert done.stderr.count("\nreal\t") == 3, "the time of each run that the cost is made of"
    assert "| samples | 12 |" in card
    assert str(tmp_path) not in card
    assert len(history(tmp_path / "tiny/rewarded", "reward")) == 4


@pytest.mark.parametrize("family", ["qwen2", "llama"])
def test_the_loss_falls_in_4_bits_for_other_families_too(here: Path, family: str):
    found = losses(fine_tune(here, family, f"tuned-{family}", "--num_train_epochs", "2"))
    assert found[-1] < 0.7 * found[0]


def test_a_run_saves_adapter_tokenizer_generation_config_and_card(tuned: Path):
    assert losses(tuned)[-1] < 0.3 * losses(tuned)[0]
    saved = {"adapter_model.safetensors", "tokenizer.json", "generation_config.json"}
    assert saved | {"recipe.json", "README.md"} <= {file.name for file in tuned.iterdir()}
    card = (tuned / "README.md").read_text(encoding="utf-8")
    assert "4-bit QLoRA (rank 16, alpha 32)" in card
    assert "<|im_start|>user\n{problem}<|im_end|>\n<|im_start|>assistant" in card
    snippet = card.partition("```python\n")[2].partition("```")[0]
    exec(snippet.replace("PATH_OR_ID", str(tuned)).replace("4096", "2"), {})


def test_a_killed_run_goes_on_from_its_last_whole_checkpoint_to_the_same_weights(
    here: Path, tuned: Path
):
    import torch

    killed = here / "killed"
    shutil.copytree(tuned, killed)
    for name in ("adapter_model.safetensors", "README.md"):
        (killed / name).unlink()
    # As if it had been killed while it wrote checkpoint 12.
    (killed / "checkpoint-12/trainer_state.json").unlink()
    assert last_checkpoint(killed) == killed / "checkpoint-9"
    fine_tune(here, "qwen3", "killed", "--per_device_train_batch_size", "4")
    before, after = weights_of(tuned), weights_of(killed)
    assert before.keys() == after.keys()
    for name, weight in before.items():
        assert torch.allclose(weight, after[name], atol=1e-4), name


def test_what_would_train_something_else_is_refused(here: Path, tuned: Path):
    with pytest.raises(OutputError, match=r"learning_rate was 0.01 and is 0.5"):
        fine_tune(here, "qwen3", "tuned", "--learning_rate", "0.5")
    with pytest.raises(InputError, match=r"for 300 samples and .* holds 48"):
        fine_tune(here, "qwen3", "other", "--num_samples", "300")
    with pytest.raises(InputError, match=f"python recipes/merge.py --adapter {tuned}"):
        reinforce(tuned, here / "fours.json", here / "unused")
    with pytest.raises(OutputError, match="does not replace"):
        merge(tuned, here / "qwen3")
    with pytest.raises(InputError, match=r"no adapter_config\.json"):
        merge(here / "qwen3", here / "x")
    with pytest.raises(InputError, match="4-bit weights cannot be trained: set use_peft"):
        fine_tune(here, "qwen3", "other", "--use_peft", "false")


def test_a_dry_run_needs_no_weights_and_leaves_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
):
    shutil.copytree(here / "qwen3", here / "shape")
    (here / "shape/model.safetensors").unlink()
    output = fine_tune(here, "shape", "dry", "--dry_run", "--seconds_per_step", "600")
    said = capsys.readouterr().err
    assert "optimizer steps: 12\n" in said
    assert "learning_rate: 0.01\n" in said
    assert "hours: 2.0\n" in said
    assert not output.exists()


def test_the_merged_model_agrees_with_the_adapter_on_its_4_bit_base(
    here: Path, tuned: Path, merged: Path
):
    import peft
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

    def load(folder: Path, **options: Any) -> Any:
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **options)

    nf4 = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32
    )
    tokenizer = AutoTokenizer.from_pretrained(merged)
    asked = [{"role": "user", "content": "3 + 4"}]
    shape = {"add_generation_prompt": True, "return_tensors": "pt", "return_dict": True}
    inputs = tokenizer.apply_chat_template(asked, **shape)
    whole = load(merged)
    bases = (load(here / "qwen3", quantization_config=nf4), load(here / "qwen3"))
    models = [whole, *(peft.PeftModel.from_pretrained(base, tuned) for base in bases)]
    with torch.no_grad():
        logits, trained, original = (model(**inputs).logits for model in models)
    error = (logits - trained).abs().mean()
    assert error < 0.1 * (original - trained).abs().mean()
    # It has learnt the form, and to stop.
    text = tokenizer.decode(whole.generate(**inputs, max_new_tokens=40, do_sample=False)[0])
    assert "The sum is \\boxed{" in text
    assert text.rstrip().endswith(END["qwen3"])


def test_a_merged_model_is_served_without_the_caps_of_its_base(
    here: Path, tuned: Path, merged: Path, capsys: pytest.CaptureFixture[str]
):
    merge(tuned, here / "ends", "--stop", PAD["qwen3"])
    serve = f"serve it: vllm serve {here / 'ends'} --served-model-name ends\n"
    assert serve in capsys.readouterr().err
    files = [folder / "generation_config.json" for folder in (merged, here / "ends")]
    one, two = (json.loads(file.read_text()) for file in files)
    assert one.keys() == two.keys() <= {"eos_token_id", "pad_token_id", "transformers_version"}
    assert two["eos_token_id"] == [one["eos_token_id"], one["pad_token_id"]]
    with pytest.raises(InputError, match="'</end>' is not in the vocabulary"):
        merge(tuned, here / "other", "--stop", "</end>")


def test_interpolated_models_lie_on_the_way_from_the_base_to_the_tuned_one(
    here: Path, tuned: Path, merged: Path
):
    import torch

    merge(tuned, here / "wise", "--dtype", "float32", "--interpolate", "0.25", "1")
    end, whole, quarter = (
        weights_of(folder, "model") for folder in (merged, here / "wise-1", here / "wise-0.25")
    )
    assert all(torch.equal(weight, end[name]) for name, weight in whole.items())
    name = "model.layers.0.mlp.down_proj.weight"
    weights = weights_of(tuned)
    a, b = (weights[f"base_model.model.model.layers.0.mlp.down_proj.lora_{x}.weight"] for x in "AB")
    delta = 2 * b @ a  # of rank 16 and alpha 32
    assert torch.allclose(quarter[name], end[name] - 0.75 * delta, atol=1e-5)
    assert delta.abs().max() > 1e-3
    with pytest.raises(InputError, match=r"interpolate is 1\.5"):
        merge(tuned, here / "wise", "--interpolate", "1.5")


def reward(here: Path, merged: Path) -> Path:
    about = {"answer": "5", "year": 1990}
    problems = [{"problem": f"{a} + {b}", **about} for a in range(8) for b in range(4)]
    (here / "problems.json").write_text(json.dumps(problems), encoding="utf-8")
    more = ("--diversity_weight", "0.01")
    return reinforce(merged, here / "problems.json", here / "rewarded", *more)


@pytest.fixture(scope="module")
def rewarded(here: Path, merged: Path) -> Path:
    return reward(here, merged)


def test_the_reward_rises_on_a_task_that_can_be_learnt(rewarded: Path):
    rows = history(rewarded, "reward")
    assert len(rows) == 32
    rewards = [row["reward"] for row in rows]
    assert sum(rewards[-6:]) > 2 * sum(rewards[:6])
    assert {f"rewards/{name}/mean" for name in ("accuracy", "format", "diversity")} <= set(rows[0])
    card = (rewarded / "README.md").read_text(encoding="utf-8")
    assert "GRPO on problems of the AIME with LoRA (rank 32, alpha 16)" in card


def test_the_diversity_reward_works_in_trls_own_command(here: Path, merged: Path):
    rows = [json.dumps({"prompt": f"{a} + {4 - a}", "answer": "4"}) for a in range(4)]
    (here / "plain").mkdir()
    (here / "plain/train.jsonl").write_text("\n".join(rows), encoding="utf-8")
    # What `trl grpo` launches.
    line = ["-m", "trl.scripts.grpo", "--model_name_or_path", merged]
    line += ["--dataset_name", here / "plain"]
    line += ["--reward_funcs", "rpd_datasets.rewards.diversity", "--output_dir", here / "by-name"]
    line += ["--use_cpu", "true", "--bf16", "false", "--max_steps", "1", "--save_steps", "1"]
    line += ["--num_generations", "4", "--max_completion_length", "16", "--report_to", "none"]
    launch(*line, "--logging_steps", "1")
    assert "rewards/diversity/mean" in history(here / "by-name", "reward")[0]


def test_rewards_and_a_table_of_completions_with_their_rpd_are_tracked(here: Path):
    line = [RECIPES / "grpo.py", *GRPO, "--problems", here / "fours.json", "--max_steps", "2"]
    line += ["--model_name_or_path", here / "qwen3", "--output_dir", here / "tracked"]
    line += ["--report_to", "trackio", "--project", "rpd", "--run_name", "first"]
    line += ["--diversity_weight", "0.1", "--log_completions", "true", "--logging_steps", "1"]
    (here / "held.json").write_text('[{"problem": "3 + 4", "answer": "7"}]', encoding="utf-8")
    line += ["--measure_every", "1", "--measure_problems", here / "held.json"]
    line += ["--measure_samples", "2", "--measure_tokens", "8"]
    launch(*line, TRACKIO_DIR=str(here / "trackio"))
    with closing(sqlite3.connect(here / "trackio/rpd.db")) as database:
        logged = [json.loads(text) for (text,) in database.execute("SELECT metrics FROM metrics")]
    names = {name for row in logged for name in row}
    assert {"train/loss", "train/rewards/accuracy/mean", "train/rewards/diversity/mean"} <= names
    assert {"train/held_out/pass@1", "train/held_out/pass@2"} <= names
    tables = [row["completions"] for row in logged if "completions" in row]
    rows = [row for table in tables for row in table["_value"]]
    assert {row["step"] for row in rows} == {1, 2}
    assert {"prompt", "completion", "accuracy", "diversity", "advantage"} <= set(rows[0])


def test_a_killed_reinforcement_run_goes_on_and_finishes(
    here: Path, merged: Path, rewarded: Path, capsys: pytest.CaptureFixture[str]
):
    (rewarded / "adapter_model.safetensors").unlink()
    (rewarded / "checkpoint-32/trainer_state.json").unlink()
    reward(here, merged)
    assert f"continuing from {rewarded / 'checkpoint-28'}\n" in capsys.readouterr().err
    assert (rewarded / "adapter_model.safetensors").is_file()
    assert [row["step"] for row in history(rewarded, "reward")] == list(range(1, 33))


def changed_share(output: Path) -> float:
    """The share of a model's weights, or of an adapter's first matrices, that step 2 changed."""
    import torch

    name = "model" if (output / "model.safetensors").exists() else "adapter_model"
    before, after = (weights_of(output / f"checkpoint-{n}", name) for n in (1, 2))
    assert {weight.dtype for weight in after.values()} == {torch.float32}
    first = [name for name in after if "lora_B" not in name]
    changed = sum(int((before[name] != after[name]).sum()) for name in first)
    return changed / sum(after[name].numel() for name in first)


@pytest.mark.parametrize("more", [[], WHOLE], ids=["adapter", "whole"])
def test_fine_tuning_at_the_papers_rate_changes_every_weight(
    here: Path, more: list[str], capsys: pytest.CaptureFixture[str]
):
    rate = ["--learning_rate", "5e-5", "--num_samples", "48"]
    output = fine_tune(here, "qwen3", f"exact-{len(more)}", *rate, *LIKE_A_GPU, *more)
    assert changed_share(output) > 0.95
    printed = capsys.readouterr().err
    assert float(re.findall(r"step 1 changed (.*)% of the trained weights\n", printed)[0]) > 95
    assert ("all weights are trained, in float32: bfloat16 rounds" in printed) == bool(more)


@pytest.mark.parametrize("more", [[], WHOLE], ids=["adapter", "whole"])
def test_reinforcement_changes_every_weight(here: Path, more: list[str]):
    # An untrained model never solves anything: what is rewarded here differs between completions.
    odd = "def check(answer, response):\n    return len(response) % 2 == 1\n"
    (here / "odd.py").write_text(odd, encoding="utf-8")
    line = ["--grader", f"{here / 'odd.py'}:check", "--format_weight", "0"]
    line += ["--learning_rate", "2e-5", "--max_completion_length", "8", *more]
    output = here / f"rewarded-{len(more)}"
    reinforce(here / "qwen3", here / "fours.json", output, *line, *LIKE_A_GPU)
    assert changed_share(output) > 0.95
