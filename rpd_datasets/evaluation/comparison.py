"""Comparing models on the same problems: differences, a plot, tables, plain sentences.

Differences are of the unbiased pass@k, of how many ways the right solutions go, and of whether two
models go different ways. A difference's band holds for all of its k at once, and what is called
different is so after a correction for everything in the table: if all models are equal, one table
in twenty says anything else (`docs/evaluation.md`, `docs/statistics.md`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rpd_datasets.evaluation.reporting import percent, table_text
from rpd_datasets.evaluation.results import Results, powers_of_two
from rpd_datasets.evaluation.variety import Figures, Solved, chance_apart, figures
from rpd_metric.errors import InputError, MissingExtraError, OutputError
from rpd_metric.statistics.estimators import pass_at_k
from rpd_metric.statistics.intervals import (
    Interval,
    PairedDifference,
    holm_rows,
    mean_interval,
    paired_differences,
)

PASS, APART = "pass@k", "apart"
_BOTH = "of one model, of both"
_LEVEL = 0.05


@dataclass(frozen=True)
class Difference:
    """How two models differ on a benchmark, and that in a plain sentence.

    Args:
        measure (`str`): `"pass@k"`; `"strategies"`, or `"distance NAME"` where these are not known:
            see [`Figures`]; `"apart"`: right solutions of both against those of one model.
        gaps (`dict`): That of `other` minus that of `base` by figure, of pass@k from -1 to 1 with a
            band over all k; of `"apart"` between the models minus within. The p values are
            corrected for the whole table.
        problems (`list` of [`Figures`]): The problems that a measure beside pass@k is the mean of.
    """

    benchmark: str
    base: str
    other: str
    measure: str
    gaps: dict[str, PairedDifference]
    sentence: str = ""
    problems: Sequence[Figures] = ()

    @property
    def values(self) -> list[float]:
        """The two figures of a measure beside pass@k: base and other, or within and between."""
        apart = self.measure == APART
        pairs = [(one.within, one.between) if apart else one.variety for one in self.problems]
        return [float(mean) for mean in np.mean(pairs, axis=0)]


def compare(
    results: Sequence[Results],
    solved: Mapping[str, Sequence[Solved]] | None = None,
    *,
    distance: str = "",
    different_settings: bool = False,
) -> list[Difference]:
    """Compare the first model with each other one, on every benchmark that two have results of.

    The k are the powers of two up to the number of samples that every problem has, and that number.
    `solved` are the right solutions of all models by benchmark, compared by `distance`.

    Raises:
        [`InputError`]: Two results met different problems, were sampled or graded differently
            (unless `different_settings`), or have one name; or no benchmark has two.
    """
    pairs = comparable(results, different_settings=different_settings)
    found: list[Difference] = []
    for base, other in pairs:
        names = base.title, base.name, other.name
        if base.figures["pass_at_k"] and other.figures["pass_at_k"]:
            found.append(Difference(*names, PASS, _differences(base, other)))
        together = (solved or {}).get(base.title, ())
        # A problem whose strategies a chat model could not sort is left out.
        together = [one for one in together if one.strategies is not None] or together
        both = (figures(one, *names[1:]) for one in together)
        if known := [one for one in both if one is not None]:
            measure = f"distance {distance}" if known[0].only is None else "strategies"
            ways = [one.variety for one in known], [(one.within, one.between) for one in known]
            varied, apart = map(_paired, ways)
            apart = replace(apart, p=chance_apart(together, *names[1:]))
            for name, gap in ((measure, varied), (APART, apart)):
                found.append(Difference(*names, name, {name: gap}, problems=known))
    if not found:
        raise InputError(
            "nothing can be compared: no solution is marked as right or wrong, and no problem has "
            "two solutions of both models"
        )
    corrected = holm_rows([[gap.p for gap in one.gaps.values()] for one in found])
    sizes = {base.title: len(base.problems) for base, _ in pairs}
    differences = []
    for one, row in zip(found, corrected, strict=True):
        gaps = {k: replace(gap, p=p) for (k, gap), p in zip(one.gaps.items(), row, strict=True)}
        told = replace(one, gaps=gaps)
        said = _of_pass(told, sizes[one.benchmark]) if one.measure == PASS else _of_ways(told)
        differences.append(replace(told, sentence=said))
    return differences


def comparable(
    results: Sequence[Results], *, different_settings: bool = False
) -> list[tuple[Results, Results]]:
    """The pairs that [`compare`] looks at; raises as it does."""
    pairs = [(base, other) for base, *others in _by_benchmark(results).values() for other in others]
    if not pairs:
        raise InputError("no benchmark has results of two models; name the results of two")
    for base, other in pairs:
        _refuse(base, other, different_settings)
    return pairs


def comparison_text(results: Sequence[Results], differences: Sequence[Difference]) -> str:
    """The paper's kind of table, the differences, and what they allow to say, in Markdown."""
    parts = [table_text(*table) for table in tables(results, differences)]
    said = "\n".join(f"- {one.sentence}" for one in differences)
    return "\n\n".join([*parts, said, *notes(differences)])


