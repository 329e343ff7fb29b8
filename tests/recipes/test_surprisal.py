"""A student's surprisal as a column, and the choice that it is traded against."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from parts.recipe_scripts import script
from parts.tiny_models import tiny_model
from parts.vllm_completions import VLLMCompletions
from rpd_datasets.cli import main
from rpd_datasets.commands import run_command
from rpd_metric.models.likelihood import load_likelihood

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

    ((*scores,),) = asyncio.run(load_likelihood(str(model))(PROBLEM, SOLUTIONS[:1]))
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
    assert len(scores) == len(told)
    assert -sum(scores) / len(scores) == pytest.approx(expected, abs=1e-4)


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


@pytest.mark.parametrize("with_template", [True, False])
def test_a_vllm_server_gives_the_figures_of_the_model_in_this_process(
    with_template, model, tmp_path, capsys
):
    folder = model
    if not with_template:
        folder = shutil.copytree(model, tmp_path / "bare")
        (folder / "chat_template.jinja").unlink()
    rows = tmp_path / "rows.jsonl"
    texts = [SOLUTIONS, SOLUTIONS[::-1], ["One.", "Two and two are four, so it is 4."]]
    problems = [{"problem": f"{n}: {PROBLEM}", "solutions": s} for n, s in enumerate(texts)]
    rows.write_text("".join(json.dumps(row) + "\n" for row in problems))

    def scores(name, spec, *options):
        out = tmp_path / name
        command = [str(rows), "--model", spec, "--output", str(out), *options]
        assert run_command("surprisal", lambda: surprisal.main(command)) == 0
        assert "scored 6 solutions of 3 problems" in capsys.readouterr().err
        found = [json.loads(line) for line in out.open()]
        assert [row["problem"] for row in found] == [row["problem"] for row in problems]
        return [value for row in found for value in row["surprisal"]]

    here = scores("here", str(folder), "--max-tokens", "150")
    assert here.count(None) == 2
    with VLLMCompletions(folder, context=151, refusals=[503]) as server:
        there = scores("there", f"openai:{server.url}/v1#student")  # by the server's context
        short = scores("short", f"openai:{server.url}/v1", "--max-tokens", "150")
    assert there == short
    assert there == pytest.approx(here, abs=2e-5)
    assert server.most_at_once > 1
    sent = [body for path, body in server.requests if path == "/v1/completions"]
    assert len(sent) == 2 * 6  # what is too long is not sent
    assert all(body["prompt_logprobs"] == 0 and body["max_tokens"] == 1 for body in sent)


@pytest.mark.parametrize(
    ("without", "message"),
    [("tokenize", "it has no /tokenize"), ("prompt_logprobs", "have no prompt_logprobs")],
)
def test_a_server_that_cannot_score_is_one_line(without, message, model, tmp_path, capsys):
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"problem": PROBLEM, "solutions": SOLUTIONS[:2]}) + "\n")
    with VLLMCompletions(model, without=without) as server:
        spec = f"openai:{server.url}/v1#student"
        command = [str(rows), "--model", spec, "--output", str(tmp_path / "out.jsonl")]
        assert run_command("surprisal", lambda: surprisal.main(command)) == 1
    said = capsys.readouterr().err.splitlines()  # transformers says there that it loads weights
    (line,) = [line for line in said if line.startswith("surprisal: ")]
    assert message in line
    assert "A vLLM server can" in line
    assert not (tmp_path / "out.jsonl").exists()
