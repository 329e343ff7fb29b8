"""`rpd label`: strategy labels of one's own, by a person at the terminal or by a chat model."""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rpd_datasets.cli.arguments import (
    add_command,
    add_input,
    add_models,
    curation_config,
    input_spec,
    open_input,
)
from rpd_datasets.cli.output import Progress, print_json
from rpd_datasets.curation.checks import check_input, check_models
from rpd_datasets.curation.models import configured_summarizer, load_flow
from rpd_datasets.judging.judges import Judgement
from rpd_datasets.judging.labelling import (
    Labeller,
    StrategyGrouper,
    agreement_of_passes,
    label_once,
    renumbered,
    second_order,
)
from rpd_datasets.judging.labels import Labels
from rpd_datasets.problem import Problem
from rpd_datasets.rejects import Rejected
from rpd_metric.errors import InputError
from rpd_metric.models.concurrency import run
from rpd_metric.steps.protocol import Summarizer

Item = TypeVar("Item")

HOW = (
    "Give solutions of the same method the same number, in order, e.g. 1 1 2 1. "
    "t 3 shows all of solution 3, s skips the problem, q ends; what is labelled is kept."
)


def add_label(commands: Any) -> None:
    """Add `rpd label`."""
    parser = add_command(
        commands,
        "label",
        _label,
        "sort solutions into strategies, by hand or by a chat model",
        "Show each problem's solutions by their steps and ask which have the same method; then all "
        "problems again in another order, so that the passes disagree where it is not clear. The "
        "file that is written is what compare-metrics reads; what it holds is not asked again.",
        "rpd label solutions.jsonl --limit 20 --output labelled.jsonl",
        "what is labelled is kept; run the same command again to go on",
    )
    add_input(parser)
    parser.add_argument(
        "--output", "-o", type=Path, required=True, metavar="FILE", help="the JSONL file to add to"
    )
    parser.add_argument(
        "--judge",
        metavar="SPEC",
        help="the chat model that labels: tgi:URL, openai:URL#MODEL, hf:MODEL or auto:URL "
        "(default: you, at the terminal)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the order in the second pass")
    add_models(parser)


def _label(args: argparse.Namespace) -> None:
    config = curation_config(args, ["models"])
    check_models(config, judge=args.judge)
    check_input(args.input, input_spec(args))
    rows = _read(args.output)
    summarizer = configured_summarizer(config)
    labeller: Labeller = StrategyGrouper(load_flow(args.judge, args.store)) if args.judge else _ask
    rejects: list[Rejected] = []
    skipped: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(EOFError))  # the person has had enough
        line = stack.enter_context(Progress("Labelling", args.limit)) if args.judge else None
        scratch = stack.enter_context(tempfile.TemporaryDirectory())
        problems = open_input(args, Path(scratch), rejects.append)
        _first_pass(labeller, summarizer, _watched(problems, line), rows, args.output, skipped)
        if line:
            line.stage("Labelling in another order", len(rows))
        _second_pass(labeller, summarizer, rows, args, skipped, line)
    labels = [found for row in rows if (found := Labels.of(row))]
    twice = [found for found in labels if len(found.passes) > 1]
    agreement = agreement_of_passes(twice)
    result = {
        "output": str(args.output),
        "num_problems": len(labels),
        "num_labelled_twice": len(twice),
        "skipped": dict(skipped),
        "left_out": len(rejects),
        "pairs": agreement.judged,
        "agreement": agreement.accuracy,
        "kappa": agreement.kappa,
    }
    if args.json:
        print_json(result)
        return
    print(
        f"{len(labels)} problems labelled, {len(twice)} of them twice, in {args.output}; "
        f"skipped {skipped.total()}."
    )
    if agreement.accuracy is not None:
        kappa = "" if agreement.kappa is None else f", kappa {agreement.kappa:.2f}"
        print(
            f"The passes agree on {agreement.accuracy:.1%} of {agreement.judged} pairs{kappa}. "
            f"Next: rpd compare-metrics {args.output} --summarizer extractive"
        )


