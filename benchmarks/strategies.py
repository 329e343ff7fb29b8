"""Which distance sees a change of strategy, what does it choose, and what does it mean?

    PYTHONPATH=.:tests python benchmarks/strategies.py [--data FOLDER] [--write-curves OUT]

On the labelled sets of `strategies.md`, with 95 % bootstrap intervals over problems: AUROC of
pairs, also by kind of text; how often three chosen solutions hold as many strategies as three can;
how well problems with several strategies are ranked before the others; how far a paraphrase moves a
distance beside a change of method; and the chance of another strategy by distance.
`groups` is what a capable reader answered to this project's prompt about the summaries, recorded
once (`group_replies.jsonl`); the long traces lack it. `rpd_metric/distance/measured.json` has the
first table and what `--write-curves` wrote.
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # before numpy loads its BLAS

import argparse
import itertools
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from machine import markdown

from benchmarks.teach import splits
from parts.rows import read_lines
from rpd_datasets.judging.auroc import (
    Estimate,
    Floats,
    count_wins,
    estimate,
    pooled_auroc,
    resamples,
    weighted_mean,
    within_auroc,
)
from rpd_datasets.judging.labels import Labels
from rpd_datasets.selection.solutions import select_solutions
from rpd_metric.distance.core import Evidence, problem_score
from rpd_metric.distance.distances import DISTANCES, load_distance
from rpd_metric.distance.groups import group_distances, groups_auroc, renumbered, scores_by_groups
from rpd_metric.distance.measured import Calibration, EvidenceTable, calibration_error, fit_curve
from rpd_metric.distance.strategy import TAUGHT_SHARES, half_linked, taught_parts
from rpd_metric.measure import gather
from rpd_metric.models.concurrency import run
from rpd_metric.models.spec import Embedder, load_embedder
from rpd_metric.statistics.strategy_counts import effective_number
from rpd_metric.steps.extractive import ExtractiveSummarizer

Array = Any
Method = tuple[str, str]
Groups = tuple[int | None, ...]

FILES = {
    "controlled": "strategy_bench/controlled.jsonl",
    "dev": "strategy_bench/dev.jsonl",
    "train": "strategy_bench/train.jsonl",
    "long": "long_cot/labelled.jsonl",
}
# For measuring only; without a chat model's steps.
PROGRAMS = "code_approaches/dev.jsonl"
# What a calibration curve calls each source of steps.
CURVE_STEPS = {"LLM": "chat", "extractive": "extractive", "": ""}
PICKED = 3
# Words hold on a set where fewer of the pairs differ that are said to have one method, and more of
# those said to have another: where the phrases of `measured.py` draw their lines.
SAME, OTHER = 0.35, 0.65
# Fewer pairs of a set tell nothing about words.
FEW = 20
SHOWN = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
STRATEGY = ("LLM", "strategy")
GROUPS = ("groups", "groups")
GROUPS_THEN_DISTANCE = ("groups", "groups, then strategy")
TAUGHT = ("", "taught")
# The parts of `taught` alone; no part of the product.
ENCODER = ("", "taught without expressions")
EXPRESSIONS = ("", "expressions")
GROWTH = ("", "growth")
# Sources of steps, and the distances that read them.
METHODS: tuple[Method, ...] = (
    GROUPS,
    GROUPS_THEN_DISTANCE,
    STRATEGY,
    ("LLM", "combined"),
    ("LLM", "rpd"),
    TAUGHT,
    ENCODER,
    EXPRESSIONS,
    GROWTH,
    ("", "pieces"),
    ("", "raw"),
    ("extractive", "rpd"),
)
WITHOUT_STEPS = (TAUGHT, EXPRESSIONS, GROWTH, ("", "pieces"), ("extractive", "rpd"))
CURVES: tuple[Method, ...] = (
    ("", "pieces"),
    ("LLM", "combined"),
    STRATEGY,
    ("LLM", "rpd"),
    ("extractive", "rpd"),
)


def kind_of(row: dict[str, Any]) -> str:
    """What a written row is: its kind, or its language where that is not English."""
    return str(row.get("kind") if row.get("language") == "en" else row.get("language"))


@dataclass(frozen=True)
class Case:
    """One labelled problem: its row, the labels of its solutions, and what distances are given.

    That is by source of steps: the file's (`"LLM"`), `"extractive"`, or `""` for what needs none.
    """

    row: dict[str, Any]
    labels: Labels
    evidence: dict[str, Evidence]


def case_of(row: dict[str, Any], encoder: Embedder) -> Case:
    """A labelled row with what distances are given of it."""
    labels = Labels.of(row)
    assert labels is not None, "every row needs strategy labels"
    problem, solutions = row["problem"], row["solutions"]
    kinds = ("statement", "pieces", "methods", "text", *DISTANCES["growth"].reads)
    matrices = {"": gather(kinds, problem, solutions, None, encoder, row=row)}
    summaries = run(ExtractiveSummarizer().summarize(problem, solutions))
    sources = {"extractive": [list(summary.steps) for summary in summaries]}
    if "steps" in row:
        sources["LLM"] = row["steps"]
    for source, steps in sources.items():
        read = gather(("steps",), problem, solutions, steps, encoder)
        matrices[source] = matrices[""].joined(read)
    return Case(row, labels, matrices)


def distances_of(method: Method, evidence: dict[str, Evidence]) -> Array:
    """The matrix of a method; parts of `taught` are linked as it is."""
    source, name = method
    if method not in (ENCODER, EXPRESSIONS):
        return load_distance(name)(evidence[source])
    *by_encoder, of_expressions = taught_parts(evidence[source])
    if method == EXPRESSIONS:
        return half_linked(of_expressions)
    return half_linked(sum(a * b for a, b in zip(TAUGHT_SHARES, by_encoder, strict=False)))


def recorded_groups(folder: Path) -> dict[str, Groups]:
    """What the reader sorted each problem's solutions into, by the problem's id."""
    groups = {}
    for reply in read_lines(folder / "group_replies.jsonl"):
        group_of = dict(zip(reply["order"], reply["groups"], strict=True))
        places = range(1 + max(reply["order"]))
        groups[reply["problem_id"]] = renumbered([group_of.get(place) for place in places])
    return groups


class Problems:
    """One labelled set: what each method makes of it."""

    def __init__(
        self, cases: Sequence[Case], recorded: Mapping[str, Groups], num_bootstrap: int
    ) -> None:
        self.cases, self.recorded = cases, recorded
        self.weights = resamples(len(cases), num_bootstrap, 0)
        tested = all("tests" in case.row for case in cases)
        self.matrices = {
            method: [distances_of(method, case.evidence) for case in cases]
            for method in METHODS
            if method[0] in cases[0].evidence and (tested or method != GROWTH)
        }
        self.groups: list[Groups] = []
        if all(case.row["problem_id"] in recorded for case in cases):
            self.groups = [recorded[case.row["problem_id"]] for case in cases]
            grouped = list(zip(self.groups, self.matrices[STRATEGY], strict=True))
            self.matrices[GROUPS] = [group_distances(a, 0 * b) for a, b in grouped]
            self.matrices[GROUPS_THEN_DISTANCE] = [group_distances(a, b) for a, b in grouped]
        self.several = np.array(
            [any(differs for *_, differs in case.labels.pairs()) for case in cases]
        )

    def pairs(self, method: Method, reading: str = "") -> tuple[list[Array], list[Array]]:
        """Per problem, the distances of the labelled pairs, and whether they differ; of programs
        maybe those alone that differ in the one language and agree across two (`"one language"`),
        or all across two.
        """
        distances, different = [], []
        for case, matrix in zip(self.cases, self.matrices[method], strict=True):
            labelled = case.labels.pairs()
            if reading:
                languages = case.row["languages"]
                same_language = reading == "one language"
                labelled = [
                    (i, j, differs)
                    for i, j, differs in labelled
                    if (languages[i] == languages[j]) == (same_language and differs)
                ]
            distances.append(np.array([matrix[i, j] for i, j, _ in labelled], dtype=float))
            different.append(np.array([differs for *_, differs in labelled], dtype=bool))
        return distances, different

    def aurocs(self, method: Method, reading: str = "") -> dict[str, Floats]:
        """Pooled and within, in every resample."""
        wins = count_wins(*self.pairs(method, reading))
        return {
            "pooled": pooled_auroc(wins, self.weights),
            "within": within_auroc(wins, self.weights),
        }

    def part(self, chosen: Callable[[dict[str, Any]], bool]) -> Problems:
        """Those problems alone whose row is chosen."""
        cases = [case for case in self.cases if chosen(case.row)]
        return Problems(cases, self.recorded, len(self.weights) - 1)

    def paraphrases(self, method: Method) -> dict[str, Floats]:
        """In problems with both, how far solutions of one strategy are apart beside those of two:
        the share that is farther than the median of these, and the ratio of the means.
        """
        beyond, ratios = [], []
        for distances, different in zip(*self.pairs(method), strict=True):
            same, other = distances[~different], distances[different]
            both = len(same) and len(other)
            beyond.append(np.mean(same > np.median(other)) if both else np.nan)
            ratios.append(same.mean() / other.mean() if both else np.nan)
        return {
            "beyond the median": weighted_mean(beyond, self.weights),
            "ratio": weighted_mean(ratios, self.weights),
        }

    def triples(self, method: Method) -> dict[str, Floats]:
        """The share of problems whose three solutions hold all the strategies that three can."""
        matrices = self.matrices[STRATEGY if method in (GROUPS, GROUPS_THEN_DISTANCE) else method]
        complete = []
        for number, (case, matrix) in enumerate(zip(self.cases, matrices, strict=True)):
            in_turn = self.groups[number] if method[0] == "groups" else None
            picks = select_solutions(matrix, PICKED, groups=in_turn)
            matters = case.labels.choice_matters(PICKED)
            complete.append(float(case.labels.complete(picks, PICKED)) if matters else np.nan)
        return {"triples": weighted_mean(complete, self.weights)}

    def ranking(self, method: Method) -> dict[str, Floats]:
        """AUROC of "several strategies" by the problems' scores, in every resample."""
        values = [problem_score(distances) for distances in self.matrices[method]]
        if method == GROUPS_THEN_DISTANCE:
            matrices = self.matrices[STRATEGY]
            values = scores_by_groups(
                [effective_number(groups) for groups in self.groups],
                [groups_auroc(*pair) for pair in zip(self.groups, matrices, strict=True)],
                [problem_score(matrix) for matrix in matrices],
            )
        scores = np.array(values, dtype=float)
        # Each problem as one labelled pair of its own.
        wins = count_wins(scores[:, None], self.several[:, None])
        return {"ranking": pooled_auroc(wins, self.weights)}

    def triples_by_chance(self) -> Estimate:
        """The share of all triples, where the choice matters."""
        shares = []
        for case in self.cases:
            threes = itertools.combinations(range(len(case.row["solutions"])), PICKED)
            share = np.mean([case.labels.complete(three, PICKED) for three in threes])
            shares.append(float(share) if case.labels.choice_matters(PICKED) else np.nan)
        return estimate(weighted_mean(shares, self.weights))


