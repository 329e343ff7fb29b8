"""`rpd label`: sort solutions into strategies, by hand or by a chat model.

Show the steps of each problem's solutions and ask which have the same method, twice and in
different orders, so that unclear cases disagree. compare-metrics reads the file that is written;
labels in it are not asked for again.

Example: rpd label solutions.jsonl --limit 20 --output labelled.jsonl
"""

import argparse
import contextlib
import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rpd_datasets.cli import arguments
from rpd_datasets.cli.output import Progress, print_result
from rpd_datasets.curation.models import load_flow, load_models
from rpd_datasets.destination import whole_file
from rpd_datasets.judging.labels import Labels, agreement_of_passes, second_order
from rpd_datasets.problem import Problem, Rejected
from rpd_metric.distance.groups import renumbered
from rpd_metric.errors import InputError
from rpd_metric.models.concurrency import run
from rpd_metric.reasons import Reason
from rpd_metric.steps.grouping import Grouping, StrategyReader
from rpd_metric.steps.protocol import summaries_of

HOW = (
    "Give solutions of the same method the same number, in order, e.g. 1 1 2 1. "
    "t 3 shows all of solution 3, s skips the problem, q ends; what is labelled is kept."
)


def add_to(commands: Any) -> None:
    """Add `rpd label`."""
    again = "what is labelled is kept; run the same command again to continue"
    parser = arguments.add_command(commands, _label, __doc__, again)
    arguments.add_input(parser)
    add, help = parser.add_argument, "the JSONL file to write or extend"
    add("--output", "-o", type=Path, required=True, metavar="FILE", help=help)
    add("--judge", metavar="SPEC", help=arguments.JUDGE)
    add("--seed", type=int, default=0, help="random seed")
    arguments.add_models(parser)


def _label(args: argparse.Namespace) -> None:
    config = arguments.checked_config(args, ("models",), judge=args.judge)
    reader = StrategyReader(load_flow(args.judge, args.store)) if args.judge else None
    summarizer, output = load_models(config).summarizer, args.output
    rows, rejects, skipped = _read(output), list[Rejected](), Counter[str]()

    def steps_of(row: dict[str, Any]) -> list[list[str]]:
        summaries = run(summaries_of(summarizer, row["problem"], row["solutions"]))
        return [list(summary.steps) or ["(no steps)"] for summary in summaries]

    def label(row: dict[str, Any], column: str, order: Sequence[int]) -> bool:
        """Label a row, whose solutions are shown in the `order` of these indices."""
        steps = row.get("steps") or steps_of(row)
        ordered = [steps[index] for index in order]
        if reader is None:
            grouping = _ask(row["problem"], ordered, [row["solutions"][index] for index in order])
        else:
            grouping = run(reader.sort_in_order(row["problem"], ordered))
        if None in grouping.groups:
            skipped[grouping.reason or Reason.NO_VERDICT] += 1
            return False
        group_of = dict(zip(order, grouping.groups, strict=True))
        row[column] = list(renumbered([group_of[index] for index in range(len(order))]))
        return True

    def save() -> None:
        with whole_file(output) as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)

    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(EOFError))  # the person has had enough
        line = Progress("Labelling", args.limit) if args.judge else None
        advance = stack.enter_context(line).advance if line else lambda: None
        known = set(map(_key, rows))
        for problem in arguments.read_problems(args, rejects):
            if problem.key not in known and len(problem.solutions) > 1:
                solutions = list(problem.solutions)
                row: dict[str, Any] = {"problem": problem.problem, "solutions": solutions}
                # compare-metrics makes extractive steps itself; a row's own are a chat model's.
                if summarizer.name != "extractive":
                    row["steps"] = steps_of(row)
                if label(row, "strategy_a", range(len(solutions))):
                    rows.append(row)
                    save()
            advance()
        if line:
            line.stage("Labelling in another order", len(rows))
        for row in random.Random(args.seed).sample(rows, len(rows)):
            order = second_order(row["problem"], len(row["solutions"]), args.seed)
            if row.get("strategy_b") is None and label(row, "strategy_b", order):
                save()
            advance()
    labelled = [labels for row in rows if (labels := Labels.of(row))]
    twice = [labels for labels in labelled if len(labels.passes) > 1]
    agreement = agreement_of_passes(twice)
    result = {
        "output": str(output),
        "num_problems": len(labelled),
        "num_labelled_twice": len(twice),
        "skipped": dict(skipped),
        "left_out": len(rejects),
        "pairs": agreement["judged"],
        "agreement": agreement["accuracy"],
        "kappa": agreement["kappa"],
    }
    print_result(args, result)


def _read(output: Path) -> list[dict[str, Any]]:
    """The rows of the file; an [`InputError`] if it is another kind of file."""
    # Not splitlines(): a solution may hold other line separators.
    lines = output.read_text(encoding="utf-8").split("\n") if output.exists() else []
    try:
        rows = [json.loads(line) for line in lines if line]
        [(_key(row), row["strategy_a"]) for row in rows]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{output} holds other rows than rpd label writes: name another file with --output"
        ) from error
    return rows


def _key(row: dict[str, Any]) -> str:
    return Problem(row["problem"], tuple(row["solutions"])).key


def _ask(problem: str, steps: Sequence[Sequence[str]], solutions: Sequence[str]) -> Grouping:
    """Ask the person at the terminal."""
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
            return Grouping((None,) * len(steps), reason=Reason.SKIPPED)
        numbers = map(str, range(1, len(solutions) + 1))
        if len(answer) == 2 and answer[0] == "t" and answer[1] in numbers:
            print(f"\n--- solution {answer[1]}\n{solutions[int(answer[1]) - 1]}", file=sys.stderr)
        elif len(answer) == len(steps) and "t" not in answer:
            return Grouping(renumbered(answer))
        else:
            print(f"That is {len(answer)} of {len(steps)}. {HOW}", file=sys.stderr)