def _first_pass(
    labeller: Labeller,
    summarizer: Summarizer,
    problems: Iterable[Problem],
    rows: list[dict[str, Any]],
    output: Path,
    skipped: Counter[str],
) -> None:
    """Ask about every problem that the file does not hold, and add it there."""
    done = {Problem(row["problem"], tuple(row["solutions"])).key for row in rows}
    for problem in problems:
        count = len(problem.solutions)
        if problem.key in done or count < 2:
            continue
        steps = _steps(summarizer, problem.problem, problem.solutions)
        judgement = run(
            label_once(labeller, problem.problem, steps, problem.solutions, range(count))
        )
        if judgement.value is None:
            skipped[judgement.reason or "no_verdict"] += 1
            continue
        row = {
            "problem": problem.problem,
            "solutions": list(problem.solutions),
            # compare-metrics takes given steps for a chat model's; it makes extractive ones itself.
            **({} if summarizer.name == "extractive" else {"steps": steps}),
            "strategy_a": list(judgement.value),
        }
        rows.append(row)
        with output.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _watched(items: Iterable[Item], line: Progress | None) -> Iterator[Item]:
    """The items, each counted when the next one is asked for."""
    for item in items:
        yield item
        if line:
            line.advance()


def _second_pass(
    labeller: Labeller,
    summarizer: Summarizer,
    rows: list[dict[str, Any]],
    args: argparse.Namespace,
    skipped: Counter[str],
    line: Progress | None,
) -> None:
    """Ask again about what was labelled once, the problems and their solutions in another order."""
    for place in _watched(random.Random(args.seed).sample(range(len(rows)), len(rows)), line):
        row = rows[place]
        if row.get("strategy_b") is not None:
            continue
        problem, solutions = row["problem"], row["solutions"]
        steps = row.get("steps") or _steps(summarizer, problem, solutions)
        order = second_order(problem, len(solutions), args.seed)
        judgement = run(label_once(labeller, problem, steps, solutions, order))
        if judgement.value is None:
            skipped[judgement.reason or "no_verdict"] += 1
            continue
        row["strategy_b"] = list(judgement.value)
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        beside = args.output.with_name(f"{args.output.name}.partial")
        beside.write_text(lines, encoding="utf-8")
        beside.replace(args.output)


def _steps(summarizer: Summarizer, problem: str, solutions: Sequence[str]) -> list[list[str]]:
    summaries = run(summarizer.summarize(problem, solutions))
    return [list(summary.steps) or ["(no steps)"] for summary in summaries]


def _read(output: Path) -> list[dict[str, Any]]:
    """The rows that the file already holds. Raises [`InputError`] where it is another file."""
    if not output.exists():
        return []
    rows = []
    for number, line in enumerate(output.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict) or not {"problem", "solutions"} <= row.keys():
            raise InputError(
                f"{output}:{number} is no labelled row; name a file that rpd label wrote, or a new "
                "one, with --output"
            )
        rows.append(row)
    return rows


async def _ask(
    problem: str, steps: Sequence[Sequence[str]], solutions: Sequence[str]
) -> Judgement[tuple[int, ...]]:
    """Ask the person at the terminal; see `Labeller`."""
    show = [f"\n{'=' * 80}\n{problem}"]
    for number, solution in enumerate(steps, start=1):
        show += [f"\n--- solution {number}", *(f"  {step}" for step in solution)]
    print("\n".join(show), f"\n{HOW}", file=sys.stderr)
    while True:
        print(f"{len(steps)} numbers: ", end="", file=sys.stderr, flush=True)
        answer = input().replace(",", " ").split()
        if answer == ["q"]:
            raise EOFError
        if answer == ["s"]:
            return Judgement(None, "skipped")
        if len(answer) == 2 and answer[0] == "t" and answer[1] in _numbers(solutions):
            print(f"\n--- solution {answer[1]}\n{solutions[int(answer[1]) - 1]}", file=sys.stderr)
        elif len(answer) == len(steps) and "t" not in answer:
            return Judgement(renumbered(answer))
        else:
            print(f"That is {len(answer)} of {len(steps)}. {HOW}", file=sys.stderr)


def _numbers(solutions: Sequence[str]) -> list[str]:
    return [str(number) for number in range(1, len(solutions) + 1)]
