"""`recipes/passk.py`: the whole chain against a server, and what its logs say."""

import itertools
import json
import os
import random
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from parts import smollm2
from parts.fake_tgi import FakeTGI, Fault
from parts.rows import write_rows
from recipes.passk import main, make_parser
from rpd_datasets.cli.arguments import with_config
from rpd_datasets.evaluation.reporting import hub_entry
from rpd_datasets.evaluation.results import find_logs, read_results
from rpd_datasets.publish.eval_results import read_entries
from rpd_metric.errors import InputError

log_of = pytest.importorskip("inspect_ai.log")

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = sorted((ROOT / "recipes" / "configs").glob("*/passk/*.yaml"))
AIME = ROOT / "recipes" / "configs" / "qwen3-4b-base" / "passk" / "aime24.yaml"
PROBLEMS, RUNS, SAMPLES = 30, 2, 4


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    """Inspect keeps traces in the user's folders: here in one of the test's own."""
    with pytest.MonkeyPatch.context() as patch:
        folder = str(tmp_path_factory.mktemp("home"))
        for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
            patch.setenv(name, folder)
        yield


def knows(number: int, seed: int, skill: float) -> bool:
    """Whether the programmed model is right: problem 0 always when it has any skill, 29 hardly."""
    return random.Random(f"{number}/{seed}").random() < skill * (1 - number / PROBLEMS)


def number_in(body) -> int:
    return int(body["messages"][-1]["content"].split("number ")[1].split(":")[0])


def model(skill: float):
    """A reply function: right with a known probability per problem, else one of three mistakes."""

    def reply(body):
        number = number_in(body)
        if knows(number, body["seed"], skill):
            return f"We add them up. So the answer is \\boxed{{{37 * number + 11:03}}}."
        return ["I give up.", "\\boxed{2001}", "\\boxed{2002}"][body["seed"] % 3]

    return reply


def right_or_wrong(skill: float) -> np.ndarray:
    seeds = range(RUNS * SAMPLES)
    return np.array([[knows(n, seed, skill) for seed in seeds] for n in range(PROBLEMS)])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rows = (
        {"ID": n, "Problem": f"Problem number {n}: how many?", "Answer": 37 * n + 11}
        for n in range(PROBLEMS)
    )
    return write_rows(tmp_path_factory.mktemp("data") / "aime.jsonl", rows)


def arguments(data, folder, server, *more: str) -> list[str]:
    given = ["--config", str(AIME), "--data", str(data), "--output", str(folder / "aime24")]
    given += ["--runs", f"{RUNS}", "--samples", f"{SAMPLES}"]
    return [*given, "--name", folder.name, "--model", f"tgi:{server.url}", *more]


@pytest.fixture(scope="module")
def evaluated(data, tmp_path_factory):
    """Three models, evaluated: a weak one, a strong one, and the weak one once more."""
    parent = tmp_path_factory.mktemp("models")
    for name, skill in (("weak", 0.2), ("strong", 0.6), ("weak-again", 0.2)):
        with FakeTGI(reply=model(skill)) as server:
            # How many requests are under way at a time is no other setting.
            busy = ("--max-connections", "9") if skill == 0.6 else ()
            assert main(arguments(data, parent / name, server, *busy)) == 0
            assert len(server.requests) == PROBLEMS * RUNS * SAMPLES
            sent = server.requests[0].body
            assert (sent["temperature"], sent["max_tokens"]) == (0.6, 14_000)
            assert sent["stop"] == ["<|im_end|>"]  # a base model that was not tuned goes on
    return parent


def results_of(folder: Path):
    (log,) = find_logs(folder)
    return read_results(log)


def read_log(folder: Path):
    (path,) = find_logs(folder)
    return log_of.read_eval_log(str(path))


