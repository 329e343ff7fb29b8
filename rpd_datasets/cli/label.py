"""`rpd label`: strategy labels of one's own, by a person at the terminal or by a chat model."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rpd_datasets.cli.arguments import (
    add_command,
    add_input,
    add_models,
    curation_config,
    open_input,
)
from rpd_datasets.cli.output import print_json
from rpd_datasets.curation.models import configured_summarizer, load_flow
from rpd_datasets.judging.grouping import (
    Labeller,
    StrategyGrouper,
    agreement_of_passes,
    label_problem,
    renumbered,
)
from rpd_datasets.judging.judges import Judgement
from rpd_datasets.judging.labels import Labels
from rpd_datasets.problem import Problem
from rpd_datasets.rejects import Rejected
from rpd_metric.inference.concurrency import run

HOW = (
    "Give solutions of the same method the same number, in order, e.g. 1 1 2 1. "
    "s skips the problem, q ends; what is labelled is kept."
)


def add_label(commands: Any) -> None:
    """Add `rpd label`."""
    parser = add_command(
        commands,
        "label",
        _label,
        "sort solutions into strategies, by hand or by a chat model",
        "Show each problem's solutions by their steps and ask which have the same method, twice: "
        "the second time in another order, so that the passes disagree where it is not clear. The "
        "file that is written is what compare-metrics reads; problems that it holds are not asked "
        "about again.",
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
    summarizer = configured_summarizer(curation_config(args, ["models"]))
    labeller: Labeller = StrategyGrouper(load_flow(args.judge, args.store)) if args.judge else _ask
    done, labels = _labelled(args.output)
    rejects: list[Rejected] = []
    skipped: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for problem in open_input(args, Path(scratch), rejects.append):
            if problem.key in done or len(problem.solutions) < 2:
                continue
            summaries = run(summarizer.summarize(problem.problem, problem.solutions))
            steps = [list(summary.steps) or ["(no steps)"] for summary in summaries]
            try:
                found, reason = run(label_problem(labeller, problem.problem, steps, args.seed))
            except EOFError:
                break
            if found is None:
                skipped[reason or ""] = skipped.get(reason or "", 0) + 1
                continue
            _add(args.output, problem, steps, found)
            labels.append(found)
    agreement = agreement_of_passes(labels)
    result = {
        "output": str(args.output),
        "num_problems": len(labels),
        "skipped": skipped,
        "left_out": len(rejects),
        "pairs": agreement.judged,
        "agreement": agreement.accuracy,
        "kappa": agreement.kappa,
    }
    if args.json:
        print_json(result)
        return
    print(f"{len(labels)} problems labelled, in {args.output}; skipped {sum(skipped.values())}.")
    if agreement.accuracy is not None:
        kappa = "" if agreement.kappa is None else f", kappa {agreement.kappa:.2f}"
        print(
            f"The passes agree on {agreement.accuracy:.1%} of {agreement.judged} pairs{kappa}. "
            f"Next: rpd compare-metrics {args.output} --summarizer extractive"
        )


def _labelled(output: Path) -> tuple[set[str], list[Labels]]:
    """The keys of the problems that a file already holds, and their labels."""
    if not output.exists():
        return set(), []
    rows = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    keys = {Problem(row["problem"], tuple(row["solutions"])).key for row in rows}
    return keys, [labels for row in rows if (labels := Labels.of(row))]


def _add(output: Path, problem: Problem, steps: list[list[str]], labels: Labels) -> None:
    row = {
        "problem": problem.problem,
        "solutions": list(problem.solutions),
        "steps": steps,
        "strategy_a": list(labels.passes[0]),
        "strategy_b": list(labels.passes[1]),
    }
    with output.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


async def _ask(problem: str, steps: Sequence[Sequence[str]]) -> Judgement[tuple[int, ...]]:
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
        if len(answer) == len(steps):
            return Judgement(renumbered(answer))
        print(f"That is {len(answer)} of {len(steps)}. {HOW}", file=sys.stderr)
