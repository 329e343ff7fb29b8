"""Does choosing for difference choose mistakes? The share of wrong answers, arm by arm.

    python benchmarks/wrong_answers.py [FILE] [--num-problems N] [--num-solutions M]

FILE holds problems with several sampled solutions and marks of correctness (`correct`). Problems
are drawn with a seed, unfinished solutions and copies are left out as in `rpd curate`, each
distance chooses M of each problem's solutions greedily (Algorithm 2), random
ones are the mean over all that there are, and the share of wrong final answers among the chosen is
compared with that among all.
The half of the problems that the distance ranks first is looked at by itself. Last comes what
leaving out wrong answers does: by marks nothing wrong is left, and by the most frequent answer,
which needs no marks, what is left over.

Intervals are 95 % bootstrap intervals over problems. The output is Markdown; it stands in
`docs/inputs.md`.
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # before numpy loads its BLAS

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parent))

from machine import machine, markdown

from rpd_datasets.filters.answer_checks import AnswerChecker, marked_only
from rpd_datasets.filters.pipeline import FilterConfig, filter_problem
from rpd_datasets.inputs.source import open_source
from rpd_datasets.problem import Problem
from rpd_datasets.select import draw_lot, rank, select_solutions
from rpd_datasets.tokens import token_counter
from rpd_metric.distance.core import problem_score
from rpd_metric.metrics.matrices import distance_matrices
from rpd_metric.models.kinds import load_embedder
from rpd_metric.statistics.intervals import percentile_ends, resample_weights
from rpd_metric.steps.summarizers import load_summarizer

DATA = Path(__file__).resolve().parents[2] / "shared/data/multi_solution/candidates.jsonl"
DISTANCES = ("rpd", "strategy", "pieces")
RESAMPLES = 4000

Counts = npt.NDArray[np.float64]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", nargs="?", type=Path, default=DATA)
    parser.add_argument("--num-problems", type=int, default=120)
    parser.add_argument("--num-solutions", type=int, default=3)
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    problems = drawn(args.file, args.num_problems, args.seed, args.num_solutions)
    rows, ranked = measured(problems, args.num_solutions, args.embedder, args.seed)
    total = sum(len(problem.solutions) for problem, _ in problems)
    print(
        f"{len(problems)} problems of {args.file.name}, {total} finished solutions, "
        f"{args.num_solutions} chosen of each; {args.embedder}, extractive steps, seed "
        f"{args.seed}; {machine(('numpy', 'torch'))}\n"
    )
    print(markdown(table(rows, ranked)))
    print()
    print(markdown(by_majority(problems)))


def drawn(
    file: Path, number: int, seed: int, num_solutions: int
) -> list[tuple[Problem, tuple[bool, ...]]]:
    """Problems with marks, with the solutions that the other default filters keep."""
    filters = FilterConfig(min_solutions=num_solutions, answers="any")
    counter = token_counter("estimate")
    kept = []
    with TemporaryDirectory() as scratch:
        source = open_source(file, scratch=Path(scratch), on_reject=lambda _: None)
        for problem in sorted(source, key=lambda one: draw_lot(one.problem, seed)):
            found = filter_problem(problem, filters, counter)
            marks = marked_only(problem, None).marks
            if found.kept and all(marks[index] is not None for index in found.kept):
                right = tuple(bool(marks[index]) for index in found.kept)
                kept.append((problem.take(found.kept), right))
            if len(kept) == number:
                break
    return kept


def measured(
    problems: Sequence[tuple[Problem, tuple[bool, ...]]], m: int, embedder: str, seed: int
) -> tuple[dict[str, Counts], dict[str, list[int]]]:
    """Per arm an array of shape `(problems, 2)`, wrong and chosen solutions; and the rankings."""
    encoder, summarizer = load_embedder(embedder), load_summarizer("extractive")
    rows: dict[str, list[tuple[float, float]]] = {}
    scores: dict[str, list[float | None]] = {name: [] for name in DISTANCES}
    for problem, right in problems:
        wrong = np.array([not one for one in right], dtype=np.float64)
        summaries = asyncio.run(summarizer.summarize(problem.problem, problem.solutions))
        steps = [list(one.steps) for one in summaries]
        found = distance_matrices(
            DISTANCES, problem.problem, problem.solutions, steps, encoder, seed
        )
        rows.setdefault("all", []).append((wrong.sum(), len(wrong)))
        # Every solution is as likely to be drawn as any other.
        rows.setdefault("random", []).append((m * wrong.mean(), m))
        for name in DISTANCES:
            picks = select_solutions(found[name], m)
            rows.setdefault(name, []).append((wrong[picks].sum(), len(picks)))
            scores[name].append(problem_score(found[name]))
    ranked = {name: rank(scores[name])[: len(problems) // 2] for name in DISTANCES}
    return {name: np.array(values) for name, values in rows.items()}, ranked


def table(rows: dict[str, Counts], ranked: dict[str, list[int]]) -> list[dict[str, object]]:
    """Shares with intervals, and the difference of each arm to random choice of as many."""
    lines = []
    for name, counts in rows.items():
        line: dict[str, object] = {"arm": name, "wrong": interval(counts)}
        line["more than at random, in points"] = (
            "" if name in ("all", "random") else difference(counts, rows["random"])
        )
        first = ranked.get(name)
        line["wrong among the half ranked first"] = interval(counts[first]) if first else ""
        lines.append(line)
    return lines


def interval(counts: Counts) -> str:
    """A share in percent with its interval."""
    low, high = percentile_ends(_resampled(counts), 0.95)
    return f"{100 * _share(counts):.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def difference(counts: Counts, other: Counts) -> str:
    """A paired difference of shares in points with its interval."""
    low, high = percentile_ends(_resampled(counts) - _resampled(other), 0.95)
    return f"{100 * (_share(counts) - _share(other)):+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def _share(counts: Counts) -> float:
    wrong, chosen = counts.sum(axis=0)
    return float(wrong / chosen)


def _resampled(counts: Counts) -> Counts:
    blocks = [weights @ counts for weights in resample_weights(len(counts), RESAMPLES, seed=0)]
    sums = np.concatenate(blocks)
    return np.asarray(sums[:, 0] / sums[:, 1])


def by_majority(
    problems: Sequence[tuple[Problem, tuple[bool, ...]]],
) -> list[dict[str, object]]:
    """What going by the most frequent answer keeps, without looking at the marks."""
    kept: list[tuple[float, float]] = []
    lost = right_ones = without = 0
    with closing(AnswerChecker()) as checker:
        for problem, right in problems:
            bare = Problem(problem.problem, problem.solutions)
            found = checker.check(bare)
            without += not found.majority
            stays = [agrees is True for agrees in found.agrees]
            wrong = sum(stay and not one for stay, one in zip(stays, right, strict=True))
            kept.append((wrong, sum(stays)))
            lost += sum(one and not stay for stay, one in zip(stays, right, strict=True))
            right_ones += sum(right)
    return [
        {
            "rule": "--answers majority",
            "wrong among what it keeps": interval(np.array(kept)),
            "right solutions lost": f"{100 * lost / max(1, right_ones):.1f} %",
            "problems without a majority": without,
        }
    ]


if __name__ == "__main__":
    main()
