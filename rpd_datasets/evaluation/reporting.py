"""What a person reads of one evaluation, and what the Hub reads.

- `report_text`: tables for the terminal, or as Markdown;
- `write_report`: a folder with the report and the figures as JSON;
- `update_card`: results in a model's card, and in `.eval_results` for benchmarks that are
  registered on the Hub.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped,unused-ignore]

from rpd_datasets.evaluation.benchmarks import BENCHMARKS, Benchmark
from rpd_datasets.evaluation.paper import published
from rpd_datasets.evaluation.results import Results
from rpd_datasets.evaluation.tables import table_text
from rpd_datasets.publish.model_card import NOT_EVALUATED
from rpd_metric.errors import InputError, OutputError

_SHOWN = ("temperature", "top_p", "max_tokens")


def report_text(results: Results, *, paper: str | None = None, markdown: bool = False) -> str:
    """The figures of one evaluation, those of the paper's model beside them."""
    figures, problems, n = results.figures, len(results.problems), results.samples
    part = "" if problems == results.of_problems else f" of {results.of_problems}"
    sampling = [f"{k} {v}" for k, v in results.settings.items() if k in _SHOWN and v is not None]
    lines = [
        f"{results.name} on {results.title}: {problems}{part} problems, "
        f"{results.runs} x {n} samples of each, {', '.join(sampling)}",
        "",
        _table(_passk_rows(results, paper), markdown),
        "",
        f"mean@{n * results.runs}: {_percent(figures['mean_at_n'])}",
    ]
    if results.missing:
        said = f"{results.missing} samples are missing: figures are of those that are there"
        lines.insert(1, said)
    if figures["cons_at_n"] is not None:
        lines.append(f"cons@{n} (majority vote of a run): {_percent(figures['cons_at_n'])}")
    by = results.settings.get("grader") or results.settings["scorer"]
    lines.append(f"Verdicts (by {by}): {_counts(results.verdicts)}")
    lines.append(f"Ends: {_counts(results.finish_reasons)}")
    if results.mean_tokens is not None:
        lines.append(f"New tokens per sample: {results.mean_tokens:,.0f}")
    beside = published(paper, results.benchmark) if paper else []
    lines += dict.fromkeys(f"The paper's rows: {row.note}" for row in beside if row.note)
    if results.diversity:
        made = results.measured_with
        lines += [
            "",
            f"Diversity of correct solutions, first run (steps by {made['summarizer']}, embeddings "
            f"by {made['embedder']}; comparable only with the same two):",
            "",
            _table(_diversity_rows(results, paper), markdown),
        ]
    note = "In percent; brackets hold 95 % intervals over problems, those of a row for all its k."
    return "\n".join([*lines, "", note])


def write_report(folder: Path, results: Results, *, paper: str | None = None) -> None:
    """Write `report.md` and `results.json` into a folder."""
    _write(folder / "results.json", json.dumps(asdict(results), indent=1) + "\n")
    _write(folder / "report.md", report_text(results, paper=paper, markdown=True) + "\n")


def update_card(
    folder: Path, results: Results, *, paper: str | None = None, source: str | None = None
) -> None:
    """Put results into a model's folder: its card's metadata and text, and `.eval_results`.

    What an earlier call said about the same benchmark is replaced, everything else stays.

    Args:
        paper (`str`, *optional*): The paper's model whose rows are shown beside.
        source (`str`, *optional*): URL of the published samples.

    Raises:
        [`InputError`]: There is no card, its metadata cannot be read, or only a part of the
            benchmark was evaluated.
        [`OutputError`]: The folder cannot be written.
    """
    from huggingface_hub import ModelCard

    known = BENCHMARKS.get(results.benchmark)
    whole = len(results.problems) == results.of_problems and not results.missing
    if known is None or not known.sizes or not whole:
        raise InputError(
            f"{len(results.problems)} of {results.of_problems} problems of {results.title} with "
            f"{results.missing} samples missing are no result for the Hub; evaluate a whole "
            "benchmark that others know"
        )
    path = folder / "README.md"
    try:
        card = ModelCard(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"cannot read the model card {path}: {error.strerror or error}; save the model with "
            "its card first"
        ) from error
    except (ValueError, yaml.YAMLError) as error:
        raise InputError(f"the metadata of {path} cannot be read: {error}") from error
    # A CardData, whose fields are set by what the card holds.
    data: Any = card.data
    entries = _entries(known, results)
    place = (entries[0].dataset_type, entries[0].dataset_name, "pass@k")
    kept = [
        entry
        for entry in data.eval_results or []
        if (entry.dataset_type, entry.dataset_name, entry.metric_type) != place
    ]
    data.eval_results = [*kept, *entries]
    data.model_name = data.model_name or results.name
    start, end = f"<!-- pass@k {results.benchmark} -->", f"<!-- end {results.benchmark} -->"
    body = report_text(results, paper=paper, markdown=True)
    section = f"{start}\n## pass@k on {results.title}\n\n{body}\n{end}"
    before, found, rest = card.text.partition(start)
    after = rest.partition(end)[2] if found else ""
    before = before.replace(NOT_EVALUATED, "Measured after training, see below.")
    card.text = f"{before.rstrip()}\n\n{section}\n{after.lstrip()}"
    _write(path, str(card))
    if known.task_id:  # the Hub has a table of results for registered benchmarks only
        text = yaml.safe_dump(_table_entry(known, results, source), sort_keys=False)
        _write(folder / ".eval_results" / f"{results.benchmark}.yaml", text)


