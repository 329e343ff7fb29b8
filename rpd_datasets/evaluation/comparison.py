"""Comparing models on the same problems: differences, a plot, tables, a plain sentence.

Differences are of the unbiased pass@k. A difference's band holds for all of its k at once, and what
is called different is so after a correction for everything in the table: if all models are equal,
one table in twenty says anything else (`docs/statistics.md`).
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
from rpd_metric.errors import InputError, MissingExtraError, OutputError
from rpd_metric.statistics.estimators import pass_at_k
from rpd_metric.statistics.intervals import (
    Interval,
    PairedDifference,
    holm_rows,
    paired_differences,
)

_LEVEL = 0.05


@dataclass(frozen=True)
class Difference:
    """How much more of a benchmark one model solves than another, and that in a plain sentence.

    `by_k` holds pass@k of `other` minus that of `base`, from -1 to 1, with a band over all k; the
    p values are corrected for the whole table.
    """

    benchmark: str
    base: str
    other: str
    by_k: dict[int, PairedDifference]
    sentence: str


def compare(results: Sequence[Results], *, different_settings: bool = False) -> list[Difference]:
    """Compare the first model with each other one, on every benchmark that two have results of.

    The k are the powers of two up to the number of samples that every problem has, and that number.

    Raises:
        [`InputError`]: Two results met different problems, were sampled or graded differently
            (unless `different_settings`), or have one name; or no benchmark has two.
    """
    pairs = [(base, other) for base, *others in _by_benchmark(results).values() for other in others]
    if not pairs:
        raise InputError("no benchmark has results of two models; name the results of two")
    for base, other in pairs:
        _refuse(base, other, different_settings)
    found = [_differences(base, other) for base, other in pairs]
    corrected = holm_rows([[gap.p for gap in gaps.values()] for gaps in found])
    differences = []
    for (base, other), gaps, row in zip(pairs, found, corrected, strict=True):
        by_k = {k: replace(gap, p=p) for (k, gap), p in zip(gaps.items(), row, strict=True)}
        said = _sentence(base, other, by_k)
        differences.append(Difference(base.title, base.name, other.name, by_k, said))
    return differences


def comparison_text(results: Sequence[Results], differences: Sequence[Difference]) -> str:
    """The paper's kind of table, the differences, and what they allow to say, in Markdown."""
    figures = [(f"{one.title}: {one.name}", one.figures["pass_at_k"]) for one in results]
    ks = sorted({k for _, found in figures for k in found})
    models = [
        [name, *(f"{100 * found[k].value:.2f}" if k in found else "" for k in ks)]
        for name, found in figures
    ]
    gaps = [
        [f"{one.benchmark}: {one.other} − {one.base}", f"{k}", percent(gap), f"{gap.p:.4f}"]
        for one in differences
        for k, gap in one.by_k.items()
    ]
    return "\n\n".join(
        [
            table_text(["model", *(f"pass@{k}" for k in ks)], models),
            table_text(["difference", "k", "points", "p"], gaps),
            "\n".join(f"- {one.sentence}" for one in differences),
            "Unbiased estimates in percent. The band of a difference holds for all of its k at "
            "once (95 %). p values and sentences are corrected for the whole table: of equal "
            "models, 5 % of tables say that any differ.",
        ]
    )


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
            if gap.benchmark == title:
                _curve(below, gap.other, gap.by_k)
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
            "use the same file and --limit"
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


def _differences(base: Results, other: Results) -> dict[int, PairedDifference]:
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
        found[k] = PairedDifference(value, max(-1.0, low), min(1.0, high), gap.p)
    return found


def _sentence(base: Results, other: Results, by_k: Mapping[int, PairedDifference]) -> str:
    """Whether the data can tell the models apart."""
    problems = f"the {len(base.problems)} problems of {base.title}"
    if all(gap.p >= _LEVEL for gap in by_k.values()):
        return f"{problems[0].upper()}{problems[1:]} cannot tell {other.name} from {base.name}."
    said: dict[str, list[str]] = {}
    for k, gap in by_k.items():
        apart = f"{'better' if gap.value > 0 else 'worse'} than {base.name}"
        said.setdefault(apart if gap.p < _LEVEL else "not told apart", []).append(f"pass@{k}")
    parts = [f"{word} at {', '.join(ks)}" for word, ks in said.items()]
    return f"On {problems}, {other.name} is {'; '.join(parts)}."


def _curve(panel: Any, label: str, by_k: Mapping[int, Interval]) -> None:
    ends = [[f.value, f.low, f.high] for f in by_k.values()]
    middle, low, high = 100 * np.transpose(ends)
    (line,) = panel.plot(list(by_k), middle, marker="o", label=label)
    panel.fill_between(list(by_k), low, high, color=line.get_color(), alpha=0.15)
