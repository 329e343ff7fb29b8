"""Evaluation beneath the command: benchmarks, the paper's figures, what the Hub reads."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from parts.local_hub import LocalHub, Repo
from rpd_datasets.evaluation.benchmarks import BENCHMARKS, load_problems
from rpd_datasets.evaluation.paper import published_rows
from rpd_datasets.evaluation.reporting import update_card
from rpd_datasets.evaluation.results import Results, comparable
from rpd_metric.errors import InputError
from rpd_metric.grading.code import FunctionTask, StdioTask

SHARED = Path(__file__).resolve().parents[4] / "shared"
DATA = SHARED / "data" / "benchmarks"
FILES = {
    "aime24": ("aime24.jsonl", 30),
    "aime25": ("aime25.jsonl", 30),
    "math500-level5": ("math500.jsonl", 134),
    "math500": ("math500.jsonl", 500),
    "olympiadbench": ("olympiadbench_oe_to_maths_en_comp.jsonl", 675),
    "amc23": ("amc23.jsonl", 40),
    "humaneval": ("HumanEval.jsonl.gz", 164),
}


@pytest.mark.parametrize("name", FILES)
def test_the_real_file_of_each_benchmark_is_loaded_whole(name):
    file, size = FILES[name]
    if not (DATA / file).exists():
        pytest.skip(f"needs {DATA / file}")
    tasks = load_problems(name, DATA / file)[0]
    assert len(tasks) == size
    assert all(task.text.strip() for task in tasks)
    if BENCHMARKS[name].kind == "math":
        assert all(task.gold for task in tasks)
        # The instruction is the configuration's, not the file's.
        assert not any("reason step by step" in task.text for task in tasks)
    else:
        assert isinstance(tasks[0].code, FunctionTask)


def rows_file(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_ids_and_answers_that_are_numbers_are_texts(tmp_path):
    rows = [{"id": n, "question": f"What is {n}?", "answer": float(n)} for n in range(40)]
    tasks = load_problems("amc23", rows_file(tmp_path / "a.jsonl", rows))[0]
    assert (tasks[7].id, tasks[7].text, tasks[7].gold) == ("7", "What is 7?", "7")


def test_level_5_is_picked_whether_levels_are_numbers_or_words(tmp_path):
    levels = [*range(1, 5)] * 15 + [5] * 100 + ["Level 5"] * 34
    rows = [{"problem": f"p{n}", "answer": "1", "level": level} for n, level in enumerate(levels)]
    assert len(load_problems("math500-level5", rows_file(tmp_path / "a.jsonl", rows))[0]) == 134


def test_tests_of_programs_are_taken_where_they_are_there(tmp_path):
    tests = [{"input": "1 2\n", "output": "3\n"}]
    rows = [{"question_id": str(n), "prompt": "Add.", "tests": tests} for n in range(1055)]
    task = load_problems("livecodebench", rows_file(tmp_path / "a.jsonl", rows))[0][0]
    assert task.code == StdioTask([("1 2\n", "3\n")])


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("aime24", [{"Problem": "p", "Answer": "1"}] * 29, "has 29 problems of AIME24"),
        ("aime24", [{"Problem": "p", "ID": "x", "Answer": "1"}] * 30, "two problems alike"),
        ("aime24", [{"Problem": "p"}] * 30, "none of the columns answer"),
        ("humaneval", [{"prompt": "p"}] * 164, "no test and entry_point"),
        ("livecodebench", [{"prompt": "p", "tests": [1]}] * 1055, "a test is"),
    ],
)
def test_rows_that_are_not_the_benchmark_are_refused(name, rows, message, tmp_path):
    with pytest.raises(InputError, match=message):
        load_problems(name, rows_file(tmp_path / "a.jsonl", rows))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("aime", "unknown benchmark 'aime'; use one of aime24, aime25"),
        ("livecodebench", "name a local file with --data"),
    ],
)
def test_a_benchmark_that_cannot_be_loaded_says_what_can(name, message):
    with pytest.raises(InputError, match=message):
        load_problems(name)


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"(?<![\d.])\d{1,2}\.\d{2}(?!\d)", text)]


def test_the_papers_tables_equal_its_latex():
    files = sorted((SHARED / "paper").glob("*.txt"))
    if not files:
        pytest.skip(f"needs the paper's LaTeX in {SHARED / 'paper'}")
    lines = files[0].read_text(encoding="utf-8").split("\n")
    source = "\n".join(line for line in lines if not line.lstrip().startswith("%"))
    bodies = dict(
        re.findall(r"\\label\{(tab:[^}]*)\}(.*?)\\end\{tabular\}", source, flags=re.DOTALL)
    )
    # Every table of the paper that has pass@k columns, and Table 3.
    wanted = {label for label, body in bodies.items() if "pass@16" in body or "Pass Count" in body}
    printed: dict[str, list[float]] = {}
    for row in published_rows():
        values = (*row.pass_at_k.values(), *row.div_self_bleu.values(), *row.rpd.values())
        printed.setdefault(row.label, []).extend(values)
    assert len(wanted) == 14
    assert printed == {label: numbers(bodies[label]) for label in wanted}


FIGURE = {"value": 0.4, "low": 0.3, "high": 0.5}
RESULTS = Results(
    *("m", "m", "aime26"),
    settings={"temperature": 0.6, "top_p": 0.95, "max_tokens": 9, "prompt": "p", "scorer": "math"}
    | {"grader": None, "seed": 0},
    problems=[str(n) for n in range(30)],
    of_problems=30,
    correct=["01"] * 30,
    **{"missing": 0, "runs": 1, "verdicts": {}, "finish_reasons": {}, "mean_tokens": None},
    figures={"pass_at_k": {"1": FIGURE}, "pass_hat_k": {}, "first_k": {}}
    | {"mean_at_n": FIGURE, "cons_at_n": None},
    revision="c" * 40,
)


@pytest.mark.parametrize("name", ["temperature", "prompt", "scorer", "grader"])
def test_other_settings_are_no_comparison_unless_one_says_so(name):
    other = replace(RESULTS, name="n", settings={**RESULTS.settings, name: "another", "seed": 7})
    with pytest.raises(InputError, match=f"with another {name} .* and another"):
        comparable([RESULTS, other])
    assert comparable([RESULTS, other], different_settings=True)


def test_the_hub_gets_an_entry_for_registered_benchmarks(tmp_path):
    from huggingface_hub import parse_eval_result_entries

    (tmp_path / "README.md").write_text("# Mine\n")
    update_card(tmp_path, RESULTS, source="https://huggingface.co/datasets/me/samples")
    path = tmp_path / ".eval_results" / "aime26.yaml"
    (entry,) = parse_eval_result_entries(yaml.safe_load(path.read_text()))
    # As the eval.yaml of that dataset names them.
    assert (entry.dataset_id, entry.task_id) == ("MathArena/aime_2026", "MathArena/aime_2026")
    assert (entry.value, entry.dataset_revision) == (40.0, "c" * 40)


@pytest.mark.slow
def test_benchmarks_are_loaded_from_the_hub_by_name(tmp_path):
    def jsonl(rows: list[dict]) -> bytes:
        return "".join(json.dumps(row) + "\n" for row in rows).encode()

    aime, math500 = Repo(), Repo()
    aime_rows = [{"ID": f"a{n}", "Problem": f"p{n}", "Answer": n} for n in range(30)]
    commit = aime.commit("main", {"train.jsonl": jsonl(aime_rows)}, "made")
    levels = [{"problem": f"p{n}", "answer": "1", "level": 5 - n // 134} for n in range(500)]
    math500.commit("main", {"test.jsonl": jsonl(levels)}, "made")
    code = (
        "from rpd_datasets.evaluation.benchmarks import load_problems\n"
        "tasks, commit = load_problems('aime24')\n"
        "print(tasks[7].id, tasks[7].text, tasks[7].gold, commit,"
        " len(load_problems('math500-level5')[0]))"
    )
    with LocalHub() as hub:
        hub.repos["datasets/Maxwell-Jia/AIME_2024"] = aime
        hub.repos["datasets/HuggingFaceH4/MATH-500"] = math500
        # The hub client reads its settings when it is imported, so they need a process.
        settings = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
        settings |= {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1"}
        settings |= {"NO_PROXY": "127.0.0.1", "PYTHONPATH": str(Path(__file__).parents[3])}
        command, env = [sys.executable, "-c", code], os.environ | settings
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["a7", "p7", "7", commit, "134"]
