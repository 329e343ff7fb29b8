"""Comparing models on the same problems: differences, tables, plain sentences.

Differences are of the unbiased pass@k and of right solutions. Where strategies are known, by name
or because a chat model sorted them, they are of strategies: how many a model uses, and whether two
use others. Elsewhere they are of texts, whose distance measures wording, length and language
together with the method: beside them are placebos, differences of the same solutions that no
strategy explains, and a p value that a placebo reaches is not given.

A difference's band holds for all of its k at once, and what is called different is so after a
correction for everything in the table: if all models are equal, one table in twenty says anything
else (`docs/evaluation.md`, `docs/statistics.md`).

As many right solutions count of either model as the one with fewer has, averaged over all draws of
so many by closed forms; effective strategies, which have none, over `_SUBSETS` draws.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import chain, groupby, zip_longest
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.models import Models
from rpd_datasets.curation.scoring import score_all
from rpd_datasets.evaluation.reporting import figure_remarks, percent, table_text
from rpd_datasets.evaluation.results import Results, powers_of_two
from rpd_datasets.language import written_in
from rpd_datasets.problem import UNNAMED, Problem, strategy_labels
from rpd_metric.distance.core import mean_pairwise
from rpd_metric.distance.groups import ReaderTrust
from rpd_metric.errors import InputError
from rpd_metric.statistics.estimators import pass_at_k
from rpd_metric.statistics.intervals import (
    Interval,
    bootstrap_interval,
    holm_rows,
    paired_differences,
)
from rpd_metric.statistics.strategy_counts import coverage_at_n, distinct_at_k, sample_sizes

PASS, STRATEGIES, APART = "pass@k", "effective strategies", "apart"
# Without tests and sentences of their own: they show at which numbers of samples models differ.
COUNTS = "counts"
# Where strategies are not known.
TEXTS, PLACEBO = "texts", "placebo"
_LEVEL = 0.05
# The words where the second model's figure is below the first's, and above it.
_VERBS = {
    PASS: ("is worse than", "is better than"),
    STRATEGIES: ("is less varied than", "is more varied than"),
    APART: ("uses the strategies of", "uses other strategies than"),
}
_UNKNOWN = "Strategies are not known."
_NOTES = {
    PASS: "pass@k in percent, by the unbiased estimate and as the first k samples of each run; "
    "differences are of the unbiased one, with a band for all k at once (95 %).",
    STRATEGIES: "Strategies of right solutions, as rows name them or a chat model sorts them, if "
    "both models have two, with intervals over problems (95 %). Effective strategies: how many "
    "equally common ones they are worth, among as many solutions of either model as the one with "
    "fewer has. apart: the chance that two have different strategies; first of one model, second "
    "of one of each.",
    COUNTS: "coverage@N: distinct strategies among N right solutions, where both models have N. "
    "distinct@k: distinct strategies of the right ones among k samples, over problems that a model "
    "solves. Each with a bootstrap interval over problems (95 %, docs/statistics.md).",
    TEXTS: "Distances of right solutions, where both models have two, with intervals over problems "
    "(95 %). They measure wording, length and language together with the method, and count no "
    "strategies. texts apart: first of two of one model, second of one of each. A placebo divides "
    "the same solutions by what is no strategy; a p value that a placebo reaches is not given.",
}
# The owners of solutions that a placebo divides.
_SIDES = ("one side", "other side")
_DEALS, _SUBSETS = 2_000, 200
Groups = Mapping[str, Sequence[Results]]
Names = tuple[str, str, str]  # of a benchmark and the two models
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Difference(Interval):
    """A figure of two models on a benchmark: `second`, that of `other`, minus `first`.

    `"apart"`, `"texts"` and `"placebo"` are of one solution of each, minus two of one. The interval
    holds for all k at once, and p is corrected for the whole table, but for placebos.

    Args:
        p (`float`, *optional*): `None` where none is given: of counts, and of texts where a placebo
            `reached` it.
    """

    p: float | None
    benchmark: str
    base: str
    other: str
    measure: str
    figure: str
    first: float
    second: float
    problems: int
    reached: tuple[str, ...] = ()

    @property
    def tested(self) -> bool:
        """Whether it has a sentence, and a place in the correction for the whole table."""
        return self.measure not in (PLACEBO, COUNTS)

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
    groups: dict[str, list[Results]] = {}
    for model in results:
        models = groups.setdefault(model.title, [])
        if model.name in (earlier.name for earlier in models):
            raise InputError(
                f"two results of {model.title} are called {model.name!r}; give one another name "
                "(NAME=LOG)"
            )
        models.append(model)
        both = f"{models[0].name} and {model.name} were evaluated"
        if set(models[0].marks) != set(model.marks):
            raise InputError(f"{both} on different problems of {model.title}; use the same --limit")
        ours, theirs = models[0].settings, model.settings
        pairs = {name: (ours.get(name), theirs.get(name)) for name in ours | theirs}
        unequal = [f"{name} ({a} and {b})" for name, (a, b) in pairs.items() if a != b]
        if unequal and not different_settings:
            raise InputError(
                f"{both} with another {', '.join(unequal)}; {{different_settings=True}} compares "
                "them all the same",
                option="different_settings",
            )
    comparable = {title: models for title, models in groups.items() if len(models) > 1}
    if not comparable:
        raise InputError("no benchmark has results of two models; name the results of two")
    return comparable


@dataclass(frozen=True)
class Solved:
    """One problem, and the right solutions of all models to it."""

    problem: str
    owners: Sequence[str]  # whose each is
    distances: Floats  # NaN for one that cannot be placed
    strategies: Sequence[str | None] | None = None  # None for one that has none, and for unknown
    texts: Sequence[str] = ()

    @property
    def num_strategies(self) -> int:
        """Those of all models together; 0 where they are not known."""
        return len(set(self.strategies or ()) - {None})

    def of(self, name: str) -> list[int]:
        """The solutions of a model that have a place."""
        placed = ~np.isnan(self.distances.diagonal())
        known = self.strategies or self.owners
        own = (place for place, owner in enumerate(self.owners) if owner == name)
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
    *,
    most: int = 32,
    on_problem: Callable[[], None] = lambda: None,
    say: Callable[[str], None] = lambda _: None,
) -> list[Solved]:
    """Compare the right solutions of all models of a benchmark by the distance of a configuration.

    They are compared together, in one matrix and as one set of strategies, since a distance such as
    `pieces` depends on a problem's other solutions and a strategy's name on who sorts. Strategies
    are known where the rows of all models name them, or a chat model sorts the solutions and has
    earned trust ([`~rpd_metric.distance.groups.ReaderTrust`]); `say` is told if it has not. Of more
    than `most` solutions of a model, so many are drawn.
    """
    joint, named = [], True
    for name in models[0].marks:
        parts: list[tuple[str, str | None, str]] = []  # owner, strategy, text
        for model in models:
            right = model.right[name]
            draw, count = random.Random(f"{config.seed}:{model.name}:{name}"), len(right.solutions)
            right = right.take(sorted(draw.sample(range(count), min(count, most))))
            labels = strategy_labels(right.extra, len(right.solutions)) or []
            # Numbers of two files mean two things.
            named &= not right.solutions or not all(map(str.isdigit, labels))
            parts += zip_longest([model.name] * len(right.solutions), labels, right.solutions)
        if parts:
            owners, known, texts = zip(*parts, strict=True)
            extra = {"owners": owners, "strategies": known}
            joint.append(Problem(right.problem, texts, extra, where=name, group=name))
    solved, aurocs = list[Solved](), list[float | None]()
    async with aclosing(score_all(joint, config, loaded)) as scores:
        async for problem, scored in scores:
            strategies: list[str | None] | None = None
            if named:
                strategies = [None if s == UNNAMED else s for s in problem.extra["strategies"]]
            elif scored.strategies:
                strategies = [None if g is None else str(g) for g in scored.strategies]
                aurocs.append(scored.groups_auroc)
            owners, matrix = problem.extra["owners"], np.array(scored.chosen_by, dtype=np.float64)
            solved.append(Solved(problem.group, owners, matrix, strategies, problem.solutions))
            on_problem()
    trust = ReaderTrust.of(aurocs)
    # Where models share one strategy there is little to check, and a reader that says so is right.
    if trust.refuted:
        say(f"the chat model's groups are not trusted and do not count: {trust.in_words()}")
        solved = [replace(problem, strategies=None) for problem in solved]
    least = config.filters.min_strategies
    return [problem for problem in solved if problem.num_strategies >= least]


def compare(
    groups: Groups, solved: Mapping[str, Sequence[Solved]] | None = None, distance: str = ""
) -> list[Difference]:
    """Compare the first model of each benchmark with each other one.

    The k are the powers of two up to the number of samples that every problem has, and that number.
    `solved` are the right solutions of all models by benchmark, and `distance` is the name of what
    they were compared by.
    """
    differences: list[Difference] = []
    for title, (base, *others) in groups.items():
        together = (solved or {}).get(title, ())
        for other in others:
            names = title, base.name, other.name
            if base.figures["pass_at_k"] and other.figures["pass_at_k"]:
                differences += _of_pass(names, base, other)
            differences += _of_solutions(names, together, distance)
            differences += _of_counts(names, base, other, together)
    if not differences:
        raise InputError(
            "nothing can be compared: no solution is marked as right or wrong, and no problem has "
            "two solutions of both models"
        )
    p_values = [[gap.p or 0.0 for gap in family] for family in _families(differences)]
    corrected = chain.from_iterable(holm_rows(p_values))
    for place, gap in enumerate(differences):
        if gap.tested:
            p = next(corrected)
            differences[place] = replace(gap, p=None if gap.reached else p)
    return differences


def _families(differences: Sequence[Difference]) -> list[list[Difference]]:
    """What is tested, by what one band and one sentence are about."""
    tested = filter(attrgetter("tested"), differences)
    return [list(family) for _, family in groupby(tested, attrgetter("family"))]


def _of_pass(names: Names, base: Results, other: Results) -> Iterator[Difference]:
    """Differences of all samples; bands and p values by as many samples of either model.

    Near the ceiling, a model with fewer samples looks different from itself: its values are as
    high on average, but coarser.
    """
    # Samples drawn and right of each problem.
    counts = [np.array([model.counts[id_] for id_ in base.marks]).T for model in (other, base)]
    fewest = np.minimum(counts[0][0], counts[1][0])
    ks = powers_of_two(int(fewest.min()))

    def values(drawn: npt.ArrayLike, right: npt.ArrayLike) -> Floats:
        return np.transpose([pass_at_k(drawn, right, k) for k in ks])

    rng = np.random.default_rng(0)
    thinned = [values(fewest, rng.hypergeometric(c, n - c, fewest)) for n, c in counts]
    theirs, ours = (values(*pair) for pair in counts)
    means = np.transpose([rows.mean(axis=0) for rows in (theirs - ours, ours, theirs)]).tolist()
    for k, gap, (value, first, second) in zip(ks, paired_differences(*thinned), means, strict=True):
        low, high = value - gap.value + gap.low, value - gap.value + gap.high
        ends = value, max(-1.0, low), min(1.0, high), gap.p
        yield Difference(*ends, *names, PASS, f"pass@{k}", first, second, len(fewest))


def _of_solutions(names: Names, solved: Sequence[Solved], distance: str) -> Iterator[Difference]:
    """Differences of right solutions, where a problem has two of both models."""
    # A problem whose strategies a chat model could not sort is left out.
    solved = [problem for problem in solved if problem.strategies is not None] or solved
    _, base, other = names
    by_problem = _figures_of(solved, base, other)
    if not by_problem:
        return
    if solved[0].strategies is not None:
        variety = np.array([problem.variety for problem in by_problem])
        yield _of_columns(names, STRATEGIES, STRATEGIES, variety)
        yield from _of_pairs(names, APART, APART, solved, (base, other))
        return
    by = f" ({distance})" if distance else ""
    controls = [
        control
        for figure, relabelled in placebos(solved, base, other).items()
        for control in _of_pairs(names, PLACEBO, f"placebo: {figure}", relabelled, _SIDES)
    ]
    for gap in _of_pairs(names, TEXTS, f"texts apart{by}", solved, (base, other)):
        reached = [
            control.figure.removeprefix("placebo: ")
            for control in controls
            if (control.p or 0) <= (gap.p or 0)
        ]
        yield replace(gap, reached=tuple(reached))
    yield from controls


def _of_counts(
    names: Names, base: Results, other: Results, solved: Sequence[Solved]
) -> Iterator[Difference]:
    """Coverage@N of right solutions, and distinct@k of all samples, where strategies are known."""
    rows = []
    for problem in solved:
        if known := problem.strategies:
            places = [problem.of(model.name) for model in (base, other)]
            rows.append((problem, [[known[place] for place in side] for side in places]))
    fewest = [min(map(len, sides)) for _, sides in rows]
    for n in sample_sizes([number for number in fewest if number > 1]):
        pairs = [sides for (_, sides), number in zip(rows, fewest, strict=True) if number >= n]
        values = [[coverage_at_n(side, n) for side in sides] for sides in pairs]
        yield _counted(names, f"coverage@{n}", values)
    if not base.figures["pass_at_k"] or not other.figures["pass_at_k"]:
        return
    # Each model's labels with its samples and the right ones, if all that were drawn have a label.
    drawn = [
        [
            (side, *model.counts[problem.problem])
            for model, side in zip((base, other), sides, strict=True)
        ]
        for problem, sides in rows
        if [problem.owners.count(name) for name in names[1:]] == list(map(len, sides))
    ]
    for k in sample_sizes([min(samples for _, samples, _ in sides) for sides in drawn], 1):
        values = [
            [distinct_at_k(side, samples, right, k) for side, samples, right in sides]
            for sides in drawn
            if all(k <= samples and min(k, right) <= len(side) for side, samples, right in sides)
        ]
        if values:
            yield _counted(names, f"distinct@{k}", values)


def _counted(names: Names, figure: str, values: Sequence[Sequence[float]]) -> Difference:
    """The difference of the second column and the first, with a bootstrap interval."""
    columns = np.array(values)
    gap = bootstrap_interval(columns[:, 1] - columns[:, 0])
    first, second = columns.mean(axis=0).tolist()
    ends = gap.value, gap.low, gap.high, None
    return Difference(*ends, *names, COUNTS, figure, first, second, len(columns))


def _of_pairs(
    names: Names,
    measure: str,
    figure: str,
    solved: Sequence[Solved],
    sides: tuple[str, str],
) -> Iterator[Difference]:
    """How much further apart one solution of each side is than two of one side; p uncorrected."""
    if pairs := [(problem.within, problem.between) for problem in _figures_of(solved, *sides)]:
        p = chance_apart(solved, *sides)
        yield replace(_of_columns(names, measure, figure, np.array(pairs)), p=p)


def _of_columns(names: Names, measure: str, figure: str, columns: Floats) -> Difference:
    """The second column minus the first, whose values may exceed 1."""
    most = max(1.0, float(columns.max()))
    (gap,) = paired_differences(columns[:, 1:] / most, columns[:, :1] / most)
    ends = gap.value * most, gap.low * most, gap.high * most, gap.p
    first, second = columns.mean(axis=0).tolist()
    return Difference(*ends, *names, measure, figure, first, second, len(columns))


def placebos(solved: Sequence[Solved], base: str, other: str) -> dict[str, list[Solved]]:
    """The solutions of two models divided by what is no strategy, into `_SIDES`.

    The longer ones (as many as `other` has) against the shorter ones, those in one language against
    those in another, and half of a model's solutions against its other half.
    """
    written = [list(map(written_in, problem.texts)) for problem in solved]
    languages = Counter(name for names in written for name in names if name)
    first, second = ([name for name, _ in languages.most_common(2)] + [""] * 2)[:2]
    divided: dict[str, list[Solved]] = {}
    for problem, names in zip(solved, written, strict=True):
        ours, theirs = problem.of(base), problem.of(other)
        places = sorted([*ours, *theirs], key=lambda place: len(problem.texts[place]))
        divisions = {
            "longer against shorter": (places[: len(ours)], places[len(ours) :]),
            f"in {first} against in {second}": (
                [place for place in places if names[place] == first],
                [place for place in places if second and names[place] == second],
            ),
        }
        for model, own in ((base, ours), (other, theirs)):
            mixed = random.Random(f"{model}:{problem.problem}").sample(own, len(own))
            halves = mixed[: len(own) // 2], mixed[len(own) // 2 :]
            divisions[f"half of {model} against its other half"] = halves
        for figure, sides in divisions.items():
            owners = [""] * len(problem.owners)
            for name, side in zip(_SIDES, sides, strict=True):
                for place in side:
                    owners[place] = name
            divided.setdefault(figure, []).append(replace(problem, owners=owners))
    return divided


class Figures(NamedTuple):
    """Two models on one problem, by strategies where these are known, else by distance.

    `variety` is of each model the effective number of strategies of so many of its right solutions
    as both models have; empty where strategies are not known. `within` and `between` are the chance
    that two right solutions have different strategies, or their mean distance: of one model, mean
    of both, and of one of each.
    """

    variety: Sequence[float]
    within: float
    between: float


def figures(solved: Solved, first: str, second: str) -> Figures | None:
    """The figures of two models on a problem; `None` where either has no two right solutions."""
    both = solved.of(first), solved.of(second)
    fewest = min(map(len, both))
    if fewest < 2:
        return None
    apart = [mean_pairwise(solved.between(places, places)) or 0.0 for places in both]
    pairs = sum(apart) / 2, float(solved.between(*both).mean())
    if (known := solved.strategies) is None:
        return Figures((), *pairs)
    times = [Counter(known[place] for place in places) for places in both]
    counts = np.array([[uses[name] for name in times[0] | times[1]] for uses in times])
    # Of as many draws of either: the figure of fewer solutions is higher or lower on average.
    rng = np.random.default_rng(0)
    subsets = [rng.multivariate_hypergeometric(row, fewest, size=_SUBSETS) for row in counts]
    effective = [float((fewest**2 / (rows**2).sum(axis=1)).mean()) for rows in subsets]
    return Figures(effective, *pairs)


def _figures_of(solved: Sequence[Solved], first: str, second: str) -> list[Figures]:
    """Those of all problems where both have two right solutions."""
    return [pair for problem in solved if (pair := figures(problem, first, second))]


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
    return list(map(_sentence, _families(differences)))


def _sentence(family: Sequence[Difference]) -> str:
    """What one band allows to say."""
    gap = family[0]
    other, base, measure = gap.other, gap.base, gap.measure
    where = f"{gap.problems} problems of {gap.benchmark}"
    where += "" if measure == PASS else " that both solve twice"
    texts = (
        f"On the {where}, texts of {other} and {base} differ: {gap.second:.3f} apart, two of one "
        f"model {gap.first:.3f}"
    )
    if measure == TEXTS and gap.p is None and gap.low > 0:
        reached = ", ".join(gap.reached)
        return f"{texts}; no p value, because placebos reach it ({reached}). {_UNKNOWN}"
    by_verb: dict[str, list[Difference]] = {}
    for row in family:
        # p is of as many samples of either model, which may draw apart what all samples do not.
        sure = row.p is not None and row.p < _LEVEL and (measure != PASS or row.excludes_zero)
        if sure:
            verb = _VERBS[measure][row.value > 0] if measure in _VERBS else ""
            by_verb.setdefault(verb, []).append(row)
    if not by_verb:
        return f"The {where} cannot tell {other} from {base} by {measure}."
    if measure == TEXTS:
        return f"{texts}, wording and method together. {_UNKNOWN}"
    parts = []
    for verb, rows in by_verb.items():
        at = f" at {', '.join(row.figure for row in rows)}"
        numbers = f": {gap.second:.3f} against {gap.first:.3f}"
        parts.append(f"{other} {verb} {base}{at if measure == PASS else numbers}")
    return f"On the {where}, {'; '.join(parts)}."


def remarks(groups: Groups) -> list[str]:
    """What the figures of a model do not count, or count in a way of their own, in plain words."""
    return [
        f"{model.name} on {title}: {line}."
        for title, models in groups.items()
        for model in models
        for line in figure_remarks(model)
    ]


def notes(differences: Sequence[Difference], measured_by: str = "") -> list[str]:
    """What was measured on what, for the measures of a comparison."""
    measures = {gap.measure for gap in differences}
    lines = [text for measure, text in _NOTES.items() if measure in measures]
    lines += [f"Measured by {measured_by}."] if measured_by and TEXTS in measures else []
    return [
        *lines,
        "p values and sentences are corrected for the whole table: of equal models, about 5 % of "
        "tables say that any differ (docs/evaluation.md).",
    ]


def comparison_text(
    groups: Groups, differences: Sequence[Difference], measured_by: str = ""
) -> str:
    """The paper's kind of table, the differences, and what they allow to say, in Markdown."""
    parts = [table_text(*table) for table in tables(groups, differences)]
    lines = "\n".join(f"- {sentence}" for sentence in sentences(differences) + remarks(groups))
    return "\n\n".join([*parts, lines, *notes(differences, measured_by)])