def tables(
    results: Sequence[Results], differences: Sequence[Difference]
) -> list[tuple[list[str], list[list[str]]]]:
    """The tables of a comparison that have rows, each its head and its rows of cells."""
    levels = [
        (f"{one.title}: {one.name}", way, one.figures[key])
        for one in results
        for key, way in (("pass_at_k", "unbiased"), ("first_k", "first k"))
        if one.figures[key]
    ]
    ks = sorted({k for *_, by_k in levels for k in by_k})
    passed = [
        [name, way, *(f"{100 * by_k[k].value:.2f}" if k in by_k else "" for k in ks)]
        for name, way, by_k in levels
    ]
    gaps, ways, shares = [], [], []
    for one in differences:
        for name, gap in one.gaps.items():
            if one.measure == PASS:
                models = f"{one.benchmark}: {one.other} − {one.base}"
                gaps.append([models, name, percent(gap), f"{gap.p:.4f}"])
                continue
            of = _BOTH if one.measure == APART else name
            band = f"{gap.value:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]"
            cells = [*(f"{value:.3f}" for value in one.values), band, f"{gap.p:.4f}"]
            models = f"{one.benchmark}: {one.base}, {one.other}"
            ways.append([models, of, *cells, f"{len(one.problems)}"])
        if one.measure == "strategies":
            own = np.array([problem.only for problem in one.problems])
            for name, other, share in zip(
                (one.base, one.other), (one.other, one.base), own.T, strict=True
            ):
                said = f"{one.benchmark}: {name}, not {other}"
                shares.append([said, percent(mean_interval(share))])
    right = ["right solutions", "of", "first", "second", "difference", "p", "problems"]
    found = [
        (["model", "estimate", *(f"pass@{k}" for k in ks)], passed),
        (["difference", "of", "points", "p"], gaps),
        (right, ways),
        (["strategies that only one has", "share of its own"], shares),
    ]
    return [(head, rows) for head, rows in found if rows]


def notes(differences: Sequence[Difference]) -> list[str]:
    """How the tables are to be read."""
    said = []
    if any(one.measure == PASS for one in differences):
        said.append(
            "pass@k in percent, by the unbiased estimate and as the first k samples of each run; "
            "differences are of the unbiased one, with a band for all k at once (95 %)."
        )
    if ways := [one for one in differences if one.measure not in (PASS, APART)]:
        fewest = np.mean([problem.fewest for one in ways for problem in one.problems])
        kind = "chance of two strategies" if ways[0].measure == "strategies" else "mean distance"
        said.append(
            f"{ways[0].measure}: of the right solutions, as many of either model as the one with "
            f"fewer has ({fewest:.1f} a problem), averaged over all draws; {_BOTH}: the {kind} of "
            "two right solutions. Problems where both have two, intervals over problems (95 %)."
        )
    return [
        *said,
        "p values and sentences are corrected for the whole table: of equal models, about 5 % of "
        "tables say that any differ (docs/evaluation.md).",
    ]


