"""How well does the grader agree with published labels? Prints tables of docs/grading.md.

    python benchmarks/grading.py --data ../shared/data

Every labelled solution is graded. Each disagreement was read once by a person and is in
grading_disagreements.json, with its class; one that is not makes the script fail.
`rpd compare-graders` prints the table of judged pairs.
"""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from machine import markdown

from rpd_metric.grading.answers import Verdict
from rpd_metric.grading.mathematics import Grader

# Files, how a row's problem is called, and its columns: reference answer, solutions, labels.
SETS = {
    "multi_solution/candidates.jsonl": ("{problem_id}", "reference_answer", "solutions", "correct"),
    "benchmarks/qwen_math_cot_100x8.jsonl": ("math-qwen-{idx:03}", "gt", "code", "score"),
}
EXPLAINED = Path(__file__).with_name("grading_disagreements.json")


class Labelled(NamedTuple):
    """One solution with the label that was published for it."""

    name: str
    gold: str
    solution: str
    correct: bool


def read(path: Path, name: str, gold: str, solutions: str, labels: str) -> list[Labelled]:
    """The solutions of a JSONL file: the format of a problem's name, and its columns."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        Labelled(f"{name.format(**row)} {index}", row[gold], solution, row[labels][index])
        for row in rows
        for index, solution in enumerate(row[solutions])
    ]


def agreement(name: str, rows: list[Labelled], workers: int) -> bool:
    """Grade labelled solutions and print a section about it; whether all is explained."""
    start = time.perf_counter()
    with Grader(workers=workers) as grader:
        pairs = ((row.gold, row.solution) for row in rows)
        verdicts = list(grader.grade(pairs))
    seconds = time.perf_counter() - start
    counts = Counter((verdict, row.correct) for verdict, row in zip(verdicts, rows, strict=True))
    differ = [
        (row, verdict)
        for verdict, row in zip(verdicts, rows, strict=True)
        if (verdict is Verdict.CORRECT) != row.correct
    ]
    print(f"## {name}\n")
    print(
        f"{len(rows)} solutions, {seconds:.0f} s with {workers} worker processes. Agreement: "
        f"{len(rows) - len(differ)} of {len(rows)} ({1 - len(differ) / len(rows):.2%}).\n"
    )
    labels = [("label right", True), ("label wrong", False)]
    table = [
        {"verdict": verdict.value, **{title: counts[verdict, label] for title, label in labels}}
        for verdict in Verdict
    ]
    print(markdown(table), "\n")
    table, unexplained = [], {row.name: verdict.value for row, verdict in differ}
    for row in json.loads(EXPLAINED.read_text(encoding="utf-8")):
        members = unexplained.keys() & row.pop("solutions")
        says = [unexplained.pop(member) for member in sorted(members)]
        if says:
            table.append({**row, "count": len(says), "grader says": ", ".join(sorted({*says}))})
    print(markdown(table))
    for name, verdict in unexplained.items():
        print(f"unexplained: {name} is {verdict}")
    print()
    return not unexplained


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the published labels")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    explained = [
        agreement(name, read(args.data / name, *columns), args.workers)
        for name, columns in SETS.items()
    ]
    if not all(explained):
        sys.exit(
            f"some disagreements are not explained; read them and add them to {EXPLAINED.name}"
        )


if __name__ == "__main__":
    main()
