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
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from rpd_datasets.cli.arguments import with_config
from rpd_datasets.cli.output import Progress
from rpd_datasets.commands import run_command
from rpd_datasets.evaluation import stages
from rpd_datasets.evaluation.comparison import compare, comparison_json, comparison_text, plot
from rpd_datasets.evaluation.marking import check_ready
from rpd_datasets.evaluation.passk_config import EvaluationConfig
from rpd_datasets.evaluation.reporting import report_text
from rpd_datasets.evaluation.results import find_results
from rpd_datasets.options import add_options, options_from

# What each command runs, in order, and what --help says of it.
COMMANDS = {
    "run": (("generate", "grade", "report"), "generate, grade and report"),
    "generate": (("generate",), "sample solutions; goes on where it was stopped"),
    "grade": (("grade",), "verdicts on all samples; refuses while one is missing"),
    "report": (("report",), "figures, tables and files from samples and verdicts"),
}
OPTIONS = {
    "generate": stages.SamplingOptions,
    "grade": stages.GradingOptions,
    "report": stages.ReportOptions,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] not in (*COMMANDS, "compare", "-h", "--help"):
        given.insert(0, "run")
    name = given[0] if given else ""
    return run_command(f"passk {name}", lambda: _run(name, given))


def _run(name: str, given: list[str]) -> None:
    parser, stages_of = _parser()
    if name in stages_of:
        given = [name, *with_config(stages_of[name], given[1:])]
    args = parser.parse_args(given)
    (_compare if name == "compare" else _evaluate)(args)


def _parser() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="passk", description=__doc__, formatter_class=plain, epilog="Without a command: run."
    )
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True)
    stages_of = {}
    for name, (parts, text) in COMMANDS.items():
        stage = stages_of[name] = commands.add_parser(name, help=text, description=text)
        stage.add_argument("--config", metavar="FILE", help="options in YAML; typed ones win")
        for kind in (
            stages.EvaluationOptions,
            EvaluationConfig,
            *(OPTIONS[part] for part in parts),
        ):
            add_options(stage, kind)
        if "grade" in parts:
            text = "run generated programs without a sandbox: they can then read and delete files "
            stage.add_argument("--unsafe", action="store_true", help=text + "and use the network")
        if "report" in parts:
            stage.add_argument("--json", action="store_true", help="print results.json instead")
    text = "Compare models on the same problems. The first is compared with each other."
    several = commands.add_parser("compare", help="compare models", description=text)
    several.add_argument(
        "results", nargs="+", metavar="FOLDER", help="a model's folder, or one benchmark's in it"
    )
    several.add_argument("--plot", metavar="FILE", help="draw pass@k curves, e.g. curves.png")
    several.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    several.add_argument("--json", action="store_true", help="print one JSON object instead")
    return parser, stages_of


def _evaluate(args: argparse.Namespace) -> None:
    parts, _ = COMMANDS[args.command]
    config = options_from(EvaluationConfig, args)
    job = stages.open_evaluation(config, options_from(stages.EvaluationOptions, args))
    if args.command == "run":  # what grading would refuse is said before hours of sampling
        check_ready(job.benchmark, job.tasks, grader=config.grader, unsafe=args.unsafe)
    if "generate" in parts:
        stages.sample(job, options_from(stages.SamplingOptions, args), _bar)
    if "grade" in parts:
        how = options_from(stages.GradingOptions, args)
        stages.grade(job, how, _bar, unsafe=args.unsafe)
    if "report" in parts:
        results = stages.report(job, options_from(stages.ReportOptions, args), _say)
        text = report_text(results, paper=config.paper)
        print(json.dumps(asdict(results)) if args.json else text)


def _compare(args: argparse.Namespace) -> None:
    results = [found for folder in args.results for found in find_results(folder)]
    differences = compare(results)
    if args.plot:
        plot(results, Path(args.plot))
    if args.json:
        print(json.dumps(comparison_json(differences)))
    else:
        print(comparison_text(results, differences, markdown=args.markdown))


def _say(line: str) -> None:
    print(line, file=sys.stderr)


@contextmanager
def _bar(label: str, total: int) -> Iterator[tuple[stages.Progress, stages.Say]]:
    with Progress(label, total) as line:
        yield line.reach, line.write


if __name__ == "__main__":
    sys.exit(main())