def print_table(
    columns: Sequence[tuple[Any, ...]],
    figure: str = "aurocs",
    methods: Sequence[Method] = METHODS,
    minus: Method | None = None,
) -> None:
    """A figure of methods on sets, of programs maybe in one reading; or what it has more than that
    of one method, paired by problem.
    """
    rows = []
    for method in methods:
        row: dict[str, object] = {"distance": _name(method)}
        for name, problems, *reading in columns:
            if method not in problems.matrices or method == minus:
                continue
            measured = getattr(problems, figure)
            less = measured(minus, *reading) if minus else {}
            for measure, values in measured(method, *reading).items():
                gap = estimate(values - less.get(measure, 0))
                row[f"{name} {measure}"] = format(gap, "+.3f" if minus else ".3f")
        rows += [row] if len(row) > 1 else []
    print(f"{markdown(rows)}\n")


def _name(method: Method) -> str:
    source, distance = method
    if source == "groups":
        return distance
    return f"`{distance}`" + (f", {source} steps" if source else "")


def labelled_pairs(sets: Sequence[Problems], method: Method) -> tuple[Array, Array]:
    """The distances of all labelled pairs of these sets, and whether they differ."""
    pairs = [problems.pairs(method) for problems in sets]
    distances, different = (
        np.concatenate([part for lists in pairs for part in lists[at]]) for at in (0, 1)
    )
    return distances, different


