"""pass@k of a model on a benchmark: sample, grade, report, compare.

    python recipes/passk.py --config recipes/configs/qwen3-4b-base/passk/aime24.yaml --model MODEL

does all of it. MODEL is a folder with a model, which is then run in this process, or a server:
`tgi:http://host:port`, `openai:http://host:port/v1#model` (vLLM, SGLang), `hf:model-id`. Each
stage runs alone too, with the same options:

    python recipes/passk.py generate --config CONFIG --model MODEL
    python recipes/passk.py grade    --config CONFIG --model MODEL
    python recipes/passk.py report   --config CONFIG --model MODEL --json
    python recipes/passk.py compare  evaluations/base evaluations/rpd --plot curves.png

A stopped run goes on where it was when the same command is given again. Files, all in --output
(evaluations/NAME/BENCHMARK): samples.jsonl, verdicts.jsonl, results.json, report.md (for a model
card), from whole benchmarks model-index.yaml (metadata of a model card), and from those registered
on the Hub .eval_results/BENCHMARK.yaml (goes into the model repository as it is).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rpd_datasets.commands import run_command
from rpd_datasets.evaluation.benchmarks import (
    Benchmark,
    Task,
    find_benchmark,
    in_window,
    load_benchmark,
)
from rpd_datasets.evaluation.comparison import compare, comparison_text, plot
from rpd_datasets.evaluation.config import EvaluationConfig, read_config, with_data
from rpd_datasets.evaluation.generation import RUN, generate, open_model, read_run
from rpd_datasets.evaluation.inspect_log import write_inspect_log
from rpd_datasets.evaluation.marking import VERDICTS, check_ready, mark, read_marks, write_marks
from rpd_datasets.evaluation.paper import published
from rpd_datasets.evaluation.report import (
    is_whole,
    model_index,
    report_text,
    update_card,
    write_entry,
)
from rpd_datasets.evaluation.results import (
    RESULTS,
    Results,
    find_results,
    measure,
    measure_diversity,
    write_results,
)
from rpd_datasets.evaluation.samples import SAMPLES, Sample, complete, read_samples, write_text
from rpd_datasets.evaluation.serving import address, served
from rpd_metric.errors import InputError
from rpd_metric.inference.concurrency import run
from rpd_metric.inference.interrupt import draining
from rpd_metric.inference.registry import load_embedder
from rpd_metric.steps.registry import load_summarizer

COMMANDS = ("run", "generate", "grade", "report", "compare")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] not in (*COMMANDS, "-h", "--help"):
        given.insert(0, "run")
    args = _parser().parse_args(given)
    command: Callable[[argparse.Namespace], None] = args.command
    return run_command(f"passk {args.name_of_command}", lambda: command(args))


def _parser() -> argparse.ArgumentParser:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="passk", description=__doc__, formatter_class=plain, epilog="Without a command: run."
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, command, text in (
        ("run", _run, "generate, grade and report"),
        ("generate", _generate, "sample solutions; goes on where it was stopped"),
        ("grade", _grade, "verdicts on all samples; refuses while one is missing"),
        ("report", _report, "figures, tables and files from samples and verdicts"),
    ):
        stage = commands.add_parser(name, help=text, description=text)
        stage.set_defaults(command=command, name_of_command=name)
        _add_common(stage)
        if name in ("run", "generate"):
            _add_model_options(stage)
        if name in ("run", "grade"):
            stage.add_argument("--workers", type=int, metavar="N", help="grading processes")
            stage.add_argument(
                "--unsafe",
                action="store_true",
                help="run generated programs without a sandbox: they can then read and delete "
                "files and use the network",
            )
        if name in ("run", "report"):
            stage.add_argument("--json", action="store_true", help="print results.json instead")
            stage.add_argument(
                "--card",
                metavar="FOLDER",
                help="put the results into the model card in this folder, too",
            )
            stage.add_argument(
                "--source", metavar="URL", help="where the samples are published, for the Hub"
            )
            stage.add_argument(
                "--inspect", metavar="OUT.eval", help="write a log for `inspect view`, too"
            )
    several = commands.add_parser(
        "compare",
        help="compare models on the same problems",
        description="Compare models on the same problems. The first is compared with each other.",
    )
    several.set_defaults(command=_compare, name_of_command="compare")
    several.add_argument(
        "results", nargs="+", metavar="FOLDER", help="a model's folder, or one benchmark's in it"
    )
    several.add_argument("--plot", metavar="FILE", help="draw pass@k curves, e.g. curves.png")
    several.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    several.add_argument("--json", action="store_true", help="print one JSON object instead")
    return parser


def _add_common(stage: argparse.ArgumentParser) -> None:
    stage.add_argument("--config", required=True, metavar="FILE", help="a YAML configuration")
    stage.add_argument(
        "--model",
        metavar="MODEL",
        help="a model's folder, tgi:URL, openai:URL#MODEL, hf:ID or auto:URL",
    )
    stage.add_argument("--name", help="what tables call the model (default: from --model)")
    stage.add_argument(
        "--output", metavar="FOLDER", help="where files go (default: evaluations/NAME/BENCHMARK)"
    )
    stage.add_argument(
        "--data", metavar="FILE", help="a local file of the benchmark (default: from the Hub)"
    )
    stage.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a line of the configuration, e.g. --set runs=1; may be repeated",
    )
    stage.add_argument(
        "--store",
        metavar="FILE",
        help="where a model's replies are kept (default: $RPD_STORE, or the user's cache folder)",
    )


def _add_model_options(stage: argparse.ArgumentParser) -> None:
    stage.add_argument(
        "--timeout", type=float, default=3600.0, metavar="SECONDS", help="for one reply"
    )
    stage.add_argument(
        "--serve",
        metavar="COMMAND",
        help="start this server, wait until --model answers, and end it afterwards, e.g. "
        "'vllm serve FOLDER --port 8000' for openai:http://127.0.0.1:8000/v1#FOLDER",
    )
    stage.add_argument("--device", help="for a model of this machine, e.g. cuda:1")
    stage.add_argument("--dtype", default="auto", help="weights of a model of this machine")
    stage.add_argument(
        "--batch-size", type=int, default=8, metavar="N", help="for a model of this machine"
    )


class _Job:
    """What every stage needs: configuration, problems, and where the files are."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.config: EvaluationConfig = with_data(read_config(args.config, args.set), args.data)
        if self.config.paper is not None:
            published(self.config.paper, self.config.benchmark)  # a misspelt model, found at once
        self.benchmark: Benchmark = find_benchmark(self.config.benchmark)
        self.name: str | None = args.name or (_name_of(args.model) if args.model else None)
        if args.output:
            self.folder = Path(args.output)
        elif self.name:
            self.folder = Path("evaluations") / _slug(self.name) / self.config.benchmark
        else:
            raise InputError(
                "name the model with --model, or the folder of its files with --output"
            )
        tasks = load_benchmark(self.config.benchmark, self.config.data)
        self.of_problems = len(tasks)
        tasks = in_window(tasks, *self.config.window)
        self.tasks: list[Task] = tasks[: self.config.limit]

    def samples(self) -> list[Sample]:
        """All samples, or an error."""
        return complete(
            read_samples(self.folder / SAMPLES),
            self.tasks,
            self.config,
            advice=f"run the generate stage again (it keeps what is in {self.folder})",
        )


