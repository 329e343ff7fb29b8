"""`pieces` and `combined` beside the other distances, on the labelled sets.

    python benchmarks/text_distances.py [--data FOLDER] [--vectors FILE]

Prints the tables of `docs/distances.md` that a change of a distance changes: AUROC on the three
labelled sets with intervals, paired differences, and false alarms on long traces. How well
distances pick is `picks.py`. What each part is worth, and how shares and numbers were chosen, was
measured once and stands on that page.
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # before numpy loads its BLAS

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from labelled_sets import Case, KeptVectors, parser_of, read_sets
from machine import markdown

from rpd_datasets.judging.auroc import (
    Floats,
    count_wins,
    estimate,
    pooled_auroc,
    resamples,
    within_auroc,
)
from rpd_metric.distance.distances import load_distance
from rpd_metric.distance.evidence import Evidence, cosine_distances
from rpd_metric.distance.strategy import without_statement
from rpd_metric.models.kinds import load_embedder

Array = Any
Scores = dict[str, list[Array]]

SHORT = ("dev", "train")
ALARMED = ("`pieces`", "`rpd`, LLM steps", "`strategy`, LLM steps", "`combined`, LLM steps")
# The share of same-strategy pairs of dev and train that is let pass as different.
ALARMS = 0.1


def mean_of_pieces(evidence: Evidence, *, statement: bool = True) -> Array:
    """How far apart the means of the pieces are, the statement's direction taken out or not."""
    given = evidence.vectors["pieces"]
    vectors = given if statement else without_statement(evidence, given)
    return cosine_distances(np.stack([rows.mean(axis=0) for rows in vectors]))


TABLE: Mapping[str, tuple[str, Callable[[Evidence], Array]]] = {
    "`pieces`": ("", load_distance("pieces")),
    "mean of the pieces, statement out": ("", partial(mean_of_pieces, statement=False)),
    "mean of the pieces": ("", mean_of_pieces),
    **{
        f"`{name}`, {source} steps": (source, load_distance(name))
        for source in ("extractive", "LLM")
        for name in ("rpd", "strategy", "combined")
    },
}
DIFFERENCES = (
    ("`pieces`", "mean of the pieces"),
    ("`pieces`", "`rpd`, extractive steps"),
    ("`pieces`", "`rpd`, LLM steps"),
    ("`combined`, LLM steps", "`rpd`, LLM steps"),
    ("`combined`, LLM steps", "`strategy`, LLM steps"),
    ("`combined`, LLM steps", "`pieces`"),
)


class Sets:
    """The labelled sets with resamples of their problems."""

    def __init__(self, cases: dict[str, list[Case]], num_bootstrap: int, seed: int) -> None:
        self.cases = cases
        self.labels = {
            name: [np.array([y for _, _, y in case.labels.pairs()], bool) for case in found]
            for name, found in cases.items()
        }
        self.weights = {
            name: resamples(len(found), num_bootstrap, seed) for name, found in cases.items()
        }

    def scores(self, source: str, distance: Callable[[Evidence], Array]) -> Scores:
        """By set, per problem, the distances of the labelled pairs."""
        return {
            name: [
                np.array([matrix[i, j] for i, j, _ in case.labels.pairs()])
                for case, matrix in ((case, distance(case.evidence[source])) for case in found)
            ]
            for name, found in self.cases.items()
        }

    def aurocs(self, scores: Scores) -> dict[str, Any]:
        """By set, pooled and within, on the problems as they are and on every resample."""
        found = {}
        for name, weights in self.weights.items():
            wins = count_wins(scores[name], self.labels[name])
            found[name] = {
                "pooled": pooled_auroc(wins, weights),
                "within": within_auroc(wins, weights),
            }
        return found


def averaged(aurocs: dict[str, Any], measure: str) -> Floats:
    """The mean of a measure over dev and train, resample by resample."""
    return np.mean([aurocs[name][measure] for name in SHORT], axis=0)


def print_table(sets: Sets, aurocs: Mapping[str, dict[str, Any]]) -> None:
    """AUROC of every distance on every set."""
    rows = []
    for distance, found in aurocs.items():
        row: dict[str, object] = {"distance": distance}
        for name in sets.cases:
            for measure in ("pooled", "within"):
                row[f"{name} {measure}"] = f"{estimate(found[name][measure])}"
        for measure in ("pooled", "within"):
            row[f"dev and train {measure}"] = f"{averaged(found, measure)[0]:.3f}"
        rows.append(row)
    print(markdown(rows), "\n")


def difference(one: dict[str, Any], other: dict[str, Any]) -> dict[str, object]:
    """Pooled and within, averaged over dev and train, paired by problem."""
    return {
        measure: format(estimate(averaged(one, measure) - averaged(other, measure)), "+.3f")
        for measure in ("pooled", "within")
    }


def print_alarms(sets: Sets, scores: Mapping[str, Scores]) -> None:
    """What the distances that 10 % of the short same pairs exceed make of the long traces."""
    rows = []
    for distance in ALARMED:
        pairs = {
            name: (np.concatenate(scores[distance][name]), np.concatenate(sets.labels[name]))
            for name in sets.cases
        }
        short = np.concatenate([pairs[name][0][~pairs[name][1]] for name in SHORT])
        limit = np.quantile(short, 1 - ALARMS)
        values, different = pairs["long"]
        means = " / ".join(f"{pairs[name][0][~pairs[name][1]].mean():.2f}" for name in sets.cases)
        rows.append(
            {
                "distance": distance,
                f"mean of same pairs, {' / '.join(sets.cases)}": means,
                "limit": f"{limit:.3f}",
                "long, differing seen": f"{(values[different] > limit).sum()} of {different.sum()}",
                "long, false alarms": f"{(values[~different] > limit).mean():.1%}",
            }
        )
    print(markdown(rows), "\n")


def main() -> None:
    """Measure and print."""
    args = parser_of(__doc__).parse_args()
    encoder = KeptVectors(load_embedder("minilm"), args.vectors)
    sets = Sets(read_sets(args.data, encoder, args.limit), args.num_bootstrap, args.seed)
    scores = {name: sets.scores(source, one) for name, (source, one) in TABLE.items()}
    aurocs = {name: sets.aurocs(found) for name, found in scores.items()}
    print(f"{encoder.name}, float32, {args.num_bootstrap} resamples, seed {args.seed}.\n")
    print_table(sets, aurocs)
    rows = [
        {"difference": f"{a} - {b}", **difference(aurocs[a], aurocs[b])} for a, b in DIFFERENCES
    ]
    print(markdown(rows), "\n")
    print_alarms(sets, scores)


if __name__ == "__main__":
    main()