def _entries(benchmark: Benchmark, results: Results) -> list[Any]:
    from huggingface_hub import EvalResult

    return [
        EvalResult(
            task_type="text-generation",
            dataset_type=benchmark.hub or benchmark.name,
            dataset_name=benchmark.title,
            dataset_config=benchmark.config,
            dataset_split=benchmark.split,
            dataset_revision=results.revision,
            metric_type="pass@k",
            metric_name=f"pass@{k} (unbiased, {len(results.correct[0])} samples per problem)",
            metric_value=round(100 * figure["value"], 2),
        )
        for k, figure in results.figures["pass_at_k"].items()
    ]


def _table_entry(benchmark: Benchmark, results: Results, source: str | None) -> Any:
    """pass@1 for the Hub's table of a benchmark."""
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    settings = results.settings
    entry = EvalResultEntry(
        dataset_id=benchmark.hub or "",
        task_id=benchmark.task_id or "",
        dataset_revision=results.revision,
        source_url=source,
        value=round(100 * results.figures["mean_at_n"]["value"], 2),
        notes=f"pass@1 over {len(results.correct[0])} samples per problem, temperature "
        f"{settings['temperature']}, top_p {settings['top_p']}, at most {settings['max_tokens']} "
        "new tokens",
    )
    return eval_result_entries_to_yaml([entry])


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


def _passk_rows(results: Results, paper: str | None) -> list[dict[str, str]]:
    figures = results.figures
    labels = {
        "pass_at_k": "unbiased",
        "first_k": "first k of each run (as the paper)",
        "pass_hat_k": "all k right (pass^k)",
    }
    rows = [
        {"estimator": label} | {f"pass@{k}": _percent(cell) for k, cell in figures[name].items()}
        for name, label in labels.items()
        if figures[name]
    ]
    if results.runs > 1 and figures["first_k"]:
        rows.append(
            {"estimator": f"  standard error over {results.runs} runs"}
            | {
                f"pass@{k}": f"± {100 * cell['standard_error']:.2f}"
                for k, cell in figures["first_k"].items()
            }
        )
    # Beside a part of the problems, the paper's figures would compare two different things.
    whole = len(results.problems) == results.of_problems
    return rows + [
        {"estimator": f"paper, Table {row.table}: {row.method}"}
        | {f"pass@{k}": f"{value:.2f}" for k, value in row.pass_at_k.items()}
        for row in (published(paper, results.benchmark) if paper and whole else [])
    ]


def _diversity_rows(results: Results, paper: str | None) -> list[dict[str, str]]:
    def cells(label: str, bleu: float | None, rpd: float | None) -> dict[str, str]:
        shown = {f"Div-Self-BLEU {label}": bleu, f"100 RPD {label}": rpd}
        return {name: "–" if value is None else f"{value:.2f}" for name, value in shown.items()}

    mine = {"method": results.name}
    for cell in results.diversity or []:
        label, rpd = f"{cell['low']}-{cell['high']}", cell["rpd"]
        mine[f"problems {label}"] = str(cell["num_problems"])
        mine |= cells(label, cell["div_self_bleu"], None if rpd is None else 100 * rpd)
    rows = [mine]
    for row in published(paper, results.benchmark, diversity=True) if paper else []:
        beside = {"method": f"paper, Table {row.table}: {row.method}"}
        for label, rpd in row.rpd.items():
            beside |= cells(label, row.div_self_bleu[label], rpd)
        rows.append(beside)
    return rows


def _table(rows: list[dict[str, str]], markdown: bool) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[row.get(name, "") for name in names] for row in rows]
    return table_text(names, cells, markdown=markdown)


def _percent(figure: Mapping[str, Any]) -> str:
    return f"{100 * figure['value']:.2f} [{100 * figure['low']:.1f}, {100 * figure['high']:.1f}]"


def _counts(counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    return ", ".join(f"{name} {n:,} ({100 * n / total:.1f} %)" for name, n in counts.items())