def tables(
    groups: Groups, differences: Sequence[Difference]
) -> list[tuple[list[str], list[list[str]]]]:
    """The tables of a comparison, each its head and its rows of cells."""
    levels = [
        (f"{title}: {model.name}", estimate, model.figures[key])
        for title, models in groups.items()
        for model in models
        for key, estimate in (("pass_at_k", "unbiased"), ("first_k", "first k"))
    ]
    ks = sorted({k for *_, by_k in levels for k in by_k})
    passed = [
        [name, estimate, *(f"{100 * by_k[k].value:.2f}" if k in by_k else "" for k in ks)]
        for name, estimate, by_k in levels
        if by_k
    ]
    gaps = []
    for gap in differences:
        models, last = f"{gap.benchmark}: {gap.base}, {gap.other}", f"{gap.problems}"
        cells = [f"{gap.first:.3f}", f"{gap.second:.3f}"]
        cells.append(f"{gap.value:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]")
        if gap.measure == PASS:
            cells = [f"{100 * gap.first:.2f}", f"{100 * gap.second:.2f}", percent(gap)]
        p = "–" if gap.p is None else f"{gap.p:.4f}"
        gaps.append([models, gap.figure, *cells, p, last])
    columns = ["models", "figure", "first", "second", "difference", "p", "problems"]
    both = [(["model", "estimate", *(f"pass@{k}" for k in ks)], passed), (columns, gaps)]
    return [table for table in both if table[1]]
