"""Which distance tells a change of strategy from a change of words?

Rows with strategy labels (two passes, see `labels.py`) in, figures out. Four things are measured,
each with a 95 % bootstrap interval over problems and its paired difference to RPD:

- `pooled`: AUROC over all pairs of all problems;
- `within`: the mean AUROC of the problems that have pairs of both kinds;
- `success`: the share of problems whose most distant pair differs in strategy (Table 1);
- `triples`: the share of problems where three solutions chosen by max-min hold as many
  strategies as three can, among those where a bad choice is possible.

Labels by a chat model, the paper's judge of Table 1, are what `rpd label --judge` writes.
"""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from rpd_datasets.judging.labels import Labels
from rpd_datasets.selection.solutions import select_solutions
from rpd_metric.distance.core import STEP_KINDS, Evidence
from rpd_metric.distance.distances import DISTANCES, Distance, load_distance
from rpd_metric.distance.groups import ReaderTrust, group_distances, groups_auroc
from rpd_metric.distance.measured import (
    CHAT,
    Calibration,
    EvidenceTable,
    Measurement,
    calibration_error,
    fit_curve,
)
from rpd_metric.errors import InputError
from rpd_metric.measure import gather
from rpd_metric.models.concurrency import run
from rpd_metric.models.spec import Embedder, load_embedder
from rpd_metric.models.static import default_embedder
from rpd_metric.steps.grouping import StrategyReader
from rpd_metric.steps.protocol import Summarizer, summaries_of
from rpd_metric.steps.summarizers import load_summarizer

REFERENCE = "rpd"
FOLDS = 5
# A chat model's groups, then the distance that tells their members apart.
GROUPS, WITHIN_GROUPS = "groups", "strategy"
# Measured by name only: one loses where wording misleads, the other runs programs.
BY_NAME = ("combined", "growth")
# Where the chances of a curve are printed.
DISTANCES_SHOWN = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
GIVEN = "given"

Bools = npt.NDArray[np.bool_]
Steps = list[list[str]]
TableRow = dict[str, str]


@dataclass(frozen=True)
class MethodResult:
    """What one distance achieved on one source of steps."""

    distance: str
    steps: str  # "given", the summarizer's name, or "" where steps do not matter
    figures: dict[str, Estimate]
    differences: dict[str, Estimate]  # figures minus RPD's, paired by problem
    pairs_without_distance: int
    calibration: Calibration | None = None  # with labelled pairs of both kinds


@dataclass(frozen=True)
class Comparison:
    """The figures, by distance in the order asked for, on given steps first."""

    results: tuple[MethodResult, ...]
    embedder: str
    num_problems: int
    skipped: int  # rows with fewer than two solutions
    different: int  # labelled pairs, by what the passes say
    same: int
    disputed: int
    possible: float  # the share of problems with a differing pair
    num_triples: int  # problems in which the choice of three matters
    reader_auroc: float | None = None  # of `strategy` against the groups, see `ReaderTrust`

    def evidence(self, *, embedder: str, chat: bool, texts: str, data: str) -> EvidenceTable:
        """The figures as rows of the table of evidence.

        Args:
            embedder, chat: The encoder, and whether a chat model is the summarizer.
            texts, data: See [`~rpd_metric.distance.measured.Measurement`].
        """
        measured, curves = [], []
        for result in self.results:
            steps = CHAT if result.steps == GIVEN or (result.steps and chat) else result.steps
            row = (result.distance, embedder, steps, texts)
            pooled = result.figures["pooled"]
            if pooled.value is not None and pooled.low is not None and pooled.high is not None:
                figures = round(pooled.value, 3), round(pooled.low, 3), round(pooled.high, 3)
                measured.append(Measurement(*row, *figures, data))
            if curve := result.calibration:
                curves.append(replace(curve, embedder=embedder, steps=steps, texts=texts))
        return EvidenceTable(tuple(measured), tuple(curves))

    def tables(self) -> list[list[TableRow]]:
        """The figures, their paired differences to RPD, and the chances at some distances."""
        figures, differences, chances = [], [], []
        for result in self.results:
            named, steps = {"distance": result.distance}, {"steps": result.steps or "-"}
            values, gaps = result.figures.items(), result.differences.items()
            figures.append(named | steps | {name: f"{value}" for name, value in values})
            if gaps:
                gained = {f"{name} - {REFERENCE}": f"{value:+.3f}" for name, value in gaps}
                differences.append(named | steps | gained)
            if curve := result.calibration:
                shown = {f"{at:.1f}": f"{curve.chance(at):.2f}" for at in DISTANCES_SHOWN}
                error = "-" if curve.error is None else f"{curve.error:.3f}"
                named = {"chance of another strategy at": result.distance}
                chances.append(named | steps | shown | {"error": error})
        return [table for table in (figures, differences, chances) if table]


