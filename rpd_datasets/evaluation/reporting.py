"""What a person reads of one evaluation: Markdown, for a terminal and for a model's card."""

from collections.abc import Mapping, Sequence

from rpd_datasets.evaluation.results import Results
from rpd_datasets.publish.eval_results import Entry, eval_entry
from rpd_metric.errors import InputError
from rpd_metric.grading.score_scales import THRESHOLD
from rpd_metric.statistics.intervals import Interval

_SHOWN = ("temperature", "top_p", "max_tokens")
_ESTIMATORS = {
    "pass_at_k": "unbiased",
    "first_k": "first k of each run",
    "pass_hat_k": "all k right (pass^k)",
}


def report_text(results: Results) -> str:
    """The figures of one evaluation, in Markdown."""
    figures, settings, size = results.figures, results.settings, len(results.marks)
    part = "" if size == results.of_problems else f" of {results.of_problems}"
    samples = f"{results.runs} x {results.samples} samples of each"
    sampling = [f"{name} {settings[name]}" for name in _SHOWN if name in settings]
    lines = [
        f"{results.name} on {results.title}: {size}{part} problems, "
        + ", ".join([samples, *sampling])
    ]
    lines += figure_remarks(results)
    columns = {title: figures[name] for name, title in _ESTIMATORS.items() if figures[name]}
    rows = [
        [str(k), *(percent(by_k[k]) if k in by_k else "" for by_k in columns.values())]
        for k in sorted({k for by_k in columns.values() for k in by_k})
    ]
    lines += ["", table_text(["k", *columns], rows), ""]
    if figures["cons_at_n"] is not None:
        lines.append(
            f"- cons@{results.samples} (majority vote of a run): {percent(figures['cons_at_n'])}"
        )
    lines += [
        f"- Verdicts (by {settings['scorer']}): {_counts(results.verdicts)}",
        f"- Ends: {_counts(results.finish_reasons)}",
        "",
        "In percent, with 95 % intervals over problems (of pass@k and pass^k: for all k at once).",
    ]
    return "\n".join(lines)


def hub_entry(results: Results, task: str, source: str | None = None) -> Entry:
    """pass@1 of one evaluation in percent, as the Hub reads it; `task` is `DATASET:TASK`.

    Raises [`InputError`] where not the whole benchmark was evaluated: its board is of that.
    """
    size, whole = len(results.marks), results.of_problems
    if results.missing or size < whole or not results.figures["pass_at_k"]:
        raise InputError(
            f"{results.name} has {size} of {whole} problems of {results.title} and "
            f"{results.missing} missing samples; a result for the Hub is of all of them"
        )
    figure, settings = results.figures["pass_at_k"][1], results.settings
    sampling = [f"{name} {settings[name]}" for name in _SHOWN if name in settings]
    notes = [
        f"pass@1 in percent, mean of {results.runs * results.samples} samples",
        f"95 % interval {100 * figure.low:.1f} to {100 * figure.high:.1f}",
        *sampling,
        f"graded by {settings['scorer']}",
    ]
    return eval_entry(task, round(100 * figure.value, 2), ", ".join(notes), source)


def figure_remarks(results: Results) -> list[str]:
    """What the figures do not count, or count in a way of their own."""
    scale, scorer, lines = results.scale, results.settings.get("scorer"), []
    if results.mean_score is not None:
        lines.append(
            f"scores of {scorer} are shares, {percent(results.mean_score)} % on average; only a "
            "full score is right (--right-score takes another)"
        )
    if scale.kind == THRESHOLD:
        limits = ", ".join(sorted(scale.values)) or f"at least {scale.threshold:g}"
        lines.append(f"right are scores of {scorer} that are {limits} (--right-score)")
    if results.missing:
        lines.append(
            f"{results.missing:,} samples or rows are missing: figures are of those that are there"
        )
    if results.not_checked:
        solutions = sum(drawn for drawn, _ in results.counts.values())
        lines.append(
            f"{results.not_checked:,} of {solutions:,} answers could not be checked and count as "
            "not right"
        )
    if results.capped:
        lines.append(
            f"{len(results.capped)} samples were cut by the server's own cap, after at most "
            f"{max(results.capped):,} tokens: figures are of that length"
        )
    if results.unread:
        lines.append(
            f"no majority vote: the answers of {results.unread} right samples cannot be read"
        )
    return lines


def table_text(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, padded so that a terminal shows it as well; words in the first column.

    >>> print(table_text(["model", "pass@1"], [["a|b", "7.00"]]))
    | model | pass@1 |
    | :---- | -----: |
    | a\\|b  |   7.00 |
    """
    lines = [[cell.replace("|", "\\|") for cell in line] for line in (names, *rows)]
    first, *others = (max(2, *map(len, column)) for column in zip(*lines, strict=True))
    lines.insert(1, [":".ljust(first, "-"), *("-" * (width - 1) + ":" for width in others)])
    return "\n".join(
        f"| {' | '.join([line[0].ljust(first), *map(str.rjust, line[1:], others)])} |"
        for line in lines
    )


def percent(figure: Interval) -> str:
    """A share with its interval."""
    return f"{100 * figure.value:.2f} [{100 * figure.low:.1f}, {100 * figure.high:.1f}]"


def _counts(counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    return ", ".join(f"{name} {n:,} ({100 * n / total:.1f} %)" for name, n in counts.items())
