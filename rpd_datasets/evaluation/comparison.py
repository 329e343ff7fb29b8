"""Comparing models on the same problems: differences, a plot, a table, a plain sentence.

    {benchmark: {model: (problems, 2) of samples drawn and right}} -> Comparison

A benchmark's first model is the one that the others are compared with. Differences are of the
unbiased pass@k. A difference's band holds for all of its k at once, and what is called different is
so after a correction for everything in the table: if all models are equal, one table in twenty says
anything else (`docs/statistics.md`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rpd_datasets.evaluation.tables import table_text
from rpd_metric.errors import InputError, MissingExtraError, OutputError
from rpd_metric.statistics.estimators import pass_at_k
from rpd_metric.statistics.intervals import (
    Interval,
    PairedDifference,
    holm_rows,
    mean_band,
    paired_differences,
)

_LEVEL = 0.05
# By benchmark and model, samples drawn and right of each problem.
Counts = Mapping[str, Mapping[str, npt.ArrayLike]]


@dataclass(frozen=True)
class Difference:
    """How much more of a benchmark one model solves than another.

    `by_k` holds pass@k of `other` minus that of `base`, from -1 to 1, with a band over all k; the
    p values are corrected for the whole table.
    """

    benchmark: str
    base: str
    other: str
    num_problems: int
    by_k: dict[int, PairedDifference]

    @property
    def sentence(self) -> str:
        """Whether the data can tell the models apart, in one plain sentence."""
        apart = {k: gap.value for k, gap in self.by_k.items() if gap.p < _LEVEL}
        problems = f"the {self.num_problems} problems of {self.benchmark}"
        if not apart:
            return f"{problems[0].upper()}{problems[1:]} cannot tell {self.other} from {self.base}."
        signs = {"better": [k for k in apart if apart[k] > 0]}
        signs["worse"] = [k for k in apart if apart[k] < 0]
        said = [f"{word} than {self.base} at {_names(ks)}" for word, ks in signs.items() if ks]
        text = f"On {problems}, {self.other} is " + " and ".join(said)
        if unclear := [k for k in self.by_k if k not in apart]:
            text += f"; at {_names(unclear)} they cannot be told apart"
        return text + "."


@dataclass(frozen=True)
class Comparison:
    """pass@k of models on benchmarks, and how they differ.

    `figures` holds, by benchmark, model and k, pass@k with a band over all k of the model.
    """

    figures: dict[str, dict[str, dict[int, Interval]]]
    differences: list[Difference]


def compare(counts: Counts) -> Comparison:
    """Compare the first model with each other one, on every benchmark that two have results of.

    The k are the powers of two up to the number of samples that every problem has, and that number.

    Args:
        counts (`Mapping`): By benchmark and model an integer array `(problems, 2)`: samples drawn
            and right ones among them, for the same problems in the same order.

    Raises:
        [`InputError`]: Two models met different numbers of problems, or no benchmark has results
            of two models.
    """
    figures: dict[str, dict[str, dict[int, Interval]]] = {}
    differences = []
    for benchmark, models in counts.items():
        arrays = {name: np.asarray(array) for name, array in models.items()}
        base, *others = arrays
        ks = powers_of_two(min(int(array[:, 0].min()) for array in arrays.values()))
        figures[benchmark] = {
            name: dict(zip(ks, mean_band(_pass_at_ks(array, ks)), strict=True))
            for name, array in arrays.items()
        }
        for other in others:
            if len(arrays[other]) != len(arrays[base]):
                raise InputError(
                    f"{base} was evaluated on {len(arrays[base])} problems of {benchmark} and "
                    f"{other} on {len(arrays[other])}; compare on the same problems"
                )
            by_k = _differences(arrays[other], arrays[base], ks)
            differences.append(Difference(benchmark, base, other, len(arrays[base]), by_k))
    if not differences:
        raise InputError("no benchmark has results of two models; name the results of two")
    corrected = holm_rows([[gap.p for gap in found.by_k.values()] for found in differences])
    for found, row in zip(differences, corrected, strict=True):
        for k, p in zip(found.by_k, row, strict=True):
            found.by_k[k] = replace(found.by_k[k], p=p)
    return Comparison(figures, differences)


def powers_of_two(most: int) -> list[int]:
    """1, 2, 4, ... up to a number, and that number."""
    return sorted({*(1 << power for power in range(most.bit_length())), most})


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """A comparison as plain JSON types."""
    found = asdict(comparison)
    for row, difference in zip(found["differences"], comparison.differences, strict=True):
        row["sentence"] = difference.sentence
    return found


def comparison_text(comparison: Comparison, *, markdown: bool = False) -> str:
    """The paper's kind of table, best figures bold in Markdown, then differences and sentences."""
    ks = sorted({k for group in comparison.figures.values() for m in group.values() for k in m})
    rows = []
    for benchmark, models in comparison.figures.items():
        best = {k: max(f[k].value for f in models.values()) for f in models.values() for k in f}
        for name, figures in models.items():
            cells = []
            for k in ks:
                text = f"{100 * figures[k].value:.2f}" if k in figures else ""
                bold = markdown and text and figures[k].value == best[k]
                cells.append(f"**{text}**" if bold else text)
            rows.append([benchmark, name, *cells])
        for found in comparison.differences:
            if found.benchmark == benchmark:
                cells = [_signed(found.by_k[k]) if k in found.by_k else "" for k in ks]
                rows.append([benchmark, f"{found.other} − {found.base}", *cells])
    names = ["Benchmark", "Model", *(f"pass@{k} (%)" for k in ks)]
    table = table_text(names, rows, left=2, markdown=markdown)
    said = [found.sentence for found in comparison.differences]
    note = (
        "Unbiased estimates. The bands of a row hold for all of its k at once (95 %); sentences "
        "are corrected for the whole table: of equal models, 5 % of tables say that any differ."
    )
    return "\n".join([table, "", *said, note])