def plot(results: Sequence[Results], differences: Sequence[Difference], path: Path) -> None:
    """Draw pass@k and differences with their bands, a column per benchmark; a PNG, or by suffix.

    Raises:
        [`MissingExtraError`]: matplotlib is not installed.
        [`OutputError`]: The file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        module = error.name or "matplotlib"
        raise MissingExtraError("a plot", extra="report", module=module) from error
    groups = _by_benchmark(results)
    figure = Figure(figsize=(4.5 * len(groups), 6.4), layout="constrained")
    panels = figure.subplots(2, len(groups), squeeze=False, sharex="col")
    for (title, models), (above, below) in zip(groups.items(), panels.T, strict=True):
        for one in models:
            _curve(above, one.name, one.figures["pass_at_k"])
        _curve(below, models[0].name, {1: Interval(0, 0, 0)})
        for gap in differences:
            if gap.benchmark == title and gap.measure == PASS:
                by_k = {int(k.removeprefix("pass@")): one for k, one in gap.gaps.items()}
                _curve(below, gap.other, by_k)
        below.axhline(0, color="0.5", linewidth=0.8)
        above.set_xscale("log", base=2)
        above.set(title=title, ylabel="pass@k (%)")
        below.set(xlabel="k", ylabel=f"points above {models[0].name}")
        above.legend()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Without the date, so that the same results give the same file.
        figure.savefig(path, dpi=150, metadata={"Software": None})
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot write {path}: {error}") from error


def _by_benchmark(results: Sequence[Results]) -> dict[str, list[Results]]:
    groups: dict[str, list[Results]] = {}
    for one in results:
        models = groups.setdefault(one.title, [])
        if one.name in (model.name for model in models):
            raise InputError(
                f"two results of {one.title} are called {one.name!r}; give one another name "
                "(NAME=LOG)"
            )
        models.append(one)
    return groups


def _refuse(base: Results, other: Results, different_settings: bool) -> None:
    """Raise [`InputError`] if a difference would be of other things than the models."""
    if set(base.problems) != set(other.problems):
        raise InputError(
            f"{base.name} and {other.name} were evaluated on different problems of {base.title}; "
            "use the same file and --limit, or compare those that both have (--common)"
        )
    pairs = {
        name: (base.settings.get(name), other.settings.get(name))
        for name in {**base.settings, **other.settings}
    }
    said = [f"{name} ({one} and {two})" for name, (one, two) in pairs.items() if one != two]
    if said and not different_settings:
        raise InputError(
            f"{base.name} and {other.name} were evaluated with another {', '.join(said)}; "
            "--different-settings compares them all the same"
        )


def _paired(pairs: Sequence[tuple[float, float]]) -> PairedDifference:
    """The second of each pair minus the first, of figures that may be above 1."""
    values = np.array(pairs)
    most = max(1.0, float(values.max()))
    (gap,) = paired_differences(values[:, 1:] / most, values[:, :1] / most)
    return PairedDifference(gap.value * most, gap.low * most, gap.high * most, gap.p)


def _differences(base: Results, other: Results) -> dict[str, PairedDifference]:
    """Differences of all samples; bands and p values by as many samples of either model.

    Near the ceiling, a model with fewer samples looks different from itself: its values are as
    high on average, but coarser.
    """
    # Samples drawn and right of each problem.
    counts = [np.array([one.counts[id_] for id_ in base.problems]).T for one in (other, base)]
    fewest = np.minimum(counts[0][0], counts[1][0])
    ks = powers_of_two(int(fewest.min()))

    def values(drawn: npt.ArrayLike, right: npt.ArrayLike) -> npt.NDArray[np.float64]:
        return np.transpose([pass_at_k(drawn, right, k) for k in ks])

    rng = np.random.default_rng(0)
    thinned = [values(fewest, rng.hypergeometric(c, n - c, fewest)) for n, c in counts]
    whole = (values(*counts[0]) - values(*counts[1])).mean(axis=0)
    found = {}
    for k, gap, value in zip(ks, paired_differences(*thinned), map(float, whole), strict=True):
        low, high = value - gap.value + gap.low, value - gap.value + gap.high
        found[f"pass@{k}"] = PairedDifference(value, max(-1.0, low), min(1.0, high), gap.p)
    return found


def _of_pass(found: Difference, problems: int) -> str:
    """Whether the data can tell the models apart by what they solve."""
    shown = f"{problems} problems of {found.benchmark}"
    if all(gap.p >= _LEVEL for gap in found.gaps.values()):
        return f"The {shown} cannot tell {found.other} from {found.base}."
    said: dict[str, list[str]] = {}
    for k, gap in found.gaps.items():
        apart = f"{'better' if gap.value > 0 else 'worse'} than {found.base}"
        said.setdefault(apart if gap.p < _LEVEL else "not told apart", []).append(k)
    parts = [f"{word} at {', '.join(ks)}" for word, ks in said.items()]
    return f"On the {shown}, {found.other} is {'; '.join(parts)}."


def _of_ways(found: Difference) -> str:
    """Whether the data can tell the models apart by how they solve it."""
    (gap,) = found.gaps.values()
    base, other, more = found.base, found.other, gap.value > 0
    first, second = (f"{value:.3f}" for value in found.values)
    if found.measure == APART:
        told = f"{other} and {base} go different ways"
        untold = f"that {other} and {base} go different ways"
        figures_ = f"{second} between their right solutions, {first} within one model's"
    else:
        strategies = found.measure == "strategies"
        way = ("more" if more else "fewer") if strategies else ("further" if more else "less")
        kind = f"{way} strategies" if strategies else f"{way} apart"
        told = f"{other}'s right solutions {'have' if strategies else 'are'} {kind} than {base}'s"
        untold = f"by {found.measure} how varied {other}'s right solutions are from {base}'s"
        figures_ = f"{second} against {first}"
    where = f"{len(found.problems)} problems of {found.benchmark} that both solve twice"
    if gap.p < _LEVEL:
        return f"On the {where}, {told}: {figures_}."
    return f"The {where} cannot tell {untold}: {figures_}."


def _curve(panel: Any, label: str, by_k: Mapping[int, Interval]) -> None:
    ends = [[f.value, f.low, f.high] for f in by_k.values()]
    middle, low, high = 100 * np.transpose(ends)
    (line,) = panel.plot(list(by_k), middle, marker="o", label=label)
    panel.fill_between(list(by_k), low, high, color=line.get_color(), alpha=0.15)
