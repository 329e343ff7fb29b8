"""An evaluation stage by stage: sample, grade, report. `recipes/passk.py` runs them.

Each stage reads what the one before it left in the evaluation's folder, so that they can run in
one go, one by one, or on samples that another tool wrote. What is printed, and the bars, are the
recipe's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rpd_datasets.evaluation.benchmarks import (
    Benchmark,
    Task,
    find_benchmark,
    in_window,
    load_tasks,
)
from rpd_datasets.evaluation.generation import RUN, generate, model_spec, open_model, read_run
from rpd_datasets.evaluation.inspect_log import write_inspect_log
from rpd_datasets.evaluation.marking import VERDICTS, mark, read_marks
from rpd_datasets.evaluation.paper import published
from rpd_datasets.evaluation.passk_config import EvaluationConfig
from rpd_datasets.evaluation.reporting import (
    is_whole,
    model_index,
    report_text,
    update_card,
    write_entry,
)
from rpd_datasets.evaluation.results import RESULTS, Results, measure, measure_diversity
from rpd_datasets.evaluation.samples import (
    SAMPLES,
    Sample,
    complete,
    read_samples,
    write_rows,
    write_text,
)
from rpd_datasets.evaluation.serving import address, served
from rpd_datasets.options import documented, option
from rpd_metric.errors import InputError
from rpd_metric.models.chat import ChatOptions
from rpd_metric.models.concurrency import run
from rpd_metric.models.flow import draining
from rpd_metric.models.kinds import load_embedder
from rpd_metric.steps.summarizers import load_summarizer

# Called with the number of samples that are done, and a line about how it goes.
Progress = Callable[[int, str], None]
# Called with a line for a person.
Say = Callable[[str], object]
# Shows how far something is: made with its name and the number of samples.
Bar = Callable[[str, int], AbstractContextManager[tuple[Progress, Say]]]


@documented
@dataclass(frozen=True)
class EvaluationOptions:
    """Which model is evaluated, and where its files go."""

    model: str | None = option(
        None, "a model's folder, tgi:URL, openai:URL#MODEL, hf:ID or vllm:MODEL", metavar="MODEL"
    )
    name: str | None = option(None, "what tables call the model (default: from --model)")
    output: str | None = option(
        None, "where files go (default: evaluations/NAME/BENCHMARK)", metavar="FOLDER"
    )
    store: str | None = option(
        None,
        "where a model's replies are kept (default: $RPD_STORE, or the user's cache folder)",
        metavar="FILE",
    )


@documented
@dataclass(frozen=True)
class SamplingOptions:
    """How the model is run."""

    timeout: float = option(3600.0, "for one reply", metavar="SECONDS")
    serve: str | None = option(
        None,
        "start this server, wait until --model answers, and end it afterwards, e.g. "
        "'vllm serve FOLDER --port 8000' for openai:http://127.0.0.1:8000/v1#FOLDER",
        metavar="COMMAND",
    )
    device: str | None = option(None, "for a model of this machine, e.g. cuda:1")
    dtype: str = option("auto", "weights of a model of this machine")


@documented
@dataclass(frozen=True)
class GradingOptions:
    """How samples are graded."""

    workers: int | None = option(None, "grading processes", metavar="N")


@documented
@dataclass(frozen=True)
class ReportOptions:
    """Where results go beside the evaluation's folder."""

    card: str | None = option(
        None, "put the results into the model card in this folder, too", metavar="FOLDER"
    )
    source: str | None = option(None, "where the samples are published, for the Hub", metavar="URL")
    inspect: str | None = option(None, "write a log for `inspect view`, too", metavar="OUT.eval")


@dataclass(frozen=True)
class Evaluation:
    """What every stage needs.

    Args:
        tasks (`Sequence`): The problems that take part, of `of_problems` in the whole benchmark.
        revision (`str`, *optional*): The commit of its dataset, where the Hub gave it.
        name (`str`, *optional*): What tables call the model.
    """

    config: EvaluationConfig
    benchmark: Benchmark
    tasks: Sequence[Task]
    of_problems: int
    revision: str | None
    folder: Path
    name: str | None
    options: EvaluationOptions

    @property
    def total(self) -> int:
        """Samples of the whole evaluation."""
        return len(self.tasks) * self.config.runs * self.config.samples

    @property
    def store(self) -> Path:
        """The file that keeps replies."""
        from rpd_datasets.curation.models import default_store

        return Path(self.options.store) if self.options.store else default_store()

    def samples(self) -> list[Sample]:
        """All samples, in order; one that is missing is an error."""
        return complete(
            read_samples(self.folder / SAMPLES),
            self.tasks,
            self.config,
            advice=f"run the generate stage again (it keeps what is in {self.folder})",
        )


