"""Bad input ends in one line, and what is wrong is said before anything heavy is loaded.

All commands run in one process of their own, which says after each of them what was imported: once
a module of a model is there, every later command would show it.
"""

import json
import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "sentence_transformers", "vllm", "openai", "datasets")
DRIVER = f"""
import contextlib, io, json, sys
from rpd_datasets.cli import main
for arguments in json.loads(sys.stdin.read()):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(arguments)
    heavy = [name for name in {HEAVY!r} if name in sys.modules]
    print(json.dumps([status, out.getvalue(), err.getvalue(), heavy]))
"""
SOLUTIONS = ["Two and two make 4. The answer is 4.", "Count on: 3, 4. The answer is 4."]
GOOD = {"problem": "What is 2 + 2?", "solutions": SOLUTIONS}
FILES = {
    "good": json.dumps(GOOD),
    "columns": json.dumps({"instruction": "What is 2 + 2?", "answers": SOLUTIONS}),
    "unusable": json.dumps({"problem": "What is 2 + 2?", "solutions": [4, 5]}),
    "empty": "",
    "cut": '{"problem": "What is 2 + 2?", "solutions": ["a"',
    "scored": json.dumps({**GOOD, "score": [0.5]}),
    "steps": json.dumps({**GOOD, "steps": [["One."]]}),
    "labelled": "no row",
    "deep": "[" * 100_000,
}
# Each would load torch and transformers, or the client of a server, if it came so far.
MODELS = {
    "curate": ["--embedder", "minilm"],
    "plan": ["--summarizer", "hf:some/model"],
    "score": ["--summarizer", "hf:some/model"],
    "label": ["--judge", "hf:some/model"],
    "judge": ["--judge", "hf:some/model"],
    "compare-metrics": ["--summarizer", "hf:some/model"],
}
INPUTS = {
    "none": "There is no file",
    "columns": "--problem-column instruction --solutions-column answers",
    "unusable": "no usable problem",
    "empty": "is empty",
    "cut": "cut.jsonl",
}
# Errors of single commands: what is read, the options, and what is said.
SINGLE = [
    ("curate", "good", ["--quality-column", "reward"], "no column 'reward' for --quality-column"),
    ("curate", "scored", ["--quality-column", "score"], "does not hold a score for each solution"),
    ("curate", "good", ["--only-correct"], "--only-correct needs marks in one of"),
    ("curate", "good", ["--only", "level"], "COLUMN=VALUE"),
    ("curate", "good", ["--num-problems", "0"], "--num-problems must be >= 1, got 0"),
    ("curate", "good", ["--student-share", "1"], "--student-share must"),
    ("curate", "good", ["--limit", "0"], "--limit must"),
    ("curate", "good", ["--decisions", "none.json"], "none.json"),
    ("curate", "good", ["--evidence", "none.json"], "none.json"),
    ("curate", "good", ["--config", "deep.jsonl"], "deep.jsonl is not YAML"),
    ("curate", "good", ["--decisions", "deep.jsonl"], "deep.jsonl is not a file of decisions"),
    ("curate", "good", ["--evidence", "deep.jsonl"], "deep.jsonl has no evidence"),
    ("curate", "good", ["--decontaminate", "none.jsonl"], "none.jsonl"),
    ("curate", "good", ["--preset", "paper"], "Qwen3-14B"),
    ("curate", "good", ["--embedder", "nonsense:x"], "unknown embedder"),
    ("curate", "good", ["--embedder", "st:./none"], "there is no folder ./none"),
    ("curate", "good", ["--summarizer", "hf:some/model", "--template", "none.md"], "none.md"),
    ("curate", "good", ["--tokenizer", "./none"], "there is no folder ./none"),
    ("curate", "good", ["--problems", "llm"], "--judge"),
    ("curate", "good", ["--output", "full"], "--overwrite"),
    ("curate", "good", ["--output", "good.jsonl"], "is a file"),
    ("curate", "good", ["--output", "good.jsonl/out"], "make it writable, or choose another"),
    ("plan", "good", ["--correct-column", "right"], "no column 'right' for --correct-column"),
    ("plan", "good", ["--embedder", "nonsense:x"], "unknown embedder"),
    ("score", "good", ["--embedder", "nonsense:x"], "unknown embedder"),
    ("compare", "good", ["--embedder", "nonsense:x"], "unknown embedder"),
    ("label", "good", ["--summarizer", "hf:./none"], "there is no folder ./none"),
    ("label", "good", ["--output", "labelled.jsonl"], "labelled.jsonl holds other rows"),
    ("label", "good", ["--output", "good.jsonl"], "good.jsonl holds other rows"),
    ("compare-metrics", "good", ["--write-evidence", "good.jsonl"], "is a file that this"),
    ("judge", "good", ["--labels"], "has no labels"),
    ("judge", "steps", [], "must hold a list for each solution"),
    ("judge", "good", ["--summarizer", "nonsense:x"], "unknown summarizer"),
]
CASES = [
    *((command, name, [], said) for command in MODELS for name, said in INPUTS.items()),
    *SINGLE,
]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, str, str, list[str]]]:
    folder = tmp_path_factory.mktemp("early")
    for name, text in FILES.items():
        (folder / f"{name}.jsonl").write_text(text + "\n" * bool(text))
    (folder / "full").mkdir()
    (folder / "full" / "file").touch()
    before = sorted(folder.iterdir())
    commands = [command(*case[:3]) for case in CASES]
    run = subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps([*commands, ["score", "good.jsonl"]]),
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert sorted(folder.iterdir()) == before
    return [tuple(json.loads(line)) for line in run.stdout.splitlines()]


def command(name: str, file: str, options: list[str]) -> list[str]:
    output = {"curate": ["--output", "out"], "label": ["--output", "out.jsonl"]}.get(name, [])
    models = [] if options else MODELS[name]
    needed = ["--judge", "hf:some/model"] if name == "judge" and options else []
    return [name, f"{file}.jsonl", *output, *models, *needed, *options]


@pytest.mark.parametrize("case", range(len(CASES)), ids=[" ".join(c[:2]) for c in CASES])
def test_an_error_is_one_line_and_nothing_heavy_was_loaded(case, results):
    status, out, err, heavy = results[case]
    lines = [line for line in err.splitlines() if line.startswith("rpd ")]
    assert (status, out, len(lines)) == (1, "", 1), err
    assert CASES[case][3] in lines[0]
    assert "Traceback" not in err
    assert heavy == []
    if lines[0].split(": ")[1].startswith("--"):
        assert err.endswith(f"\nSee rpd {CASES[case][0]} --help\n")


def test_a_command_that_works_does_load_models(results):
    status, _, _, heavy = results[-1]
    assert status == 0
    # So the test above would see torch if a command that fails loaded it.
    assert "torch" in heavy
