"""Which distance sees a change of strategy? What was tried beside RPD, and what it was worth.

    python benchmarks/distances.py [FILE] [--embedder SPEC] [--summarizer SPEC]

FILE holds labelled problems (`solutions`, `steps`, `strategy_a`, `strategy_b`). Every variant is
one departure from RPD, or one of the combinations at the end; it is written in a few lines
below, on embeddings that are made once. For each the pooled and the within-problem AUROC are
printed, and their paired differences to RPD with 95 % bootstrap intervals over problems. A
variant is said to win (or lose) when such an interval lies above (or below) zero.

Then the choice itself is cross-validated: the variant that is best on the other problems scores
the problems held out. The list of variants was drawn up on the same problems, so this says how
stable the choice is rather than how it does on new ones. Last come the thresholds at which
average linkage counts strategies best.

`strategy` in `rpd_metric/distance/distances.py` is what came out of it. The output is Markdown; it
stands in `docs/distances.md`.
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # before numpy loads its BLAS

import argparse
import itertools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.optimize import linear_sum_assignment, linprog
from scipy.spatial.distance import squareform
from scipy.stats import spearmanr

from rpd_datasets.judging.auroc import (
    Wins,
    count_wins,
    estimate,
    pooled_auroc,
    resamples,
    within_auroc,
)
from rpd_datasets.judging.labels import Labels
from rpd_metric.distance.core import rpd_matrix
from rpd_metric.distance.diversity import strategy_groups
from rpd_metric.distance.strategy import average_linkage, half_linked, step_distances
from rpd_metric.models.concurrency import run
from rpd_metric.models.embedders import Embedder
from rpd_metric.models.kinds import load_embedder
from rpd_metric.steps.summarizers import load_summarizer

Array = Any
Pairwise = Callable[[Array], float]


@dataclass
class Case:
    """One problem: its texts, their unit vectors, and the labelled pairs."""

    steps: list[list[str]]
    vectors: list[Array]
    titles: list[Array]
    bigrams: list[Array]
    statement: Array
    summaries: Array
    texts: Array
    labels: Labels
    corpus_mean: Array


# Parts


def unit(x: Array) -> Array:
    """Rows scaled to length 1; zero rows stay."""
    norms = np.linalg.norm(x, axis=-1, keepdims=True)
    return x / np.where(norms > 0, norms, 1)


def matrix(lists: Sequence[Array], pairwise: Pairwise) -> Array:
    """`pairwise` on the step-by-step cosine distances of every two solutions."""
    result = np.zeros((len(lists), len(lists)))
    for i in range(len(lists)):
        for j in range(i + 1, len(lists)):
            result[i, j] = result[j, i] = pairwise(1 - lists[i] @ lists[j].T)
    return result


def both(c: Array) -> float:
    """Mean of both directions, whatever the lengths."""
    return float(c.min(1).mean() + c.min(0).mean()) / 2


def larger(c: Array) -> float:
    """The larger of both directions."""
    return float(max(c.min(1).mean(), c.min(0).mean()))


def smaller(c: Array) -> float:
    """The smaller of both directions."""
    return float(min(c.min(1).mean(), c.min(0).mean()))


def longer(c: Array) -> float:
    """The longer list asks; both on ties."""
    m, n = c.shape
    return both(c) if m == n else float((c if m > n else c.T).min(1).mean())


def assignment(c: Array) -> float:
    """Each step of the shorter list gets a step of its own."""
    return float(c[linear_sum_assignment(c)].mean())


def transport(c: Array) -> float:
    """Optimal transport between uniform weights."""
    m, n = c.shape
    sums = np.vstack([np.kron(np.eye(m), np.ones(n)), np.kron(np.ones(m), np.eye(n))])
    weights = np.r_[np.full(m, 1 / m), np.full(n, 1 / n)]
    return float(linprog(c.ravel(), A_eq=sums, b_eq=weights, method="highs").fun)


def sinkhorn(c: Array, strength: float = 0.05) -> float:
    """Transport with entropy: every step spreads over near ones."""
    kernel = np.exp(-c / strength)
    u = np.ones(len(c))
    for _ in range(200):
        v = 1 / c.shape[1] / (kernel.T @ u)
        u = 1 / c.shape[0] / (kernel @ v)
    return float((u[:, None] * kernel * v * c).sum())


def soft(c: Array, width: float = 0.1) -> float:
    """A soft minimum instead of the closest step alone."""
    k = np.exp(-c / width)
    return float(((k * c).sum(1) / k.sum(1)).mean() + ((k * c).sum(0) / k.sum(0)).mean()) / 2


def worst(c: Array) -> float:
    """Only the step that is worst matched counts (Hausdorff)."""
    return float(max(c.min(1).max(), c.min(0).max()))


def positioned(c: Array, price: float = 0.1) -> float:
    """A match costs more the further apart the steps stand in their lists."""
    m, n = c.shape
    apart = np.abs(np.linspace(0, 1, m)[:, None] - np.linspace(0, 1, n))
    return both(c + price * apart)


def warped(c: Array) -> float:
    """Dynamic time warping: matches keep the order."""
    m, n = c.shape
    cost = np.full((m + 1, n + 1), np.inf)
    cost[0, 0] = 0
    for i in range(m):
        for j in range(n):
            cost[i + 1, j + 1] = c[i, j] + min(cost[i, j], cost[i, j + 1], cost[i + 1, j])
    return float(cost[m, n]) / max(m, n)


def all_steps(case: Case) -> Array:
    """The problem's steps in one array."""
    return np.concatenate(case.vectors)


