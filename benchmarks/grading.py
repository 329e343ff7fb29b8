"""How well do the graders agree with published labels? Writes docs/grading.md.

    python benchmarks/grading.py --data ../shared/data --output docs/grading.md

Grades every labelled solution of the data folder, looks at every disagreement, runs
HumanEval's reference solutions in the sandbox, and measures what both cost. Each
disagreement was read once by a person and is listed below with its class; one that is not
listed is reported as unexplained and makes the script fail.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from rpd_metric.grading.answers import Verdict, final_answer
from rpd_metric.grading.code import FunctionTask, ProgramResult, grade_code
from rpd_metric.grading.isolation import Limits
from rpd_metric.grading.mathematics import Grader
from rpd_metric.grading.sandbox import Sandbox

# class: (who is right, what happens, the solutions it happens in)
CLASSES: dict[str, tuple[str, str, set[tuple[str, int]]]] = {
    "one number out of an expression": (
        "the grader",
        "The answer is an expression (an imaginary multiple, a constant plus a variable) and the "
        "label accepted the one number in it, which equals the reference.",
        {
            ("math-l5-0132", 5),
            ("math-l5-0132", 11),
            ("math-l5-0147", 0),
            ("math-l5-0178", 8),
            ("math-l5-0446", 2),
            ("math-l5-0536", 8),
        },
    ),
    "value not worked out": (
        "the grader, by value",
        "The answer is left as a sum or product of numbers whose value is the reference, such as a "
        "power times a factor. The label wanted the number itself.",
        {("math-l5-0128", 15), ("math-l5-0217", 15), ("math-l5-0603", 14)},
    ),
    "separator of thousands": (
        "the grader",
        "The reference writes ten thousand with LaTeX's `{,}`, the answer without; the label "
        "compared the text.",
        {("math-qwen-072", 7), ("qwen-rm100-072", 7)},
    ),
    "sentences instead of an answer": (
        "the label",
        'After "Answer:" comes the derivation in prose, with the result in its last sentence. The '
        "grader reads the first formula or sentence, and does not guess.",
        {("math-l5-0098", 12), ("math-l5-0184", 12)},
    ),
    "the result stands after the box": (
        "the label",
        "The last box holds an intermediate value; the sentence after it draws the sign.",
        {("math-l5-0351", 5)},
    ),
}


@dataclass(frozen=True)
class Labelled:
    """One solution with the label that was published for it."""

    problem: str
    index: int
    gold: str
    solution: str
    correct: bool


def candidates(data: Path) -> Iterator[Labelled]:
    """multi_solution/candidates.jsonl."""
    for row in _lines(data / "multi_solution" / "candidates.jsonl"):
        for index, solution in enumerate(row["solutions"]):
            yield Labelled(
                row["problem_id"], index, row["reference_answer"], solution, row["correct"][index]
            )


def qwen_samples(data: Path) -> Iterator[Labelled]:
    """benchmarks/qwen_math_cot_100x8.jsonl."""
    for row in _lines(data / "benchmarks" / "qwen_math_cot_100x8.jsonl"):
        for index, solution in enumerate(row["code"]):
            yield Labelled(
                f"math-qwen-{row['idx']:03}", index, row["gt"], solution, row["score"][index]
            )


def references(data: Path) -> Iterator[tuple[str, list[str]]]:
    """The reference answers of each benchmark."""
    folder = data / "benchmarks"
    for name in ("aime24", "aime25", "amc23", "math500", "olymmath_en_easy", "olymmath_en_hard"):
        yield name, [str(row["answer"]) for row in _lines(folder / f"{name}.jsonl")]
    old = json.loads((folder / "aime_1983_2023.json").read_text(encoding="utf-8"))
    yield "aime_1983_2023", [str(row.get("Answer", row.get("answer"))) for row in old]
    solved = _lines(folder / "math_test_5000.jsonl")
    yield "math_test_5000", [final_answer(row["solution"]) or "" for row in solved]
    rows = _lines(folder / "olympiadbench_oe_to_maths_en_comp.jsonl")
    yield "olympiadbench_oe_to_maths_en_comp", [", ".join(row["final_answer"]) for row in rows]
    with (folder / "imo_answerbench_v2.csv").open(encoding="utf-8", newline="") as file:
        yield "imo_answerbench_v2", [row["Short Answer"] for row in csv.DictReader(file)]


def agreement(name: str, rows: list[Labelled], workers: int) -> tuple[list[str], bool]:
    """Grade labelled solutions; the section about it, and whether all is explained."""
    start = time.perf_counter()
    with Grader(workers=workers) as grader:
        pairs = ((row.gold, row.solution) for row in rows)
        verdicts = list(grader.grade(pairs, progress=_bar(name, len(rows))))
    seconds = time.perf_counter() - start
    counts = Counter((verdict, row.correct) for verdict, row in zip(verdicts, rows, strict=True))
    differ = [
        (row, verdict)
        for verdict, row in zip(verdicts, rows, strict=True)
        if (verdict is Verdict.CORRECT) != row.correct
    ]
    share = 1 - len(differ) / len(rows)
    lines = [
        f"## {name}",
        "",
        f"{len(rows)} solutions, {seconds:.0f} s with {workers} worker processes. "
        f"Agreement: {len(rows) - len(differ)} of {len(rows)} ({share:.2%}).",
        "",
        "| verdict | label right | label wrong |",
        "| --- | ---: | ---: |",
        *(
            f"| {verdict.value} | {counts[verdict, True]} | {counts[verdict, False]} |"
            for verdict in Verdict
        ),
        "",
        "| disagreement | count | grader says | who is right | what happens |",
        "| --- | ---: | --- | --- | --- |",
    ]
    left = differ
    for title, (right, text, members) in CLASSES.items():
        here = [pair for pair in left if (pair[0].problem, pair[0].index) in members]
        if here:
            said = ", ".join(sorted({verdict.value for _, verdict in here}))
            lines.append(f"| {title} | {len(here)} | {said} | {right} | {text} |")
        left = [pair for pair in left if pair not in here]
    for row, verdict in left:
        lines.append(
            f"| **unexplained** | 1 | {verdict.value} | | {row.problem}, solution {row.index} |"
        )
    return [*lines, ""], not left


def readability(data: Path, workers: int) -> list[str]:
    """Which reference answers can be read at all?"""
    lines = [
        "## Reference answers",
        "",
        "Each reference is graded against an answer that can be read and that it does not equal "
        "(`\\boxed{x_{977}+\\pi}`), so that computer algebra has to read the reference. One that "
        "cannot be read is only ever matched by equal text; a response that differs gets "
        "`unparsable_gold` rather than `wrong`.",
        "",
        "| benchmark | references | cannot be read |",
        "| --- | ---: | ---: |",
    ]
    with Grader(workers=workers) as grader:
        for name, golds in references(data):
            pairs = ((gold, r"\boxed{x_{977}+\pi}") for gold in golds)
            counts = Counter(grader.grade(pairs, progress=_bar(name, len(golds))))
            lines.append(f"| {name} | {len(golds)} | {counts[Verdict.UNPARSABLE_GOLD]} |")
        rows = list(_lines(data / "benchmarks" / "aime24.jsonl"))
        padded = list(
            grader.grade(
                (row["answer"].zfill(3), rf"\boxed{{{int(row['answer'])}}}") for row in rows
            )
        )
        solved = Counter(grader.grade((row["answer"], row["solution"]) for row in rows))
    equal = padded.count(Verdict.CORRECT)
    counts = ", ".join(f"{count} {verdict.value}" for verdict, count in sorted(solved.items()))
    return [
        *lines,
        "",
        f"AIME answers with leading zeros equal the plain number in {equal} of {len(padded)} "
        f"cases. The published solutions of AIME24, graded like a model's: {counts}.",
        "",
    ]


def programs(data: Path, workers: int) -> list[str]:
    """HumanEval's reference solutions, and what a sandbox costs."""
    with gzip.open(data / "benchmarks" / "HumanEval.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    tasks = [FunctionTask(row["prompt"], row["entry_point"], row["test"]) for row in rows]
    sandbox = Sandbox(Limits())
    ways = {
        "as a continuation": [row["canonical_solution"] for row in rows],
        "in a fenced block": [
            f"Here it is:\n```python\n{row['prompt']}{row['canonical_solution']}\n```\n"
            for row in rows
        ],
        "an empty body": ["    pass\n"] * len(rows),
        "a body that exits": ["    import os; os._exit(0)\n"] * len(rows),
    }
    lines = [
        "## Programs",
        "",
        f"The {len(rows)} problems of HumanEval with their reference solutions and with two "
        "that must not pass, each beside its tests, which run in a process and a sandbox of "
        "their own:",
        "",
        "| completion | passed | failed | timed out | error | seconds |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for way, completions in ways.items():
        start = time.perf_counter()
        graded = grade_code(
            zip(tasks, completions, strict=True),
            sandbox,
            workers=workers,
            progress=_bar(way, len(rows)),
        )
        counts = Counter(graded)
        seconds = time.perf_counter() - start
        cells = " | ".join(str(counts[verdict]) for verdict in ProgramResult)
        lines.append(f"| {way} | {cells} | {seconds:.1f} |")
    # Both start the same interpreter on an empty program.
    boxed = _median(lambda: sandbox.run("pass"))
    bare = _median(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
    return [
        *lines,
        "",
        "All of this holds inside the sandbox. With `passk.py --unsafe` (`Sandbox(unsafe=True)`) "
        "programs run as this user: they can read, change and delete this user's files, use the "
        "network, outlive their time limit, and find the checker beside them, read it and end or "
        "imitate it. A verdict made so is only worth as much as the trust in the model that wrote "
        "the program: use it on a machine that may be lost, and publish no figure from it.",
        "",
        f"An empty program takes {1000 * boxed:.0f} ms in the sandbox and {1000 * bare:.0f} ms "
        "outside it (medians of 20). "
        f"Run as {'root' if os.geteuid() == 0 else 'an ordinary user'}.",
        "",
    ]


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--output", type=Path, default=Path("docs/grading.md"))
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    first, first_explained = agreement(
        "multi_solution/candidates.jsonl", list(candidates(args.data)), args.workers
    )
    second, second_explained = agreement(
        "benchmarks/qwen_math_cot_100x8.jsonl", list(qwen_samples(args.data)), args.workers
    )
    page = [
        "# How well the graders agree with published labels",
        "",
        "Made by `benchmarks/grading.py`; do not edit. "
        f"math-verify {version('math-verify')}, sympy {version('sympy')}, Python "
        f"{platform.python_version()}, {os.cpu_count()} cores.",
        "",
        "The answer is the last box of a solution or, without one, what follows its last "
        '"answer:" or "answer is". Only `correct` counts as solved. Every disagreement with a '
        "label was read by a person and put into a class.",
        "",
        *first,
        *second,
        "These two sets have all labels of wrong solutions that the data folder has. Of its 402 "
        "traces of reasoning models (long_cot), all labelled right and not in the tables, 397 are "
        "graded correct (98.8%); of the other five four end in a sentence or a made-up unit around "
        "the number, and one names none. Solutions that people published (human_alternatives) "
        "seldom name an answer and are not counted.",
        "",
        "Where label and grader agree they can still be wrong together: the reference of one "
        "problem about a time of day is damaged (`4:30p..`), and all 8 of its samples, which say "
        "half past four, count as wrong in both files.",
        "",
        "What no comparison of answers can see: a right answer by a wrong argument is `correct`. "
        "Limits of math-verify that remain: a list without spaces reads as a number when it could "
        "be one (`204,205` is 204205), the base of a numeral is dropped when only one side names "
        "it, and a percentage equals both its number and its share.",
        "",
        *readability(args.data, args.workers),
        *programs(args.data, args.workers),
    ]
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text("\n".join(page).rstrip() + "\n", encoding="utf-8")
    print(f"wrote {args.output}")
    if not (first_explained and second_explained):
        sys.exit("some disagreements are not explained; read them and add them to CLASSES")


def _lines(path: Path) -> Iterable[dict]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def _bar(name: str, total: int) -> Callable[[int], None]:
    def show(done: int) -> None:
        if done % 50 == 0 or done == total:
            end = "\n" if done == total else ""
            print(f"\r{name}: {done}/{total}", end=end, file=sys.stderr, flush=True)

    return show


def _median(call: Callable[[], object]) -> float:
    times = []
    for _ in range(20):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


if __name__ == "__main__":
    main()
