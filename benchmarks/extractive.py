"""How well do steps without a language model tell strategies apart?

    python benchmarks/extractive.py ../shared/data/strategy_bench/dev.jsonl

Each line of the file is a problem with `problem`, `solutions`, and two independent passes of
strategy labels, `strategy_a` and `strategy_b`; `steps` (LLM summaries) is optional. Pairs of
solutions on which the passes agree are scored by RPD (`ties="mean"`): does the distance put pairs
of different strategies above pairs of one strategy?

- `pooled`: AUROC over all pairs of all problems, with a 95 % bootstrap interval over problems.
- `within`: AUROC inside each problem that has pairs of both kinds, averaged over problems.
- `extractive, cross-validated`: for each fold of problems, the options that did best on the
  other folds. What it cannot undo: the vocabulary's false hits were corrected while looking at
  problems of this very file.

What was tried on the 42 problems of that file (MiniLM; pooled / within; differences under 0.02
are noise, the standard error of a pooled figure being about 0.035):

    LLM summaries                                                   0.89 / 0.89
    the solution as one text                                        0.70 / 0.71
    every sentence                                                  0.75 / 0.73
    every sentence, formulas replaced by words for the operation    0.68 / 0.68
    3, 5 or 8 sentences with the rarest methods              0.69 - 0.73 / 0.73 - 0.76
    one sentence and its methods from each of 3 to 5 equal phases   0.71 / 0.72
    the methods alone of each of 3 to 5 equal phases         0.64 - 0.72 / 0.63 - 0.74
    the 5 most telling methods of the whole solution, one a step    0.78 / 0.77
    the same, methods of the problem statement weighted down        0.75 / 0.74
    the same, grouped by position into 3 steps                      0.73 / 0.77
    the same, grouped by branch of mathematics                      0.73 / 0.71
    the same, each followed by the sentence it comes from           0.74 / 0.74
    3 methods, the list of 5, one excerpt                           0.79 / 0.81
    3 methods, the list of 5, three short excerpts in one step      0.81 / 0.81

On 25 other problems (123 pairs), labelled by one reader once the method was nearly settled:
0.91 / 0.78 for the last line, 0.89 / 0.74 for every sentence, 0.91 / 0.86 for one text.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import itertools
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from rpd_metric.distance.core import rpd_matrix
from rpd_metric.inference.embedders import Embedder
from rpd_metric.inference.registry import load_embedder
from rpd_metric.steps.extractive import ExtractiveOptions, ExtractiveSummarizer, working_lines

Row = dict[str, Any]
Steps = list[list[list[str]]]  # problem, solution, step
Pairs = list[tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]]  # per problem

OPTIONS = [
    ExtractiveOptions(methods=methods, combined=combined, quarters=quarters, repetition=repetition)
    for (methods, combined), quarters, repetition in itertools.product(
        [(3, 5), (4, 0)], [(0.25, 0.5, 0.75), (0.5,)], [1.0, 0.5]
    )
]


def every_sentence(_problem: str, solution: str) -> list[str]:
    """Each sentence or display line as a step."""
    return working_lines(None, solution) or [solution]


def five_segments(_problem: str, solution: str) -> list[str]:
    """Five contiguous segments of about the same number of words."""
    words = solution.split()
    bounds = [round(part * len(words) / 5) for part in range(6)]
    return [" ".join(words[a:b]) for a, b in itertools.pairwise(bounds) if a < b] or [solution]


def first_sentences(_problem: str, solution: str) -> list[str]:
    """The opening sentence of each of five equal parts."""
    lines = every_sentence(_problem, solution)
    starts = sorted({part * len(lines) // 5 for part in range(5)})
    return [re.sub(r"\s+", " ", lines[start]) for start in starts]


def extracted(options: ExtractiveOptions | None = None) -> Callable[[str, str], list[str]]:
    """The summarizer under test, with other options or its defaults."""
    summarizer = ExtractiveSummarizer(options)
    return lambda problem, solution: list(summarizer.steps(problem, solution).steps)


def steps_of(rows: Sequence[Row], way: Callable[[str, str], list[str]]) -> Steps:
    """Steps of every solution of every problem."""
    return [[way(row["problem"], text) for text in row["solutions"]] for row in rows]


def score(rows: Sequence[Row], steps: Steps, embedder: Embedder) -> Pairs:
    """RPD of each agreed pair, and whether the two strategies differ, problem by problem."""
    flat = [step for problem in steps for solution in problem for step in solution]
    vectors = iter(embedder.encode(flat))
    scored: Pairs = []
    for row, problem in zip(rows, steps, strict=True):
        arrays = [np.array([next(vectors) for _ in solution]) for solution in problem]
        matrix = rpd_matrix(arrays, ties="mean")
        distances, different = [], []
        for i, j in itertools.combinations(range(len(arrays)), 2):
            verdicts = {row[key][i] != row[key][j] for key in ("strategy_a", "strategy_b")}
            if len(verdicts) == 1:
                distances.append(float(matrix[i, j]))
                different.append(verdicts.pop())
        scored.append((np.array(distances), np.array(different, dtype=bool)))
    return scored


def auroc(distances: npt.NDArray[np.float64], different: npt.NDArray[np.bool_]) -> float:
    """Chance that a pair of different strategies lies further apart than one of the same."""
    positive, negative = int(different.sum()), int((~different).sum())
    if not positive or not negative:
        return float("nan")
    rank_sum = rankdata(distances)[different].sum()
    return float((rank_sum - positive * (positive + 1) / 2) / (positive * negative))


def pooled(pairs: Pairs) -> float:
    """AUROC over the pairs of all problems together."""
    return auroc(
        np.concatenate([distances for distances, _ in pairs]),
        np.concatenate([different for _, different in pairs]),
    )


def within(pairs: Pairs) -> float:
    """Mean AUROC over the problems that have pairs of both kinds."""
    values = [auroc(*pair) for pair in pairs]
    return float(np.nanmean(values))


def interval(pairs: Pairs, draws: int, seed: int) -> tuple[float, float]:
    """95 % bootstrap interval of the pooled AUROC, drawing problems."""
    generator = np.random.default_rng(seed)
    values = []
    for _ in range(draws):
        chosen = generator.integers(0, len(pairs), len(pairs))
        values.append(pooled([pairs[index] for index in chosen]))
    low, high = np.nanpercentile(values, [2.5, 97.5])
    return float(low), float(high)


def cross_validated(candidates: Sequence[Pairs], folds: int, seed: int) -> Pairs:
    """Each fold's pairs, scored by the candidate with the best pooled AUROC on the others."""
    count = len(candidates[0])
    order = np.random.default_rng(seed).permutation(count)
    result: Pairs = [candidates[0][index] for index in range(count)]
    for fold in range(folds):
        held_out = {int(index) for index in order[fold::folds]}
        best = max(
            candidates,
            key=lambda pairs: pooled([p for i, p in enumerate(pairs) if i not in held_out]),
        )
        for index in held_out:
            result[index] = best[index]
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table, or JSON with `--json`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, help="JSONL of problems with strategy labels")
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--draws", type=int, default=1000, help="bootstrap draws")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    if not args.data.is_file():
        print(f"{args.data} is not a file; pass a JSONL with strategy labels", file=sys.stderr)
        return 2
    rows = [json.loads(line) for line in args.data.read_text(encoding="utf-8").splitlines()]
    embedder = load_embedder(args.embedder)

    table: list[tuple[str, Pairs]] = []

    def add(name: str, steps: Steps) -> Pairs:
        table.append((name, score(rows, steps, embedder)))
        print(f"{len(table)} scored: {name}", file=sys.stderr)
        return table[-1][1]

    if all("steps" in row for row in rows):
        add("given summaries", [row["steps"] for row in rows])
    add("one text", steps_of(rows, lambda _problem, solution: [solution]))
    add("five segments", steps_of(rows, five_segments))
    add("first sentence of five parts", steps_of(rows, first_sentences))
    add("every sentence", steps_of(rows, every_sentence))
    five_methods = ExtractiveOptions(methods=5, combined=0, quarters=())
    add("five methods", steps_of(rows, extracted(five_methods)))
    add("extractive (default)", steps_of(rows, extracted()))
    candidates = []
    for options in OPTIONS:
        candidates.append(score(rows, steps_of(rows, extracted(options)), embedder))
        print(f"{len(candidates)} of {len(OPTIONS)} options scored", file=sys.stderr)
    table.append(
        (f"extractive, {args.folds}-fold", cross_validated(candidates, args.folds, args.seed))
    )
    spread = [pooled(pairs) for pairs in candidates]
    figures = []
    for name, pairs in table:
        low, high = interval(pairs, args.draws, args.seed)
        figures.append(
            {
                "steps": name,
                "pooled": round(pooled(pairs), 3),
                "low": round(low, 3),
                "high": round(high, 3),
                "within": round(within(pairs), 3),
            }
        )
    if args.json:
        print(
            json.dumps(
                {
                    "embedder": embedder.name,
                    "problems": len(rows),
                    "rows": figures,
                    "options_pooled": [round(value, 3) for value in spread],
                }
            )
        )
        return 0
    print(f"{len(rows)} problems, embedder {embedder.name}, seed {args.seed}")
    print(f"{'steps':32} {'pooled':>7} {'95 % interval':>16} {'within':>7}")
    for row in figures:
        span = f"{row['low']:.3f} - {row['high']:.3f}"
        print(f"{row['steps']:32} {row['pooled']:7.3f} {span:>16} {row['within']:7.3f}")
    print(f"{len(OPTIONS)} sets of options: pooled {min(spread):.3f} - {max(spread):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