def test_the_figures_are_those_that_every_subset_of_k_samples_gives(evaluated):
    results = results_of(evaluated / "strong")
    expected = right_or_wrong(0.6)
    assert [list(map(int, text)) for text in results.correct] == expected.astype(int).tolist()
    pairs = [
        np.mean([row[a] or row[b] for a, b in itertools.combinations(range(RUNS * SAMPLES), 2)])
        for row in expected
    ]
    figures = results.figures
    assert figures["pass_at_k"][1].value == pytest.approx(expected.mean())
    assert figures["pass_at_k"][2].value == pytest.approx(np.mean(pairs))
    # As far as there are samples, of all runs.
    assert figures["pass_at_k"][8].value == pytest.approx(expected.any(axis=1).mean())
    assert figures["pass_hat_k"][8].value == pytest.approx(expected.all(axis=1).mean())
    for k in (1, 4):
        first = expected.reshape(PROBLEMS, RUNS, SAMPLES)[:, :, :k].any(axis=2)
        cell = figures["first_k"][k]
        assert cell.value == pytest.approx(first.mean())
        assert cell.low < cell.value < cell.high
    # Inspect's own table of the log says the same.
    (score,) = read_log(evaluated / "strong").results.scores
    for k, figure in figures["pass_at_k"].items():
        assert score.metrics[f"pass@{k}"].value == pytest.approx(figure.value)
    # Problem 0 is right more often than any one mistake is made.
    assert figures["cons_at_n"].value > figures["pass_at_k"][1].value
    verdicts = results_of(evaluated / "weak").verdicts
    assert verdicts["correct"] == right_or_wrong(0.2).sum()
    assert verdicts["no_answer"] > 30
    assert sum(verdicts.values()) == PROBLEMS * RUNS * SAMPLES


def test_the_log_holds_the_prompt_a_seed_for_each_sample_and_comes_again(evaluated):
    one, again = (read_log(evaluated / name) for name in ("weak", "weak-again"))
    events = [event for sample in one.samples for event in sample.events if event.event == "model"]
    seeds = {(event.input[0].text, event.config.seed) for event in events}
    assert len(seeds) == PROBLEMS * RUNS * SAMPLES
    assert one.samples[0].input == "Problem number 0: how many?"
    assert one.samples[0].messages[0].text.endswith("put the final answer in \\boxed{}.")
    texts, texts_again = (
        {(s.id, s.epoch): s.output.completion for s in log.samples} for log in (one, again)
    )
    assert texts == texts_again


def test_report_and_compare_read_the_logs(evaluated, capsys, tmp_path):
    """A better model is told apart, and an equal one is not."""
    given = ["report", str(evaluated / "strong")]
    assert main(given) == 0
    out = capsys.readouterr().out
    for shown in ("strong on AIME24: 30 problems", "2 x 4 samples of each", "cons@4"):
        assert shown in out
    # A run has four samples: no first 8 of it.
    (row,) = re.findall(r"^\| 8  \| (.*) \|$", out, flags=re.MULTILINE)
    assert re.fullmatch(r" *[\d.]+ \[[\d.]+, [\d.]+\] \| +\| +[\d.]+ \[[\d.]+, [\d.]+\]", row)
    assert main([*given, "--json"]) == 0
    results = results_of(evaluated / "strong").as_record()
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(results, default=vars))
    of_hub = ["--eval-results", str(tmp_path), "--hub-task", "a/b:c"]
    assert main([*given, *of_hub]) == 0
    capsys.readouterr()
    (entry,) = read_entries(tmp_path / ".eval_results" / "a-b-c.yaml")
    assert entry["value"] == pytest.approx(100 * right_or_wrong(0.6).mean(), abs=0.01)
    assert "mean of 8 samples" in entry["notes"]
    with pytest.raises(InputError, match=r"30 of 31 problems of AIME24 .* is of all of them"):
        hub_entry(replace(results_of(evaluated / "strong"), of_problems=31), "a/b:c")
    folders = [str(evaluated / name) for name in ("weak", "strong", "weak-again")]
    assert main(["compare", *folders, "--distance", "none"]) == 0
    out = capsys.readouterr().out
    assert "On the 30 problems of AIME24, strong is better than weak at pass@1" in out
    assert "The 30 problems of AIME24 cannot tell weak-again from weak by pass@k." in out


def test_more_samples_are_added_and_what_cannot_be_compared_is_refused(data, tmp_path, capsys):
    """A part of the problems, another temperature: neither is mixed in or compared."""
    folders = [tmp_path / name for name in ("one", "part", "hot")]
    small = ("--limit", "4", "--samples", "2")
    with FakeTGI(reply=model(0.6)) as server:
        one, part, hot = (arguments(data, folder, server, *small) for folder in folders)
        assert main([*one, "--runs", "1"]) == 0
        assert "4 of 30 problems" in capsys.readouterr().out
        assert main(one) == 0
        assert len(server.requests) == 16
        assert main([*one, "--temperature", "1"]) == 1
        assert "made with another model, benchmark, prompt or sampling" in capsys.readouterr().err
        assert main([*part, "--limit", "3"]) == 0
        assert main([*hot, "--temperature", "1"]) == 0
    for other, says in ((1, "different problems"), (2, "with another temperature (0.6 and 1.0)")):
        given = ["compare", str(folders[0]), str(folders[other]), "--distance", "none"]
        assert main(given) == 1
        assert says in capsys.readouterr().err
    assert main([*given, "--different-settings"]) == 0


