"""Curation through real HTTP: summaries and embeddings from servers, and nothing asked twice."""

import json
import signal

import datasets
import pytest

from parts.fake_judge import judge_reply
from parts.fake_tgi import FakeTGI
from parts.kill_loop import SLOTS, contents, run, start, summary, wait_until, write_problems
from parts.openai_embeddings import OpenAIEmbeddings
from rpd_datasets import CurationConfig, rpd_curate
from rpd_datasets.cli import main
from rpd_datasets.curation.engines import EngineOptions
from rpd_metric.errors import InputError
from rpd_metric.models.requests import RequestOptions


@pytest.fixture
def rows(tmp_path):
    return write_problems(tmp_path / "rows.jsonl", 6)


@pytest.fixture
def store(tmp_path):
    return tmp_path / "replies.sqlite"


def curate(rows, server, store, output, *options) -> int:
    return main(
        [
            *("curate", str(rows), "--summarizer", f"tgi:{server.url}", "--store", str(store)),
            *("--num-problems", "4", "--num-solutions", "2", "--json", "--output", str(output)),
            *options,
        ]
    )


def test_a_run_asks_once_for_each_solution_and_the_next_run_for_none(rows, store, tmp_path, capsys):
    with FakeTGI(reply=summary) as server:
        assert curate(rows, server, store, tmp_path / "one") == 0
        assert len(server.requests) == 6 * (4 + 1)  # each summary, and their groups
        # Other options of selection, and another folder: the replies are in the store.
        assert curate(rows, server, store, tmp_path / "two", "--selection", "exact") == 0
        assert len(server.requests) == 6 * (4 + 1)
    err = capsys.readouterr().err
    assert "30 requests: 30 answered by the model, 0 from the store" in err
    assert "24 requests: 0 answered by the model, 24 from the store" in err
    manifest = json.loads((tmp_path / "one" / "manifest.json").read_text())
    assert manifest["summarizer"]["name"] == "Qwen/Qwen3-14B"
    assert "Qwen/Qwen3-14B" in (tmp_path / "one" / "README.md").read_text()


@pytest.mark.parametrize("model", ["Qwen/Qwen3-14B", "Qwen/Qwen3-32B"])
def test_the_card_names_the_model_that_answered(model, rows, store, tmp_path):
    with FakeTGI(reply=summary, has_info=False) as server:
        spec = f"openai:{server.url}/v1#{model}"
        for folder in ("first", "from the store"):
            assert curate(rows, server, store, tmp_path / folder, "--summarizer", spec) == 0
        assert len(server.requests) == 30
    first, again = contents(tmp_path / "first"), contents(tmp_path / "from the store")
    assert first == again
    card = first["README.md"].decode()
    answered = "Qwen/Qwen3-14B, version 3.3.6-dev0-sha, at a private host (30)"
    assert f"| Replies | from {answered} |" in card
    warning = f"> **{model} was asked, and Qwen/Qwen3-14B answered. Check the server"
    assert (warning in card) == (model != "Qwen/Qwen3-14B")


