"""How well do the graders agree with published labels? Prints the tables of docs/grading.md.

    python benchmarks/grading.py --data ../shared/data

Grades every labelled solution of the data folder and looks at every disagreement. Each was read
once by a person and is listed below with its class; one that is not listed is reported as
unexplained and makes the script fail.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rpd_metric.grading.answers import Verdict
from rpd_metric.grading.mathematics import Grader

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


def agreement(name: str, rows: list[Labelled], workers: int) -> tuple[list[str], bool]:
    """Grade labelled solutions; the section about it, and whether all is explained."""
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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    sets = {
        "multi_solution/candidates.jsonl": candidates(args.data),
        "benchmarks/qwen_math_cot_100x8.jsonl": qwen_samples(args.data),
    }
    explained = True
    for name, rows in sets.items():
        lines, all_explained = agreement(name, list(rows), args.workers)
        print("\n".join(lines))
        explained = explained and all_explained
    if not explained:
        sys.exit("some disagreements are not explained; read them and add them to CLASSES")


def _lines(path: Path) -> Iterable[dict]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


if __name__ == "__main__":
    main()
