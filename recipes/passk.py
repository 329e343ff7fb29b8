"""pass@k of a model on a benchmark: Inspect samples and grades, this reports and compares.

    python recipes/passk.py --config recipes/configs/qwen3-4b-base/passk/aime24.yaml --model MODEL
    python recipes/passk.py report  evaluations/base/aime24
    rpd compare evaluations/base evaluations/rpd

MODEL is a folder with a model, which then runs in this process, a server (`tgi:http://host:port`,
`openai:http://host:port/v1#model`), or a model as Inspect names it (`vllm/FOLDER` starts a server).
The log in --output (evaluations/NAME/BENCHMARK) is the one file of samples and verdicts; the same
command continues a run that was stopped. `report` and `compare` read anybody's logs.
"""

import argparse
import contextlib
import json
import re
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rpd_datasets.cli import main as rpd
from rpd_datasets.cli.arguments import with_config, worded_for
from rpd_datasets.commands import run_command
from rpd_datasets.destination import check_output
from rpd_datasets.evaluation.benchmarks import find_benchmark
from rpd_datasets.evaluation.reporting import hub_entry, report_text
from rpd_datasets.evaluation.results import find_logs, read_results, short_name
from rpd_datasets.publish.eval_results import write_entry
from rpd_metric.errors import InputError, MissingExtraError

COMMANDS = ("run", "report", "compare")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["compare"]:
        return rpd(given)
    if given and given[0] not in (*COMMANDS, "-h", "--help"):
        given.insert(0, "run")
    name = given[0] if given else ""
    parser, commands = make_parser()

    def work() -> None:
        typed = [name, *with_config(commands[name], given[1:])] if name in commands else given
        {"run": _run, "report": _report}[name](parser.parse_args(typed))

    wording = partial(worded_for, commands[name]) if name in commands else str
    return run_command(f"passk {name}", work, wording=wording)


def make_parser() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser, and those of its commands."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="passk", description=__doc__, formatter_class=plain)
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True)
    run = commands.add_parser("run", help="sample, grade and report (the default)")
    report = commands.add_parser("report", help="figures, tables and files of a log")
    commands.add_parser("compare", help="compare models on the same problems: rpd compare")
    for command in (run, report):
        add = command.add_argument
        add("--config", metavar="FILE", help="options in YAML; typed ones win")
        add("--json", action="store_true", help="print one JSON object instead")
        add("--scorer", help="whose verdicts count (default: the log's first)")
        text = "scores that count as right: a number for it and all above, or values as A,B"
        add("--right-score", metavar="SCORE", help=text)
        text = "count samples that are missing or failed instead of refusing the log"
        add("--allow-missing", action="store_true", help=text)
        add("--name", help="what tables call the model")
        add("--runs", type=int, help="independent runs (default: as the log says)")
    report.add_argument("log", metavar="LOG", help="a log of Inspect, or a folder of one")
    text = "also write pass@1 into this model's folder, as the Hub reads it (with --hub-task)"
    report.add_argument("--eval-results", metavar="FOLDER", help=text)
    text = "a benchmark of the Hub and a task of its eval.yaml"
    report.add_argument("--hub-task", metavar="DATASET:TASK", default="", help=text)
    report.add_argument("--source", metavar="URL", help="where the log or a paper can be read")
    run.add_argument("--model", required=True, help="a folder, tgi:URL, openai:URL#MODEL, ...")
    run.add_argument("--benchmark", required=True, help="e.g. aime24, or own with --data")
    run.add_argument("--output", metavar="FOLDER", help="where the log goes")
    run.add_argument("--data", metavar="FILE", help="a local file of the benchmark")
    run.add_argument("--limit", type=int, metavar="N", help="only the first so many problems")
    run.add_argument("--samples", type=int, default=16, help="per problem and run")
    run.add_argument("--max-tokens", type=int, default=14_000, help="limit on new tokens")
    text = "end a reply at these, too, as '<|im_end|>' for a base model that was not tuned"
    run.add_argument("--stop", nargs="+", metavar="TOKEN", help=text)
    run.add_argument("--temperature", type=float, default=0.6)
    run.add_argument("--top-p", type=float, default=0.95)
    run.add_argument("--seed", type=int, default=0, help="of the first sample; then one more each")
    text = "leave a thinking model's template as it is"
    switch = argparse.BooleanOptionalAction
    run.add_argument("--thinking", action=switch, default=True, help=text)
    run.add_argument("--prompt", help="a name of rpd_datasets.instructions, or a text")
    run.add_argument("--grader", metavar="FILE.py:NAME", help="decides which answers are right")
    run.add_argument("--unsafe", action="store_true", help="run programs without a sandbox")
    run.add_argument("--timeout", type=int, default=3600, help="seconds for a reply and retries")
    run.add_argument("--max-connections", type=int, metavar="N", help="requests at a time")
    run.add_argument("--device", help="for a model of this machine, e.g. cuda:1")
    run.add_argument("--dtype", default="auto", help="weights of a model of this machine")
    run.set_defaults(runs=4, eval_results=None)
    return parser, {"run": run, "report": report}


