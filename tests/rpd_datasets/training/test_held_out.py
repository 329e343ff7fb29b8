"""Held-out problems are measured while a model trains, and training does not change by it."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from parts.recipe_scripts import fine_tune, history
from parts.rows import write_rows
from parts.tiny_models import sums, tiny_model
from rpd_datasets.training.held_out import HeldOut, held_out_figures, load_held_out, sample
from rpd_datasets.training.recipe import SupervisedOptions
from rpd_datasets.training.tokenizer import load_tokenizer
from rpd_metric.errors import InputError

ROOTS = "What is the larger root of $x^2 - 5x + 6 = 0$?"
FACTOR = "2 and 3 have product 6 and sum 5. So it is $(x-2)(x-3)$: the larger is \\boxed{3}."
PICTURE = (
    "Draw the parabola by its vertex. It is symmetric about the vertical line in its middle, and "
    "meets the axis at equal distances left and right of it. Reading off gives \\boxed{3}."
)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("held_out")
    tiny_model(folder / "qwen3", "qwen3")
    sums(folder / "sums.jsonl", 20)
    rows = [{"problem": f"{n} + 0", "answer": str(n)} for n in range(4)]
    write_rows(folder / "held.jsonl", rows)
    return folder


def test_pass_at_k_counts_all_samples_and_strategies_the_right_ones():
    problems = [(ROOTS, "3")] * 2
    held_out = HeldOut(problems, [], SupervisedOptions(measure_samples=4))
    wrong = FACTOR.replace("{3}", "{2}")
    figures = held_out_figures(held_out, [[FACTOR, wrong, FACTOR, PICTURE], [wrong] * 4])
    assert figures["pass@1"] == pytest.approx(3 / 8)
    assert figures["pass@4"] == 0.5
    assert figures["effective_strategies"] == pytest.approx(9 / 5)
    assert figures["distinct@4"] == 1
    # A problem that nobody solved shows no strategy, and an unreadable answer is not a wrong one.
    assert not held_out_figures(held_out, [[wrong] * 4] * 2).keys() & {"effective_strategies"}
    with pytest.raises(InputError, match="of a held-out problem cannot be read"):
        held_out_figures(HeldOut([(ROOTS, "\\frac")], [], held_out.options), [[FACTOR] * 4])


@pytest.mark.slow
def test_training_is_the_same_with_and_without_measuring(here: Path, capsys):
    plain = ["--num_train_epochs", "3", "--decontaminate", str(here / "held.jsonl")]
    without = fine_tune(here, "qwen3", "without", *plain)
    capsys.readouterr()
    more = ["--num_train_epochs", "3", "--decontaminate", "none", "--measure_every", "2"]
    more += ["--measure_problems", str(here / "held.jsonl"), "--measure_samples", "2"]
    more += ["--measure_tokens", "16"]
    measured = fine_tune(here, "qwen3", "measured", *more)
    printed = capsys.readouterr().err
    assert "measured every 2 steps: 4 problems of " in printed
    assert "without a chat model: " in printed
    assert "samples left out as contaminated: 4\n" in printed
    weights = [load_file(folder / "adapter_model.safetensors") for folder in (without, measured)]
    assert all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())
    rows = history(measured, "held_out/pass@1")
    assert [row["step"] for row in rows] == [0, 2, 3]
    assert [row["step"] for row in history(measured, "loss")] == [1, 2, 3]
    again = history(fine_tune(here, "qwen3", "again", *more), "held_out/pass@1")
    assert [row["held_out/pass@2"] for row in again] == [row["held_out/pass@2"] for row in rows]


def test_vllm_samples_where_it_runs_in_the_trainers_process(here: Path):
    tokenizer = load_tokenizer(str(here / "qwen3"))
    vllm = SimpleNamespace(
        mode="colocate", tensor_parallel_size=1, generation_kwargs={"temperature": 1.0}
    )
    asked = []

    def generate(prompts, images, fields, number):
        asked.append((number, vllm.generation_kwargs))
        return [tokenizer("a b").input_ids for _ in prompts for _ in range(3)], None

    trainer = SimpleNamespace(
        processing_class=tokenizer,
        args=SimpleNamespace(seed=7),
        use_vllm=True,
        vllm_generation=vllm,
        _generate_single_turn=generate,
    )
    options = SupervisedOptions(measure_samples=3, measure_tokens=9)
    assert sample(trainer, [[1], [2]], HeldOut([], [], options)) == [["a b"] * 3] * 2
    drawn = {"temperature": 0.6, "top_p": 0.95, "n": 3, "max_tokens": 9, "seed": 7}
    assert asked == [(1, drawn)]
    assert vllm.generation_kwargs == {"temperature": 1.0}


def test_half_of_the_options_is_refused(here: Path):
    tokenizer = load_tokenizer(str(here / "qwen3"))
    assert load_held_out(SupervisedOptions(), tokenizer, lambda name: [(name, "1")], print) is None
    for options in (
        SupervisedOptions(measure_every=1),
        SupervisedOptions(measure_problems="aime24"),
        SupervisedOptions(measure_every=0, measure_problems="aime24"),
    ):
        with pytest.raises(InputError, match="a measure_every of 1 or more"):
            load_held_out(options, tokenizer, lambda name: [(name, "1")], print)