def plot(comparison: Comparison, path: Path) -> None:
    """Draw pass@k and differences with their bands, a column per benchmark; a PNG, or by suffix.

    Raises:
        [`MissingExtraError`]: matplotlib is not installed.
        [`OutputError`]: The file cannot be written.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(
            "a plot", extra="report", module=error.name or "matplotlib"
        ) from error
    groups = comparison.figures
    figure = Figure(figsize=(4.5 * len(groups), 6.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, len(groups), squeeze=False, sharex="col")
    for (benchmark, models), (above, below) in zip(groups.items(), panels.T, strict=True):
        for name, by_k in models.items():
            _curve(above, by_k, name)
        below.axhline(0, color="0.5", linewidth=0.8)
        below.plot([], [])  # the first model's colour
        for found in comparison.differences:
            if found.benchmark == benchmark:
                _curve(below, found.by_k, f"{found.other} − {found.base}")
        ks = list(next(iter(models.values())))
        above.set_xscale("log", base=2)
        above.set_xticks(ks, [str(k) for k in ks])
        above.set(title=benchmark, ylabel="pass@k (%)")
        below.set(xlabel="k", ylabel="difference (points)")
        above.legend()
        if len(models) > 1:
            below.legend()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Without the date, so that the same results give the same file.
        figure.savefig(path, dpi=150, metadata={"Software": None})
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot write {path}: {error}") from error


def _pass_at_ks(counts: npt.NDArray[np.int64], ks: Sequence[int]) -> npt.NDArray[np.float64]:
    """pass@k of every problem, a column for each k."""
    drawn, right = counts.T
    return np.stack([np.asarray(pass_at_k(drawn, right, k)) for k in ks], axis=1)


def _differences(
    other: npt.NDArray[np.int64], base: npt.NDArray[np.int64], ks: Sequence[int]
) -> dict[int, PairedDifference]:
    """Differences of all samples; bands and p values by as many samples of either model.

    Near the ceiling, a model with fewer samples looks different from itself: its values are as
    high on average, but coarser.
    """
    rng = np.random.default_rng(0)
    fewest = np.minimum(other[:, 0], base[:, 0])
    thinned = [
        np.stack([fewest, rng.hypergeometric(c, n - c, fewest)], axis=1)
        for n, c in (other.T, base.T)
    ]
    gaps = paired_differences(*(_pass_at_ks(counts, ks) for counts in thinned))
    values = (_pass_at_ks(other, ks) - _pass_at_ks(base, ks)).mean(axis=0)
    found = {}
    for k, gap, value in zip(ks, gaps, map(float, values), strict=True):
        low, high = value - gap.value + gap.low, value - gap.value + gap.high
        found[k] = PairedDifference(value, max(-1.0, low), min(1.0, high), gap.p)
    return found


def _curve(panel: Any, by_k: Mapping[int, Interval], label: str) -> None:
    found = list(by_k.values())
    (line,) = panel.plot(list(by_k), [100 * f.value for f in found], marker="o", label=label)
    low, high = [100 * f.low for f in found], [100 * f.high for f in found]
    panel.fill_between(list(by_k), low, high, color=line.get_color(), alpha=0.15)


def _names(ks: Sequence[int]) -> str:
    return ", ".join(f"pass@{k}" for k in ks)


def _signed(gap: Interval) -> str:
    return f"{100 * gap.value:+.2f} [{100 * gap.low:+.1f}, {100 * gap.high:+.1f}]"