def changed(case: Case, change: Callable[[Array], Array]) -> Array:
    """Both directions after a change to every step's vector."""
    return matrix([unit(change(v)) for v in case.vectors], both)


def first_component(case: Case) -> Array:
    """Both directions without the problem's first principal component."""
    x = all_steps(case)
    axis = np.linalg.svd(x - x.mean(0), full_matrices=False)[2][0]
    return changed(case, lambda v: v - np.outer(v @ axis, axis))


def standardised(case: Case) -> Array:
    """Both directions with every dimension at mean 0 and deviation 1 within the problem."""
    x = all_steps(case)
    spread = x.std(0)
    return changed(case, lambda v: (v - x.mean(0)) / np.where(spread > 0, spread, 1))


def weighted(case: Case, power: float) -> Array:
    """Steps weigh by their mean distance to the other solutions, to a power."""
    lists = case.vectors
    weights = []
    for i, steps in enumerate(lists):
        far = np.mean([(1 - steps @ v.T).min(1) for j, v in enumerate(lists) if j != i], axis=0)
        weights.append(np.maximum(far, 1e-3) ** power)
    asked = np.array(
        [
            [np.average((1 - a @ b.T).min(1), weights=w) for b in lists]
            for a, w in zip(lists, weights, strict=True)
        ]
    )
    return (asked + asked.T) / 2


def shifted(case: Case, width: float) -> Array:
    """Both directions after moving every step towards its near ones (one mean shift)."""
    x = all_steps(case)

    def shift(v: Array) -> Array:
        kernel = np.exp((v @ x.T - 1) / width)
        return kernel @ x / kernel.sum(1, keepdims=True)

    return changed(case, shift)


def wording(case: Case, share: float) -> list[Array]:
    """Step vectors with four-grams beside the embedding, at a share of the squared length."""
    lines = [
        [" ".join(["", *re.findall(r"[^\W\d_]+", s.lower()), ""]) for s in steps]
        for steps in case.steps
    ]
    grams = [[{s[i : i + 4] for i in range(len(s) - 3)} for s in steps] for steps in lines]
    column = {g: i for i, g in enumerate(sorted({g for steps in grams for s in steps for g in s}))}
    hybrid = []
    for steps, vectors in zip(grams, case.vectors, strict=True):
        table = np.zeros((len(steps), len(column)))
        for row, found in enumerate(steps):
            table[row, [column[g] for g in found]] = 1
        hybrid.append(np.hstack([(1 - share) ** 0.5 * vectors, share**0.5 * unit(table)]))
    return hybrid


def grouped(distances: Array, share: float = 0.5) -> Array:
    """The distances with a share of their average-linkage levels."""
    return (1 - share) * distances + share * average_linkage(distances)