def _run(args: argparse.Namespace) -> None:
    job = _Job(args)
    check_ready(job.benchmark, job.tasks, grader=job.config.grader, unsafe=args.unsafe)
    _generate(args, job)
    _grade(args, job)
    _report(args, job)


def _generate(args: argparse.Namespace, job: _Job | None = None) -> None:
    job = job or _Job(args)
    if not args.model:
        raise InputError("name the model with --model: a folder, or e.g. tgi:http://host:port")
    server = served(args.serve, address(args.model)) if args.serve else nullcontext()
    with server:
        _sample(args, job)


def _sample(args: argparse.Namespace, job: _Job) -> None:
    flow = open_model(
        args.model,
        store=_store(args),
        timeout=args.timeout,
        device=args.device,
        dtype=args.dtype,
        batch_size=args.batch_size,
    )
    total = len(job.tasks) * job.config.runs * job.config.samples
    with _bar("Sampling", total) as (bar, show):
        try:
            with draining(flow, notify=lambda line: bar.write(line, file=sys.stderr)):
                work = generate(
                    job.tasks,
                    job.config,
                    flow,
                    job.folder,
                    progress=lambda done: show(done, str(flow.stats)),
                )
                run(work)
        finally:
            bar.write(flow.stats.summary(), file=sys.stderr)


