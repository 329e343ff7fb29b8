"""Comparing models on the same problems: differences, tables, plain sentences.

Differences are of the unbiased pass@k, of how many ways the right solutions go, and of whether two
models go different ways. A difference's band holds for all of its k at once, and what is called
different is so after a correction for everything in the table: if all models are equal, one table
in twenty says anything else (`docs/evaluation.md`, `docs/statistics.md`).

As many right solutions count of either model as the one with fewer has, averaged over all draws of
so many: no draw is made, the averages have closed forms.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import chain, groupby, zip_longest
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.models import Models
from rpd_datasets.curation.scoring import score_all
from rpd_datasets.evaluation.reporting import percent, table_text
from rpd_datasets.evaluation.results import FILES, Results, powers_of_two
from rpd_datasets.problem import UNNAMED, Problem, strategy_labels
from rpd_metric.arrays import nan_for_none
from rpd_metric.distance.calibration import Calibration
from rpd_metric.distance.core import mean_pairwise
from rpd_metric.distance.diversity import strategy_groups
from rpd_metric.errors import InputError
from rpd_metric.statistics.estimators import pass_at_k
from rpd_metric.statistics.intervals import (
    Interval,
    PairedDifference,
    holm_rows,
    mean_interval,
    paired_differences,
)

PASS, STRATEGIES, DISTANCE, APART = "pass@k", "strategies", "distance", "apart"
_LEVEL = 0.05
# What is said where the second model's figure is below the first's, and above it.
_VERBS = {
    PASS: ("is worse than", "is better than"),
    STRATEGIES: ("has fewer strategies than", "has more strategies than"),
    DISTANCE: ("is less varied than", "is more varied than"),
    APART: ("goes the ways of", "goes other ways than"),
}
NOTES = (
    "pass@k in percent, by the unbiased estimate and as the first k samples of each run; "
    "differences are of the unbiased one, with a band for all k at once (95 %).",
    "Other figures are of right solutions, where both models have two, with intervals over "
    "problems (95 %). strategies, distance: how many there are, or the mean distance of two, among "
    "as many of either model as the one with fewer has, averaged over all draws. apart: the chance "
    "that two have different strategies, or their mean distance; of one model, and of one of each.",
    "p values and sentences are corrected for the whole table: of equal models, about 5 % of "
    "tables say that any differ (docs/evaluation.md).",
)
_DEALS = 2_000
Groups = Mapping[str, Sequence[Results]]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Difference(PairedDifference):
    """A figure of two models on a benchmark: `second`, that of `other`, minus `first`.

    `"apart"` is of right solutions of both models, minus of one. The interval holds for all k at
    once, and p is corrected for the whole table. `only` has the shares of the strategies of either
    model that the other lacks.
    """

    benchmark: str
    base: str
    other: str
    measure: str
    figure: str
    first: float
    second: float
    problems: int
    only: list[Interval] | None = None

    @property
    def family(self) -> tuple[str, str, str, str]:
        """What one band and one sentence are about."""
        return self.benchmark, self.base, self.other, self.measure


def by_benchmark(results: Sequence[Results], *, different_settings: bool = False) -> Groups:
    """The models that can be compared, by benchmark: the first with each other one.

    Raises:
        [`InputError`]: Two met different problems, were sampled or graded differently (unless
            `different_settings`), or have one name; or no benchmark has two.
    """
    if any(one.benchmark == FILES for one in results):
        results = [one.by_text() for one in results]
    groups: dict[str, list[Results]] = {}
    for one in results:
        models = groups.setdefault(one.title, [])
        if one.name in (model.name for model in models):
            raise InputError(
                f"two results of {one.title} are called {one.name!r}; give one another name "
                "(NAME=LOG)"
            )
        models.append(one)
        both = f"{models[0].name} and {one.name} were evaluated"
        if set(models[0].marks) != set(one.marks):
            raise InputError(f"{both} on different problems of {one.title}; use the same --limit")
        ours, theirs = models[0].settings, one.settings
        pairs = {name: (ours.get(name), theirs.get(name)) for name in ours | theirs}
        said = [f"{name} ({a} and {b})" for name, (a, b) in pairs.items() if a != b]
        if said and not different_settings:
            raise InputError(
                f"{both} with another {', '.join(said)}; --different-settings compares them all "
                "the same"
            )
    found = {title: models for title, models in groups.items() if len(models) > 1}
    if not found:
        raise InputError("no benchmark has results of two models; name the results of two")
    return found


@dataclass(frozen=True)
class Solved:
    """One problem, and the right solutions of all models to it."""

    problem: str
    owners: Sequence[str]  # whose each is
    distances: Floats  # NaN for one that cannot be placed
    strategies: Sequence[str | None] | None = None  # None for one that has none, and for unknown
    texts: Sequence[str] = ()

    def of(self, name: str) -> list[int]:
        """The solutions of a model that have a place."""
        placed = ~np.isnan(self.distances.diagonal())
        known = self.strategies or self.owners
        own = (place for place, who in enumerate(self.owners) if who == name)
        return [place for place in own if placed[place] and known[place] is not None]

    def between(self, ours: Sequence[int], theirs: Sequence[int]) -> Floats:
        """0 or 1 by strategies where these are known, else distances."""
        if self.strategies is None:
            return self.distances[np.ix_(ours, theirs)]
        names = np.array(self.strategies)
        return np.asarray(names[ours][:, None] != names[theirs], dtype=np.float64)


async def solve_together(
    models: Sequence[Results],
    config: CurationConfig,
    loaded: Models,
    curve: Calibration | None,
    *,
    most: int = 32,
    on_problem: Callable[[], None] = lambda: None,
) -> list[Solved]:
    """Compare the right solutions of all models of a benchmark by the distance of a configuration.

    They are compared together, in one matrix and as one set of strategies, since a distance such as
    `pieces` depends on a problem's other solutions and a strategy's name on who sorts. Where not
    all problems name strategies, groups are cut where the `curve` of the distance says that another
    strategy is as likely as not. Of more than `most` solutions of a model, so many are drawn.
    """
    joint, named = [], True
    for name in models[0].marks:
        parts: list[tuple[str, str | None, str]] = []  # whose, by which strategy, the text
        for one in models:
            right = one.right[name]
            draw, count = random.Random(f"{config.seed}:{one.name}:{name}"), len(right.solutions)
            right = right.take(sorted(draw.sample(range(count), min(count, most))))
            labels = strategy_labels(right.extra, len(right.solutions)) or []
            # Numbers of two files mean two things.
            named &= not right.solutions or not all(map(str.isdigit, labels))
            parts += zip_longest([one.name] * len(right.solutions), labels, right.solutions)
        if parts:
            owners, known, texts = zip(*parts, strict=True)
            extra = {"owners": owners, "strategies": known}
            joint.append(Problem(right.problem, texts, extra, where=name, group=name))
    found = list[Solved]()
    async with aclosing(score_all(joint, config, loaded)) as scored:
        async for problem, one_scored in scored:
            matrix = nan_for_none(one_scored.chosen_by)
            strategies: list[str | None] | None = None
            if named:
                strategies = [None if s == UNNAMED else s for s in problem.extra["strategies"]]
            elif curve is not None:
                groups = strategy_groups(matrix, -curve.intercept / curve.slope)
                strategies = [None if group is None else str(group) for group in groups]
            owners = problem.extra["owners"]
            found.append(Solved(problem.group, owners, matrix, strategies, problem.solutions))
            on_problem()
    return found


def compare(
    groups: Groups, solved: Mapping[str, Sequence[Solved]] | None = None, distance: str = ""
) -> list[Difference]:
    """Compare the first model of each benchmark with each other one.

    The k are the powers of two up to the number of samples that every problem has, and that number.
    `solved` are the right solutions of all models by benchmark, and `distance` is the name of what
    they were compared by.
    """
    found: list[Difference] = []
    for title, (base, *others) in groups.items():
        for other in others:
            if base.figures["pass_at_k"] and other.figures["pass_at_k"]:
                found += _of_pass(title, base, other)
            names = title, base.name, other.name
            found += _of_ways(*names, (solved or {}).get(title, ()), distance)
    if not found:
        raise InputError(
            "nothing can be compared: no solution is marked as right or wrong, and no problem has "
            "two solutions of both models"
        )
    families = [[one.p for one in rows] for _, rows in groupby(found, key=lambda one: one.family)]
    corrected = chain.from_iterable(holm_rows(families))
    return [replace(one, p=p) for one, p in zip(found, corrected, strict=True)]


def _of_pass(title: str, base: Results, other: Results) -> Iterator[Difference]:
    """Differences of all samples; bands and p values by as many samples of either model.

    Near the ceiling, a model with fewer samples looks different from itself: its values are as
    high on average, but coarser.
    """
    # Samples drawn and right of each problem.
    counts = [np.array([one.counts[id_] for id_ in base.marks]).T for one in (other, base)]
    fewest = np.minimum(counts[0][0], counts[1][0])
    ks = powers_of_two(int(fewest.min()))

    def values(drawn: npt.ArrayLike, right: npt.ArrayLike) -> Floats:
        return np.transpose([pass_at_k(drawn, right, k) for k in ks])

    rng = np.random.default_rng(0)
    thinned = [values(fewest, rng.hypergeometric(c, n - c, fewest)) for n, c in counts]
    theirs, ours = (values(*one) for one in counts)
    whole = np.transpose([one.mean(axis=0) for one in (theirs - ours, ours, theirs)]).tolist()
    for k, gap, figures_ in zip(ks, paired_differences(*thinned), whole, strict=True):
        value, first, second = figures_
        low, high = value - gap.value + gap.low, value - gap.value + gap.high
        ends = value, max(-1.0, low), min(1.0, high), gap.p
        names = title, base.name, other.name, PASS, f"pass@{k}"
        yield Difference(*ends, *names, first, second, len(fewest))


def _of_ways(
    title: str, base: str, other: str, solved: Sequence[Solved], distance: str
) -> Iterator[Difference]:
    """Differences of how right solutions go, where a problem has two of both models."""
    # A problem whose strategies a chat model could not sort is left out.
    solved = [one for one in solved if one.strategies is not None] or solved
    known = [one for one in (figures(each, base, other) for each in solved) if one is not None]
    if not known:
        return
    only = None
    if known[0].only is not None:
        only = [mean_interval(share) for share in np.transpose([one.only for one in known])]
    ways = [one.variety for one in known]
    measure = DISTANCE if only is None else STRATEGIES
    for name, pairs in ((measure, ways), (APART, [(one.within, one.between) for one in known])):
        values = np.array(pairs)
        most = max(1.0, float(values.max()))  # of strategies there are several
        (gap,) = paired_differences(values[:, 1:] / most, values[:, :1] / most)
        p = chance_apart(solved, base, other) if name == APART else gap.p
        ends = gap.value * most, gap.low * most, gap.high * most, p
        first, second = values.mean(axis=0).tolist()
        kept = None if name == APART else only
        figure = f"{name} ({distance})" if distance and measure == DISTANCE else name
        yield Difference(*ends, title, base, other, name, figure, first, second, len(known), kept)


class Figures(NamedTuple):
    """Two models on one problem, by strategies where these are known, else by distance.

    `variety` is of each model how many strategies so many of its right solutions have as both
    models have; or the mean distance of two. `only` is the share of these strategies that as many
    of the other model lack. `within` and `between` are the chance that two right solutions have
    different strategies, or their mean distance: of one model, mean of both, and of one of each.
    """

    variety: Sequence[float]
    within: float
    between: float
    only: Sequence[float] | None = None


def figures(solved: Solved, first: str, second: str) -> Figures | None:
    """The figures of two models on a problem; `None` where either has no two right solutions."""
    both = solved.of(first), solved.of(second)
    fewest = min(map(len, both))
    if fewest < 2:
        return None
    apart = [mean_pairwise(solved.between(one, one)) or 0.0 for one in both]
    found = sum(apart) / 2, float(solved.between(*both).mean())
    if (known := solved.strategies) is None:
        return Figures(apart, *found)
    times = [Counter(known[place] for place in one) for one in both]
    counts = np.array([[one[name] for name in times[0] | times[1]] for one in times])
    # A strategy is among so many draws as often as a right sample is: pass@k.
    seen = np.asarray(pass_at_k(counts.sum(axis=1, keepdims=True), counts, fewest))
    number = seen.sum(axis=1)
    only = (seen * (1 - seen[::-1])).sum(axis=1) / number
    return Figures(number.tolist(), *found, only.tolist())


def chance_apart(problems: Sequence[Solved], first: str, second: str) -> float:
    """The p value of two models going the same ways: exact where their solutions could be swapped.

    The right solutions of each problem are dealt anew, to either as many as it has: how often are
    the two then as far apart (the mean of `between - within`)?
    """
    rng, apart = np.random.default_rng(0), np.zeros(_DEALS + 1)
    for solved in problems:
        ours, theirs = solved.of(first), solved.of(second)
        a, b, places = len(ours), len(theirs), [*ours, *theirs]
        if min(a, b) < 2:
            continue
        distances = solved.between(places, places)
        dealt = np.tile(np.arange(a + b) < a, (_DEALS + 1, 1))
        dealt[1:] = rng.permuted(dealt[1:], axis=1)  # the first is as it was
        rows = dealt @ distances
        own = (rows * dealt).sum(axis=1)
        between = rows.sum(axis=1) - own
        other = distances.sum() - own - 2 * between
        apart += between / (a * b) - (own / (a * (a - 1)) + other / (b * (b - 1))) / 2
    return float((apart >= apart[0] - 1e-9).mean())


def sentences(differences: Sequence[Difference]) -> list[str]:
    """Whether the data can tell models apart, in plain words."""
    said = []
    for (title, base, other, measure), rows in groupby(differences, key=lambda one: one.family):
        told: dict[str, list[Difference]] = {}
        for one in rows:
            # p is of as many samples of either model, which may draw apart what all samples do not.
            sure = one.p < _LEVEL and (measure != PASS or one.excludes_zero)
            verb = _VERBS[measure][one.value > 0] if sure else ""
            told.setdefault(verb, []).append(one)
        where = f"{one.problems} problems of {title}"
        where += "" if measure == PASS else " that both solve twice"
        parts = []
        for verb, found in told.items():
            shown = f" at {', '.join(each.figure for each in found)}"
            if measure != PASS:
                shown = f": {one.second:.3f} against {one.first:.3f}"
            parts += [f"{other} {verb} {base}{shown}"] if verb else []
        none = f"The {where} cannot tell {other} from {base} by {measure}."
        said.append(f"On the {where}, {'; '.join(parts)}." if parts else none)
    return said


def missing(groups: Groups) -> list[str]:
    """How many samples of a model no figure counts, in plain words."""
    return [
        f"{one.missing:,} samples or rows of {one.name} on {title} are missing; figures are of "
        "those that are there."
        for title, models in groups.items()
        for one in models
        if one.missing
    ]


def comparison_text(groups: Groups, differences: Sequence[Difference]) -> str:
    """The paper's kind of table, the differences, and what they allow to say, in Markdown."""
    parts = [table_text(*table) for table in tables(groups, differences)]
    said = "\n".join(f"- {sentence}" for sentence in sentences(differences) + missing(groups))
    return "\n\n".join([*parts, said, *NOTES])


