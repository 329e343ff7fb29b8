"""What can be seen to be wrong with a run before a model is loaded.

The specs of all models are read, and the first problem of the input goes through the filters: a
wrong option costs a second and not hours of scoring.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.scoring import quality_of
from rpd_datasets.filters.pipeline import filter_problem
from rpd_datasets.inputs.source import IN_MEMORY, InputSpec, look_at_head
from rpd_datasets.tokens import token_counter
from rpd_metric.errors import InputError, SpecError
from rpd_metric.models.kinds import chat_spec, embedder_spec
from rpd_metric.prompts.templates import load_template
from rpd_metric.steps.summarizers import asks_chat_model, summarizer_spec


def check_models(config: CurationConfig, *, judge: str | None = None) -> None:
    """Read the specs of a configuration's models, of another judge, and the prompt."""
    specs = [summarizer_spec(config.summarizer), embedder_spec(config.embedder)]
    specs += [chat_spec(spec) for spec in (config.judge, judge) if spec is not None]
    folders = [(spec.text, spec.model) for spec in specs if spec.runs_here and spec.model]
    for text, name in (*folders, (config.tokenizer, config.tokenizer)):
        # An id on the Hub never begins like that.
        if name.startswith(("/", "./", "../", "~")) and not Path(name).expanduser().exists():
            raise SpecError(f"{text}: there is no folder {name}")
    if asks_chat_model(config.summarizer):
        load_template(config.template)


def check_input(
    source: Any, spec: InputSpec, config: CurationConfig | None = None, *, name: str = IN_MEMORY
) -> None:
    """Look at an input's first rows, and try a configuration's filters on the first problem."""
    columns, problem = look_at_head(source, spec, name=name)
    if config is None:
        return
    filters = config.filters
    for option, column in (
        ("correct_column", filters.correct_column),
        ("answer_column", filters.answer_column),
        ("quality_column", config.quality_column),
    ):
        if column is None or column in columns:
            continue
        where = source if isinstance(source, str | Path) else name
        raise InputError(
            f"{where} has no column {column!r} for --{option.replace('_', '-')}. Its columns are: "
            f"{', '.join(columns)}"
        )
    if problem is not None:
        # What it keeps is of no interest: a missing column or file of decisions is an error.
        filter_problem(problem, filters, token_counter("estimate"), unsound=lambda _: None)
        quality_of(problem, config, range(len(problem.solutions)))