def _grade(args: argparse.Namespace, job: _Job | None = None) -> None:
    job = job or _Job(args)
    samples = job.samples()
    with _bar("Grading", len(samples)) as (_, show):
        marks = mark(
            job.benchmark,
            job.tasks,
            samples,
            grader=job.config.grader,
            workers=args.workers,
            unsafe=args.unsafe,
            progress=lambda done: show(done, ""),
        )
    write_marks(job.folder / VERDICTS, marks)


def _report(args: argparse.Namespace, job: _Job | None = None) -> None:
    job = job or _Job(args)
    config = job.config
    samples = job.samples()
    marks = read_marks(job.folder / VERDICTS, samples)
    # Samples that another tool wrote come without a record of their model.
    model = read_run(job.folder)["model"] if (job.folder / RUN).exists() else job.name
    name = job.name or model
    if name is None or model is None:
        raise InputError(f"{job.folder} does not say whose samples it holds; give a --name")
    results = measure(
        job.benchmark,
        job.tasks,
        samples,
        marks,
        config,
        name=name,
        model=model,
        of_problems=job.of_problems,
    )
    if config.diversity and job.benchmark.kind == "math":
        summarizer = load_summarizer(config.summarizer, store=_store(args))
        embedder = load_embedder(config.embedder)
        diversity = measure_diversity(job.tasks, samples, marks, summarizer, embedder)
        results = replace(
            results,
            diversity=diversity or None,
            measured_with={"summarizer": summarizer.name, "embedder": config.embedder},
        )
    _write(job.folder, results, config.paper, args.source)
    if args.card:
        update_card(Path(args.card), results, paper=config.paper, source=args.source)
        print(f"The model card in {args.card} holds them, too", file=sys.stderr)
    if args.inspect:
        write_inspect_log(Path(args.inspect), job.tasks, samples, marks, results)
        print(f"{args.inspect} opens in `inspect view`", file=sys.stderr)
    print(json.dumps(asdict(results)) if args.json else report_text(results, paper=config.paper))


def _write(folder: Path, results: Results, paper: str | None, source: str | None) -> None:
    write_results(folder / RESULTS, results)
    write_text(folder / "report.md", report_text(results, paper=paper, markdown=True) + "\n")
    if is_whole(results):
        write_text(folder / "model-index.yaml", model_index(results))
        write_entry(folder, results, source)
    print(f"Files are in {folder}", file=sys.stderr)


def _compare(args: argparse.Namespace) -> None:
    results = [found for folder in args.results for found in find_results(folder)]
    differences = compare(results)
    if args.plot:
        plot(results, Path(args.plot))
    if args.json:
        rows = [
            asdict(found)
            | {"corrected_p": found.corrected, "sentence": found.sentence, "power": found.power}
            for found in differences
        ]
        print(json.dumps({"differences": rows}))
    else:
        print(comparison_text(results, differences, markdown=args.markdown))


def _store(args: argparse.Namespace) -> Path:
    from rpd_datasets.curation.models import default_store

    return Path(args.store) if args.store else default_store()


def _name_of(model: str) -> str:
    folder = Path(model.removeprefix("hf:"))
    return folder.resolve().name if folder.is_dir() else model


def _slug(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "model"


@contextmanager
def _bar(label: str, total: int) -> Iterator[tuple[Any, Callable[[int, str], None]]]:
    from tqdm.auto import tqdm

    with tqdm(desc=label, unit="sample", file=sys.stderr, total=total) as bar:

        def show(done: int, text: str) -> None:
            bar.set_postfix_str(text, refresh=False)
            bar.update(done - bar.n)

        yield bar, show


if __name__ == "__main__":
    sys.exit(main())