@dataclass(frozen=True)
class _Case:
    """One labelled problem, with its steps by who made them."""

    problem: str
    solutions: list[str]
    steps: dict[str, Steps]
    labels: Labels
    row: Mapping[str, Any]
    groups: dict[str, Sequence[int | None]] = field(default_factory=dict)  # of these steps

    @property
    def different(self) -> Bools:
        return np.array([differs for _, _, differs in self.labels.pairs()], dtype=bool)


@dataclass
class _Column:
    """What one method made of each problem."""

    distance: Distance
    source: str
    pairs: list[Floats] = field(default_factory=list)
    success: list[float] = field(default_factory=list)
    triples: list[float] = field(default_factory=list)


def compare_metrics(
    rows: Sequence[Mapping[str, Any]],
    embedder: str | Embedder | None = None,
    summarizer: str | Summarizer | None = None,
    methods: Sequence[str | Distance] | None = None,
    seed: int = 0,
    num_bootstrap: int = 2000,
    on_stage: Callable[[str, int], None] = lambda *_: None,
    on_problem: Callable[[], None] = lambda: None,
    reader: StrategyReader | None = None,
) -> Comparison:
    """Measure how well distances see strategy (Sec. 4.1, Table 1).

    Args:
        rows (`Sequence`): Each with `solutions`, `strategy_a` and `strategy_b` or `strategies`, and
            where they are known `problem` and `steps` (per solution a list).
        embedder, summarizer (`str` or loaded): Steps that the summarizer makes appear in the table
            beside the given ones, or alone where none are given.
        methods (`Sequence` of `str` or [`Distance`]): All that are registered if unset, except
            those of `BY_NAME`, and `"groups"` with a reader; RPD, the reference, is added.
        seed, num_bootstrap (`int`): The resamples of the problems.
        on_stage, on_problem (`Callable`): Called with a stage's name and its number of problems,
            and when one of them is done.
        reader ([`~rpd_metric.StrategyReader`], *optional*): Sorts the steps for `"groups"`.

    Raises:
        [`InputError`]: Rows that do not fit, or without labels.
    """
    encoder = load_embedder(embedder or default_embedder())
    cases = [case for number, row in enumerate(rows) if (case := _case(row, number))]
    if not cases:
        raise InputError("no row has two or more solutions; there is nothing to compare")
    sources = [GIVEN] if cases[0].steps else []
    if any(bool(case.steps) != bool(sources) for case in cases):
        raise InputError("some rows have steps, others have not; give them to all or to none")
    if summarizer is not None:
        on_stage("Extracting steps", len(cases))
        sources.append(_add_steps(cases, load_summarizer(summarizer), on_problem))
    if not sources:
        raise InputError("the rows have no steps; name a summarizer, for instance 'extractive'")
    if methods is None:
        methods = [name for name in DISTANCES if name not in BY_NAME]
        methods += [GROUPS] if reader is not None else []
    aurocs: list[float | None] = []
    if GROUPS in methods:
        if reader is None:
            raise InputError(
                '"groups" needs a chat model that sorts the steps; name one with {summarizer}, '
                "e.g. tgi:http://host:port",
                option="summarizer",
            )
        on_stage("Sorting solutions", len(cases))
        _add_groups(cases, reader, on_problem)
    distances = [
        replace(load_distance(WITHIN_GROUPS), name=GROUPS)
        if method == GROUPS
        else load_distance(method)
        for method in methods
    ]
    if all(distance.name != REFERENCE for distance in distances):
        distances.insert(0, load_distance(REFERENCE))
    columns = [
        _Column(distance, source)
        for source in [*sources, ""]
        for distance in distances
        if distance.reads_steps == bool(source)
    ]
    on_stage("Measuring distances", len(cases))
    for case in cases:
        aurocs += _measure(case, columns, encoder, seed)
        on_problem()
    different = [case.different for case in cases]
    num_different = int(sum(labels.sum() for labels in different))
    num_agreed = sum(map(len, different))
    return Comparison(
        results=_results(different, columns, encoder.name, num_bootstrap, seed),
        embedder=encoder.name,
        num_problems=len(cases),
        skipped=len(rows) - len(cases),
        different=num_different,
        same=num_agreed - num_different,
        disputed=sum(math.comb(len(case.solutions), 2) for case in cases) - num_agreed,
        possible=sum(bool(labels.any()) for labels in different) / len(cases),
        num_triples=sum(case.labels.choice_matters(3) for case in cases),
        reader_auroc=ReaderTrust.of(aurocs).auroc,
    )


def _case(row: Mapping[str, Any], number: int) -> _Case | None:
    """A row as a labelled problem; `None` with fewer than two solutions."""
    where = f"row {row.get('problem_id', number)}"
    solutions, steps = row.get("solutions"), row.get("steps")
    if not isinstance(solutions, list):
        raise InputError(f"{where} has no list of solutions")
    if steps is not None and len(steps) != len(solutions):
        raise InputError(f"{where} has {len(steps)} step lists for {len(solutions)} solutions")
    labels = Labels.of(row, where)
    if len(solutions) < 2:
        return None
    if labels is None:
        raise InputError(
            f"{where} has no strategy labels: rpd label makes some, by hand or with --judge SPEC"
        )
    given = {} if steps is None else {GIVEN: [list(listed or ()) for listed in steps]}
    return _Case(str(row.get("problem") or ""), solutions, given, labels, row)


