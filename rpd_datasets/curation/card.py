"""The dataset card and the manifest: an account of one run, in words and in JSON.

Neither holds a date, a path or a private host: equal runs give equal files, and nothing private
gets out.
"""

import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from rpd_datasets.account import made_lines, outcome_lines, problem_rule, solution_rule
from rpd_datasets.commands import printable
from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.models import Models
from rpd_datasets.curation.outcome import counts, outcome
from rpd_datasets.curation.parquet import FOLDERS, SFT_CONFIG, SHARD
from rpd_datasets.curation.run import RunOptions
from rpd_datasets.curation.scoring import column_names, without_groups
from rpd_datasets.curation.summary import RunSummary
from rpd_datasets.inputs.raw_rows import Terms
from rpd_datasets.inputs.source import InputSpec
from rpd_datasets.language import kind_of
from rpd_datasets.options import MANIFEST_FORMAT, as_options
from rpd_datasets.publish.model_card import versions
from rpd_datasets.publish.publishable import NEEDED, OPTIONAL
from rpd_datasets.report.charts import draw_card_figures

# Packages whose version can change a result.
VERSIONED = (
    *("rpd-metric", "numpy", "pyarrow", "datasets"),
    *("torch", "transformers", "sentence-transformers"),
)
# Options that name a folder or a device, or say how fast the work is done.
PRIVATE_OPTIONS = ("device", "batch_size", "threads", "store")
# The paper of the metric; the Hub links cards to papers by such a tag.
PAPER_TAG = "arxiv:2510.26122"
MARKUP = re.compile(r"[\\`*<|~$&]|\](?=[(\[])")  # of Markdown, inside of a line
COMMIT = re.compile(r"[0-9a-f]{40}")


def described(
    summary: RunSummary,
    config: CurationConfig,
    models: Models,
    options: RunOptions,
    spec: InputSpec,
) -> dict[str, bytes]:
    """The files beside the data, by name: figures, the card and the manifest.

    `spec` says how the input was read.
    """
    options.progress.stage("Drawing figures")
    ranked = [
        figure.rpd_score if figure.problem_score is None else figure.problem_score
        for figure in summary.scores
    ]
    scores, chosen = (
        [score for score in group if score is not None]
        for group in (ranked, [ranked[index] for index in summary.chosen])
    )
    drawn = draw_card_figures(scores, chosen, summary.selected_tokens)
    figures = {f"figures/{name}": figure for name, figure in drawn.items()}
    content = {
        "format": MANIFEST_FORMAT,
        "options": _options(summary, config, models, options, spec),
        **_content(summary, config, models, options),
        # What may be replaced: a folder with any other file is somebody's.
        "files": sorted(
            (*figures, *NEEDED, *OPTIONAL, *(f"{folder}/{SHARD}" for folder in FOLDERS.values()))
        ),
    }
    card = _card(content, summary, config, options, sorted(figures))
    manifest = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    return figures | {"README.md": card.encode(), "manifest.json": manifest.encode()}


def _options(
    summary: RunSummary,
    config: CurationConfig,
    models: Models,
    options: RunOptions,
    spec: InputSpec,
) -> dict[str, Any]:
    """The options by their names on the command line, so that `--config` repeats the run.

    Models on servers have their bare names here: who repeats the run says where they are.
    """
    read = summary.input
    chosen = {
        "input": public_name(read["name"]),
        "layout": read["layout"],
        **{f"{role}_column": name for role, name in read["columns"].items()},
        **as_options(spec, "place"),
        "only": dict(spec.only),
        "decontaminate": [*options.contamination.sizes] or None if options.contamination else None,
        **as_options(config, "models", "choice", "tokens"),
        **as_options(config.sampling, ""),
        **as_options(config.filters, ""),
        **{name: getattr(options, name) for name in ("preset", "license", "language")},
        "summarizer": public_name(models.summarizer.name),
        "embedder": public_name(models.embedder.name),
        "template": public_name(config.template),
        "tokenizer": public_name(models.count_tokens.name),
    }
    if chosen["revision"] is None and COMMIT.fullmatch(read["fingerprint"]):
        chosen["revision"] = read["fingerprint"]
    if config.judge is not None and models.judges is not None:
        chosen["judge"] = public_name(models.judges.chat.model)
    if config.filters.decisions is not None:
        chosen["decisions"] = Path(config.filters.decisions).name
    return {name: value for name, value in chosen.items() if name not in PRIVATE_OPTIONS}