def curves(
    sets: Mapping[str, Problems], methods: Sequence[Method], embedder: str
) -> list[Calibration]:
    """The curves of distances whose words hold on every set, fitted to all; prints what each curve
    says, how far off it is on each set with the fit to the others, and the share of pairs of
    another strategy where it says one method, and where it says another.
    """
    rows, accepted = [], []
    for source, distance in methods:
        method = (source, distance)
        fitted = fit_curve(*(pairs := labelled_pairs(list(sets.values()), method)))
        intercept, slope = (round(parameter, 3) for parameter in fitted)
        steps = CURVE_STEPS[source]
        curve = Calibration(distance, embedder, steps, intercept, slope, len(pairs[0]))
        errors = []
        for name, problems in sets.items():
            fit = fit_curve(
                *labelled_pairs([sets[known] for known in sets if known != name], method)
            )
            other = replace(curve, intercept=fit[0], slope=fit[1])
            distances, labels = labelled_pairs([problems], method)
            errors.append(calibration_error([other.chance(value) for value in distances], labels))
        shares = [said_of(curve, *labelled_pairs([problems], method)) for problems in sets.values()]
        if all(same < SAME and other > OTHER for same, other in shares):
            accepted.append(replace(curve, error=round(max(errors), 3)))
        rows.append(
            {
                "distance": _name(method),
                **{f"{value}": f"{curve.chance(value):.2f}" for value in SHOWN},
                f"error on {', '.join(sets)}": ", ".join(f"{error:.3f}" for error in errors),
                "differ where it says one method; another": ", ".join(
                    f"{same:.2f}; {other:.2f}" for same, other in shares
                ),
            }
        )
    print(f"{curve.pairs} labelled pairs.\n\n{markdown(rows)}\n")
    return accepted


