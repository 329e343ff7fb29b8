"""The dataset card and the manifest: an honest account of one run, in words and in JSON.

Pure functions from a run's report to text. Neither holds a date, a path or a host, so that equal
runs give equal files and nothing private is published.
"""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import numpy as np

from rpd_datasets.curate import CurationConfig, Models
from rpd_datasets.folder import SFT_CONFIG, Report, TableInfo

# Packages whose version can change a result.
VERSIONED = (
    "rpd-metric",
    "numpy",
    "pyarrow",
    "datasets",
    "torch",
    "transformers",
    "sentence-transformers",
)
# Options that name a server, a device or a folder, and how the input is called: what matters of
# them stands elsewhere in the manifest, by name.
PRIVATE_OPTIONS = ("summarizer", "embedder", "tokenizer", "device", "batch_size", "store")
SIZE_CATEGORIES = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
)
QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
SELECTION_RULES = {
    "maxmin": "greedy: start with the solution furthest from all others, then keep adding the one "
    "whose closest chosen neighbour is furthest away (the paper's Algorithm 2)",
    "maxavg": "greedy: keep adding the solution with the highest average distance to those chosen "
    "(the paper's text in Sec. 3.2)",
    "exact": "the subset with the largest smallest distance among all subsets",
    "random": "at random, without regard to distance",
}


def manifest(report: Report, config: CurationConfig, models: Models, source: dict[str, Any]) -> str:
    """Everything needed to tell how the dataset was made, and whether two runs were the same.

    Args:
        report ([`~rpd_datasets.folder.Report`]): What the run did.
        config ([`CurationConfig`]): Its options.
        models ([`Models`]): What made the steps and the embeddings.
        source (`dict`): How the input was read (split, columns, limit, ...).

    Returns:
        `str`: JSON, sorted and indented, the same for the same run.
    """
    options = {
        name: value for name, value in config.as_dict().items() if name not in PRIVATE_OPTIONS
    }
    content = {
        "format": 1,
        "input": {
            "name": public_name(report.input_name),
            "layout": report.input_layout,
            "fingerprint": report.input_fingerprint,
            **source,
        },
        "options": options,
        "summarizer": {"name": models.extractor.name, "fingerprint": models.extractor.fingerprint},
        "embedder": {"name": public_name(models.embedder.name)},
        "tokenizer": {
            "name": public_name(models.count_tokens.name),
            "estimated": models.count_tokens.estimated,
        },
        "counts": counts(report),
        "drops": [
            {"stage": stage, "reason": reason, "unit": unit, "count": count}
            for (stage, reason, unit), count in sorted(report.drops.items())
        ],
        "columns_stored_as_json": report.json_columns,
        "versions": versions(),
    }
    return json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def counts(report: Report) -> dict[str, int]:
    """How much came in, could be used, and was chosen."""
    return {
        "rows_read": report.rows_read,
        "problems_read": len(report.scores),
        "solutions_read": sum(score.num_solutions for score in report.scores),
        "solutions_usable": sum(score.num_usable for score in report.scores),
        "problems_scored": sum(score.rpd_score is not None for score in report.scores),
        "problems_chosen": len(report.chosen),
        "solutions_chosen": report.num_selected,
    }


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that can change a result, where installed."""
    found = {"python": platform.python_version()}
    for package in VERSIONED:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def public_name(name: str) -> str:
    """A model's or input's name without the folders it lies in on this machine."""
    kind, separator, rest = name.partition(":")
    if separator and Path(rest).is_absolute():
        return f"{kind}:{Path(rest).name}"
    return Path(name).name if Path(name).exists() else name


def dataset_card(report: Report, config: CurationConfig, models: Models) -> str:
    """The README.md of a curated dataset, with the metadata that the Hub and `datasets` read.

    Args:
        report ([`~rpd_datasets.folder.Report`]): What the run did.
        config ([`CurationConfig`]): Its options.
        models ([`Models`]): What made the steps and the embeddings.

    Returns:
        `str`: YAML metadata and Markdown.
    """
    from huggingface_hub import DatasetCard, DatasetCardData

    num_problems = len(report.chosen)
    data = DatasetCardData(
        pretty_name=f"{num_problems} problems with {config.num_solutions} solutions each, by RPD",
        size_categories=[_size_category(num_problems)],
        task_categories=["text-generation"],
        tags=["reasoning", "reasoning-path-divergence", "chain-of-thought", "diversity"],
        configs=[
            {
                "config_name": "default",
                "default": True,
                "data_files": [{"split": "train", "path": "data/train-*.parquet"}],
            },
            {
                "config_name": SFT_CONFIG,
                "data_files": [{"split": "train", "path": f"{SFT_CONFIG}/train-*.parquet"}],
            },
        ],
        dataset_info=[_dataset_info(name, table) for name, table in report.tables.items()],
    )
    template = resources.files("rpd_datasets") / "card_template.md"
    by_index = report.scores
    card = DatasetCard.from_template(
        data,
        template_str=template.read_text(encoding="utf-8"),
        input_name=public_name(report.input_name),
        input_fingerprint=report.input_fingerprint,
        config=config,
        filters=asdict(config.filters),
        counts=counts(report),
        drops=_by_unit(report.drops),
        summarizer=models.extractor.name,
        embedder=public_name(models.embedder.name),
        tokenizer=public_name(models.count_tokens.name),
        tokens_estimated=models.count_tokens.estimated,
        rule=SELECTION_RULES[config.selection],
        sft=SFT_CONFIG,
        quantiles=[f"{quantile:.0%}" for quantile in QUANTILES],
        statistics={
            "Problem score, all scored problems": quantiles(
                [s.rpd_score for s in by_index if s.rpd_score is not None], 3
            ),
            "Problem score, chosen problems": quantiles(
                [by_index[index].rpd_score for index in report.chosen], 3
            ),
            "Mean pairwise RPD, chosen problems": quantiles(
                [by_index[index].mean_rpd for index in report.chosen], 3
            ),
            "Tokens of a chosen solution": quantiles(report.selected_tokens, 0),
        },
        versions=versions(),
        short=num_problems < config.num_problems,
    )
    return str(card)


def quantiles(values: Sequence[float | None], digits: int) -> list[str]:
    """Minimum, quartiles and maximum as text; dashes where there are no values."""
    if not values:
        return ["–"] * len(QUANTILES)
    found = np.quantile(np.array(values, dtype=np.float64), QUANTILES)
    return [f"{value:.{digits}f}" for value in found]


def _by_unit(drops: Counter[tuple[str, str, str]]) -> list[tuple[str, str, str, int]]:
    return [(stage, reason, unit, count) for (stage, reason, unit), count in sorted(drops.items())]


def _size_category(rows: int) -> str:
    return next((name for limit, name in SIZE_CATEGORIES if rows < limit), "1M<n<10M")


def _dataset_info(config_name: str, table: TableInfo) -> dict[str, Any]:
    from datasets import Features

    split = {"name": "train", "num_bytes": table.num_bytes, "num_examples": table.num_rows}
    return {
        "config_name": config_name,
        "features": Features.from_arrow_schema(table.schema)._to_yaml_list(),
        "splits": [split],
        "dataset_size": table.num_bytes,
    }