def _add_steps(
    cases: Sequence[_Case], summarizer: Summarizer, on_problem: Callable[[], None]
) -> str:
    """Add steps of a summarizer's making to every problem; returns its name."""

    async def summarize(case: _Case) -> None:
        summaries = await summaries_of(summarizer, case.problem or None, case.solutions)
        case.steps[summarizer.name] = [list(summary.steps) for summary in summaries]
        on_problem()

    async def summarize_all() -> None:
        await asyncio.gather(*map(summarize, cases))

    run(summarize_all())
    return summarizer.name


def _add_groups(
    cases: Sequence[_Case], reader: StrategyReader, on_problem: Callable[[], None]
) -> None:
    """Have the steps of every problem sorted, each source's by itself."""

    async def sort(case: _Case) -> None:
        for source, steps in case.steps.items():
            case.groups[source] = (await reader.sort(case.problem, steps)).groups
        on_problem()

    async def sort_all() -> None:
        await asyncio.gather(*map(sort, cases))

    run(sort_all())


def _measure(
    case: _Case, columns: Sequence[_Column], embedder: Embedder, seed: int
) -> list[float | None]:
    """Add one problem to every column; the AUROC of `strategy` against its groups, if any."""
    aurocs = []
    labels, pairs = case.labels, case.labels.pairs()
    kinds = dict.fromkeys(kind for column in columns for kind in column.distance.reads)

    def read(kinds: list[str], steps: Steps) -> Evidence:
        return gather(kinds, case.problem, case.solutions, steps, embedder, seed, case.row)

    evidence = {"": read([kind for kind in kinds if kind not in STEP_KINDS], [])}
    for source, steps in case.steps.items():
        of_steps = read([kind for kind in kinds if kind in STEP_KINDS], steps)
        evidence[source] = evidence[""].joined(of_steps)
    for column in columns:
        matrix, groups = column.distance(evidence[column.source]), None
        if column.distance.name == GROUPS:
            groups = case.groups[column.source]
            aurocs.append(groups_auroc(groups, matrix))
            matrix = group_distances(groups, matrix)
        column.pairs.append(np.array([matrix[i, j] for i, j, _ in pairs], dtype=np.float64))
        first, second = np.triu_indices(len(matrix), 1)
        distances = np.nan_to_num(matrix[first, second], nan=-np.inf)
        best = np.argmax(distances)  # the first one on ties
        differs = labels.different(int(first[best]), int(second[best]))
        column.success.append(float(distances[best] > -np.inf and differs is True))
        matters = labels.choice_matters(3)
        chosen = select_solutions(matrix, 3, groups=groups) if matters else []
        column.triples.append(float(labels.complete(chosen, 3)) if matters else math.nan)
    return aurocs


def _results(
    different: Sequence[Bools],
    columns: Sequence[_Column],
    embedder: str,
    num_bootstrap: int,
    seed: int,
) -> tuple[MethodResult, ...]:
    weights = resamples(len(different), num_bootstrap, seed)
    drawn = []
    for column in columns:  # each measure on the problems as they are and on every resample
        wins = count_wins(column.pairs, different)
        drawn.append(
            {
                "pooled": pooled_auroc(wins, weights),
                "within": within_auroc(wins, weights),
                "success": weighted_mean(column.success, weights),
                "triples": weighted_mean(column.triples, weights),
            }
        )
    # RPD's first source of steps is the one that counts: the given ones, where there are any.
    names = [column.distance.name for column in columns]
    reference = drawn[names.index(REFERENCE)]
    return tuple(
        MethodResult(
            distance=column.distance.name,
            steps=column.source,
            figures={name: estimate(figure) for name, figure in values.items()},
            differences={
                name: estimate(figure - reference[name])
                for name, figure in values.items()
                if values is not reference
            },
            pairs_without_distance=int(sum(np.isnan(pairs).sum() for pairs in column.pairs)),
            calibration=_calibrate(column, different, embedder),
        )
        for column, values in zip(columns, drawn, strict=True)
    )


def _calibrate(column: _Column, different: Sequence[Bools], embedder: str) -> Calibration | None:
    """The curve of a column, with its error on folds of the problems that were left out."""
    problem = np.repeat(np.arange(len(different)), list(map(len, different)))
    distances, labels = np.concatenate(column.pairs), np.concatenate(different)
    known = ~np.isnan(distances)
    problem, distances, labels = problem[known], distances[known], labels[known]
    if not 0 < labels.sum() < len(labels):
        return None

    def fit(where: Bools) -> Calibration:
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