def open_evaluation(config: EvaluationConfig, options: EvaluationOptions) -> Evaluation:
    """Load the benchmark, and see where the files go."""
    if config.paper is not None:
        published(config.paper, config.benchmark)  # a misspelt model, found at once
    name = options.name or (_name_of(options.model) if options.model else None)
    if options.output:
        folder = Path(options.output)
    elif name:
        slug = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "model"
        folder = Path("evaluations") / slug / config.benchmark
    else:
        raise InputError("name the model with --model, or the folder of its files with --output")
    tasks, revision = load_tasks(config.benchmark, config.data)
    return Evaluation(
        config=config,
        benchmark=find_benchmark(config.benchmark),
        tasks=in_window(tasks, *config.window)[: config.limit],
        of_problems=len(tasks),
        revision=revision,
        folder=folder,
        name=name,
        options=options,
    )


def sample(evaluation: Evaluation, options: SamplingOptions, bar: Bar) -> None:
    """Have the model write every sample that is not on file yet.

    The bar is also told what Ctrl-C waits for, and at the end how requests went.

    Raises:
        [`InputError`]: No model is named, or the folder holds another model's samples.
        [`ModelError`]: Some samples could not be had.
    """
    model = evaluation.options.model
    if not model:
        raise InputError("name the model with --model: a folder, or e.g. tgi:http://host:port")
    model_spec(model)  # what is wrong with the name is said before anything begins
    with (
        served(options.serve, address(model)) if options.serve else nullcontext(),
        bar("Sampling", evaluation.total) as (show, say),
    ):
        flow = open_model(
            model,
            ChatOptions(device=options.device, dtype=options.dtype),
            store=evaluation.store,
            timeout=options.timeout,
        )
        try:
            with draining(flow, notify=say):
                work = generate(
                    *(evaluation.tasks, evaluation.config, flow, evaluation.folder),
                    revision=evaluation.revision,
                    progress=lambda done: show(done, str(flow.stats)),
                )
                run(work)
        finally:
            say(flow.stats.summary())


def grade(
    evaluation: Evaluation, options: GradingOptions, bar: Bar, *, unsafe: bool = False
) -> None:
    """Give every sample its verdict; refuses while a sample is missing.

    With `unsafe`, generated programs run without a sandbox.
    """
    samples = evaluation.samples()
    with bar("Grading", len(samples)) as (show, _):
        marks = mark(
            evaluation.benchmark,
            evaluation.tasks,
            samples,
            grader=evaluation.config.grader,
            workers=options.workers,
            unsafe=unsafe,
            progress=lambda done: show(done, ""),
        )
    write_rows(evaluation.folder / VERDICTS, map(asdict, marks))


def report(evaluation: Evaluation, options: ReportOptions, say: Say) -> Results:
    """Compute every figure, and write the files that hold them; `say` is told of each place.

    Raises:
        [`InputError`]: Samples or verdicts are missing, or nothing says whose they are.
    """
    config, folder = evaluation.config, evaluation.folder
    samples = evaluation.samples()
    marks = read_marks(folder / VERDICTS, samples)
    # Samples that another tool wrote come without a record of their model.
    made = read_run(folder) if (folder / RUN).exists() else {}
    model = made.get("model", evaluation.name)
    name = evaluation.name or model
    if name is None or model is None:
        raise InputError(f"{folder} does not say whose samples it holds; give a --name")
    results = measure(
        evaluation.benchmark,
        evaluation.tasks,
        samples,
        marks,
        config,
        name=name,
        model=model,
        of_problems=evaluation.of_problems,
    )
    # Of the problems that were asked: the branch may have moved since.
    results = replace(results, revision=made.get("revision"))
    if config.diversity and evaluation.benchmark.kind == "math":
        summarizer = load_summarizer(config.summarizer, store=evaluation.store)
        embedder = load_embedder(config.embedder)
        results = replace(
            results,
            diversity=measure_diversity(evaluation.tasks, samples, marks, summarizer, embedder)
            or None,
            measured_with={"summarizer": summarizer.name, "embedder": config.embedder},
        )
    write_text(folder / RESULTS, json.dumps(asdict(results), indent=1) + "\n")
    page = report_text(results, paper=config.paper, markdown=True)
    write_text(folder / "report.md", page + "\n")
    if is_whole(results):
        write_text(folder / "model-index.yaml", model_index(results))
        write_entry(folder, results, options.source)
    say(f"Files are in {folder}")
    if options.card:
        update_card(Path(options.card), results, paper=config.paper, source=options.source)
        say(f"The model card in {options.card} holds them, too")
    if options.inspect:
        write_inspect_log(Path(options.inspect), evaluation.tasks, samples, marks, results)
        say(f"{options.inspect} opens in `inspect view`")
    return results


def _name_of(model: str) -> str:
    folder = Path(model.removeprefix("hf:"))
    return folder.resolve().name if folder.is_dir() else model
