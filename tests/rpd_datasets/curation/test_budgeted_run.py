"""A run whose budget is spent: it stops, and continues."""

from __future__ import annotations

import json

import pytest

from parts.fake_judge import judge_reply
from parts.fake_tgi import FakeTGI
from parts.kill_loop import contents, summary, write_problems
from rpd_datasets import CurationConfig
from rpd_datasets.cli import main
from rpd_datasets.curation.engines import EngineOptions
from rpd_metric.errors import InputError
from rpd_metric.models.requests import RequestOptions

PRICES = ("--price-in", "1", "--price-out", "2")


@pytest.fixture
def rows(tmp_path):
    return write_problems(tmp_path / "rows.jsonl", 8)


def arguments(rows, server, folder, output, *options) -> list[str]:
    return [
        *("curate", str(rows), "--summarizer", f"tgi:{server.url}"),
        *("--store", str(folder / "replies.sqlite"), "--max-in-flight", "4"),
        *("--num-problems", "4", "--num-solutions", "2", "--json"),
        *("--output", str(folder / output), *options),
    ]


def test_at_the_limit_a_run_stops_and_the_plan_says_what_the_next_one_asks_for(
    rows, tmp_path, capsys
):
    with FakeTGI(reply=summary) as server:
        spends = arguments(rows, server, tmp_path, "out", "--max-requests", "14", *PRICES)
        assert main(spends) == 1
        said = capsys.readouterr().err.splitlines()[-1]
        assert len(server.requests) == 14
        assert not (tmp_path / "out").exists()
        assert "the budget is spent: 14 requests" in said
        plan = ["plan", str(rows), "--summarizer", f"tgi:{server.url}", "--json", *PRICES]
        assert main([*plan, "--store", str(tmp_path / "replies.sqlite")]) == 0
        planned = json.loads(capsys.readouterr().out)
        assert planned["requests_missing"] == 26
        assert planned["group_requests_missing"] == 8
        assert planned["cost"] > 0
        assert main(arguments(rows, server, tmp_path, "out")) == 0
        assert len(server.requests) == 40
        assert main(arguments(rows, server, tmp_path, "undisturbed")) == 0
        assert len(server.requests) == 40
    assert contents(tmp_path / "out") == contents(tmp_path / "undisturbed")


def test_a_judge_spends_from_the_same_budget_and_what_it_lacks_is_counted(rows, tmp_path, capsys):
    judged = ("--solutions", "llm", "--problems", "rpd")
    with FakeTGI(reply=judge_reply) as server:
        plan = ["plan", str(rows), "--summarizer", f"tgi:{server.url}", "--json", *judged]
        plan += ["--num-problems", "4", "--num-solutions", "2"]
        plan += ["--store", str(tmp_path / "replies.sqlite")]
        assert main(plan) == 0
        before = json.loads(capsys.readouterr().out)
        assert (before["requests_missing"], before["judge_requests_missing"]) == (36, 4)
        assert before["reply_tokens_at_most"] > 4 * 1024
        short = arguments(rows, server, tmp_path, "out", *judged, "--max-requests", "34")
        assert main(short) == 1
        assert len(server.requests) == 34
        capsys.readouterr()
        assert main(plan) == 0
        then = json.loads(capsys.readouterr().out)
        assert (then["requests_missing"], then["judge_requests_missing"]) == (2, 2)
        assert main(arguments(rows, server, tmp_path, "out", *judged)) == 0
        assert len(server.requests) == 36
        capsys.readouterr()
        assert main(plan) == 0
        assert json.loads(capsys.readouterr().out)["requests_missing"] == 0


def test_a_budget_belongs_to_one_process():
    config = CurationConfig(requests=RequestOptions(max_requests=5))
    for options in (EngineOptions(num_proc=2), EngineOptions(engine="ray")):
        with pytest.raises(InputError, match="counted by one process"):
            options.load(config)
