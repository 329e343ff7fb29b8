"""What a person reads of one evaluation, and what the Hub reads.

- `report_text`: tables for the terminal, or as Markdown for a model card;
- `write_report`: a folder with the report, the figures as JSON, `model-index.yaml` (metadata of a
  model card), and `.eval_results` for benchmarks that are registered on the Hub;
- `update_card`: the same put into a model's folder and its card.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped,unused-ignore]

from rpd_datasets.evaluation.benchmarks import BENCHMARKS, find_benchmark
from rpd_datasets.evaluation.paper import published
from rpd_datasets.evaluation.results import Results
from rpd_datasets.evaluation.tables import table_text
from rpd_datasets.publish.model_card import NOT_EVALUATED
from rpd_metric.errors import InputError, OutputError


def report_text(results: Results, *, paper: str | None = None, markdown: bool = False) -> str:
    """The figures of one evaluation, those of the paper's model beside them."""
    figures, problems = results.figures, len(results.problems)
    part = "" if problems == results.of_problems else f" of {results.of_problems}"
    settings = {name: value for name, value in results.settings.items() if value is not None}
    said = ", ".join(
        f"{name} {settings[name]}"
        for name in ("temperature", "top_p", "max_tokens")
        if name in settings
    )
    n = results.samples
    lines = [
        f"{results.name} on {results.title}: {problems}{part} problems, "
        f"{results.runs} x {n} samples of each, {said}",
        "",
        _table(_passk_rows(results, paper), markdown),
        "",
        f"mean@{n * results.runs}: {_percent(figures['mean_at_n'])}",
    ]
    if results.missing:
        lines.insert(
            1, f"{results.missing} samples are missing: figures are of those that are there"
        )
    if figures["cons_at_n"] is not None:
        lines.append(f"cons@{n} (majority vote of a run): {_percent(figures['cons_at_n'])}")
    by = results.settings.get("grader") or results.settings["scorer"]
    lines += [f"Verdicts (by {by}): {_counts(results.verdicts)}"]
    lines += [f"Ends: {_counts(results.finish_reasons)}"]
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


def write_report(
    folder: Path, results: Results, *, paper: str | None = None, source: str | None = None
) -> None:
    """Write a report into a folder; what goes to the Hub only of whole benchmarks.

    Args:
        paper (`str`, *optional*): The paper's model whose rows are shown beside.
        source (`str`, *optional*): URL of the published samples.
    """
    from huggingface_hub.repocard_data import eval_results_to_model_index

    _write(folder / "results.json", json.dumps(asdict(results), indent=1) + "\n")
    _write(folder / "report.md", report_text(results, paper=paper, markdown=True) + "\n")
    if _is_whole(results):
        index = eval_results_to_model_index(results.name, _entries(results))
        _write(folder / "model-index.yaml", yaml.safe_dump({"model-index": index}, sort_keys=False))
        _write_entry(folder, results, source)


def update_card(
    folder: Path, results: Results, *, paper: str | None = None, source: str | None = None
) -> None:
    """Put results into a model's folder: its card's metadata and text, and `.eval_results`.

    What an earlier call said about the same benchmark is replaced, everything else stays.

    Raises:
        [`InputError`]: There is no card, its metadata cannot be read, or only a part of the
            benchmark was evaluated.
        [`OutputError`]: The folder cannot be written.
    """
    from huggingface_hub import ModelCard

    if not _is_whole(results):
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
    entries = _entries(results)
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
    _write_entry(folder, results, source)


def _is_whole(results: Results) -> bool:
    """Whether every problem of a published benchmark took part, with every sample."""
    known = BENCHMARKS.get(results.benchmark)
    whole = len(results.problems) == results.of_problems and not results.missing
    return known is not None and bool(known.sizes) and whole


def _entries(results: Results) -> list[Any]:
    from huggingface_hub import EvalResult

    benchmark = find_benchmark(results.benchmark)
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


def _write_entry(folder: Path, results: Results, source: str | None) -> None:
    """pass@1 for the Hub's table of a benchmark, which it has of registered ones only."""
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    benchmark, settings = find_benchmark(results.benchmark), results.settings
    if benchmark.task_id is None or benchmark.hub is None:
        return
    entry = EvalResultEntry(
        dataset_id=benchmark.hub,
        task_id=benchmark.task_id,
        dataset_revision=results.revision,
        source_url=source,
        value=round(100 * results.figures["mean_at_n"]["value"], 2),
        notes=f"pass@1 over {len(results.correct[0])} samples per problem, temperature "
        f"{settings['temperature']}, top_p {settings['top_p']}, at most {settings['max_tokens']} "
        "new tokens",
    )
    text = yaml.safe_dump(eval_result_entries_to_yaml([entry]), sort_keys=False)
    _write(folder / ".eval_results" / f"{results.benchmark}.yaml", text)


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
    mine = {"method": results.name}
    for cell in results.diversity or []:
        label = f"{cell['low']}-{cell['high']}"
        bleu, rpd = cell["div_self_bleu"], cell["rpd"]
        mine[f"problems {label}"] = str(cell["num_problems"])
        mine[f"Div-Self-BLEU {label}"] = "–" if bleu is None else f"{bleu:.2f}"
        mine[f"100 RPD {label}"] = "–" if rpd is None else f"{100 * rpd:.2f}"
    rows = [mine]
    for row in published(paper, results.benchmark, diversity=True) if paper else []:
        beside = {"method": f"paper, Table {row.table}: {row.method}"}
        for label in row.rpd:
            beside[f"Div-Self-BLEU {label}"] = f"{row.div_self_bleu[label]:.2f}"
            beside[f"100 RPD {label}"] = f"{row.rpd[label]:.2f}"
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
    return ", ".join(
        f"{name} {count:,} ({100 * count / total:.1f} %)" for name, count in counts.items()
    )
