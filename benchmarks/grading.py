"""How well does the grader agree with published labels? Prints tables of docs/grading.md.

    python benchmarks/grading.py --data ../shared/data

Every labelled solution is graded. Each disagreement was read once by a person and is listed below
with its class; one that is not listed is reported as unexplained and makes the script fail.
`rpd compare-graders` prints the table of judged pairs.
"""

from __future__ import annotations

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
# class: (who is right, what happens, the solutions it happens in)
CLASSES: dict[str, tuple[str, str, set[tuple[str, int]]]] = {
    "one number from an expression": (
        "the grader",
        "The answer is an expression (an imaginary multiple, a constant plus a variable), and the "
        "label accepted the one number in it that equals the reference.",
        {
            ("math-l5-0132", 5),
            ("math-l5-0132", 11),
            ("math-l5-0147", 0),
            ("math-l5-0178", 8),
            ("math-l5-0446", 2),
            ("math-l5-0536", 8),
        },
    ),
    "value not computed": (
        "the grader, by value",
        "The answer is a sum or product of numbers whose value is the reference, such as a "
        "power times a factor. The label required the number itself.",
        {("math-l5-0128", 15), ("math-l5-0217", 15), ("math-l5-0603", 14)},
    ),
    "thousands separator": (
        "the grader",
        "The reference writes ten thousand with LaTeX's `{,}`, the answer does not; the label "
        "compared the text.",
        {("math-qwen-072", 7), ("qwen-rm100-072", 7)},
    ),
    "sentences instead of an answer": (
        "the label",
        'After "Answer:" comes the derivation in prose, with the result in its last sentence. The '
        "grader reads the first formula or sentence and does not guess.",
        {("math-l5-0098", 12), ("math-l5-0184", 12)},
    ),
    "the result comes after the box": (
        "the label",
        "The last box has an intermediate value; the sentence after it adds the sign.",
        {("math-l5-0351", 5)},
    ),
}


class Labelled(NamedTuple):
    """One solution with the label that was published for it."""

    problem: str
    index: int
    gold: str
    solution: str
    correct: bool


def read(path: Path, name: str, gold: str, solutions: str, labels: str) -> list[Labelled]:
    """The solutions of a JSONL file: the format of a problem's name, and its columns."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        Labelled(name.format(**row), index, row[gold], solution, row[labels][index])
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
    table, unexplained = [], {(row.problem, row.index): verdict.value for row, verdict in differ}
    for title, (right, text, members) in CLASSES.items():
        says = [unexplained.pop(member) for member in sorted(members & unexplained.keys())]
        if says:
            names = ", ".join(sorted({*says}))
            table.append({"disagreement": title, "count": len(says), "grader says": names})
            table[-1] |= {"who is right": right, "what happens": text}
    print(markdown(table))
    for (problem, index), says in unexplained.items():
        print(f"unexplained: {problem}, solution {index} is {says}")
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
        sys.exit("some disagreements are not explained; read them and add them to CLASSES")


if __name__ == "__main__":
    main()
