"""A real language model behind a real server: plumbing and honest counting, not quality.

SmolLM2-135M-Instruct has a real tokenizer, a real chat template and real prose, and is far too
small to summarise: it loops, breaks off and copies. So these tests ask that every solution is
accounted for, that nothing is asked twice, and that a run says how its summaries went.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from parts.recipe_scripts import script
from parts.rows import read_lines, write_rows
from parts.smollm2 import NAME, missing, smollm2
from parts.transformers_serve import transformers_serve
from rpd_datasets.cli import main
from rpd_metric.models.chat import ChatRequest, Sampling
from rpd_metric.models.failures import ServerError
from rpd_metric.models.spec import load_chat

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing() is not None, reason=f"SmolLM2 {missing()}"),
]

ROW = {
    "problem": "What is the larger root of $x^2-5x+6=0$?",
    "solutions": [
        "The numbers 2 and 3 have product 6 and sum 5. So the larger root is $\\boxed{3}$.",
        "By the quadratic formula the roots are $(5\\pm1)/2$. The answer is $\\boxed{3}$.",
    ],
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return write_rows(tmp_path_factory.mktemp("rows") / "rows.jsonl", [ROW])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    # Beside a link, since the server keeps its log beside the model.
    link = tmp_path_factory.mktemp("models") / NAME
    link.symlink_to(smollm2())
    with transformers_serve(link) as url:
        yield f"openai:{url}#{NAME}"


def curate(rows: Path, spec: str, folder: Path, *options: str) -> int:
    return main(
        [
            *("curate", str(rows), "--summarizer", spec, "--temperature", "0"),
            *("--max-tokens", "32", "--longest-reply", "48", "--num-problems", "1"),
            *("--num-solutions", "2", "--store", str(folder / "replies.sqlite")),
            *("--output", str(folder / "out"), *options),
        ]
    )


def rejected(folder: Path) -> list[dict[str, Any]]:
    files = [*folder.glob("out/rejects.jsonl"), *folder.glob("out.partial/rejects-*.jsonl")]
    return [row for file in files for row in read_lines(file)]


def test_a_run_counts_every_summary_of_a_model_that_cannot_summarise(
    rows, server, tmp_path, capsys
):
    status = curate(rows, server, tmp_path)
    err = capsys.readouterr().err
    by_steps = [row for row in rejected(tmp_path) if row["stage"] == "steps"]
    # Whatever the model wrote: a solution has steps, or a reason why not.
    assert status in (0, 1)
    assert all(row["reason"] and row["detail"] for row in by_steps)
    asked = re.search(r"([\d,]+) requests: ([\d,]+) answered by the model", err)
    assert asked is not None
    assert int(asked[2]) >= 2, "every solution was asked about"
    if status == 0:
        manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
        health = manifest["outcome"]["steps"]
        assert health["asked"] == 2
        assert health["accepted"] + len(by_steps) == 2
    else:
        assert len(by_steps) >= 1
        assert "usable solutions to choose from" in err
    # Again: all from the store, and the same.
    assert curate(rows, server, tmp_path, "--overwrite") == status
    again = capsys.readouterr().err
    assert " 0 answered by the model" in again
    assert [row for row in rejected(tmp_path) if row["stage"] == "steps"] == by_steps


def test_a_judge_gives_a_verdict_or_a_reason_for_every_problem(server, tmp_path, capsys):
    steps = {"solutions": ROW["solutions"][:2], "steps": [["Factor it."], ["Draw the graph."]]}
    one = write_rows(tmp_path / "one.jsonl", [ROW | steps])
    arguments = ["judge", str(one), "--judge", server, "--json"]
    arguments += ["--store", str(tmp_path / "judge.sqlite"), "--longest-reply", "0"]
    # It may write on and on: then the reason is that it took too long.
    assert main([*arguments, "--timeout", "20", "--max-retries", "0"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["judge"], sum(result["counts"].values())) == (NAME, 1)


def test_the_folder_runs_in_this_process_too(rows, tmp_path, capsys):
    status = curate(rows, f"hf:{smollm2()}", tmp_path, "--longest-reply", "0")
    assert status in (0, 1)
    assert re.search(r" 0 failed", capsys.readouterr().err)


async def test_a_real_server_cuts_at_the_limit_and_refuses_a_name_that_it_does_not_serve(server):
    asked = ChatRequest(({"role": "user", "content": "Hi"},), Sampling(max_tokens=3))
    reply = await load_chat(server)(asked)
    assert (reply.finish_reason, reply.completion_tokens) == ("length", 3)
    with pytest.raises(ServerError) as caught:
        await load_chat(server.replace(NAME, "other"))(asked)
    assert (caught.value.status, caught.value.retryable) == (400, False)
    assert f"pinned to '{NAME}'" in str(caught.value)


def test_pass_at_k_of_a_real_server_is_graded_to_the_last_sample(server, tmp_path, capsys):
    rows = ({"ID": str(n), "Problem": f"What is {n} + 3?", "Answer": n + 3} for n in range(30))
    data = write_rows(tmp_path / "aime.jsonl", rows)
    arguments = ["run", "--benchmark", "aime24", "--data", str(data), "--model", server]
    arguments += ["--samples", "2", "--runs", "1", "--limit", "1", "--max-tokens", "32"]
    arguments += ["--name", "smollm2", "--output", str(tmp_path / "out"), "--json"]
    assert script("passk").main(arguments) == 0
    results = json.loads(capsys.readouterr().out)
    assert sum(results["verdicts"].values()) == 2
