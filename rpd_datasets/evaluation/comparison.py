"""Comparing models on the same problems: differences, a plot, a table, a plain sentence.

The first model is the one that the others are compared with. Differences are of the unbiased
pass@k, with a 95 % interval by Student's paired t over problems: what makes a problem hard for
both models cancels. Looking at several k is looking several times, so a k tells two models apart
only where its p value, corrected by Holm's method for all of them, is below 5 %.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rpd_datasets.evaluation.benchmarks import find_benchmark
from rpd_datasets.evaluation.results import Results
from rpd_datasets.evaluation.tables import table_text
from rpd_metric.errors import InputError, MissingExtraError, OutputError
from rpd_metric.statistics.intervals import PairedDifference, holm, paired_difference

_LEVEL = 0.05


@dataclass(frozen=True)
class Difference:
    """How much more of a benchmark one model solves than another.

    `by_k` holds pass@k of `other` minus that of `base`, from -1 to 1.
    """

    benchmark: str
    base: str
    other: str
    num_problems: int
    by_k: dict[int, PairedDifference]

    @property
    def corrected(self) -> dict[int, float]:
        """The p value of each k, corrected for there being several."""
        return dict(zip(self.by_k, holm([gap.p for gap in self.by_k.values()]), strict=True))

    @property
    def sentence(self) -> str:
        """Whether the data can tell the models apart, in one plain sentence."""
        apart = [k for k, p in self.corrected.items() if p < _LEVEL]
        better = [k for k in apart if self.by_k[k].value > 0]
        worse = [k for k in apart if self.by_k[k].value < 0]
        unclear = [k for k in self.by_k if k not in better and k not in worse]
        title = find_benchmark(self.benchmark).title
        problems = f"the {self.num_problems} problems of {title}"
        if not better and not worse:
            return f"{problems[0].upper()}{problems[1:]} cannot tell {self.other} from {self.base}."
        parts = [
            f"{word} than {self.base} at {_names(ks)}"
            for word, ks in (("better", better), ("worse", worse))
            if ks
        ]
        text = f"On {problems}, {self.other} is " + " and ".join(parts)
        if unclear:
            text += f"; at {_names(unclear)} they cannot be told apart"
        return text + "."


def compare(results: Sequence[Results]) -> list[Difference]:
    """Compare the first model with each other one, on every benchmark that two have results of.

    Raises:
        [`InputError`]: Two results have one name, two models met different problems, or there is
            no benchmark that two models share.
    """
    differences = []
    for group in by_benchmark(results):
        base, *others = group
        for other in others:
            if base.problems != other.problems:
                raise InputError(
                    f"{base.name} and {other.name} were evaluated on different problems of "
                    f"{find_benchmark(base.benchmark).title}; use the same file and `limit`"
                )
            ks = [k for k in base.ks if k in other.ks]
            gaps = {k: paired_difference(other.per_problem(k), base.per_problem(k)) for k in ks}
            names = (base.benchmark, base.name, other.name)
            differences.append(Difference(*names, len(base.problems), gaps))
    if not differences:
        raise InputError("no benchmark has results of two models; name the folders of two")
    return differences


def by_benchmark(results: Sequence[Results]) -> list[list[Results]]:
    """Results grouped by benchmark, models in the order given; one name twice is an error."""
    groups: dict[str, list[Results]] = {}
    for found in results:
        groups.setdefault(found.benchmark, []).append(found)
    for group in groups.values():
        name, count = Counter(found.name for found in group).most_common(1)[0]
        if count > 1:
            raise InputError(
                f"two results of {find_benchmark(group[0].benchmark).title} are called "
                f"{name!r}; give each model a name of its own (report --name)"
            )
    return list(groups.values())


def comparison_json(differences: Sequence[Difference]) -> dict[str, Any]:
    """What [`compare`] found, as plain JSON types."""
    rows = [
        asdict(found) | {"corrected_p": found.corrected, "sentence": found.sentence}
        for found in differences
    ]
    return {"differences": rows}


def comparison_text(
    results: Sequence[Results], differences: Sequence[Difference], *, markdown: bool = False
) -> str:
    """The paper's kind of table, best figures bold in Markdown, then differences and sentences.

    The figures are unbiased estimates, unlike the paper's.
    """
    ks = list(dict.fromkeys(k for found in results for k in found.ks))
    rows = []
    for group in by_benchmark(results):
        title = find_benchmark(group[0].benchmark).title
        figures = [found.figures["pass_at_k"] for found in group]
        best = {k: max(f[str(k)]["value"] for f in figures if str(k) in f) for k in group[0].ks}
        for found in group:
            cells = []
            for k in ks:
                figure = found.figures["pass_at_k"].get(str(k))
                text = "" if figure is None else f"{100 * figure['value']:.2f}"
                bold = markdown and figure is not None and figure["value"] == best.get(k)
                cells.append(f"**{text}**" if bold else text)
            rows.append([title, found.name, *cells])
        for difference in differences:
            if difference.benchmark == group[0].benchmark:
                cells = [_signed(difference.by_k.get(k)) for k in ks]
                rows.append([title, f"{difference.other} − {difference.base}", *cells])
    names = ["Benchmark", "Model", *(f"pass@{k} (%)" for k in ks)]
    table = table_text(names, rows, left=2, markdown=markdown)
    said = [found.sentence for found in differences]
    note = "Intervals are of each k alone; sentences go by p values corrected for several k (Holm)."
    return "\n".join([table, "", *said, note])


def plot(results: Sequence[Results], path: Path) -> None:
    """Draw pass@k curves with 95 % bands, one panel per benchmark; a PNG, or as the path ends.

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
    groups = by_benchmark(results)
    figure = Figure(figsize=(4.5 * len(groups), 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    for panel, group in zip(figure.subplots(1, len(groups), squeeze=False)[0], groups, strict=True):
        for found in group:
            cells = list(found.figures["pass_at_k"].values())
            values = [100 * cell["value"] for cell in cells]
            (line,) = panel.plot(found.ks, values, marker="o", label=found.name)
            panel.fill_between(
                found.ks,
                [100 * cell["low"] for cell in cells],
                [100 * cell["high"] for cell in cells],
                color=line.get_color(),
                alpha=0.15,
            )
        panel.set_xscale("log", base=2)
        panel.set_xticks(group[0].ks, [str(k) for k in group[0].ks])
        panel.set(title=find_benchmark(group[0].benchmark).title, xlabel="k", ylabel="pass@k (%)")
        panel.legend()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Without the date, so that the same results give the same file.
        figure.savefig(path, dpi=150, metadata={"Software": None})
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot write {path}: {error}") from error


def _names(ks: Sequence[int]) -> str:
    return ", ".join(f"pass@{k}" for k in ks)


def _signed(interval: PairedDifference | None) -> str:
    if interval is None:
        return ""
    return f"{100 * interval.value:+.2f} [{100 * interval.low:+.1f}, {100 * interval.high:+.1f}]"
