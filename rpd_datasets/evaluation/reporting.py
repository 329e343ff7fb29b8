"""What a person reads of one evaluation, and what the Hub reads.

- `report_text`: tables for the terminal, or as Markdown for a model card;
- `model_index`: YAML for the metadata of a model card;
- `evaluation_entry`: YAML for a file in the model repository's `.eval_results` folder, for
  benchmarks that are registered on the Hub;
- `update_card`: all three put into a model's folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped,unused-ignore]

from rpd_datasets.evaluation.benchmarks import find_benchmark
from rpd_datasets.evaluation.paper import published, published_diversity
from rpd_datasets.evaluation.results import Results
from rpd_datasets.evaluation.samples import write_text
from rpd_datasets.evaluation.tables import table_text
from rpd_datasets.publish.model_card import NOT_EVALUATED
from rpd_metric.errors import InputError


def report_text(results: Results, *, paper: str | None = None, markdown: bool = False) -> str:
    """The figures of one evaluation, those of the paper's model beside them."""
    title = find_benchmark(results.benchmark).title
    sampling, figures = results.sampling, results.figures
    runs, n = sampling["runs"], sampling["samples"]
    part = "" if len(results.problems) == results.of_problems else f" of {results.of_problems}"
    lines = [
        f"{results.name} on {title}: {len(results.problems)}{part} problems, {_count(runs, 'run')} "
        f"of {_count(n, 'sample')}, temperature {sampling['temperature']}, top_p "
        f"{sampling['top_p']}, at most {sampling['max_tokens']:,} new tokens, seeds from "
        f"{sampling['seed']}",
        "",
        _table(_passk_rows(results, paper), markdown),
        "",
        f"mean@{n}: {_percent(figures['mean_at_n'])}",
    ]
    if figures["cons_at_n"] is not None:
        lines.append(f"cons@{n} (majority vote of a run): {_percent(figures['cons_at_n'])}")
    by = f" (by {results.graded_by})" if results.graded_by else ""
    lines.append(f"Verdicts{by}: " + _counts(results.verdicts))
    lines.append("Ends: " + _counts(results.finish_reasons))
    if results.mean_tokens is not None:
        lines.append(f"New tokens per sample: {results.mean_tokens:,.0f}")
    beside = published(paper, results.benchmark) if paper else []
    notes = dict.fromkeys(row.note for row in beside if row.note)
    lines += [f"The paper's rows: {note}" for note in notes]
    if results.diversity:
        made = results.measured_with
        lines += [
            "",
            f"Diversity of correct solutions, first run (steps by {made['summarizer']}, embeddings "
            f"by {made['embedder']}; comparable only with the same two):",
            "",
            _table(_diversity_rows(results, paper), markdown),
        ]
    lines += ["", "In percent; brackets hold 95 % intervals over problems."]
    return "\n".join(lines)


def model_index(results: Results) -> str:
    """Results of a whole benchmark as `model-index`, for the YAML at the head of a model card."""
    from huggingface_hub.repocard_data import eval_results_to_model_index

    index = eval_results_to_model_index(results.name, _entries(results))
    return str(yaml.safe_dump({"model-index": index}, sort_keys=False))


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
    title = find_benchmark(results.benchmark).title
    body = report_text(results, paper=paper, markdown=True)
    section = f"{start}\n## pass@k on {title}\n\n{body}\n{end}"
    before, found, rest = card.text.partition(start)
    after = rest.partition(end)[2] if found else ""
    before = before.replace(NOT_EVALUATED, "Measured after training, see below.")
    card.text = f"{before.rstrip()}\n\n{section}\n{after.lstrip()}"
    write_text(path, str(card))
    write_entry(folder, results, source)


def write_entry(folder: Path, results: Results, source: str | None = None) -> None:
    """Write the file of `.eval_results`, where the benchmark is registered on the Hub."""
    if entry := evaluation_entry(results, source):
        write_text(folder / ".eval_results" / f"{results.benchmark}.yaml", entry)