def _run(args: argparse.Namespace) -> None:
    try:
        from inspect_ai import eval_set
        from inspect_ai._util.error import PrerequisiteError

        from rpd_datasets.evaluation.inspect_tasks import TASKS, model_name
    except ImportError as error:
        module = error.name or "inspect_ai"
        raise MissingExtraError("an evaluation", extra="inspect", module=module) from error
    if args.temperature == 0 and args.samples * args.runs > 1:
        raise InputError("temperature 0 gives the same sample again and again; raise it")
    args.name = args.name or short_name(args.model)
    slug = re.sub(r"[^\w.-]+", "-", args.name).strip("-.") or "model"
    args.output = args.log = args.output or f"evaluations/{slug}/{args.benchmark}"
    check_output(Path(args.output), _log_names)
    of_task = ("data", "prompt", "grader", "unsafe")
    task = TASKS[find_benchmark(args.benchmark).name](**_options(args, of_task))
    task.metadata = {**(task.metadata or {}), "runs": args.runs, "name": args.name}
    model, model_args = model_name(args.model)
    more: dict[str, Any] = {}
    if model.startswith("rpd/"):
        model_args |= _options(args, ("thinking", "device", "dtype"))
    if args.stop and model.startswith(("vllm/", "sglang/")):
        # These drop special tokens before they look for a stop.
        more["extra_body"] = {"skip_special_tokens": False}
    of_sampling = ("limit", "temperature", "top_p", "max_tokens", "seed", "timeout")
    try:
        with contextlib.redirect_stdout(sys.stderr):
            eval_set(
                task,
                log_dir=args.output,
                model=model,
                model_args=model_args,
                epochs=args.samples * args.runs,
                retry_attempts=0,
                retry_immediate=False,
                display="rich" if sys.stderr.isatty() else "log",
                max_retries=5,
                stop_seqs=args.stop,
                **more,
                **_options(args, (*of_sampling, "max_connections")),
            )
    except PrerequisiteError as error:
        message = re.sub(r"\[/?\w+\]", "", str(error.message))
        if "not associated with a task" in message:
            message = (
                f"{args.output} holds a log that was made with another model, benchmark, prompt or "
                "sampling; use another --output"
            )
        raise InputError(message) from error
    _report(args)


def _report(args: argparse.Namespace) -> None:
    logs = find_logs(Path(args.log))
    if len(logs) != 1:
        raise InputError(f"{args.log} holds {len(logs)} logs of Inspect; name the log of one task")
    names = ("name", "scorer", "right_score", "runs", "allow_missing")
    results = read_results(logs[0], **_options(args, names))
    if args.eval_results:
        entry = hub_entry(results, args.hub_task, args.source)
        print(f"Written: {write_entry(Path(args.eval_results), entry)}", file=sys.stderr)
    text = report_text(results)
    print(json.dumps(results.as_record(), default=vars) if args.json else text)
    print(f"Log: {logs[0]}", file=sys.stderr)


def _log_names(folder: Path) -> Sequence[str] | None:
    """Any name where Inspect keeps an evaluation: it only adds to its folder."""
    return ("*",) if (folder / ".eval-set-id").is_file() else None


def _options(args: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(args, name) for name in names}


if __name__ == "__main__":
    sys.exit(main())