def said_of(curve: Calibration, distances: Array, different: Array) -> tuple[float, float]:
    """The shares that differ in strategy among pairs of which a curve says one method, and among
    those of which it says another; 0 and 1 where it says so of hardly any.
    """
    words = np.array([curve.phrase(value) for value in distances])
    same = np.char.endswith(words, " the same method")
    other = np.char.endswith(words, " another method")
    return (
        float(different[same].mean()) if same.sum() >= FEW else 0.0,
        float(different[other].mean()) if other.sum() >= FEW else 1.0,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument(
        "--embedder", default="minilm", help="which the curves are not for if another"
    )
    parser.add_argument("--limit", type=int, help="problems of each set")
    parser.add_argument("--num-bootstrap", type=int, default=2000)
    parser.add_argument("--write-curves", type=Path, help="keeps the curves as JSON")
    args = parser.parse_args()
    encoder = load_embedder(args.embedder)
    recorded = recorded_groups(args.data / "strategy_bench")

    def measured(rows: Sequence[dict[str, Any]]) -> Problems:
        cases = [case_of(row, encoder) for row in rows[: args.limit]]
        return Problems(cases, recorded, args.num_bootstrap)

    sets = {name: measured(read_lines(args.data / file)) for name, file in FILES.items()}
    held = splits(args.data, trial=False)
    # Half of train taught the encoder; the calibration curves of other distances are of all.
    natural = {row["problem_id"] for row in held["natural"]}
    half = sets["train"].part(lambda row: row["problem_id"] in natural)
    shown = {"natural": half, **sets}
    for part in (TAUGHT, ENCODER):
        del sets["train"].matrices[part]
    print(f"{encoder.name}, {args.num_bootstrap} resamples of the problems, seed 0.\n")
    for name, problems in shown.items():
        several = problems.several.sum()
        matter = sum(case.labels.choice_matters(PICKED) for case in problems.cases)
        print(
            f"{name}: {several} of {len(problems.cases)} problems have several strategies; in "
            f"{matter} the choice of {PICKED} matters."
        )
    print()
    for figure in ("aurocs", "triples", "ranking"):
        print_table([*shown.items()], figure)
        print("Minus `strategy`, LLM steps, paired by problem:\n")
        print_table([*shown.items()], figure, minus=STRATEGY)
    chances = (f"{name} {part.triples_by_chance()}" for name, part in shown.items())
    print(f"Triples by chance: {', '.join(chances)}\n")
    seventh = measured(held["held-back seventh"])
    programs = measured(read_lines(args.data / PROGRAMS))
    print_table(
        [("held-back seventh", seventh), ("programs", programs)]
        + [(f"programs, {of}", programs, of) for of in ("two languages", "one language")]
    )
    written = {"controlled": sets["controlled"], "held back": seventh}
    for name, problems in written.items():
        kinds = Counter(kind_of(case.row) for case in problems.cases)
        parts = [
            (f"{kind} ({count})", problems.part(lambda row, kind=kind: kind_of(row) == kind))
            for kind, count in kinds.items()
        ]
        print(f"By kind, {name}:\n")
        print_table(parts, methods=WITHOUT_STEPS)
    print("Pairs of one strategy in other wordings beside pairs of two strategies:\n")
    print_table([*written.items()], "paraphrases")
    fitted = curves(sets, CURVES, args.embedder)
    # Of `taught` without what taught it.
    apart = {name: problems for name, problems in shown.items() if name != "train"}
    apart["held back"] = seventh
    fitted += curves(apart, [TAUGHT], args.embedder)
    if args.write_curves:
        table = EvidenceTable(curves=tuple(fitted)).as_dict()
        args.write_curves.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
