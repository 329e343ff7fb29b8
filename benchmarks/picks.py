"""Does better sight pick better sets? Pairs, triples and problems.

    python benchmarks/picks.py [--data FOLDER] [--vectors FILE]

For every distance on the labelled sets: how often the most distant pair differs in strategy and
three solutions, picked by max-min as curation does, hold as many strategies as they can; and how
well problems are ranked by Eq. 3. Picking the medoids of groups, and the share of wrong answers
among what is picked, were measured once and stand in `docs/distances.md`.
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # before numpy loads its BLAS

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from labelled_sets import Case, KeptVectors, name_of, parser_of, read_sets
from machine import markdown
from scipy.stats import rankdata

from rpd_datasets.judging.auroc import Floats, estimate, resamples, weighted_mean
from rpd_datasets.select import select_solutions
from rpd_metric.distance.core import problem_score
from rpd_metric.distance.distances import load_distance
from rpd_metric.models.kinds import load_embedder

Array = Any

PICKED = 3
TOP = 30
METHODS = (
    ("", "pieces"),
    ("extractive", "rpd"),
    ("extractive", "strategy"),
    ("extractive", "combined"),
    ("LLM", "rpd"),
    ("LLM", "strategy"),
    ("LLM", "combined"),
)
RPD = ("LLM", "rpd")


class Problems:
    """One labelled set: what each distance makes of it."""

    def __init__(self, cases: Sequence[Case], num_bootstrap: int, seed: int) -> None:
        self.cases = cases
        self.weights = resamples(len(cases), num_bootstrap, seed)
        self.several = np.array(
            [any(different for _, _, different in case.labels.pairs()) for case in cases], float
        )
        self.matrices = {
            (source, distance): [load_distance(distance)(case.evidence[source]) for case in cases]
            for source, distance in METHODS
        }

    def mean(self, values: Sequence[float] | Array) -> Floats:
        """The mean over problems, in every resample; problems with NaN do not count."""
        return weighted_mean(values, self.weights)

    def success(self, method: tuple[str, str]) -> list[float]:
        """Per problem, whether the most distant pair differs in strategy."""
        found = []
        for case, matrix in zip(self.cases, self.matrices[method], strict=True):
            first, second = np.triu_indices(len(matrix), 1)
            best = int(np.nanargmax(matrix[first, second]))
            found.append(float(case.labels.different(first[best], second[best]) is True))
        return found

    def triples(self, method: tuple[str, str]) -> list[float]:
        """Per problem, whether three picks hold all the strategies they can; NaN where any do."""
        return [
            float(case.labels.complete(select_solutions(matrix, PICKED), PICKED))
            if case.labels.choice_matters(PICKED)
            else np.nan
            for case, matrix in zip(self.cases, self.matrices[method], strict=True)
        ]

    def success_by_chance(self) -> list[float]:
        """The share of a problem's pairs that differ."""
        return [
            sum(different for _, _, different in case.labels.pairs())
            / math.comb(len(case.row["solutions"]), 2)
            for case in self.cases
        ]

    def triples_at_best(self) -> list[float]:
        """1 where the choice matters, NaN elsewhere."""
        return [1.0 if case.labels.choice_matters(PICKED) else np.nan for case in self.cases]

    def triples_by_chance(self) -> list[float]:
        """The same for three picks by chance: the share of all triples."""
        return [
            float(
                np.mean(
                    [
                        case.labels.complete(three, PICKED)
                        for three in itertools.combinations(range(len(case.row["solutions"])), 3)
                    ]
                )
            )
            if case.labels.choice_matters(PICKED)
            else np.nan
            for case in self.cases
        ]

    def ranking(self, method: tuple[str, str]) -> tuple[Floats, Floats]:
        """Problems with several strategies among the top ones, and AUROC, in every resample."""
        scores = np.array([problem_score(matrix) for matrix in self.matrices[method]], dtype=float)
        several = self.several.astype(bool)
        top, auroc = [], []
        for row in self.weights:
            drawn = np.repeat(np.arange(len(scores)), row.astype(int))
            order = np.argsort(-scores[drawn], kind="stable")
            top.append(several[drawn][order[:TOP]].sum())
            ranks = rankdata(scores[drawn])[several[drawn]]
            n, m = len(ranks), len(drawn) - len(ranks)
            auroc.append((ranks.sum() - n * (n + 1) / 2) / (n * m) if n and m else np.nan)
        return np.array(top, dtype=float), np.array(auroc)


def print_picks(sets: Mapping[str, Problems]) -> None:
    """Pairs and triples of every distance, and what they have more than RPD on LLM steps."""
    rows = []
    for name, problems in sets.items():
        pairs = {one: problems.mean(problems.success(one)) for one in METHODS}
        triples = {one: problems.mean(problems.triples(one)) for one in METHODS}
        for method in METHODS:
            row: dict[str, object] = {"set": name, "distance": name_of(*method)}
            for measure, found in (("most distant pair differs", pairs), ("triples", triples)):
                row[measure] = f"{estimate(found[method])}"
                gain = estimate(found[method] - found[RPD])
                row[f"{measure}, - RPD's"] = "" if method == RPD else format(gain, "+.3f")
            rows.append(row)
        for words, pair, three in (
            ("by chance", problems.success_by_chance(), problems.triples_by_chance()),
            ("at best", problems.several, problems.triples_at_best()),
        ):
            row = {"set": name, "distance": words}
            for measure, values in (("most distant pair differs", pair), ("triples", three)):
                row[measure] = f"{estimate(problems.mean(values))}"
                row[f"{measure}, - RPD's"] = ""
            rows.append(row)
    print(markdown(rows), "\n")
    for name, problems in sets.items():
        print(
            f"{name}: {int(problems.several.sum())} of {len(problems.cases)} problems have several "
            f"strategies; in {int(np.isfinite(problems.triples_at_best()).sum())} the choice of "
            f"{PICKED} matters."
        )
    print()


def print_ranking(sets: Mapping[str, Problems]) -> None:
    """How well each distance ranks problems, and its difference to RPD on LLM steps.

    The top ones are counted where the set has at least twice as many problems.
    """
    rows = []
    for name, problems in sets.items():
        drawn = {method: problems.ranking(method) for method in METHODS}
        many = len(problems.cases) >= 2 * TOP
        for method, (top, auroc) in drawn.items():
            others_top, others_auroc = drawn[RPD]
            rows.append(
                {
                    "set": name,
                    "distance": name_of(*method),
                    f"of the top {TOP}": format(estimate(top), ".0f") if many else "",
                    "top - RPD's": format(estimate(top - others_top), "+.0f") if many else "",
                    "AUROC": f"{estimate(auroc)}",
                    "AUROC - RPD's": format(estimate(auroc - others_auroc), "+.3f"),
                }
            )
        if many:
            expected = f"{TOP * problems.several.mean():.1f}"
            empty = {"top - RPD's": "", "AUROC": "0.500", "AUROC - RPD's": ""}
            rows.append(
                {"set": name, "distance": "by chance", f"of the top {TOP}": expected} | empty
            )
    print(markdown(rows), "\n")


def main() -> None:
    """Measure and print."""
    args = parser_of(__doc__).parse_args()
    encoder = KeptVectors(load_embedder("minilm"), args.vectors)
    sets = {
        name: Problems(cases, args.num_bootstrap, args.seed)
        for name, cases in read_sets(args.data, encoder, args.limit).items()
    }
    print_picks(sets)
    print_ranking(sets)


if __name__ == "__main__":
    main()