def joined(distances: Array, method: str) -> Array:
    """Half the distances, half another linkage's levels."""
    tree = linkage(squareform(distances, checks=False), method)
    return (distances + squareform(cophenet(tree))) / 2


def profiles(distances: Array) -> Array:
    """How differently two solutions stand to all the others."""
    return np.sqrt(((distances[:, None] - distances) ** 2).mean(-1))


def off_diagonal(distances: Array) -> Array:
    """The distances between different solutions."""
    return distances[np.triu_indices(len(distances), 1)]


def cosine(vectors: Array) -> Array:
    """Cosine distances between whole texts."""
    return 1 - unit(vectors) @ unit(vectors).T


def pairs_both(case: Case) -> Array:
    """Both directions, the base of most variants."""
    return matrix(case.vectors, both)


# The log. Widths, prices and powers are the better of a few that were looked at.

VARIANTS: dict[str, Callable[[Case], Array]] = {
    "rpd": lambda c: rpd_matrix(c.vectors),
    "rpd, ties first": lambda c: rpd_matrix(c.vectors, ties="first"),
    "one embedding: summary": lambda c: cosine(c.summaries),
    "one embedding: raw text": lambda c: cosine(c.texts),
    "one embedding: mean of the steps": lambda c: cosine(np.array([v.mean(0) for v in c.vectors])),
    "who asks: both, always": pairs_both,
    "who asks: the larger of both": lambda c: matrix(c.vectors, larger),
    "who asks: the smaller of both": lambda c: matrix(c.vectors, smaller),
    "who asks: the longer list": lambda c: matrix(c.vectors, longer),
    "match: one to one": lambda c: matrix(c.vectors, assignment),
    "match: optimal transport": lambda c: matrix(c.vectors, transport),
    "match: Sinkhorn": lambda c: matrix(c.vectors, sinkhorn),
    "match: soft minimum": lambda c: matrix(c.vectors, soft),
    "match: worst step only": lambda c: matrix(c.vectors, worst),
    "match: all with all": lambda c: matrix(c.vectors, lambda d: float(d.mean())),
    "order: position has a price": lambda c: matrix(c.vectors, positioned),
    "order: time warping": lambda c: matrix(c.vectors, warped),
    "topic: minus half the problem's mean step": lambda c: changed(
        c, lambda v: v - all_steps(c).mean(0) / 2
    ),
    "topic: minus the problem's mean step": lambda c: changed(
        c, lambda v: v - all_steps(c).mean(0)
    ),
    "topic: statement projected out": lambda c: changed(
        c, lambda v: v - np.outer(v @ c.statement, c.statement)
    ),
    "topic: first principal component out": first_component,
    "topic: standardised within the problem": standardised,
    "topic: minus the corpus mean": lambda c: changed(c, lambda v: v - c.corpus_mean),
    "weights: rare steps count more": lambda c: weighted(c, 1),
    "weights: common steps count more": lambda c: weighted(c, -1),
    "views: first clause of each step": lambda c: matrix(c.titles, both),
    "views: steps and first clauses": lambda c: pairs_both(c) + matrix(c.titles, both),
    "views: two steps at a time": lambda c: matrix(c.bigrams, both),
    "views: a quarter of the summary": lambda c: pairs_both(c) + cosine(c.summaries) / 4,
    "views: a quarter of the raw text": lambda c: pairs_both(c) + cosine(c.texts) / 4,
    "smooth: steps move together": lambda c: shifted(c, 0.05),
    "smooth: distance of profiles": lambda c: profiles(pairs_both(c)),
    "scale: divided by the problem's mean": lambda c: (
        pairs_both(c) / off_diagonal(pairs_both(c)).mean()
    ),
    "scale: minus half the problem's mean": lambda c: (
        pairs_both(c) - off_diagonal(pairs_both(c)).mean() / 2
    ),
    "groups: half average linkage": lambda c: grouped(pairs_both(c)),
    "groups: average linkage alone": lambda c: grouped(pairs_both(c), 1),
    "groups: half single linkage": lambda c: joined(pairs_both(c), "single"),
    "groups: half complete linkage": lambda c: joined(pairs_both(c), "complete"),
    "wording: half four-grams": lambda c: matrix(wording(c, 0.5), both),
    "wording: four-grams alone": lambda c: matrix(wording(c, 1), both),
    "larger + groups": lambda c: grouped(matrix(c.vectors, larger)),
    "larger + half wording": lambda c: matrix(wording(c, 0.5), larger),
    "both + half wording + groups": lambda c: grouped(matrix(wording(c, 0.5), both)),
    "larger + quarter wording + groups": lambda c: grouped(matrix(wording(c, 0.25), larger)),
    "larger + half wording + linkage alone": lambda c: grouped(matrix(wording(c, 0.5), larger), 1),
    "strategy: larger + half wording + groups": lambda c: grouped(matrix(wording(c, 0.5), larger)),
}


