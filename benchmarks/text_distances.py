"""`pieces` and `combined` beside the others, what each part is worth, how it was chosen.

    python benchmarks/text_distances.py [--data FOLDER] [--vectors FILE]

Prints the tables of the first half of `docs/distances.md`: AUROC on the three labelled sets with
intervals, paired differences, what is gained on each set over plain chunk embeddings, the ablation,
what a held-out problem loses by the choice of the share of methods and of the number of pieces, and
false alarms on long traces. How well distances
pick is `picks.py`, what was tried on given steps `distances.py`.
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # before numpy loads its BLAS

import argparse
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from labelled_sets import DATA, VECTORS, Case, KeptVectors, read_sets, with_pieces
from machine import markdown

from rpd_datasets.judging.auroc import (
    Floats,
    Wins,
    count_wins,
    estimate,
    pooled_auroc,
    resamples,
    within_auroc,
)
from rpd_metric.distance.distances import load_distance
from rpd_metric.distance.evidence import Evidence, cosine_distances
from rpd_metric.distance.strategy import (
    METHODS_SHARE,
    TEXT_SHARE,
    average_linkage,
    both_ways,
    step_distances,
    without_statement,
)
from rpd_metric.metrics.matrices import MOST_PIECES, piece_texts
from rpd_metric.models.kinds import load_embedder

Array = Any
Scores = dict[str, list[Array]]

SHORT = ("dev", "train")
SHARES = (0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.5)
COUNTS = (3, 4, 6, 8, 12, 24)
FOLDS = 5
CHUNKS = "mean of all chunks"
AGAINST_CHUNKS = ("`pieces`", "`combined`, extractive steps", "`combined`, LLM steps")
ALARMED = ("`pieces`", "`rpd`, LLM steps", "`strategy`, LLM steps", "`combined`, LLM steps")
# The share of same-strategy pairs of dev and train that is let pass as different.
ALARMS = 0.1


@dataclass(frozen=True)
class Text:
    """`pieces` with a part changed.

    Args:
        methods (`float`): Their share.
        nearest (`bool`): Pieces find their nearest one; otherwise their means are compared.
        statement (`bool`): Its direction is taken out.
        linked (`bool`): Half of the result is average linkage.
    """

    methods: float = METHODS_SHARE
    nearest: bool = True
    statement: bool = True
    linked: bool = True

    def __call__(self, evidence: Evidence) -> Array:
        """The distances of one problem."""
        return self.mixed(self.near(evidence), named(evidence))

    def mixed(self, near: Array, methods: Array) -> Array:
        """The same of its two parts."""
        found = self.methods * methods + (1 - self.methods) * near
        return (found + average_linkage(found)) / 2 if self.linked else found

    def near(self, evidence: Evidence) -> Array:
        """How far apart the pieces are."""
        given = evidence.vectors["pieces"]
        vectors = without_statement(evidence, given) if self.statement else given
        if self.nearest:
            return both_ways(evidence.texts["pieces"], [np.asarray(v, float) for v in vectors])
        return cosine_distances(np.stack([rows.mean(axis=0) for rows in vectors]))


def named(evidence: Evidence) -> Array:
    """The distance of the methods that the texts name."""
    methods = np.concatenate(evidence.vectors["methods"])
    found = cosine_distances(methods)
    found[(methods[:, None] == methods).all(axis=2)] = 0
    return found


def combined_with_statement(evidence: Evidence) -> Array:
    """`combined`, the steps' direction along the statement kept."""
    steps = step_distances(evidence.texts["steps"], evidence.vectors["steps"])
    found = (1 - TEXT_SHARE) * steps + TEXT_SHARE * Text(linked=False)(evidence)
    return (found + average_linkage(found)) / 2


