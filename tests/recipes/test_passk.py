"""`recipes/passk.py`: the whole chain against real servers, and each stage alone."""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import yaml
from huggingface_hub import ModelCard
from huggingface_hub.repocard_data import model_index_to_eval_results

from parts.fake_tgi import FakeTGI, Fault
from parts.tiny_qwen import tiny_qwen
from parts.transformers_serve import transformers_serve
from rpd_datasets.cli.arguments import with_config
from rpd_datasets.evaluation.generation import open_model
from rpd_datasets.evaluation.passk_config import EvaluationConfig
from rpd_datasets.options import options_from
from rpd_datasets.publish.model_card import NOT_EVALUATED
from rpd_metric.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "recipes" / "passk.py"
CONFIGS = sorted((ROOT / "recipes" / "configs").glob("*/passk/*.yaml"))
AIME = ROOT / "recipes" / "configs" / "qwen3-4b-base" / "passk" / "aime24.yaml"
AIME_ON_THE_HUB = "Maxwell-Jia/AIME_2024"
PROBLEMS, RUNS, SAMPLES = 30, 2, 16


def load_script():
    spec = importlib.util.spec_from_file_location("passk_recipe", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    # Its forward references are looked up here.
    sys.modules["passk_recipe"] = module
    spec.loader.exec_module(module)
    return module


script = load_script()
main = script.main


def answer(number: int) -> int:
    return (37 * number + 11) % 1000


def knows(number: int, seed: int, skill: float) -> bool:
    """Whether the programmed model is right: problem 0 always when it has any skill, 29 hardly."""
    lot = int.from_bytes(hashlib.sha256(f"{number}/{seed}".encode()).digest()[:4], "big") / 2**32
    return lot < skill * (1 - number / PROBLEMS)


def model(skill: float):
    """A reply function: right with a known probability per problem, else one of three mistakes."""

    def reply(body):
        text = body["messages"][-1]["content"]
        number = int(text.split("number ")[1].split(":")[0])
        if knows(number, body["seed"], skill):
            return f"We add them up. So the answer is \\boxed{{{answer(number):03}}}."
        return ["I give up.", "\\boxed{1001}", "\\boxed{1002}"][body["seed"] % 3]

    return reply


def right_or_wrong(skill: float) -> np.ndarray:
    seeds = [[1000 * run + sample for sample in range(SAMPLES)] for run in range(RUNS)]
    return np.array(
        [[[knows(n, seed, skill) for seed in run] for run in seeds] for n in range(PROBLEMS)]
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "aime.jsonl"
    rows = (
        {"ID": f"made-{n}", "Problem": f"Problem number {n}: how many?", "Answer": answer(n)}
        for n in range(PROBLEMS)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def arguments(data, folder, server=None, *more: str) -> list[str]:
    given = ["--config", str(AIME), "--data", str(data), "--output", str(folder / "aime24")]
    given += ["--runs", f"{RUNS}", "--no-diversity", "--name", folder.name]
    if server is not None:
        given += ["--model", f"tgi:{server.url}", "--store", str(folder / "replies.sqlite")]
    return given + list(more)


@pytest.fixture(scope="module")
def evaluated(data, tmp_path_factory):
    """Three models, evaluated: a weak one, a strong one, and the weak one once more."""
    parent = tmp_path_factory.mktemp("models")
    for name, skill in (("weak", 0.2), ("strong", 0.6), ("weak-again", 0.2)):
        with FakeTGI(reply=model(skill)) as server:
            assert main(arguments(data, parent / name, server)) == 0
            assert len(server.requests) == PROBLEMS * RUNS * SAMPLES
            assert server.requests[0].body["temperature"] == 0.6
            assert server.requests[0].body["max_tokens"] == 14_000
    return parent


def results_of(folder: Path) -> dict:
    return json.loads((folder / "aime24" / "results.json").read_text())


def test_the_figures_are_those_that_every_subset_of_k_samples_gives(evaluated):
    results = results_of(evaluated / "strong")
    expected = right_or_wrong(0.6)
    assert [[list(map(int, run)) for run in runs] for runs in results["correct"]] == (
        expected.astype(int).tolist()
    )
    pooled = expected.reshape(PROBLEMS, -1)
    pairs = [
        np.mean([row[a] or row[b] for a, b in itertools.combinations(range(RUNS * SAMPLES), 2)])
        for row in pooled
    ]
    figures = results["figures"]
    assert figures["pass_at_k"]["1"]["value"] == pytest.approx(pooled.mean())
    assert figures["mean_at_n"]["value"] == pytest.approx(pooled.mean())
    assert figures["pass_at_k"]["2"]["value"] == pytest.approx(np.mean(pairs))
    for k in (1, 4, 16):
        first = expected[:, :, :k].any(axis=2)
        cell = figures["first_k"][str(k)]
        assert cell["value"] == pytest.approx(first.mean())
        per_run = first.mean(axis=0)
        assert cell["standard_error"] == pytest.approx(per_run.std(ddof=1) / np.sqrt(RUNS))
        assert cell["low"] < cell["value"] < cell["high"]


def test_kinds_of_verdict_are_counted_apart(evaluated):
    results = results_of(evaluated / "weak")
    right = int(right_or_wrong(0.2).sum())
    assert results["verdicts"]["correct"] == right
    assert results["verdicts"]["no_answer"] + results["verdicts"]["wrong"] == (
        PROBLEMS * RUNS * SAMPLES - right
    )
    assert results["verdicts"]["no_answer"] > 100
    # Problem 0 of the strong model is right more often than any one mistake is made.
    strong = results_of(evaluated / "strong")["figures"]
    assert strong["cons_at_n"]["value"] > strong["mean_at_n"]["value"]


def test_the_same_model_again_gives_the_same_bytes_with_a_seed_for_each_sample(evaluated):
    lines = (evaluated / "weak" / "aime24" / "samples.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    seeds = {(row["problem_id"], row["seed"]) for row in rows}
    assert len(rows) == len(seeds) == PROBLEMS * RUNS * SAMPLES
    for name in ("samples.jsonl", "verdicts.jsonl"):
        one = (evaluated / "weak" / "aime24" / name).read_bytes()
        assert one == (evaluated / "weak-again" / "aime24" / name).read_bytes()
    again = results_of(evaluated / "weak-again") | {"name": "weak"}
    assert again == results_of(evaluated / "weak")


def test_the_report_shows_intervals_runs_and_the_papers_rows(evaluated, data, capsys):
    assert main(["report", *arguments(data, evaluated / "strong")]) == 0
    out = capsys.readouterr().out
    for shown in ("2 runs of 16 samples", "standard error over 2 runs", "Table 8: Ours (RPD)"):
        assert shown in out
    for shown in ("mean@16", "cons@16", "all k right (pass^k)"):
        assert shown in out
    assert main(["report", *arguments(data, evaluated / "strong"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == results_of(evaluated / "strong")


def test_the_hub_reads_what_is_written_for_it(evaluated):
    folder = evaluated / "strong" / "aime24"
    index = yaml.safe_load((folder / "model-index.yaml").read_text())["model-index"]
    name, entries = model_index_to_eval_results(index)
    assert (name, {entry.dataset_type for entry in entries}) == ("strong", {AIME_ON_THE_HUB})
    # The Hub shows a table of results for registered benchmarks only, and this is none.
    assert not (folder / ".eval_results").exists()


def test_results_go_into_the_model_card_and_replace_only_their_own(
    evaluated, data, tmp_path, capsys
):
    (tmp_path / "README.md").write_text(
        "---\nlicense: mit\nmodel-index:\n- name: mine\n  results:\n"
        "  - task: {type: text-generation}\n    dataset: {type: other/set, name: Other}\n"
        "    metrics:\n    - {type: acc, value: 1}\n"
        f"---\n# My model\n\nIt solves problems.\n\n## Results\n\n{NOT_EVALUATED}\n"
    )
    for _ in range(2):
        report = ["report", *arguments(data, evaluated / "strong"), "--card", str(tmp_path)]
        assert main(report) == 0
    card = ModelCard.load(tmp_path / "README.md")
    assert card.data.license == "mit"
    assert [entry.dataset_name for entry in card.data.eval_results] == ["Other", *["AIME24"] * 5]
    assert card.text.count("## pass@k on AIME24") == 1
    assert "It solves problems." in card.text
    assert NOT_EVALUATED not in card.text
    assert main([*report[:-1], str(tmp_path / "nowhere")]) == 1
    assert "cannot read the model card" in capsys.readouterr().err


def test_a_better_model_is_told_apart_and_an_equal_one_is_not(evaluated, capsys, tmp_path):
    folders = [str(evaluated / name) for name in ("weak", "strong", "weak-again")]
    plot = tmp_path / "curves.png"
    assert main(["compare", *folders, "--plot", str(plot)]) == 0
    out = capsys.readouterr().out
    assert "On the 30 problems of AIME24, strong is better than weak at pass@1" in out
    assert "The 30 problems of AIME24 cannot tell weak-again from weak." in out
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert main(["compare", *folders, "--json"]) == 0
    differences = json.loads(capsys.readouterr().out)["differences"]
    assert differences[0]["by_k"]["1"]["low"] > 0
    assert differences[0]["by_k"]["1"]["p"] < 0.05
    same = differences[1]["by_k"]["1"]
    assert (same["value"], same["p"]) == (0, 1)
    assert same["low"] < 0 < same["high"]  # another problem might tell them apart


def test_models_on_different_problems_are_not_compared(evaluated, data, tmp_path, capsys):
    part = tmp_path / "part"
    with FakeTGI(reply=model(0.2)) as server:
        more = ("--limit", "5", "--runs", "1", "--samples", "2")
        assert main(arguments(data, part, server, *more)) == 0
    assert "5 of 30 problems" in capsys.readouterr().out
    # A part of a benchmark is no result for the Hub.
    assert not (part / "aime24" / "model-index.yaml").exists()
    assert main(["compare", str(evaluated / "weak"), str(part)]) == 1
    assert "different problems" in capsys.readouterr().err


def small(data, folder, server=None, *more: str) -> list[str]:
    sizes = ("--limit", "4", "--samples", "4")
    return arguments(data, folder, server, *sizes, *more)


def test_each_stage_alone_makes_the_same_files_as_all_at_once(data, tmp_path):
    one, three = tmp_path / "one" / "m", tmp_path / "three" / "m"
    with FakeTGI(reply=model(0.6)) as server:
        assert main(small(data, one, server)) == 0
        for stage in ("generate", "grade", "report"):
            assert main([stage, *small(data, three, server)]) == 0
    for name in ("samples.jsonl", "verdicts.jsonl", "results.json", "report.md", "run.json"):
        assert (one / "aime24" / name).read_bytes() == (three / "aime24" / name).read_bytes(), name


def test_missing_samples_stop_the_run_and_only_they_are_asked_for_again(data, tmp_path, capsys):
    folder = tmp_path / "m"
    with FakeTGI(reply=model(0.6), faults=[Fault.status(422)] * 3) as server:
        assert main(small(data, folder, server)) == 1
        err = capsys.readouterr().err
        assert "3 of 32 samples are missing (http_422 3" in err
        assert "Sampling: 29 of 32 in" in err
        assert not (folder / "aime24" / "verdicts.jsonl").exists()
        assert main(["grade", *small(data, folder)]) == 1
        assert "3 of 32 samples are missing" in capsys.readouterr().err
        asked = len(server.requests)
        assert main(small(data, folder, server)) == 0
        assert len(server.requests) == asked + 3
    assert len(json.loads((folder / "aime24" / "results.json").read_text())["problems"]) == 4


def test_a_run_stopped_by_a_signal_goes_on_where_it_was(data, tmp_path):
    folder = tmp_path / "m"
    stopped = threading.Event()
    with FakeTGI(reply=model(0.6), seconds=0.05, info={"max_concurrent_requests": 2}) as server:
        command = [sys.executable, str(SCRIPT), "generate", *small(data, folder, server)]
        child = subprocess.Popen(
            command, env=os.environ | {"PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True
        )
        while len(server.requests) < 6 and child.poll() is None:
            stopped.wait(0.01)
        child.send_signal(signal.SIGTERM)
        _, err = child.communicate(timeout=120)
        assert child.returncode == 130, err
        assert "run the same command again" in err
        first = len(server.requests)
        assert 6 <= first < 32
        kept = (folder / "aime24" / "samples.jsonl").read_text()
        assert kept.count("\n") == first
        assert main(["generate", *small(data, folder, server)]) == 0
        # Nothing was asked twice.
        assert len(server.requests) == 32


def test_runs_can_be_added_and_other_samples_are_neither_dropped_nor_mixed_in(
    data, tmp_path, capsys
):
    folder = tmp_path / "m"
    with FakeTGI(reply=model(0.6)) as server:
        assert main(small(data, folder, server, "--runs", "1")) == 0
        assert len(server.requests) == 16
        assert main(small(data, folder, server, "--runs", "2")) == 0
        assert len(server.requests) == 32
        assert main(["generate", *small(data, folder, server, "--limit", "1")]) == 0
        assert main(["generate", *small(data, folder, server, "--temperature", "1.0")]) == 1
    assert "made with another temperature; use another --output" in capsys.readouterr().err
    assert len((folder / "aime24" / "samples.jsonl").read_text().splitlines()) == 32


def own_problems(folder: Path, *more: str) -> list[str]:
    """Samples of three problems of one's own, with a grader of one's own."""
    (folder / "checks.py").write_text(
        "def ends(answer, response):\n    return response.endswith(answer)\n"
    )
    (folder / "config.yaml").write_text("benchmark: own\nsamples: 2\nruns: 1\ndiversity: false\n")
    problems = ({"problem": f"End with {n}.", "answer": str(n)} for n in range(3))
    (folder / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in problems))
    texts = {"000": ("0", "so 0"), "001": ("2", "1"), "002": ("", "")}
    rows = (
        {"problem_id": p, "run": 0, "sample": s, "text": text}
        for p, both in texts.items()
        for s, text in enumerate(both)
    )
    (folder / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = ["--config", str(folder / "config.yaml"), "--data", str(folder / "own.jsonl")]
    given += ["--output", str(folder), "--name", "mine", "--grader", f"{folder}/checks.py:ends"]
    return [*given, *more]


def test_problems_of_ones_own_are_graded_by_a_function_of_ones_own(tmp_path, capsys):
    assert main(["grade", *own_problems(tmp_path)]) == 0
    assert main(["report", *own_problems(tmp_path, "--json")]) == 0
    results = json.loads(capsys.readouterr().out)
    assert results["correct"] == [["11"], ["01"], ["00"]]
    assert results["figures"]["pass_at_k"]["2"]["value"] == pytest.approx(2 / 3)
    assert results["graded_by"] == f"{tmp_path}/checks.py:ends"
    assert "(by " in (tmp_path / "report.md").read_text()
    # The Hub knows no such benchmark.
    assert not (tmp_path / "model-index.yaml").exists()
    assert main(["grade", *own_problems(tmp_path), "--grader", "checks.py:begins"]) == 1
    assert "there is no file checks.py" in capsys.readouterr().err


def test_diversity_of_correct_solutions_is_reported_by_pass_count(data, tmp_path, capsys):
    pytest.importorskip("sacrebleu")
    words = ["Factor the sum.", "Count by cases.", "Substitute a new variable.", "Use symmetry."]

    def reply(body):
        text = model(0.9)(body)
        return f"{words[body['seed'] % 4]} Then compute the rest. {text}"

    more = ("--diversity", "--limit", "12", "--runs", "1")
    with FakeTGI(reply=reply) as server:
        assert main([*arguments(data, tmp_path / "m", server), *more]) == 0
    out = capsys.readouterr().out
    assert "steps by extractive, embeddings by minilm" in out
    low, high = results_of(tmp_path / "m")["diversity"]
    assert low["num_problems"] + high["num_problems"] > 6
    assert 0 < low["rpd"] < 1
    assert low["div_self_bleu"] > 0


def of_programs(folder: Path, benchmark: str, number: int, **columns) -> list[str]:
    rows = ({"task_id": f"made/{n}"} | columns for n in range(number))
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = ["--config", str(AIME.with_name(f"{benchmark}.yaml"))]
    return [*given, "--data", str(folder / "tasks.jsonl"), "--output", str(folder / "out")]


def test_programs_are_graded_by_their_tests(tmp_path, capsys):
    if shutil.which("bwrap") is None:
        pytest.skip("programs cannot be contained on this machine")
    test = "def check(candidate):\n    assert candidate(4) == 8\n"
    task = {"prompt": 'def twice(x):\n    """Twice x."""\n', "entry_point": "twice", "test": test}
    given = of_programs(tmp_path, "humaneval", 164, **task)
    given += ["--store", str(tmp_path / "s"), "--json", "--limit", "2", "--samples", "2"]

    def reply(body):
        return f"```python\ndef twice(x):\n    return {'2 * x' if body['seed'] else 'x'}\n```"

    with FakeTGI(reply=reply) as server:
        assert main([*given, "--runs", "1", "--model", f"tgi:{server.url}"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert results["verdicts"] == {"failed": 2, "passed": 2}
    assert results["figures"]["pass_at_k"]["2"]["value"] == 1
    assert results["figures"]["cons_at_n"] is None


def test_prompts_without_tests_are_refused_before_anything_is_sampled(tmp_path, capsys):
    given = of_programs(tmp_path, "livecodebench", 1055, prompt="Add.", tests={"md5": "0"})
    with FakeTGI() as server:
        assert main([*given, "--model", f"tgi:{server.url}"]) == 1
        assert not server.requests
    err = capsys.readouterr().err
    assert "comes without its tests" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_every_configuration_is_read_strictly_and_samples_as_the_paper_does(path):
    parser = script._parser()[1]["run"]
    args = parser.parse_args(with_config(parser, ["--config", str(path)]))
    config = options_from(EvaluationConfig, args)
    assert config.benchmark == path.stem
    assert (config.samples, config.temperature, config.top_p) == (16, 0.6, 0.95)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--paper", "Qwen3-5B"], "the paper has no model 'Qwen3-5B'"),
        (["--data", "nowhere.jsonl"], "cannot read nowhere.jsonl"),
        ([], "name the model with --model"),
        (["--model", "./no-model"], "unknown chat model './no-model'"),
        (["--model", "tgi:"], "tgi: names no chat model"),
    ],
)
def test_what_a_user_can_mend_is_one_line_and_status_1(more, message, data, capsys):
    given = ["generate", "--config", str(AIME), "--data", str(data), "--output", "x", *more]
    assert main(given) == 1
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("served", [False, True], ids=["in a folder", "on a server"])
def test_a_real_model_goes_through_the_whole_chain(served, data, tmp_path, capsys):
    folder = tiny_qwen()
    given = ["--config", str(AIME), "--data", str(data), "--output", str(tmp_path / "out")]
    given += ["--store", str(tmp_path / "replies.sqlite"), "--json", "--no-diversity"]
    # The tiny model is sure of what it has learnt by heart: at 0.6 all samples are the same.
    given += ["--limit", "3", "--samples", "2", "--runs", "2", "--max-tokens", "48"]
    given += ["--temperature", "1.5"]
    with transformers_serve(folder) if served else nullcontext() as url:
        model = f"openai:{url}#{folder.name}" if served else str(folder)
        assert main([*given, "--model", model]) == 0
    results = json.loads(capsys.readouterr().out)
    assert sum(results["verdicts"].values()) == 12
    if not served:
        # Its files are part of its name, so that it is not taken for another one in their place.
        assert results["model"].startswith(f"{folder}@")
    rows = [json.loads(line) for line in (tmp_path / "out" / "samples.jsonl").open()]
    assert all(row["tokens"] for row in rows)
    # Other seeds, other samples.
    assert len({row["text"] for row in rows if row["problem_id"] == "made-0"}) > 1


def test_an_adapter_is_refused_with_the_line_that_merges_it(tmp_path: Path):
    (tmp_path / "adapter_config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match=f"python recipes/merge.py --adapter {tmp_path}"):
        open_model(str(tmp_path), store=tmp_path / "replies.sqlite")
