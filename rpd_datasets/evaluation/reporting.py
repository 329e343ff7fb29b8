"""What a person reads of one evaluation: Markdown, for a terminal and for a model's card."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from rpd_datasets.evaluation.results import Results
from rpd_metric.errors import InputError
from rpd_metric.statistics.intervals import Interval

_SHOWN = ("temperature", "top_p", "max_tokens")
_ESTIMATORS = {
    "pass_at_k": "unbiased",
    "first_k": "first k of each run",
    "pass_hat_k": "all k right (pass^k)",
}


def report_text(results: Results, *, paper: str | None = None) -> str:
    """The figures of one evaluation, and below them those of the paper's model, in Markdown."""
    figures, n, settings = results.figures, results.samples, results.settings
    whole = len(results.problems) == results.of_problems
    part = "" if whole else f" of {results.of_problems}"
    sampling = [f"{name} {settings[name]}" for name in _SHOWN if name in settings]
    lines = [
        f"{results.name} on {results.title}: {len(results.problems)}{part} problems, "
        f"{results.runs} x {n} samples of each, {', '.join(sampling)}"
    ]
    if results.missing:
        lines.append(f"{results.missing} samples are missing: figures are of those that are there")
    if results.capped:
        lines.append(
            f"{len(results.capped)} samples were cut by the server's own cap, after at most "
            f"{max(results.capped):,} tokens: figures are of that length"
        )
    shown = {title: figures[name] for name, title in _ESTIMATORS.items() if figures[name]}
    rows = [
        [str(k), *(percent(found[k]) if k in found else "" for found in shown.values())]
        for k in sorted({k for found in shown.values() for k in found})
    ]
    lines += ["", table_text(["k", *shown], rows), ""]
    if figures["cons_at_n"] is not None:
        lines.append(f"- cons@{n} (majority vote of a run): {percent(figures['cons_at_n'])}")
    lines += [
        f"- Verdicts (by {settings['scorer']}): {_counts(results.verdicts)}",
        f"- Ends: {_counts(results.finish_reasons)}",
        "",
        "In percent, with 95 % intervals over problems (of pass@k and pass^k: for all k at once).",
    ]
    # Beside a part of the problems, the paper's figures would compare two different things.
    if beside := published(paper, results.benchmark) if paper and whole else []:
        names = ["the paper, first k of each run", *(f"pass@{k}" for k in beside[0]["pass_at_k"])]
        cells = [
            [f"Table {row['table']}: {row['method']}"]
            + [f"{share:.2f}" for share in row["pass_at_k"].values()]
            for row in beside
        ]
        notes = dict.fromkeys(row["note"] for row in beside if "note" in row)
        lines += ["", table_text(names, cells), *notes]
    return "\n".join(lines)


def table_text(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, padded so that a terminal shows it as well; words in the first column.

    >>> print(table_text(["model", "pass@1"], [["a|b", "7.00"]]))
    | model | pass@1 |
    | :---- | -----: |
    | a\\|b  |   7.00 |
    """
    lines = [[cell.replace("|", "\\|") for cell in line] for line in (names, *rows)]
    first, *others = (max(2, *map(len, column)) for column in zip(*lines, strict=True))
    marks = [":".ljust(first, "-"), *("-" * (width - 1) + ":" for width in others)]
    lines.insert(1, marks)
    return "\n".join(
        f"| {' | '.join([line[0].ljust(first), *map(str.rjust, line[1:], others)])} |"
        for line in lines
    )


def published(model: str, benchmark: str) -> list[dict[str, Any]]:
    """The paper's rows about a benchmark, to print beside a run; see `paper_tables.json`.

    Raises:
        [`InputError`]: The paper has no such model.

    >>> published("Qwen3-4B-Base", "aime24")[0]["pass_at_k"]["16"]
    32.5
    """
    file = resources.files("rpd_datasets.evaluation") / "paper_tables.json"
    rows: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["rows"]
    models = dict.fromkeys(row["model"] for row in rows)
    if model not in models:
        raise InputError(f"the paper has no model {model!r}; it has {', '.join(models)}")
    return [row for row in rows if (row["model"], row["benchmark"]) == (model, benchmark)]


def percent(figure: Interval) -> str:
    """A share with its interval."""
    return f"{100 * figure.value:.2f} [{100 * figure.low:.1f}, {100 * figure.high:.1f}]"


def _counts(counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    return ", ".join(f"{name} {n:,} ({100 * n / total:.1f} %)" for name, n in counts.items())
