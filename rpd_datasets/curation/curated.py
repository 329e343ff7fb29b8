"""Curated datasets from Python: made, loaded, looked at and published.

```py
from rpd_datasets import CurationConfig, curate_dataset

curated = curate_dataset("solutions.jsonl", "curated", CurationConfig(num_problems=100))
curated.push_to_hub("me/diverse-math")
```

`rpd curate` is the same behind a command line.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rpd_datasets.account import better_line
from rpd_datasets.config import CurationConfig, config_or_default
from rpd_datasets.curation.card import described
from rpd_datasets.curation.folder import check_folder
from rpd_datasets.curation.mapping import FINGERPRINT, made_columns
from rpd_datasets.curation.models import load_models
from rpd_datasets.curation.parquet import SFT_CONFIG
from rpd_datasets.curation.run import RunOptions, curate_folder
from rpd_datasets.curation.summary import RunSummary
from rpd_datasets.filters.answer_checks import marks_of, unread_marks
from rpd_datasets.filters.pipeline import filter_problem
from rpd_datasets.inputs.layouts import Columns
from rpd_datasets.inputs.source import IN_MEMORY, InputSpec, look_at_head, open_source
from rpd_datasets.publish.publishable import curated_files
from rpd_datasets.publish.pushing import Pushed, push_folder
from rpd_datasets.selection.solutions import quality_of
from rpd_datasets.tokens import token_counter
from rpd_metric.errors import InputError, SpecError
from rpd_metric.models.spec import chat_spec, embedder_spec
from rpd_metric.prompts.templates import load_template
from rpd_metric.steps.summarizers import asks_chat_model, summarizer_spec

if TYPE_CHECKING:
    from huggingface_hub import DatasetCard

    from rpd_datasets.report import WrittenReport


@dataclass(frozen=True, repr=False)
class Curated:
    """A complete curated folder: the data, its card, and the way to the Hub."""

    folder: Path
    # What the run that made it did; `None` where it was loaded.
    summary: RunSummary | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        """Where it is, how much was chosen, whether that is better than random, what it offers."""
        better, counts = self.manifest["outcome"]["better_than_random"], self.manifest["counts"]
        return (
            f"Curated({str(self.folder)!r})"
            f"\n{counts['problems_chosen']:,} of {counts['problems_read']:,} problems, "
            f"{counts['solutions_chosen']:,} of {counts['solutions_read']:,} solutions, "
            f"chosen by {self.manifest['options']['solutions']}"
            f"\nBetter than random: {better_line(better)}"
            "\n.dataset, .sft, .card, .manifest; .report() shows, .push_to_hub(name) publishes it"
        )

    @cached_property
    def dataset(self) -> Any:
        """The chosen problems, best first, with all their solutions (`datasets.Dataset`)."""
        from datasets import load_dataset

        return load_dataset(str(self.folder), split="train")

    @cached_property
    def sft(self) -> Any:
        """TRL's conversational prompt-completion rows (`datasets.Dataset`)."""
        from datasets import load_dataset

        return load_dataset(str(self.folder), SFT_CONFIG, split="train")

    @cached_property
    def card(self) -> DatasetCard:
        """What its page on the Hub says: `.data` is its metadata, `.text` the rest."""
        from huggingface_hub import DatasetCard

        card: DatasetCard = DatasetCard.load(self.folder / "README.md")
        return card

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Every option, count and version."""
        content: dict[str, Any] = json.loads((self.folder / "manifest.json").read_bytes())
        return content

    def report(self, page: str | Path | None = None, max_problems: int = 300) -> WrittenReport:
        """Write the report of `max_problems` chosen problems, by default as `report.html` in the
        folder; in a notebook it shows itself.
        """
        from rpd_datasets.report import read_curated, write_report

        file = self.folder / "report.html" if page is None else Path(page)
        return write_report(read_curated(self.folder, max_problems), file)

    def push_to_hub(self, repo_id: str, *, token: str | None = None, **options: Any) -> Pushed:
        """Publish the folder in one commit: data, card, manifest, lists and figures.

        Args:
            repo_id (`str`): The id there; without a namespace, the user's own is taken.
            token (`str`, *optional*): Instead of `HF_TOKEN` or the stored login.
            options: `private` (`True` unless it is given), `commit_message`, `exclude` and `api`,
                see [`~rpd_datasets.publish.pushing.push_folder`].
        """
        from huggingface_hub import HfApi

        return push_folder(self.folder, repo_id, **{"api": HfApi(token=token), **options})


def curate_dataset(
    source: Any,
    output: str | Path,
    config: CurationConfig | None = None,
    *,
    spec: InputSpec | None = None,
    **options: Any,
) -> Curated:
    """Curate an input into a folder with data, training rows, card, manifest, lists and figures.

    An interrupted run continues when it is called again; `output` is either complete or not
    there. Equal inputs, options and seed give equal bytes.

    Args:
        source (`str`, `Path` or `datasets.Dataset`): A file, a folder, a Hub id, `"sample"`, or
            rows in memory; what `ds.map(rpd_curate)` added to them is made anew.
        output (`str` or `Path`): The folder to make.
        config ([`CurationConfig`], *optional*): What is chosen and how.
        spec ([`InputSpec`], *optional*): How the input is read.
        options: Fields of [`RunOptions`], e.g. `license="mit"`: how the run goes about it.

    Raises:
        InputError: If the input cannot be read, or nothing in it can be chosen.
        OutputError: If the folder exists, cannot be written, or another run is at it.

    Example:

    ```py
    curated = curate_dataset("sample", "curated", CurationConfig(num_problems=10))
    print(curated.dataset[0]["problem"], curated.card.data.license)
    ```
    """
    config = config_or_default(config)
    columns = Columns(problem=config.problem_column, solutions=config.solutions_column)
    run, spec = RunOptions(**options), spec or InputSpec(columns=columns)
    present = getattr(source, "column_names", None) or ()
    if FINGERPRINT in present:
        source = source.remove_columns(sorted(made_columns(config).intersection(present)))
    files = (source, config.template, config.filters.decisions, run.evidence, spec.prompts)
    run = replace(run, reads=(*run.reads, *files))
    if run.models is None:
        # Whoever brings models has looked before loading them.
        check_folder(Path(output), run.overwrite, run.reads, config.store)
        check_models(config)
        check_input(source, spec, config, name=run.name)
    models = run.models or load_models(config)
    opener = partial(open_source, source, spec, name=run.name, contamination=run.contamination)
    describe = partial(described, config=config, models=models, options=run, spec=spec)
    # Behind a link to a folder, that folder is written.
    folder = Path(output).resolve() if Path(output).is_symlink() else Path(output)
    try:
        summary = curate_folder(opener, folder, config, models, describe, options=run)
    finally:
        models.answers.close()
    return Curated(Path(output), summary)


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
    if config is None:
        look_at_head(source, spec, name=name)
        return
    filters = config.filters
    options = {
        "correct_column": filters.correct_column,
        "answer_column": filters.answer_column,
        "quality_column": config.quality_column,
    }
    needed = [*filter(None, options.values())]
    columns, problem = look_at_head(source, spec, name=name, needed=needed)
    for option, column in options.items():
        if column not in (None, *columns):
            raise InputError(
                f"{source if isinstance(source, str | Path) else name} has no column {column!r} "
                f"for {{{option}}}. Its columns are: {', '.join(columns)}",
                option=option,
            )
    if problem is not None:
        odd = filters.correct_column and unread_marks(problem, filters.correct_column)
        if odd and set(marks_of(problem, filters.correct_column) or ()) == {None}:
            raise InputError(f"{odd}.")
        # What it keeps is of no interest: a missing column or file of decisions is an error.
        filter_problem(problem, replace(filters, student=None), token_counter("estimate"))
        quality_of(problem, config.quality_column)


def load_curated(folder: str | Path) -> Curated:
    """A curated folder that was made before. Raises [`InputError`] if it is not complete."""
    curated_files(Path(folder))
    return Curated(Path(folder))