def test_a_key_that_is_revoked_stops_the_run_and_another_one_continues_it(
    rows, store, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("HF_TOKEN", "hf_thefirstkey")
    with FakeTGI(reply=summary, key="hf_thefirstkey") as server:

        def revoking(body):
            if len(server.requests) == 8:
                server.key = "hf_thesecondkey"
            return summary(body)

        server.reply = revoking
        one_by_one = ("--max-in-flight", "1")
        assert curate(rows, server, store, tmp_path / "out", *one_by_one) == 1
        assert "answered 401: " in (said := capsys.readouterr().err.splitlines()[-1])
        assert said.endswith("Replies so far are kept.")
        assert not (tmp_path / "out").exists()
        assert len(server.requests) == 8 + 2
        monkeypatch.setenv("HF_TOKEN", "hf_thesecondkey")
        assert curate(rows, server, store, tmp_path / "out") == 0
        assert len(server.requests) == 30 + 2


def test_map_keeps_many_problems_in_flight(tmp_path, store):
    rows = write_problems(tmp_path / "rows.jsonl", 20, num_solutions=3)
    ds = datasets.load_dataset("json", data_files=str(rows), split="train")
    with FakeTGI(reply=summary, seconds=0.1) as server:
        config = CurationConfig(summarizer=f"tgi:{server.url}", store=str(store))
        ds = ds.map(rpd_curate, batched=True, fn_kwargs={"config": config})
        assert server.most_in_flight > 3 * 3
        assert len(server.requests) == 20 * (3 + 1)
    assert all(score is not None for score in ds["rpd_score"][:])


def test_the_key_is_sent_to_the_server_and_appears_nowhere_else(
    rows, store, tmp_path, monkeypatch, capsys
):
    secret = "hf_averysecretkeyindeed"
    monkeypatch.setenv("HF_TOKEN", secret)
    with FakeTGI(reply=summary, key=secret) as server:
        assert curate(rows, server, store, tmp_path / "out") == 0
        assert server.requests[0].headers["Authorization"] == f"Bearer {secret}"
    captured = capsys.readouterr()
    everything = [captured.out.encode(), captured.err.encode(), store.read_bytes()]
    everything += contents(tmp_path / "out").values()
    assert not any(secret.encode() in data for data in everything)


def test_embeddings_from_a_server_choose_as_the_same_model_here_does(rows, store, tmp_path):
    with FakeTGI(reply=summary) as server:
        assert curate(rows, server, store, tmp_path / "here") == 0
        with OpenAIEmbeddings() as embeddings:
            spec = f"openai:{embeddings.url}/v1#minilm"
            assert curate(rows, server, store, tmp_path / "there", "--embedder", spec) == 0
            assert embeddings.requests
    columns = ["problem", "selected"]
    here = datasets.load_dataset(str(tmp_path / "here"), split="train").select_columns(columns)
    there = datasets.load_dataset(str(tmp_path / "there"), split="train").select_columns(columns)
    assert here[:] == there[:]


def test_plan_counts_what_is_missing_and_sends_nothing(rows, store, tmp_path, capsys):
    with FakeTGI(reply=summary) as server:
        arguments = ["plan", str(rows), "--json", "--summarizer", f"tgi:{server.url}"]
        arguments += ["--store", str(store)]
        assert main(arguments) == 0
        before = json.loads(capsys.readouterr().out)
        assert (before["requests"], before["requests_missing"]) == (30, 30)
        assert (before["group_requests"], before["group_requests_missing"]) == (6, 6)
        assert before["prompt_tokens"] > 30 * 100
        assert 6 * 4 * 100 < before["group_prompt_tokens"] < before["prompt_tokens"] / 2
        by_distance = [*arguments, "--problems", "strategy", "--solutions", "strategy"]
        assert main(by_distance) == 0
        plain = json.loads(capsys.readouterr().out)
        assert plain["requests"] == 24
        assert before["prompt_tokens"] - plain["prompt_tokens"] == before["group_prompt_tokens"]
        assert main([*arguments, "--max-tokens", "1000000"]) == 0
        assert json.loads(capsys.readouterr().out)["too_long_for_the_model"] == 24
        assert server.requests == []
        assert not store.exists()
        assert curate(rows, server, store, tmp_path / "out") == 0
        capsys.readouterr()
        assert main(arguments) == 0
        after = json.loads(capsys.readouterr().out)
        assert (after["requests"], after["requests_missing"]) == (30, 0)
        assert len(server.requests) == 30


# A budget that is spent

FEW_AT_ONCE = ("--max-in-flight", "4")
PRICES = ("--price-in", "1", "--price-out", "2")


def test_at_the_limit_a_run_stops_and_the_plan_says_what_the_next_one_asks_for(
    rows, store, tmp_path, capsys
):
    with FakeTGI(reply=summary) as server:
        short = (*FEW_AT_ONCE, "--max-requests", "14", *PRICES)
        assert curate(rows, server, store, tmp_path / "out", *short) == 1
        said = capsys.readouterr().err.splitlines()[-1]
        assert len(server.requests) == 14
        assert not (tmp_path / "out").exists()
        assert "the budget is spent: 14 requests" in said
        plan = ["plan", str(rows), "--summarizer", f"tgi:{server.url}", "--json", *PRICES]
        assert main([*plan, "--store", str(store)]) == 0
        planned = json.loads(capsys.readouterr().out)
        assert (planned["requests_missing"], planned["group_requests_missing"]) == (16, 6)
        assert planned["cost"] > 0
        for name in ("out", "undisturbed"):
            assert curate(rows, server, store, tmp_path / name, *FEW_AT_ONCE) == 0
            assert len(server.requests) == 30
    assert contents(tmp_path / "out") == contents(tmp_path / "undisturbed")


def test_a_judge_spends_from_the_same_budget_and_what_it_lacks_is_counted(
    rows, store, tmp_path, capsys
):
    judged = ("--solutions", "llm", "--problems", "rpd")
    with FakeTGI(reply=judge_reply) as server:
        plan = ["plan", str(rows), "--summarizer", f"tgi:{server.url}", "--json", *judged]
        plan += ["--num-problems", "4", "--num-solutions", "2", "--store", str(store)]

        def missing() -> tuple[int, int]:
            assert main(plan) == 0
            numbers = json.loads(capsys.readouterr().out)
            assert numbers["reply_tokens_at_most"] >= numbers["judge_requests_missing"] * 1024
            return numbers["requests_missing"], numbers["judge_requests_missing"]

        assert missing() == (28, 4)
        short = (*judged, *FEW_AT_ONCE, "--max-requests", "26")
        assert curate(rows, server, store, tmp_path / "out", *short) == 1
        assert len(server.requests) == 26
        capsys.readouterr()
        assert missing() == (2, 2)
        assert curate(rows, server, store, tmp_path / "out", *judged, *FEW_AT_ONCE) == 0
        assert len(server.requests) == 28
        capsys.readouterr()
        assert missing() == (0, 0)


def test_a_budget_belongs_to_one_process():
    config = CurationConfig(requests=RequestOptions(max_requests=5))
    for options in (EngineOptions(num_proc=2), EngineOptions(engine="ray")):
        with pytest.raises(InputError, match="counted by one process"):
            options.load(config)


@pytest.mark.slow
def test_killed_three_times_the_result_is_the_same_and_nothing_finished_is_asked_again(tmp_path):
    outcome = run(tmp_path, num_problems=40, kills=3)
    assert outcome.in_flight
    assert outcome.equal
    assert outcome.repeated <= sum(outcome.in_flight)
    assert max(outcome.in_flight) <= SLOTS


@pytest.mark.slow
def test_ctrl_c_when_every_request_is_in_flight_completes_the_folder(tmp_path, store):
    rows = write_problems(tmp_path / "rows.jsonl", 2)
    with FakeTGI(reply=summary, seconds=3) as server:
        process = start(
            *("curate", rows, "--summarizer", f"tgi:{server.url}", "--store", store),
            *("--num-solutions", "2", "--output", tmp_path / "out"),
            # No further request follows the summaries.
            *("--problems", "strategy", "--solutions", "strategy"),
        )
        wait_until(lambda: len(server.requests) == 8, process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert (tmp_path / "out" / "README.md").exists()
    assert "run the same command" not in err