def test_missing_samples_are_refused_or_counted_and_only_they_are_asked_for(data, tmp_path, capsys):
    folder = tmp_path / "m"
    with FakeTGI(reply=model(0.6), faults=[Fault.status(422)] * 3) as server:
        given = arguments(data, folder, server, "--limit", "4")
        assert main(given) == 1
        err = capsys.readouterr().err
        assert "3 of 32 samples" in err
        assert "29 of 32 samples are finished" in err
        assert main(["report", str(folder), "--allow-missing"]) == 0
        assert "3 samples or rows are missing: figures are of those" in capsys.readouterr().out
        asked = len(server.requests)
        assert main(given) == 0
        assert len(server.requests) == asked + 3
    assert len(results_of(folder).marks) == 4


def test_replies_that_a_server_cut_before_the_length_asked_for_are_refused_or_counted(
    data, tmp_path, capsys
):
    folder = tmp_path / "m"
    # A reply of 38 characters counts as 9 tokens, of the 14,000 asked for.
    with FakeTGI(reply=lambda _: "x" * 38, finish_reason="length") as server:
        assert main(arguments(data, folder, server, "--limit", "2")) == 1
        said = "16 samples of .* were cut after at most 9 tokens where 14,000 were asked for"
        assert re.search(said, capsys.readouterr().err)
        assert main(["report", str(folder), "--allow-missing"]) == 0
        assert "16 samples were cut by the server's own cap, after at most 9" in (
            capsys.readouterr().out
        )
        # Cut where it was asked for is an end like others.
        given = arguments(data, tmp_path / "n", server, "--limit", "2", "--max-tokens", "9")
        assert main(given) == 0


