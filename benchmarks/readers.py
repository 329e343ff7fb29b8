"""From which trust on do the groups of a reader know more than the distance that checks them?

    PYTHONPATH=.:tests python benchmarks/readers.py [--data FOLDER] [--seeds N]

Readers that sort at random, merge, split or go by length, at several strengths, on the labelled
sets and beside the recorded reader. Printed for each: its trust (the AUROC of `strategy` against
its groups, within problems) and the number of problems that have pairs of both kinds; kappa with
the labels, beside that of the best cut of `strategy`; how many strategies more than by `strategy`
three solutions hold that are chosen one of each group in turn; and the effective number of
strategies of the best fifth of the problems, minus that by `strategy`. The constants of
`rpd_metric/distance/groups.py` follow from these tables.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before numpy loads its BLAS

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from machine import markdown
from strategies import recorded_groups

from parts.recorded_groups import SETS, SHARED, read_lines
from rpd_datasets.judging.labels import agreement
from rpd_datasets.selection.problems import rank
from rpd_datasets.selection.solutions import select_solutions
from rpd_metric import effective_number, problem_score, strategy_groups
from rpd_metric.distance.groups import ReaderTrust, groups_auroc, renumbered, scores_by_groups
from rpd_metric.measure import distance_matrices
from rpd_metric.models.spec import load_embedder

STRENGTHS = (0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
Groups = Sequence[Any]


@dataclass(frozen=True)
class Case:
    """A labelled problem: what was meant, what was recorded, and the distances."""

    name: str
    meant: list[int]
    recorded: Sequence[int | None]
    words: list[int]
    matrix: Any


def load_cases(folder: Path) -> list[Case]:
    """The labelled problems that the recorded reader sorted."""
    encoder, groups, cases = load_embedder("minilm"), recorded_groups(folder), []
    for name in SETS:
        for row in read_lines(folder / f"{name}.jsonl"):
            solutions, steps = row["solutions"], row["steps"]
            matrices = distance_matrices(["strategy"], row["problem"], solutions, steps, encoder)
            words = [len(text.split()) for text in solutions]
            kind = "controlled" if name == "controlled" else "natural"
            recorded = groups[row["problem_id"]]
            cases.append(Case(kind, row["strategy_a"], recorded, words, matrices["strategy"]))
    return cases


def read(case: Case, kind: str, strength: float, rng: random.Random) -> Groups:
    """The groups of a simulated reader; each solution goes wrong with this chance."""
    if kind == "recorded":
        return case.recorded
    thirds = np.argsort(np.argsort(case.words)) * 3 // len(case.words)
    wrong = {
        "random": lambda _: f"random {rng.randrange(3)}",
        "merging": lambda _: case.meant[0],
        "splitting": lambda at: f"alone {at}",
        "by length": lambda at: f"length {thirds[at]}",
    }[kind]
    return [wrong(at) if rng.random() < strength else label for at, label in enumerate(case.meant)]


def pairs_apart(groups: Groups) -> list[bool | None]:
    """Of each pair of solutions, whether they are apart; `None` where one has no group."""
    return [None if None in pair else pair[0] != pair[1] for pair in combinations(groups, 2)]


def kappa(sorted_into: Sequence[Groups], cases: Sequence[Case]) -> float:
    """Of all pairs, against the labels."""
    apart = [verdict for groups in sorted_into for verdict in pairs_apart(groups)]
    labels = [bool(verdict) for case in cases for verdict in pairs_apart(case.meant)]
    return float(agreement(labels, apart)["kappa"])


def figures(sorted_into: Sequence[Groups], cases: Sequence[Case]) -> list[float]:
    """Trust, problems with both kinds of pairs, kappa, and the gains in choosing and ranking."""

    def strategies(case: Case, groups: Groups | None) -> int:
        return len({case.meant[at] for at in select_solutions(case.matrix, 3, groups=groups)})

    pairs = list(zip(sorted_into, cases, strict=True))
    codes = [renumbered(groups) for groups in sorted_into]
    aurocs = [groups_auroc(code, case.matrix) for code, case in zip(codes, cases, strict=True)]
    distances = [problem_score(case.matrix) for case in cases]
    scores = scores_by_groups([effective_number(code) for code in codes], aurocs, distances)
    truth = np.array([effective_number(case.meant) for case in cases])
    best, plain = (truth[rank(values)[: len(cases) // 5]].mean() for values in (scores, distances))
    gain = np.mean([strategies(case, groups) - strategies(case, None) for groups, case in pairs])
    trust = ReaderTrust.of(aurocs)
    return [
        trust.auroc or np.nan,
        trust.num_problems,
        kappa(sorted_into, cases),
        gain,
        best - plain,
    ]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=SHARED)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    every = load_cases(args.data)
    names = ("trust", "problems", "kappa", "strategies chosen", "best fifth")
    for name in ("controlled", "natural"):
        cases = [case for case in every if case.name == name]
        cuts = (
            [strategy_groups(case.matrix, cut) for case in cases]
            for cut in np.arange(0.3, 0.8, 0.025)
        )
        best = max(kappa(groups, cases) for groups in cuts)
        print(f"\n{name}: the best cut of `strategy` has kappa {best:.2f}\n")
        rows = []
        for kind in ("recorded", "random", "merging", "splitting", "by length"):
            for strength in STRENGTHS if kind != "recorded" else (0.0,):
                rngs = [random.Random(f"{kind} {strength} {seed}") for seed in range(args.seeds)]
                readings = [[read(case, kind, strength, rng) for case in cases] for rng in rngs]
                means = np.mean([figures(groups, cases) for groups in readings], axis=0)
                values = dict(zip(names, (f"{mean:.2f}" for mean in means), strict=True))
                rows.append({"reader": kind, "wrong": strength} | values)
        print(markdown(rows))


if __name__ == "__main__":
    main()
