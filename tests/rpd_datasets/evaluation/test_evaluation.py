"""The benchmarks: from their own files, and from the Hub."""

from pathlib import Path

import pytest

from parts.local_hub import LocalHub
from parts.rows import as_lines, write_rows
from rpd_datasets.evaluation.benchmarks import BenchmarkProblem, load_answers, load_problems
from rpd_metric.errors import InputError

DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "benchmarks"
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
    tasks = load_problems(name, DATA / file)
    assert len([task for task in tasks if task.text.strip() and (task.gold or task.tests)]) == size
    # The instruction is the configuration's, not the file's.
    assert not any("reason step by step" in task.text for task in tasks)


def test_ids_and_answers_that_are_numbers_are_texts(tmp_path):
    rows = [{"id": n, "question": f"What is {n}?", "answer": float(n)} for n in range(40)]
    tasks = load_problems("amc23", write_rows(tmp_path / "a.jsonl", rows))
    assert (tasks[7].id, tasks[7].text, tasks[7].gold) == ("7", "What is 7?", "7")
    # And levels may be numbers or words.
    levels = [*range(1, 5)] * 15 + [5] * 100 + ["Level 5"] * 34
    rows = [{"problem": f"p{n}", "answer": "1", "level": level} for n, level in enumerate(levels)]
    assert len(load_problems("math500-level5", write_rows(tmp_path / "a.jsonl", rows))) == 134


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("aime24", [{"Problem": "p", "Answer": "1"}] * 29, "has 29 problems of AIME24"),
        ("aime24", [{"Problem": "p", "ID": "x", "Answer": "1"}] * 30, "two problems alike"),
        ("aime24", [{"Problem": "p"}] * 30, "none of the columns answer"),
        ("humaneval", [{"prompt": "p"}] * 164, "no test and entry_point"),
        ("livecodebench", [{"prompt": "p"}], "prompts alone cannot be graded"),
        ("livecodebench", None, "name a local file with --data"),
        ("aime", None, "unknown benchmark 'aime'; use one of aime24, aime25"),
    ],
)
def test_what_is_not_the_benchmark_is_refused(name, rows, message, tmp_path):
    with pytest.raises(InputError, match=message):
        load_problems(name, rows and write_rows(tmp_path / "a.jsonl", rows))


def test_what_a_run_measures_are_problems_with_answers(tmp_path, monkeypatch):
    own = write_rows(tmp_path / "own.jsonl", [{"problem": "1 + 1?", "answer": 2}])
    assert load_answers(str(own)) == [("1 + 1?", "2")]
    tested = [BenchmarkProblem("1", "Add.", tests=lambda: None)]  # type: ignore
    monkeypatch.setattr("rpd_datasets.evaluation.benchmarks.load_problems", lambda *_: tested)
    with pytest.raises(InputError, match="humaneval has tests in place of answers"):
        load_answers("humaneval")


@pytest.mark.slow
def test_benchmarks_are_loaded_from_the_hub_by_name(tmp_path):
    aime = ({"ID": f"a{n}", "Problem": f"p{n}", "Answer": n} for n in range(30))
    levels = ({"problem": f"p{n}", "answer": "1", "level": 5 - n // 134} for n in range(500))
    code = (
        "from rpd_datasets.evaluation.benchmarks import load_problems\n"
        "tasks = load_problems('aime24')\n"
        "print(tasks[7].id, tasks[7].text, tasks[7].gold, len(load_problems('math500-level5')))"
    )
    with LocalHub() as hub:
        hub.add("datasets/Maxwell-Jia/AIME_2024", {"train.jsonl": as_lines(aime)})
        hub.add("datasets/HuggingFaceH4/MATH-500", {"test.jsonl": as_lines(levels)})
        done = hub.run(tmp_path, "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["a7", "p7", "7", "134"]
