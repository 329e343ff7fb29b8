"""Modes by matching: like solutions gather under one mode, whatever order they stand in."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from parts.recipe_scripts import RECIPES, script
from parts.tiny_models import tiny_model
from rpd_datasets.training.arguments import SupervisedArguments
from rpd_datasets.training.data import check_matching
from rpd_datasets.training.modes import MATCHED_TOKENS, RECORD, beginning, match_modes, problems_of
from rpd_metric.errors import InputError

WAYS = ("Count up from a.", "Know the table by heart.")


@given(arrays(float, st.tuples(st.integers(1, 3), st.just(4)), elements=st.floats(0, 9)))
def test_the_modes_of_a_problem_differ_and_have_the_smallest_sum_of_losses(losses):
    modes = match_modes(losses)
    assert len(set(modes)) == len(modes)
    rows = range(len(losses))
    smallest = min(
        sum(losses[row, column] for row, column in zip(rows, columns, strict=True))
        for columns in permutations(range(4), len(losses))
    )
    chosen = sum(losses[row, mode - 1] for row, mode in zip(rows, modes, strict=True))
    assert np.isclose(chosen, smallest)


def test_problems_are_told_apart_by_their_prompts():
    prompts = [[{"role": "user", "content": text}] for text in ("a", "b", "a")]
    assert problems_of(prompts) == [[0, 2], [1]]


def test_only_the_beginning_of_a_long_completion_is_tried():
    example = {
        "input_ids": list(range(2000)),
        "labels": [-100] * 100 + list(range(100, 2000)),
    }
    first = beginning(example)
    assert len(first["input_ids"]) == len(first["labels"]) == 100 + MATCHED_TOKENS
    assert sum(label != -100 for label in first["labels"]) == MATCHED_TOKENS


@pytest.mark.parametrize(
    ("options", "training", "needed"),
    [
        ({"modes": 0}, {}, "--modes 3"),
        ({}, {"packing": True}, "--packing false"),
        ({}, {"dataloader_num_workers": 2}, "--dataloader_num_workers 0"),
        ({}, {"world_size": 2}, "--mode_assignment order"),
    ],
)
def test_what_modes_cannot_be_matched_with_is_refused(options, training, needed):
    asked = SupervisedArguments(**{"modes": 2, "mode_assignment": "matching", **options})
    run = SimpleNamespace(
        **{"packing": False, "dataloader_num_workers": 0, "world_size": 1, **training}
    )
    with pytest.raises(InputError, match=needed):
        check_matching(asked, run)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and 16 problems with two ways of solving each; every second has them turned."""
    folder = tmp_path_factory.mktemp("modes")
    tiny_model(folder / "model", "qwen3")
    lines = []
    for number in range(16):
        for way in (WAYS, WAYS[::-1])[number % 2]:
            prompt = [{"role": "user", "content": f"{number % 4} + {number // 4}"}]
            completion = [{"role": "assistant", "content": way}]
            lines.append(json.dumps({"prompt": prompt, "completion": completion}) + "\n")
    (folder / "rows.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


def train(here: Path, output: str, *more: str) -> dict[str, list[int]]:
    """Fine-tune with matched modes; returns the modes of every epoch."""
    line = ["--config", str(RECIPES / "configs/tiny/sft.yaml"), "--disable_tqdm", "true"]
    line += ["--model_name_or_path", str(here / "model"), "--data", str(here / "rows.jsonl")]
    line += ["--modes", "2", "--mode_assignment", "matching", "--output_dir", str(here / output)]
    script("sft").main([*line, *more])
    recorded: dict[str, list[int]] = json.loads((here / output / RECORD).read_text("utf-8"))
    return recorded


def test_like_solutions_gather_under_one_mode(here: Path):
    by_epoch = train(here, "whole", "--num_train_epochs", "4")
    assert set(by_epoch) == set("0123")
    pairs = [tuple(by_epoch["3"][place : place + 2]) for place in range(0, 32, 2)]
    assert set(pairs) <= {(1, 2), (2, 1)}
    # In the order of choice each mode would ask for either way in half of the problems.
    same = sum(pair == ((1, 2), (2, 1))[place % 2] for place, pair in enumerate(pairs))
    assert same in (0, 16)


def test_a_run_that_goes_on_keeps_the_modes_of_an_epoch_that_has_begun(here: Path):
    # With held-out problems, whose modes are those of the order.
    begun = {"0": [2, 1] * 14}
    (here / "continued").mkdir()
    (here / "continued" / RECORD).write_text(json.dumps(begun), encoding="utf-8")
    by_epoch = train(here, "continued", "--validation", "0.1", "--num_train_epochs", "2")
    assert by_epoch["0"] == begun["0"]
    assert set(by_epoch) == set("01")