def _entries(results: Results) -> list[Any]:
    from huggingface_hub import EvalResult

    _whole(results)
    benchmark = find_benchmark(results.benchmark)
    n = results.sampling["samples"] * results.sampling["runs"]
    return [
        EvalResult(
            task_type="text-generation",
            dataset_type=benchmark.hub or benchmark.name,
            dataset_name=benchmark.title,
            dataset_config=benchmark.config,
            dataset_split=benchmark.split,
            dataset_revision=results.revision,
            metric_type="pass@k",
            metric_name=f"pass@{k} (unbiased, {n} samples per problem)",
            metric_value=round(100 * figure["value"], 2),
        )
        for k, figure in results.figures["pass_at_k"].items()
    ]


def evaluation_entry(results: Results, source: str | None = None) -> str | None:
    """Results in the form of a model repository's `.eval_results/*.yaml`: pass@1, in percent.

    `None` where the benchmark is not registered on the Hub: its results go into the card's metadata
    alone, since the Hub shows no others. `source` is the URL of the published samples.
    """
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    _whole(results)
    benchmark, sampling = find_benchmark(results.benchmark), results.sampling
    if benchmark.task_id is None or benchmark.hub is None:
        return None
    entry = EvalResultEntry(
        dataset_id=benchmark.hub,
        task_id=benchmark.task_id,
        dataset_revision=results.revision,
        source_url=source,
        value=round(100 * results.figures["mean_at_n"]["value"], 2),
        notes=f"pass@1 over {sampling['samples'] * sampling['runs']} samples per problem, "
        f"temperature {sampling['temperature']}, top_p {sampling['top_p']}, at most "
        f"{sampling['max_tokens']} new tokens",
    )
    return str(yaml.safe_dump(eval_result_entries_to_yaml([entry]), sort_keys=False))


def is_whole(results: Results) -> bool:
    """Whether every problem of a published benchmark took part."""
    known = find_benchmark(results.benchmark).sizes
    return bool(known) and len(results.problems) == results.of_problems


def _whole(results: Results) -> None:
    if not is_whole(results):
        raise InputError(
            f"{len(results.problems)} of {results.of_problems} problems of {results.benchmark} are "
            "no result for the Hub; evaluate a whole benchmark that others know (leave out `limit`)"
        )


def _passk_rows(results: Results, paper: str | None) -> list[dict[str, str]]:
    figures = results.figures
    rows = [
        {"estimator": "unbiased"}
        | {f"pass@{k}": _percent(cell) for k, cell in figures["pass_at_k"].items()},
        {"estimator": "first k of each run (as the paper)"}
        | {f"pass@{k}": _percent(cell) for k, cell in figures["first_k"].items()},
    ]
    if "pass_hat_k" in figures:  # not in older files
        cells = {f"pass@{k}": _percent(cell) for k, cell in figures["pass_hat_k"].items()}
        rows.append({"estimator": "all k right (pass^k)"} | cells)
    runs = results.sampling["runs"]
    if runs > 1:
        rows.append(
            {"estimator": f"  standard error over {runs} runs"}
            | {
                f"pass@{k}": f"± {100 * cell['standard_error']:.2f}"
                for k, cell in figures["first_k"].items()
            }
        )
    # Beside a part of the problems, the paper's figures would compare two different things.
    whole = len(results.problems) == results.of_problems
    for row in published(paper, results.benchmark) if paper and whole else []:
        rows.append(
            {"estimator": f"paper, Table {row.table}: {row.method}"}
            | {f"pass@{k}": f"{row.pass_at_k[k]:.2f}" for k in results.ks}
        )
    return rows


def _diversity_rows(results: Results, paper: str | None) -> list[dict[str, str]]:
    rows = []
    mine = {"method": results.name}
    for cell in results.diversity or []:
        label = f"{cell['low']}-{cell['high']}"
        mine |= {
            f"problems {label}": str(cell["num_problems"]),
            f"Div-Self-BLEU {label}": _number(cell["div_self_bleu"]),
            f"100 RPD {label}": _number(cell["rpd"], 100),
        }
    rows.append(mine)
    for row in published_diversity(paper, results.benchmark) if paper else []:
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


def _number(value: float | None, scale: float = 1) -> str:
    return "–" if value is None else f"{scale * value:.2f}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _counts(counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    return ", ".join(
        f"{name} {count:,} ({100 * count / total:.1f} %)" for name, count in counts.items()
    )