@pytest.mark.slow
def test_verdicts_stay_where_grading_was_killed_and_inspect_goes_on(data, tmp_path):
    """All samples are there, a part of them is graded: only the others are asked for again."""
    (tmp_path / "slow.py").write_text(
        "import time\n\n\ndef check(answer, response):\n    time.sleep(0.2)\n"
        "    with open(__file__ + '.done', 'a') as done:\n        done.write('x')\n"
        "    return answer in response\n"
    )
    graded = tmp_path / "slow.py.done"
    inspect = [sys.executable, "-m", "inspect_ai"]
    more = ["--log-dir", str(tmp_path), "--display", "none"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    with FakeTGI(reply=model(0.6)) as server:
        given = ["rpd_datasets/aime24", "--epochs", "4", "--model", f"rpd/tgi:{server.url}"]
        given += ["-T", f"data={data}", "-T", f"grader={tmp_path}/slow.py:check"]
        given += ["--max-samples", "120", "--max-connections", "120"]
        child = subprocess.Popen([*inspect, "eval", *given, *more], env=env)
        while len(server.requests) < 120 or not graded.exists() or len(graded.read_text()) <= 40:
            assert child.poll() is None
            time.sleep(0.01)
        child.kill()
        child.wait()
        (log,) = find_logs(tmp_path)
        subprocess.run([*inspect, "eval-retry", str(log), *more], env=env, check=True)
        assert len(server.requests) <= 120 + 120 - 30
    found = read_log(tmp_path)
    assert (found.status, len(found.samples)) == ("success", 120)
    assert all(sample.scores for sample in found.samples)


def test_problems_of_ones_own_are_graded_by_a_function_of_ones_own(tmp_path, capsys):
    grader = tmp_path / "checks.py"
    grader.write_text("def ends(answer, response):\n    return response.endswith(answer)\n")
    problems = ({"problem": f"End with number {n}:", "answer": str(n)} for n in range(3))
    own = write_rows(tmp_path / "own.jsonl", problems)
    given = ["--benchmark", "own", "--data", str(own), "--runs", "1", "--samples", "2"]
    given += ["--grader", f"{grader}:ends", "--json", "--output", str(tmp_path / "out")]
    texts = {0: ("0", "so 0"), 1: ("2", "1"), 2: ("", "x")}
    with FakeTGI(reply=lambda body: texts[number_in(body)][body["seed"]]) as server:
        assert main([*given, "--model", f"tgi:{server.url}"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert results["correct"] == ["11", "01", "00"]
    assert results["figures"]["pass_at_k"]["2"]["value"] == pytest.approx(2 / 3)


def test_programs_are_sampled_and_graded_in_the_sandbox(tmp_path, capsys):
    test = "def check(candidate):\n    assert candidate(4) == 8\n"
    task = {"prompt": 'def twice(x):\n    """Twice x."""\n', "entry_point": "twice", "test": test}
    rows = write_rows(tmp_path / "rows.jsonl", ({"task_id": f"t/{n}", **task} for n in range(164)))
    given = ["--benchmark", "humaneval", "--data", str(rows), "--output", str(tmp_path / "out")]
    given += ["--limit", "2", "--samples", "2", "--runs", "1", "--json"]

    def reply(body):
        return f"```python\ndef twice(x):\n    return {'2 * x' if body['seed'] else 'x'}\n```"

    with FakeTGI(reply=reply) as server:
        status = main([*given, "--model", f"tgi:{server.url}"])
    if status and "cannot be run safely here" in (err := capsys.readouterr().err):
        pytest.skip(err)
    results = json.loads(capsys.readouterr().out)
    assert results["verdicts"] == {"failed": 2, "passed": 2}
    assert results["figures"]["pass_at_k"]["2"]["value"] == 1
    assert results["figures"]["cons_at_n"] is None


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_every_configuration_is_read_strictly_and_samples_as_the_paper_does(path):
    parser = make_parser()[1]["run"]
    args = parser.parse_args(with_config(parser, ["--config", str(path), "--model", "x"]))
    assert args.benchmark == path.stem
    assert (args.samples, args.temperature, args.top_p) == (16, 0.6, 0.95)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--data", "nowhere.jsonl"], "There is no file or folder 'nowhere.jsonl'"),
        (["--benchmark", "aime"], "unknown benchmark 'aime'; use one of aime24"),
        (["--model", "nothing"], "unknown chat model 'nothing'"),
        (["--model", "tgi:"], "tgi: names no chat model"),
        (["--temperature", "0"], "the same sample again and again"),
        (["--prompt", "Solve it."], "must contain {problem}"),
        (["--model", "adapter"], "python recipes/merge.py --adapter adapter"),
    ],
)
def test_what_a_user_can_mend_is_one_line_and_status_1(
    more, message, data, tmp_path, capsys, monkeypatch
):
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    given = ["--config", str(AIME), "--data", str(data), "--output", "out"]
    assert main([*given, "--model", "tgi:http://127.0.0.1:9", *more]) == 1
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.skipif(smollm2.missing() is not None, reason=f"SmolLM2 {smollm2.missing()}")
def test_inspect_eval_and_this_script_give_equal_figures_of_a_real_model(tmp_path, capsys):
    folder, ours, theirs = smollm2.smollm2(), tmp_path / "ours", tmp_path / "theirs"
    rows = [{"problem": f"What is {n} + 1?", "answer": str(n + 1), "id": f"p{n}"} for n in range(3)]
    own = write_rows(tmp_path / "own.jsonl", rows)
    given = ["--benchmark", "own", "--data", str(own), "--model", str(folder), "--samples", "4"]
    given += ["--runs", "1", "--max-tokens", "32", "--dtype", "bfloat16"]
    assert main([*given, "--output", str(ours)]) == 0
    command = [sys.executable, "-m", "inspect_ai", "eval", "rpd_datasets/own", "--epochs", "4"]
    command += ["--model", f"rpd/hf:{folder}", "-M", "dtype=bfloat16", "--max-tokens", "32"]
    command += ["-T", f"data={own}", "--log-dir", str(theirs), "--display", "none"]
    subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True)
    one, other = results_of(ours), results_of(theirs)
    assert (one.correct, one.figures) == (other.correct, other.figures)
    texts, others = ([s.output.completion for s in read_log(log).samples] for log in (ours, theirs))
    assert texts == others
    # Samples of one problem differ.
    assert len(set(texts[:4])) > 1