def tables(
    groups: Groups, differences: Sequence[Difference]
) -> list[tuple[list[str], list[list[str]]]]:
    """The tables of a comparison, each its head and its rows of cells."""
    levels = [
        (f"{title}: {one.name}", way, one.figures[key])
        for title, models in groups.items()
        for one in models
        for key, way in (("pass_at_k", "unbiased"), ("first_k", "first k"))
    ]
    ks = sorted({k for *_, by_k in levels for k in by_k})
    passed = [
        [name, way, *(f"{100 * by_k[k].value:.2f}" if k in by_k else "" for k in ks)]
        for name, way, by_k in levels
        if by_k
    ]
    gaps = []
    for one in differences:
        models, last = f"{one.benchmark}: {one.base}, {one.other}", f"{one.problems}"
        cells = [f"{one.first:.3f}", f"{one.second:.3f}"]
        cells.append(f"{one.value:+.3f} [{one.low:+.3f}, {one.high:+.3f}]")
        if one.measure == PASS:
            cells = [f"{100 * one.first:.2f}", f"{100 * one.second:.2f}", percent(one)]
        gaps.append([models, one.figure, *cells, f"{one.p:.4f}", last])
        if one.only:
            gaps.append([models, "only its own (%)", *map(percent, one.only), "", "", last])
    columns = ["models", "figure", "first", "second", "difference", "p", "problems"]
    found = [(["model", "estimate", *(f"pass@{k}" for k in ks)], passed), (columns, gaps)]
    return [table for table in found if table[1]]