# Measuring


def read(path: Path, embedder: Embedder, summarizer: str | None) -> list[Case]:
    """Encode everything once."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if summarizer is not None:
        maker = load_summarizer(summarizer)
        for row in rows:
            found = run(maker.summarize(row["problem"], row["solutions"]))
            # A solution without steps would be in no comparison: its first words stand for it.
            row["steps"] = [
                list(e.steps) or [text[:200]]
                for e, text in zip(found, row["solutions"], strict=True)
            ]
    views = [
        {
            "vectors": row["steps"],
            "titles": [[re.split(r",| and ", s)[0] for s in steps] for steps in row["steps"]],
            "bigrams": [
                [f"{a} {b}" for a, b in itertools.pairwise(steps)] or steps
                for steps in row["steps"]
            ],
            "summaries": [[" ".join(steps)] for steps in row["steps"]],
            "texts": [[text] for text in row["solutions"]],
            "statement": [[row["problem"]]],
        }
        for row in rows
    ]
    texts = sorted({s for view in views for lists in view.values() for one in lists for s in one})
    vectors = dict(zip(texts, unit(embedder.encode(texts).astype(np.float64)), strict=True))
    encoded = [
        {name: [np.array([vectors[s] for s in one]) for one in lists] for name, lists in v.items()}
        for v in views
    ]
    corpus_mean = np.mean([np.concatenate(e["vectors"]).mean(0) for e in encoded], axis=0)
    cases = []
    for row, e in zip(rows, encoded, strict=True):
        labels = Labels.of(row)
        assert labels is not None, "every row needs strategy_a and strategy_b"
        cases.append(
            Case(
                steps=row["steps"],
                vectors=e["vectors"],
                titles=e["titles"],
                bigrams=e["bigrams"],
                statement=e["statement"][0][0],
                summaries=np.concatenate(e["summaries"]),
                texts=np.concatenate(e["texts"]),
                labels=labels,
                corpus_mean=corpus_mean,
            )
        )
    return cases


def scores(cases: Sequence[Case], variant: Callable[[Case], Array]) -> list[Array]:
    """Per problem, the distances of the labelled pairs."""
    result = []
    for case in cases:
        distances = variant(case)
        result.append(np.array([distances[i, j] for i, j, _ in case.labels.pairs()]))
    return result


def print_log(wins: dict[str, Wins], weights: Array) -> None:
    """The table of variants."""
    base = {
        "pooled": pooled_auroc(wins["rpd"], weights),
        "within": within_auroc(wins["rpd"], weights),
    }
    print("| variant | pooled | within | pooled - rpd | within - rpd | |")
    print("|---|---|---|---|---|---|")
    for name, counts in wins.items():
        pooled, within = pooled_auroc(counts, weights), within_auroc(counts, weights)
        gains = [estimate(pooled - base["pooled"]), estimate(within - base["within"])]
        won = sum(gain.low is not None and gain.low > 0 for gain in gains)
        lost = sum(gain.high is not None and gain.high < 0 for gain in gains)
        verdict = " ".join(
            ["wins"] * (won == 2) + ["wins one"] * (won == 1) + ["loses"] * (lost > 0)
        )
        print(
            f"| {name} | {pooled[0]:.3f} | {within[0]:.3f} | {gains[0]:+.3f} | {gains[1]:+.3f} "
            f"| {verdict} |"
        )


def print_cross_validation(
    distances: dict[str, list[Array]],
    labels: Sequence[Array],
    wins: dict[str, Wins],
    weights: Array,
    seed: int,
) -> None:
    """Score each fold with the variant that is best without it."""
    size = len(labels)
    shuffled = np.random.default_rng(seed).permutation(size)
    schemes = {"leave one problem out": np.arange(size)[:, None], "five folds": None}
    print("| choice made by | pooled | within | pooled - rpd | within - rpd | chosen |")
    print("|---|---|---|---|---|---|")
    for scheme, given in schemes.items():
        folds = list(given) if given is not None else np.array_split(shuffled, 5)
        held_out: list[Array] = [np.zeros(0)] * size
        chosen: dict[str, int] = {}
        for fold in folds:
            kept = np.ones((1, size))
            kept[0, fold] = 0
            best = max(
                wins,
                key=lambda n: float(
                    pooled_auroc(wins[n], kept)[0] + within_auroc(wins[n], kept)[0]
                ),
            )
            chosen[best] = chosen.get(best, 0) + 1
            # Variants differ in scale: a distance becomes its rank among the other problems'.
            known = np.sort(np.concatenate([distances[best][p] for p in np.flatnonzero(kept[0])]))
            for place in fold:
                held_out[place] = np.searchsorted(known, distances[best][place]) / len(known)
        counts = count_wins(held_out, labels)
        pooled, within = pooled_auroc(counts, weights), within_auroc(counts, weights)
        gains = [
            estimate(pooled - pooled_auroc(wins["rpd"], weights)),
            estimate(within - within_auroc(wins["rpd"], weights)),
        ]
        names = "; ".join(f"{name} ({n})" for name, n in chosen.items())
        print(
            f"| {scheme} | {estimate(pooled)} | {estimate(within)} | {gains[0]:+.3f} "
            f"| {gains[1]:+.3f} | {names} |"
        )


def effective_number(groups: Sequence[Any]) -> float:
    """How many groups there are, by how evenly they are filled: the Hill number of order 1."""
    shares = np.unique(groups, return_counts=True)[1] / len(groups)
    return float(np.exp(-(shares * np.log(shares)).sum()))


def print_thresholds(cases: Sequence[Case]) -> None:
    """Where average linkage cuts best, judged by the labels' own effective number."""
    known = [effective_number(case.labels.passes[0]) for case in cases]
    print("| distance | threshold | mean error of the effective number | rank correlation |")
    print("|---|---|---|---|")
    for name in ("rpd", "strategy"):
        matrices = [
            rpd_matrix(case.vectors)
            if name == "rpd"
            else half_linked(step_distances(case.steps, case.vectors))
            for case in cases
        ]
        trials = []
        for threshold in np.arange(0.1, 1, 0.025):
            found = [effective_number(strategy_groups(m, float(threshold))) for m in matrices]
            error = float(np.abs(np.subtract(found, known)).mean())
            trials.append((error, float(threshold), found))
        error, threshold, found = min(trials)
        correlation = spearmanr(found, known).statistic
        print(f"| {name} | {threshold:.3f} | {error:.2f} | {correlation:.2f} |")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "file", nargs="?", type=Path, default=Path("../shared/data/strategy_bench/dev.jsonl")
    )
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--summarizer", help="use its steps instead of the given ones")
    parser.add_argument("--num-bootstrap", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    embedder = load_embedder(args.embedder)
    cases = read(args.file, embedder, args.summarizer)
    labels = [np.array([y for _, _, y in case.labels.pairs()], dtype=bool) for case in cases]
    distances = {name: scores(cases, variant) for name, variant in VARIANTS.items()}
    wins = {name: count_wins(values, labels) for name, values in distances.items()}
    weights = resamples(len(cases), args.num_bootstrap, args.seed)
    print(
        f"{len(cases)} problems, {sum(y.sum() for y in labels)} differing and "
        f"{sum((~y).sum() for y in labels)} same pairs; {args.summarizer or 'given'} steps; "
        f"{embedder.name}; {args.num_bootstrap} resamples, seed {args.seed}.\n"
    )
    print_log(wins, weights)
    print()
    print_cross_validation(distances, labels, wins, weights, args.seed)
    print()
    print_thresholds(cases)


if __name__ == "__main__":
    main()
