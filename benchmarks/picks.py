"""Does better sight pick better sets? Pairs, triples, problems, and how many wrong answers.

    python benchmarks/picks.py [--data FOLDER] [--vectors FILE]

For every distance on the labelled sets: how often the most distant pair differs in strategy and
three picked solutions hold as many strategies as they can; how well problems are ranked by Eq. 3;
and on problems with right and wrong solutions the share of wrong ones among three. Three are picked
by max-min, as curation does, and as the medoids of groups that average linkage makes.
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # before numpy loads its BLAS

import argparse
import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from labelled_sets import (
    DATA,
    VECTORS,
    Case,
    KeptVectors,
    evidence_of,
    name_of,
    read_rows,
    read_sets,
    texts_of,
)
from machine import markdown
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from scipy.stats import rankdata

from rpd_datasets.judging.auroc import Floats, estimate, resamples, weighted_mean
from rpd_datasets.select import select_solutions
from rpd_metric.distance.calibration import Calibration, calibration
from rpd_metric.distance.core import problem_score
from rpd_metric.distance.distances import load_distance
from rpd_metric.distance.evidence import Evidence
from rpd_metric.models.kinds import load_embedder

Array = Any
Picks = Callable[[Array, Calibration | None], list[int]]

PICKED = 3
TOP = 30
MIXED = "multi_solution/candidates.jsonl"
LISTS = ("solutions", "correct")
# Problems with right and wrong solutions that are drawn, and solutions of each.
NUM_MIXED = 40
MOST_MIXED = 8
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


def maxmin(matrix: Array, _curve: Calibration | None) -> list[int]:
    """What curation does."""
    return select_solutions(matrix, PICKED)


def medoids_of_three(matrix: Array, _curve: Calibration | None) -> list[int]:
    """Three groups by average linkage, whatever the distances; the medoid of each."""
    return _picked(matrix, lambda tree: fcluster(tree, PICKED, criterion="maxclust"))


def medoids_of_strategies(matrix: Array, curve: Calibration | None) -> list[int]:
    """Groups as far apart as makes another strategy as likely as not; the largest groups' medoids.

    That is at 0.5 where no curve was fitted. Where there are fewer than three groups, the rest is
    picked by max-min.
    """
    limit = 0.5 if curve is None else -curve.intercept / curve.slope
    return _picked(matrix, lambda tree: fcluster(tree, limit, criterion="distance"))


SELECTIONS: Mapping[str, Picks] = {
    "max-min": maxmin,
    "medoids of three groups": medoids_of_three,
    "medoids of strategies": medoids_of_strategies,
}


def _picked(matrix: Array, cut: Callable[[Array], Array]) -> list[int]:
    usable = np.flatnonzero(~np.isnan(np.diagonal(matrix)))
    distances = np.asarray(matrix)[np.ix_(usable, usable)]
    if len(usable) <= PICKED:
        return [int(index) for index in usable]
    groups = cut(linkage(squareform(distances, checks=False), "average"))
    members = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    members.sort(key=lambda found: (-len(found), found[0]))
    chosen = [
        int(found[distances[np.ix_(found, found)].sum(axis=1).argmin()])
        for found in members[:PICKED]
    ]
    while len(chosen) < PICKED:
        nearest = distances[chosen].min(axis=0)
        nearest[chosen] = -1
        chosen.append(int(nearest.argmax()))
    return [int(usable[index]) for index in chosen]


def curve_of(source: str, distance: str) -> Calibration | None:
    """The packaged curve of a distance."""
    return calibration(distance, "minilm", chat=source == "LLM")


class Problems:
    """One labelled set: what each distance makes of it.

    Args:
        cases (`Sequence` of [`Case`]): Its problems.
        num_bootstrap (`int`): Resamples.
        seed (`int`): Of the resamples, and of picks by chance.
    """

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

    def triples(self, method: tuple[str, str], pick: Picks) -> list[float]:
        """Per problem, whether three picks hold all the strategies they can; NaN where any do."""
        return [
            float(case.labels.complete(pick(matrix, curve_of(*method)), PICKED))
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
        triples = {one: problems.mean(problems.triples(one, maxmin)) for one in METHODS}
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


def print_groups(sets: Mapping[str, Problems]) -> None:
    """Triples by the medoids of groups, minus those by max-min."""
    rows = []
    for method in METHODS:
        for name, problems in sets.items():
            base = problems.mean(problems.triples(method, maxmin))
            row: dict[str, object] = {"distance": name_of(*method), "set": name}
            row["triples, max-min"] = f"{estimate(base)}"
            for selection, pick in list(SELECTIONS.items())[1:]:
                found = problems.mean(problems.triples(method, pick))
                row[f"{selection} - max-min"] = format(estimate(found - base), "+.3f")
            rows.append(row)
    print(markdown(rows), "\n")


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


def mixed_rows(folder: Path, count: int, seed: int) -> list[dict[str, Any]]:
    """A draw of problems with wrong solutions and at least as many right ones as are picked.

    Of each problem up to `MOST_MIXED` solutions are drawn, which also shuffles them: ties go to the
    lowest index, and the file's first ones are right more often than its last.
    """
    draw = random.Random(seed)
    rows = read_rows(folder / MIXED)
    found: list[dict[str, Any]] = []
    for row in draw.sample(rows, len(rows)):
        size = len(row["correct"])
        order = draw.sample(range(size), min(size, MOST_MIXED))
        drawn = {**row, **{name: [row[name][place] for place in order] for name in LISTS}}
        if len(found) < count and sum(drawn["correct"]) >= PICKED and not all(drawn["correct"]):
            found.append(drawn)
    return found


def print_wrong(
    rows: Sequence[dict[str, Any]], evidence: Sequence[dict[str, Evidence]], weights: Floats
) -> None:
    """The share of wrong solutions among those picked, beside their share of all."""
    all_wrong = weighted_mean([1 - np.mean(row["correct"]) for row in rows], weights)
    table: list[dict[str, object]] = []
    for source, distance in METHODS:
        if any(source not in found for found in evidence):
            continue
        line: dict[str, object] = {"distance": name_of(source, distance)}
        matrices = [load_distance(distance)(found[source]) for found in evidence]
        for name, pick in SELECTIONS.items():
            curve = curve_of(source, distance)
            picked = [
                1 - np.mean([row["correct"][index] for index in pick(matrix, curve)])
                for row, matrix in zip(rows, matrices, strict=True)
            ]
            drawn = weighted_mean(picked, weights)
            line[f"wrong, {name}"] = f"{estimate(drawn)}"
            line[f"{name} - all"] = format(estimate(drawn - all_wrong), "+.3f")
        table.append(line)
    print(
        f"{len(rows)} problems, {sum(len(row['correct']) for row in rows)} solutions, "
        f"wrong on average {estimate(all_wrong)}.\n"
    )
    print(markdown(table), "\n")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--vectors", type=Path, default=VECTORS, help="keeps them between runs")
    parser.add_argument("--limit", type=int, help="problems of each set")
    parser.add_argument("--num-bootstrap", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    encoder = KeptVectors(load_embedder("minilm"), args.vectors)
    sets = {
        name: Problems(cases, args.num_bootstrap, args.seed)
        for name, cases in read_sets(args.data, encoder, args.limit).items()
    }
    print_picks(sets)
    print_groups({name: problems for name, problems in sets.items() if name != "long"})
    print_ranking(sets)
    rows = mixed_rows(args.data, args.limit or NUM_MIXED, args.seed)
    encoder.encode([text for row in rows for text in texts_of(row)])
    evidence = [evidence_of(row, encoder) for row in rows]
    print_wrong(rows, evidence, resamples(len(rows), args.num_bootstrap, args.seed))


if __name__ == "__main__":
    main()