def _content(
    summary: RunSummary, config: CurationConfig, models: Models, options: RunOptions
) -> dict[str, Any]:
    """What the manifest and the card say of a run."""
    contamination = options.contamination
    by = without_groups(config) if summary.untrusted else config
    judge = models.judges.chat.model if models.judges and config.asks_judge else None
    return {
        "input": summary.input | {"name": public_name(summary.input["name"])},
        "decontaminated": contamination
        and {"by": contamination.as_rows(), "fingerprint": contamination.fingerprint},
        "summarizer": {name: getattr(models.summarizer, name) for name in ("name", "fingerprint")},
        "embedder": {"name": public_name(models.embedder.name)},
        "used": {
            "summarizer": config.reads_steps,
            "embedder": bool(config.metrics),
            "judge": config.asks_judge,
        },
        "judge": judge and {"name": public_name(judge)},
        "tokenizer": {
            "name": public_name(models.count_tokens.name),
            "estimated": models.count_tokens.estimated,
        },
        "rules": {"problems": problem_rule(by), "solutions": solution_rule(by)},
        "counts": counts(summary),
        "outcome": outcome(summary, config),
        "evidence": summary.evidence.as_dict(kind_of(summary.written)),
        "drops": [
            {"stage": stage, "reason": reason, "unit": unit, "count": count}
            for (stage, reason, unit), count in sorted(summary.drops.items())
        ],
        "columns_stored_as_json": summary.json_columns,
        "versions": versions(VERSIONED),
    }


def public_name(name: str) -> str:
    """A model's or input's name without the folders it lies in on this machine."""
    kind, separator, rest = name.partition(":")
    if separator and Path(rest).is_absolute():
        return f"{kind}:{Path(rest).name}"
    return Path(name).name if Path(name).exists() else name


def _cell(value: Any) -> str:
    """A value as text in one cell of a table, whatever a file or a model is called.

    >>> _cell("a|b\\n<img>.jsonl")
    'a\\\\|b \\\\<img>.jsonl'
    """
    return MARKUP.sub(r"\\\g<0>", " ".join(printable(str(value)).split()))


def _card(
    content: Mapping[str, Any],
    summary: RunSummary,
    config: CurationConfig,
    options: RunOptions,
    figures: Sequence[str],
) -> str:
    """The README.md of a curated dataset, with its metadata; `figures` are paths beside it."""
    from huggingface_hub import DatasetCard

    terms = _terms(summary, options.license, options.language)
    template = resources.files("rpd_datasets.curation") / "card_template.md"
    card = DatasetCard.from_template(
        _card_data(summary, config, terms),
        template_str=template.read_text(encoding="utf-8"),
        **content,
        config=config,
        filters={
            n: option for n, option in as_options(config.filters, "").items() if n != "decisions"
        },
        lines=outcome_lines(content),
        made=made_lines(content),
        cell=_cell,
        own_columns=column_names(config),
        sft=SFT_CONFIG,
        terms=terms,
        terms_given=bool(options.license),
        figures=figures,
    )
    return str(card)


def _terms(summary: RunSummary, license: str | None, language: str | None) -> Terms:
    """Licence and language of the texts: as they were given, else as the input's card says."""
    read = summary.input
    return Terms(
        (license,) if license else read["license"],
        (language,) if language else read["language"],
        read["datasets"],
    )


def _card_data(summary: RunSummary, config: CurationConfig, terms: Terms) -> Any:
    """The card's metadata (`DatasetCardData`): what the Hub and `datasets` read."""
    from datasets import Features
    from huggingface_hub import DatasetCardData

    license, language = (
        names[0] if len(names) == 1 else list(names) or None
        for names in (terms.license, terms.language)
    )
    tags = ["reasoning", "chain-of-thought", PAPER_TAG]
    if "rpd" in (config.problems, config.solutions):
        tags += ["reasoning-path-divergence", "diversity"]
    return DatasetCardData(
        pretty_name=f"{len(summary.chosen)} problems, {summary.num_selected} solutions",
        task_categories=["text-generation"],
        annotations_creators=["machine-generated"],
        source_datasets=[f"extended|{name}" for name in terms.datasets] or None,
        license=license,
        language=language,
        tags=tags,
        configs=[
            {
                "config_name": name,
                **({"default": True} if name == "default" else {}),
                "data_files": [{"split": "train", "path": f"{folder}/train-*.parquet"}],
            }
            for name, folder in FOLDERS.items()
        ],
        dataset_info=[
            {
                "config_name": name,
                "features": Features.from_arrow_schema(table.schema)._to_yaml_list(),
                "splits": [
                    {"name": "train", "num_bytes": table.num_bytes, "num_examples": table.num_rows}
                ],
                "dataset_size": table.num_bytes,
            }
            for name, table in summary.tables.items()
        ],
    )
