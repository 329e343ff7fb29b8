"""A student's surprisal as a column, and the choice that it is traded against."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parts.recipe_scripts import script
from parts.tiny_models import tiny_model
from rpd_datasets.cli import main
from rpd_datasets.commands import run_command

surprisal = script("surprisal")

PROBLEM = "What is 2 + 3?"
SOLUTIONS = [
    "2 + 3 = 5. The answer is 5.",
    "Count on from 2: 3, 4, 5. So the answer is 5.",
    "5 " * 90,
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model") / "qwen3", "qwen3")


def test_surprisal_is_the_mean_negative_log_likelihood_given_the_problem(model):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    found = surprisal.Surprisal(str(model))(PROBLEM, SOLUTIONS[0])
    tokenizer = AutoTokenizer.from_pretrained(model)
    network = AutoModelForCausalLM.from_pretrained(model).eval()
    asked = tokenizer.apply_chat_template(
        [{"role": "user", "content": PROBLEM}], tokenize=False, add_generation_prompt=True
    )
    given = tokenizer(asked, add_special_tokens=False)["input_ids"]
    told = tokenizer(SOLUTIONS[0], add_special_tokens=False)["input_ids"]
    # transformers' own loss, over the solution's tokens alone.
    labels = torch.tensor([[-100] * len(given) + told])
    expected = network(torch.tensor([given + told]), labels=labels).loss.item()
    assert found == pytest.approx(expected, abs=1e-4)


def test_the_recipe_writes_a_column_that_curate_takes(model, tmp_path, capsys):
    rows = tmp_path / "rows.jsonl"
    row = {"problem": PROBLEM, "solutions": SOLUTIONS, "answer": "5", "id": 7}
    rows.write_text(json.dumps(row) + "\n")
    out = tmp_path / "scored.jsonl"
    command = [str(rows), "--model", str(model), "--output", str(out), "--max-tokens", "150"]
    assert run_command("surprisal", lambda: surprisal.main(command)) == 0
    assert "scored 2 solutions of 1 problems" in capsys.readouterr().err
    (scored,) = (json.loads(line) for line in out.open())
    assert (scored["id"], scored["solutions"]) == (7, SOLUTIONS)
    assert scored["surprisal"][2] is None
    assert all(value > 0 for value in scored["surprisal"][:2])

    made = tmp_path / "made"
    options = ["--num-problems", "1", "--num-solutions", "2", "--no-require-complete"]
    options += ["--quality-column", "surprisal", "--quality-weight", "-5"]
    assert main(["curate", str(out), *options, "--output", str(made)]) == 0
    assert "-5 times the score in `surprisal`" in (made / "README.md").read_text()


def test_a_wrong_input_is_refused_before_a_model_is_loaded(tmp_path, capsys):
    command = [str(tmp_path / "none.jsonl"), "--model", "no/model", "--output", str(tmp_path / "o")]
    assert run_command("surprisal", lambda: surprisal.main(command)) == 1
    assert "none.jsonl" in capsys.readouterr().err