TABLE: Mapping[str, tuple[str, Callable[[Evidence], Array]]] = {
    "`pieces`": ("", load_distance("pieces")),
    "mean of the pieces, statement out": ("", Text(methods=0, nearest=False, linked=False)),
    "mean of the pieces": ("", Text(0, nearest=False, statement=False, linked=False)),
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
ABLATION: Mapping[str, Callable[[Evidence], Array]] = {
    "without linkage": Text(linked=False),
    "without methods": Text(methods=0),
    "methods half instead of a quarter": Text(methods=0.5),
    "methods alone": Text(methods=1),
    "the statement's direction kept": Text(statement=False),
    "the mean of all pieces instead of the nearest ones": Text(nearest=False),
}


class Sets:
    """The labelled sets with resamples of their problems.

    Args:
        cases (`dict`): By set, its problems.
        num_bootstrap (`int`): Resamples.
        seed (`int`): Of the resamples.
    """

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
        return self.measure(lambda case: distance(case.evidence[source]))

    def measure(self, distance: Callable[[Case], Array]) -> Scores:
        """The same of a distance that is given the whole case."""
        result = {}
        for name, found in self.cases.items():
            matrices = [(case, distance(case)) for case in found]
            result[name] = [
                np.array([matrix[i, j] for i, j, _ in case.labels.pairs()])
                for case, matrix in matrices
            ]
        return result

    def aurocs(self, scores: Scores) -> dict[str, Any]:
        """By set, pooled and within, on the problems as they are and on every resample."""
        return self.aurocs_of(self.wins(scores), self.weights)

    def wins(self, scores: Scores) -> dict[str, Wins]:
        """By set, the comparisons that AUROCs are made of."""
        return {name: count_wins(scores[name], self.labels[name]) for name in self.cases}

    def aurocs_of(
        self, wins: Mapping[str, Wins], weights: Mapping[str, Floats]
    ) -> dict[str, dict[str, Floats]]:
        """By set, pooled and within, for every row of weights."""
        return {
            name: {
                "pooled": pooled_auroc(found, weights[name]),
                "within": within_auroc(found, weights[name]),
            }
            for name, found in wins.items()
        }


def averaged(aurocs: dict[str, Any], measure: str, names: Sequence[str] = SHORT) -> Floats:
    """The mean of a measure over sets, resample by resample."""
    return np.mean([aurocs[name][measure] for name in names], axis=0)


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


def chunk_scores(sets: Sets, encoder: KeptVectors) -> Scores:
    """Plain chunk embeddings: the mean of the text in chunks of 40 words, at most 24 of them."""
    mean = Text(methods=0, nearest=False, statement=False, linked=False)
    most = max(COUNTS)
    cases = list(itertools.chain(*sets.cases.values()))
    encoder.encode(
        [p for case in cases for t in case.row["solutions"] for p in piece_texts(t, most)]
    )
    return sets.measure(lambda case: mean(with_pieces(case, most, encoder)))


def difference(
    one: dict[str, Any], other: dict[str, Any], names: Sequence[str] = SHORT
) -> dict[str, object]:
    """Pooled and within, averaged over sets (dev and train), paired by problem."""
    return {
        measure: format(
            estimate(averaged(one, measure, names) - averaged(other, measure, names)), "+.3f"
        )
        for measure in ("pooled", "within")
    }


def print_gain_over_chunks(sets: Sets, aurocs: Mapping[str, dict[str, Any]]) -> None:
    """Set by set, what the default distances have more than plain chunk embeddings."""
    rows = []
    for distance in AGAINST_CHUNKS:
        for name in sets.cases:
            gain = difference(aurocs[distance], aurocs[CHUNKS], (name,))
            rows.append({f"minus the {CHUNKS}": distance, "set": name, **gain})
    print(markdown(rows), "\n")


def tried(sets: Sets, encoder: KeptVectors) -> dict[tuple[float, int], Scores]:
    """The distances for every share of methods and every number of pieces."""
    cases = list(itertools.chain(*sets.cases.values()))
    encoder.encode(
        [
            piece
            for case, most in itertools.product(cases, COUNTS)
            for text in case.row["solutions"]
            for piece in piece_texts(text, most)
        ]
    )
    methods = {id(case): named(case.evidence[""]) for case in cases}
    grid = {}
    for most in COUNTS:
        near = {id(case): Text().near(with_pieces(case, most, encoder)) for case in cases}
        for share in SHARES:
            mixed = Text(methods=share).mixed
            grid[share, most] = sets.measure(
                lambda case, mixed=mixed, near=near: mixed(near[id(case)], methods[id(case)])
            )
    return grid


def print_grid(sets: Sets, grid: Mapping[tuple[float, int], Scores]) -> None:
    """Pooled and within on average of dev and train, by share of methods and number of pieces."""
    rows = []
    for share in SHARES:
        row: dict[str, object] = {"methods' share": share}
        for count in COUNTS:
            found = sets.aurocs(grid[share, count])
            row[f"{count} pieces"] = " / ".join(
                f"{averaged(found, measure)[0]:.3f}" for measure in ("pooled", "within")
            )
        rows.append(row)
    print(markdown(rows), "\n")


def print_cross_validation(sets: Sets, grid: Mapping[tuple[float, int], Scores], seed: int) -> None:
    """Choose share and number on four fifths of the problems, score the last fifth with them."""
    rows = []
    for judged in (SHORT, tuple(sets.cases)):
        held_out, chosen = cross_validated(sets, grid, judged, seed)
        found = sets.aurocs(held_out)
        shipped = sets.aurocs(ranks(sets, grid[METHODS_SHARE, MOST_PIECES], seed))
        rows.append(
            {
                "chosen on": ", ".join(judged),
                "chosen (share, pieces)": "; ".join(f"{s}, {n}" for s, n in chosen),
                "held out, pooled / within": " / ".join(
                    f"{averaged(found, measure)[0]:.3f}" for measure in ("pooled", "within")
                ),
                **{f"minus shipped, {k}": v for k, v in difference(found, shipped).items()},
            }
        )
    print(markdown(rows), "\n")


def folds(sets: Sets, seed: int) -> dict[str, Array]:
    """By set, the fold of each problem."""
    rng = np.random.default_rng(seed)
    return {name: rng.permutation(len(found)) % FOLDS for name, found in sets.cases.items()}


def cross_validated(
    sets: Sets, grid: Mapping[tuple[float, int], Scores], judged: Sequence[str], seed: int
) -> tuple[Scores, list[tuple[float, int]]]:
    """Held-out distances, as ranks among the other problems', and the choice of each fold."""
    fold_of = folds(sets, seed)
    held_out: Scores = {name: [np.zeros(0)] * len(found) for name, found in sets.cases.items()}
    wins = {choice: sets.wins(scores) for choice, scores in grid.items()}
    chosen = []
    for fold in range(FOLDS):
        kept = {name: (of != fold)[None].astype(float) for name, of in fold_of.items()}

        def worth(choice: tuple[float, int], kept: Mapping[str, Floats] = kept) -> float:
            found = sets.aurocs_of(wins[choice], kept)
            return float(sum(averaged(found, m, judged)[0] for m in ("pooled", "within")))

        best = max(grid, key=worth)
        chosen.append(best)
        for name, of in fold_of.items():
            _rank(grid[best][name], of != fold, held_out[name])
    return held_out, chosen


def ranks(sets: Sets, scores: Scores, seed: int) -> Scores:
    """One choice for all folds, treated as the chosen ones are."""
    result: Scores = {name: [np.zeros(0)] * len(found) for name, found in sets.cases.items()}
    for name, of in folds(sets, seed).items():
        for fold in range(FOLDS):
            _rank(scores[name], of != fold, result[name])
    return result


def _rank(scores: Sequence[Array], kept: Array, into: list[Array]) -> None:
    """Distances of the problems that are not kept, as ranks among those of the kept ones."""
    known = np.sort(np.concatenate([scores[place] for place in np.flatnonzero(kept)]))
    for place in np.flatnonzero(~kept):
        into[place] = np.searchsorted(known, scores[place]) / len(known)


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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--vectors", type=Path, default=VECTORS, help="keeps them between runs")
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--limit", type=int, help="problems of each set")
    parser.add_argument("--num-bootstrap", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    encoder = KeptVectors(load_embedder(args.embedder), args.vectors)
    sets = Sets(read_sets(args.data, encoder, args.limit), args.num_bootstrap, args.seed)
    scores = {name: sets.scores(source, one) for name, (source, one) in TABLE.items()}
    scores[CHUNKS] = chunk_scores(sets, encoder)
    aurocs = {name: sets.aurocs(found) for name, found in scores.items()}
    print(f"{encoder.name}, float32, {args.num_bootstrap} resamples, seed {args.seed}.\n")
    print_table(sets, aurocs)
    print(
        markdown(
            [
                {"difference": f"{a} - {b}", **difference(aurocs[a], aurocs[b])}
                for a, b in DIFFERENCES
            ]
        ),
        "\n",
    )
    print_gain_over_chunks(sets, aurocs)
    whole = aurocs["`pieces`"]
    changes = {name: sets.aurocs(sets.scores("", one)) for name, one in ABLATION.items()}
    rows = [{"`pieces`": name, **difference(found, whole)} for name, found in changes.items()]
    print(markdown(rows), "\n")
    kept = sets.aurocs(sets.scores("LLM", combined_with_statement))
    rows = [
        {"`combined`": "the statement's direction kept"}
        | difference(kept, aurocs["`combined`, LLM steps"])
    ]
    print(markdown(rows), "\n")
    print_alarms(sets, scores)
    grid = tried(sets, encoder)
    print_grid(sets, grid)
    print_cross_validation(sets, grid, args.seed)


if __name__ == "__main__":
    main()
