"""How well does the grader agree with people? Prints the tables of docs/grading.md.

    python benchmarks/grading.py                           # the judged pairs
    python benchmarks/grading.py --data ../shared/data     # published labels, too

`answer_pairs.jsonl` has pairs of a reference and a response that a person judged, by form. Half of
them were written before the grader was looked at, and it was never mended by them: the tables are
about these. math-verify alone and lm-eval's rule for AIME judge the same pairs; for the latter,
`pip install --no-deps lm-eval`.

With `--data`, every labelled solution is graded as well. Each disagreement was read once by a
person and is listed below with its class; one that is not listed is reported as unexplained and
makes the script fail.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from runpy import run_path
from typing import Any, NamedTuple

from rpd_metric.grading.answers import Verdict
from rpd_metric.grading.mathematics import Grader

PAIRS = Path(__file__).with_name("answer_pairs.jsonl")
# Files, how a row's problem is called, and its columns: reference answer, solutions, labels.
SETS = (
    (
        "multi_solution/candidates.jsonl",
        "{problem_id}",
        ("reference_answer", "solutions", "correct"),
    ),
    ("benchmarks/qwen_math_cot_100x8.jsonl", "math-qwen-{idx:03}", ("gt", "code", "score")),
)
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


def read(path: Path, name: str, columns: tuple[str, str, str]) -> list[Labelled]:
    """The solutions of a JSONL file; `name` formats a problem's, `columns` hold the rest."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    gold, solutions, labels = columns
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
    print("| verdict | label right | label wrong |\n| --- | ---: | ---: |")
    for verdict in Verdict:
        print(f"| {verdict.value} | {counts[verdict, True]} | {counts[verdict, False]} |")
    print("\n| disagreement | count | grader says | who is right | what happens |")
    print("| --- | ---: | --- | --- | --- |")
    left = differ
    for title, (right, text, members) in CLASSES.items():
        here = [pair for pair in left if (pair[0].problem, pair[0].index) in members]
        if here:
            said = ", ".join(sorted({verdict.value for _, verdict in here}))
            print(f"| {title} | {len(here)} | {said} | {right} | {text} |")
        left = [pair for pair in left if pair not in here]
    for row, verdict in left:
        place = f"{row.problem}, solution {row.index}"
        print(f"| **unexplained** | 1 | {verdict.value} | | {place} |")
    print()
    return not left


def judged(half: str) -> list[dict[str, Any]]:
    """The judged pairs of a half, `"held-out"` or `"open"`."""
    rows = map(json.loads, PAIRS.read_text(encoding="utf-8").splitlines())
    return [row for row in rows if row["half"] == half]


def by_this_grader(rows: list[dict[str, Any]]) -> list[bool]:
    """Which responses the grader accepts."""
    with Grader(workers=2) as grader:
        verdicts = grader.grade((row["reference"], row["response"]) for row in rows)
        return [verdict is Verdict.CORRECT for verdict in verdicts]


def by_math_verify(rows: list[dict[str, Any]]) -> list[bool]:
    """The same for math-verify alone, with the reference in a box, which it reads best."""
    from math_verify import parse, verify

    return [verify(parse(rf"\boxed{{{row['reference']}}}"), parse(row["response"])) for row in rows]


def by_lm_eval(rows: list[dict[str, Any]]) -> list[bool] | None:
    """The same for lm-eval's rule for AIME; `None` where it is not installed."""
    try:
        rule = distribution("lm_eval").locate_file("lm_eval/tasks/aime/utils.py")
    except PackageNotFoundError:
        return None
    grade = run_path(str(rule))["process_results"]
    return [bool(grade({"answer": r["reference"]}, [r["response"]])["exact_match"]) for r in rows]


GRADERS = {"this grader": by_this_grader, "math-verify": by_math_verify, "lm-eval": by_lm_eval}


def mistakes(half: str) -> None:
    """Print a table of wrong verdicts on judged pairs: false accepts / false rejects."""
    rows = judged(half)
    accepted = {name: grade(rows) for name, grade in GRADERS.items()}
    known = {name: verdicts for name, verdicts in accepted.items() if verdicts is not None}
    print(f"## The {half} pairs: false accepts / false rejects\n")
    print(f"| form | right | wrong | {' | '.join(known)} |")
    print("| --- | ---: | ---: |" + " ---: |" * len(known))
    forms = list(dict.fromkeys(row["form"] for row in rows))
    for form in (*forms, "all"):
        here = [n for n, row in enumerate(rows) if form in (row["form"], "all")]
        right = sum(rows[n]["right"] for n in here)
        cells = []
        for verdicts in known.values():
            wrong = Counter(verdicts[n] for n in here if verdicts[n] != rows[n]["right"])
            share = f" ({wrong[True] / len(here):.1%} / {wrong[False] / len(here):.1%})"
            cells.append(f"{wrong[True]} / {wrong[False]}{share * (form == 'all')}")
        print(f"| {form} | {right} | {len(here) - right} | {' | '.join(cells)} |")
    for name in accepted.keys() - known.keys():
        print(f"\n{name} is not installed.")
    print()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="the folder of published labels")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    mistakes("held-out")
    if args.data is None:
        return
    explained = [
        agreement(name, read(args.data / name, problem, columns), args.workers)
        for name, problem, columns in SETS
    ]
    if not all(explained):
        sys.exit("some disagreements are not explained; read them and add them to CLASSES")


if __name__ == "__main__":
    main()
