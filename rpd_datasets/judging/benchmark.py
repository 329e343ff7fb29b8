"""The bench: which distance tells a change of strategy from a change of words?

Rows in, figures out. With strategy labels (two passes, see `labels.py`) four things are
measured, each with a 95 % bootstrap interval over problems and its paired difference to RPD:

- `pooled`: AUROC over all pairs of all problems;
- `within`: the mean AUROC of the problems that have pairs of both kinds;
- `success`: the share of problems whose most distant pair differs in strategy (Table 1);
- `triples`: the share of problems where three solutions chosen by max-min hold as many
  strategies as three can, among those where a bad choice is possible.

Rows without labels have `success` alone, and a judge decides it, as in the paper. The
arithmetic is `auroc.py`, the distances are `rpd_metric/distance/distances.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

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
from rpd_datasets.judging.labels import Labels, PairRater, judge_pairs
from rpd_datasets.select import select_solutions
from rpd_metric.distance.calibration import Calibration, calibration_error, fit_curve
from rpd_metric.distance.distances import DISTANCES, Distance, load_distance
from rpd_metric.distance.evidence import STEP_KINDS, Evidence
from rpd_metric.errors import InputError
from rpd_metric.metrics.matrices import gather
from rpd_metric.models.concurrency import run, run_bounded
from rpd_metric.models.embedders import Embedder
from rpd_metric.models.kinds import load_embedder
from rpd_metric.steps.protocol import Summarizer
from rpd_metric.steps.summarizers import load_summarizer

MEASURES = ("pooled", "within", "success", "triples")
REFERENCE = "rpd"
FOLDS = 5
# Where the chances of a curve are printed.
DISTANCES_SHOWN = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
GIVEN = "given"

Steps = list[list[str]]
OnStage = Callable[[str, int], Callable[[], object]]


@dataclass(frozen=True)
class MethodResult:
    """What one distance achieved on one source of steps.

    Args:
        distance (`str`): Its name.
        steps (`str`): `"given"`, the summarizer's name, or `""` where steps do not matter.
        figures (`dict`): An [`~rpd_datasets.judging.auroc.Estimate`] per measure.
        differences (`dict`): The same, minus RPD's, paired by problem; empty for RPD itself.
        pairs_without_distance (`int`): Labelled pairs with a solution it could not place; they
            are in no AUROC.
        undecided (`int`): Problems where the judge gave no verdict on the most distant pair;
            they are not in `success`.
        calibration ([`~rpd_metric.distance.calibration.Calibration`], *optional*): The chance of
            another strategy by distance, where there are labelled pairs of both kinds.
    """

    distance: str
    steps: str
    figures: dict[str, Estimate]
    differences: dict[str, Estimate]
    pairs_without_distance: int
    undecided: int
    calibration: Calibration | None = None


@dataclass(frozen=True)
class Comparison:
    """The bench's outcome.

    Args:
        results (`tuple` of [`MethodResult`]): In the order asked for; given steps first.
        embedder (`str`): Whose vectors they are.
        num_problems (`int`): Rows with two or more solutions.
        skipped (`int`): Rows with fewer.
        different (`int`): Labelled pairs that differ.
        same (`int`): Labelled pairs that do not.
        disputed (`int`): Pairs left out because the passes disagree.
        possible (`float`, *optional*): Share of the labelled problems that have a differing
            pair: the success rate of a perfect method.
        num_triples (`int`): Problems in which the choice of three matters.
        seed (`int`): Of the bootstrap and of random distances.
        num_bootstrap (`int`): Resamples.
    """

    results: tuple[MethodResult, ...]
    embedder: str
    num_problems: int
    skipped: int
    different: int
    same: int
    disputed: int
    possible: float | None
    num_triples: int
    seed: int
    num_bootstrap: int

    def table(self) -> list[list[str]]:
        """One row per method with figures and intervals; the first row is the header."""
        rows = [["distance", "steps", *MEASURES]]
        for result in self.results:
            figures = [format(result.figures[name]) for name in MEASURES]
            rows.append([result.distance, result.steps or "-", *figures])
        return rows

    def difference_table(self) -> list[list[str]]:
        """One row per method with its paired differences to RPD; the first row is the header."""
        rows = [["distance", "steps", *(f"{name} - {REFERENCE}" for name in MEASURES)]]
        for result in self.results:
            if result.differences:
                figures = [format(result.differences[name], "+.3f") for name in MEASURES]
                rows.append([result.distance, result.steps or "-", *figures])
        return rows

    def chance_table(self) -> list[list[str]]:
        """The chance of another strategy at some distances; the first row is the header."""
        shown = [f"{distance:.1f}" for distance in DISTANCES_SHOWN]
        rows = [["chance of another strategy at", "steps", *shown, "error"]]
        for result in self.results:
            if curve := result.calibration:
                chances = [f"{curve.chance(distance):.2f}" for distance in DISTANCES_SHOWN]
                error = "-" if curve.error is None else f"{curve.error:.3f}"
                rows.append([result.distance, result.steps or "-", *chances, error])
        return rows

    def caption(self) -> str:
        """One line on what was measured."""
        possible = "" if self.possible is None else f"; success at best {self.possible:.3f}"
        hint = ""
        if self.possible is not None and not (self.different and self.same):
            hint = ". Take more rows: AUROC needs pairs that differ and pairs that do not"
        return (
            f"{self.num_problems} problems ({self.skipped} skipped), {self.different} pairs "
            f"differ, {self.same} do not, {self.disputed} disputed{possible}; triples over "
            f"{self.num_triples} problems; embedder {self.embedder}; 95 % intervals from "
            f"{self.num_bootstrap} resamples of the problems, seed {self.seed}{hint}"
        )

    def as_json(self) -> dict[str, Any]:
        """Everything as plain JSON types."""
        return asdict(self)


@dataclass(frozen=True)
class _Case:
    """One problem of the bench."""

    problem: str
    solutions: list[str]
    steps: dict[str, Steps]
    labels: Labels | None


@dataclass
class _Column:
    """What one method made of each problem."""

    distance: Distance
    source: str
    pairs: list[npt.NDArray[np.float64]]
    furthest: list[tuple[int, int] | None]
    success: list[float]
    triples: list[float]


def compare_metrics(
    rows: Sequence[Mapping[str, Any]],
    embedder: str | Embedder = "minilm",
    summarizer: str | Summarizer | None = None,
    methods: Sequence[str | Distance] = tuple(DISTANCES),
    seed: int = 0,
    num_bootstrap: int = 2000,
    judge: PairRater | None = None,
    on_stage: OnStage = lambda *_: lambda: None,
) -> Comparison:
    """Measure how well distances see strategy (Sec. 4.1, Table 1).

    Args:
        rows (`Sequence`): Each with `solutions`; with `steps` (per solution a list), `problem`
            and, for labelled rows, `strategy_a` and `strategy_b`, or `strategies`.
        embedder (`str` or [`~rpd_metric.models.embedders.Embedder`]): For all of them.
        summarizer (`str` or [`Summarizer`], *optional*): Steps of its making
            stand in the table beside the given ones, or alone where none are given.
        methods (`Sequence` of `str` or [`Distance`]): RPD is added as the
            reference when it is not among them.
        seed (`int`): Of the bootstrap and of random distances.
        num_bootstrap (`int`): Resamples of the problems.
        judge (`Callable`, *optional*): `async (problem, steps_a, steps_b) -> bool | None`, for
            rows without labels.
        on_stage (`Callable`): Called with a stage's name and its number of problems or pairs; what
            it returns is called when one of them is done.

    Returns:
        [`Comparison`]

    Raises:
        [`InputError`]: Rows that do not fit, or with neither labels nor a judge for them.
    """
    encoder = load_embedder(embedder)
    cases, skipped = _read(rows)
    if not cases:
        raise InputError("no row has two or more solutions; there is nothing to compare")
    if judge is None and any(case.labels is None for case in cases):
        raise InputError(
            "there are rows without strategy labels, and no judge to decide on them; "
            "label the rows or name a judge (--judge SPEC)"
        )
    sources = [GIVEN] if cases[0].steps else []
    if summarizer is not None:
        maker = load_summarizer(summarizer)
        done = on_stage("Extracting steps", len(cases))
        for case, steps in zip(cases, run(_extract(maker, cases, done)), strict=True):
            case.steps[maker.name] = steps
        sources.append(maker.name)
    distances = [load_distance(method) for method in methods]
    if all(distance.name != REFERENCE for distance in distances):
        distances.insert(0, load_distance(REFERENCE))
    if not sources:
        raise InputError("the rows have no steps; name a summarizer, for instance 'extractive'")
    columns = [
        _Column(distance, source, [], [], [], [])
        for source in [*sources, ""]
        for distance in distances
        if distance.reads_steps == bool(source)
    ]
    done = on_stage("Measuring distances", len(cases))
    for case in cases:
        _measure(case, columns, encoder, seed)
        done()
    if judge is not None:
        _ask(judge, cases, columns, sources[0], on_stage)
    done = on_stage("Resampling", len(columns))
    return _summarise(cases, columns, encoder.name, skipped, seed, num_bootstrap, done)


def _read(rows: Sequence[Mapping[str, Any]]) -> tuple[list[_Case], int]:
    cases = []
    for number, row in enumerate(rows):
        where = f"row {row.get('problem_id', number)}"
        solutions = row.get("solutions")
        if not isinstance(solutions, list):
            raise InputError(f"{where} has no list of solutions")
        steps = row.get("steps")
        if steps is not None and len(steps) != len(solutions):
            raise InputError(f"{where} has {len(steps)} step lists for {len(solutions)} solutions")
        try:
            labels = Labels.of(row)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        given = {} if steps is None else {GIVEN: [list(found or ()) for found in steps]}
        if len(solutions) > 1:
            cases.append(_Case(str(row.get("problem") or ""), solutions, given, labels))
            if bool(given) != bool(cases[0].steps):
                raise InputError(f"{where} and the first row: one has steps, the other has not")
    return cases, len(rows) - len(cases)


async def _extract(
    summarizer: Summarizer, cases: Sequence[_Case], done: Callable[[], object]
) -> list[Steps]:
    async def summarize(case: _Case) -> Steps:
        found = await summarizer.summarize(case.problem or None, case.solutions)
        done()
        return [list(summary.steps) for summary in found]

    async with aclosing(run_bounded(cases, summarize, max_in_flight=16)) as results:
        return [steps async for steps in results]


def _measure(case: _Case, columns: Sequence[_Column], embedder: Embedder, seed: int) -> None:
    """Add one problem to every column."""
    labels = case.labels
    pairs = labels.pairs() if labels else []
    kinds = dict.fromkeys(kind for column in columns for kind in column.distance.reads)
    evidence = {}

    def read(steps: Steps, *, of_steps: bool) -> Evidence:
        wanted = [kind for kind in kinds if (kind in STEP_KINDS) == of_steps]
        return gather(wanted, case.problem, case.solutions, steps, embedder, seed)

    evidence[""] = read([], of_steps=False)
    for source, steps in case.steps.items():
        evidence[source] = evidence[""].joined(read(steps, of_steps=True))
    for column in columns:
        matrix = column.distance(evidence[column.source])
        column.pairs.append(np.array([matrix[i, j] for i, j, _ in pairs], dtype=np.float64))
        pair = _furthest(matrix)
        column.furthest.append(pair)
        if labels is None:
            column.success.append(math.nan if pair else 0.0)
            column.triples.append(math.nan)
            continue
        column.success.append(float(pair is not None and labels.different(*pair) is True))
        column.triples.append(
            float(labels.complete(select_solutions(matrix, 3), 3))
            if labels.choice_matters(3)
            else math.nan
        )


def _furthest(matrix: npt.NDArray[np.float64]) -> tuple[int, int] | None:
    """The most distant pair, the first one on ties; `None` when there is no distance at all."""
    first, second = np.triu_indices(len(matrix), 1)
    distances = matrix[first, second]
    if np.isnan(distances).all():
        return None
    best = int(np.nanargmax(distances))
    return int(first[best]), int(second[best])


def _ask(
    judge: PairRater,
    cases: Sequence[_Case],
    columns: Sequence[_Column],
    judged: str,
    on_stage: OnStage,
) -> None:
    """Let the judge decide where there are no labels, each pair once for all methods."""
    wanted = {
        (number, pair): None
        for column in columns
        for number, pair in enumerate(column.furthest)
        if pair and cases[number].labels is None
    }
    questions = []
    for number, (i, j) in wanted:
        steps = cases[number].steps[judged]
        questions.append((cases[number].problem, steps[i], steps[j]))
    done = on_stage("Asking the judge", len(questions))

    async def ask(problem: str, one: Sequence[str], other: Sequence[str]) -> bool | None:
        verdict = await judge(problem, one, other)
        done()
        return verdict

    verdicts = dict(zip(wanted, run(judge_pairs(ask, questions)), strict=True))
    for column in columns:
        for number, pair in enumerate(column.furthest):
            if pair and cases[number].labels is None:
                verdict = verdicts[number, pair]
                column.success[number] = math.nan if verdict is None else float(verdict)


def _summarise(
    cases: Sequence[_Case],
    columns: Sequence[_Column],
    embedder: str,
    skipped: int,
    seed: int,
    num_bootstrap: int,
    done: Callable[[], object],
) -> Comparison:
    weights = resamples(len(cases), num_bootstrap, seed)
    labelled = [case.labels for case in cases if case.labels]
    pairs = [case.labels.pairs() if case.labels else [] for case in cases]
    different = [np.array([label for _, _, label in found], dtype=bool) for found in pairs]
    drawn = []
    for column in columns:
        drawn.append(_draw(column, different, weights))
        done()
    # Its first source of steps is the one that counts: the given ones, where there are any.
    reference = next(
        place for place, column in enumerate(columns) if column.distance.name == REFERENCE
    )
    results = tuple(
        MethodResult(
            distance=column.distance.name,
            steps=column.source,
            figures={name: estimate(values[name]) for name in MEASURES},
            differences={name: estimate(values[name] - drawn[reference][name]) for name in MEASURES}
            if place != reference
            else {},
            pairs_without_distance=int(sum(np.isnan(values).sum() for values in column.pairs)),
            undecided=int(np.isnan(column.success).sum()),
            calibration=_calibrate(column, different, embedder),
        )
        for place, (column, values) in enumerate(zip(columns, drawn, strict=True))
    )
    num_different = int(sum(labels.sum() for labels in different))
    num_agreed = sum(len(labels) for labels in different)
    num_pairs = sum(math.comb(len(case.solutions), 2) for case in cases if case.labels)
    return Comparison(
        results=results,
        embedder=embedder,
        num_problems=len(cases),
        skipped=skipped,
        different=num_different,
        same=num_agreed - num_different,
        disputed=num_pairs - num_agreed,
        possible=sum(bool(found.any()) for found in different) / len(labelled)
        if labelled
        else None,
        num_triples=sum(labels.choice_matters(3) for labels in labelled),
        seed=seed,
        num_bootstrap=num_bootstrap,
    )


def _calibrate(
    column: _Column, different: Sequence[npt.NDArray[np.bool_]], embedder: str
) -> Calibration | None:
    """The curve of a column, with its error on folds of the problems that were left out."""
    problem = np.repeat(np.arange(len(different)), [len(found) for found in different])
    distances, labels = np.concatenate(column.pairs), np.concatenate(different)
    known = ~np.isnan(distances)
    problem, distances, labels = problem[known], distances[known], labels[known]
    if not 0 < labels.sum() < len(labels):
        return None

    def fit(where: npt.NDArray[np.bool_]) -> Calibration:
        curve = fit_curve(distances[where], labels[where])
        steps = "chat" if column.source == GIVEN else column.source
        return Calibration(column.distance.name, embedder, steps, *curve, int(where.sum()))

    chances = np.full(len(labels), np.nan)
    for fold in range(FOLDS):
        held_out = problem % FOLDS == fold
        if 0 < labels[~held_out].sum() < (~held_out).sum():
            left = fit(~held_out)
            chances[held_out] = [left.chance(value) for value in distances[held_out]]
    seen = ~np.isnan(chances)
    error = calibration_error(chances[seen], labels[seen]) if seen.any() else None
    return replace(fit(np.ones(len(labels), dtype=bool)), error=error)


def _draw(
    column: _Column, different: Sequence[npt.NDArray[np.bool_]], weights: Floats
) -> dict[str, Floats]:
    """Each measure on the problems as they are and on every resample of them."""
    wins = count_wins(column.pairs, different)
    return {
        "pooled": pooled_auroc(wins, weights),
        "within": within_auroc(wins, weights),
        "success": weighted_mean(column.success, weights),
        "triples": weighted_mean(column.triples, weights),
    }
