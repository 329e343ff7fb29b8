"""`rpd label`: strategy labels of one's own, by a person at the terminal or by a chat model."""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rpd_datasets.cli.arguments import (
    add_command,
    add_input,
    add_models,
    curation_config,
    input_spec,
    read_problems,
)
from rpd_datasets.cli.output import Progress, print_json
from rpd_datasets.curation.models import configured_summarizer, load_flow
from rpd_datasets.curation.preflight import check_input, check_models
from rpd_datasets.judging.judges import Judgement, StrategyGrouper
from rpd_datasets.judging.labels import (
    Labeller,
    Labels,
    agreement_of_passes,
    label_once,
    second_order,
)
from rpd_datasets.judging.verdicts import renumbered
from rpd_datasets.problem import Problem
from rpd_datasets.rejects import Rejected
from rpd_metric.errors import InputError
from rpd_metric.models.concurrency import run
from rpd_metric.reasons import Reason
from rpd_metric.steps.protocol import Summarizer

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
    add = parser.add_argument
    help = "the JSONL file to add to"
    add("--output", "-o", type=Path, required=True, metavar="FILE", help=help)
    help = "the chat model that labels: tgi:URL, openai:URL#MODEL or hf:MODEL (default: you)"
    add("--judge", metavar="SPEC", help=help)
    add("--seed", type=int, default=0, help="of the order in the second pass")
    add_models(parser)


def _label(args: argparse.Namespace) -> None:
    config = curation_config(args, ["models"])
    check_models(config, judge=args.judge)
    check_input(args.input, input_spec(args))
    labeller: Labeller = StrategyGrouper(load_flow(args.judge, args.store)) if args.judge else _ask
    file = _Labelled(args.output, labeller, configured_summarizer(config))
    rejects: list[Rejected] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(EOFError))  # the person has had enough
        line = stack.enter_context(Progress("Labelling", args.limit)) if args.judge else None
        advance: Callable[[], None] = line.advance if line else lambda: None
        for problem in read_problems(args, rejects):
            file.label(problem)
            advance()
        if line:
            line.stage("Labelling in another order", len(file.rows))
        for row in random.Random(args.seed).sample(file.rows, len(file.rows)):
            file.label_again(row, args.seed)
            advance()
    labels = [found for row in file.rows if (found := Labels.of(row))]
    twice = [found for found in labels if len(found.passes) > 1]
    agreement = agreement_of_passes(twice)
    result = {
        "output": str(args.output),
        "num_problems": len(labels),
        "num_labelled_twice": len(twice),
        "skipped": dict(file.skipped),
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
        f"skipped {file.skipped.total()}."
    )
    if agreement.accuracy is not None:
        kappa = "" if agreement.kappa is None else f", kappa {agreement.kappa:.2f}"
        print(
            f"The passes agree on {agreement.accuracy:.1%} of {agreement.judged} pairs{kappa}. "
            f"Next: rpd compare-metrics {args.output} --summarizer extractive"
        )


@dataclass
class _Labelled:
    """The labelled rows in a file, and who adds to them."""

    output: Path
    labeller: Labeller
    summarizer: Summarizer
    skipped: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.rows = _read(self.output)
        self._known = set(map(_key, self.rows))

    def label(self, problem: Problem) -> None:
        """Ask about a problem that the file does not hold, and add it there."""
        if problem.key in self._known or len(problem.solutions) < 2:
            return
        row: dict[str, Any] = {"problem": problem.problem, "solutions": list(problem.solutions)}
        row["steps"] = self._steps(row)
        if (labels := self._ask(row, range(len(problem.solutions)))) is None:
            return
        # compare-metrics takes given steps for a chat model's; it makes extractive ones itself.
        if self.summarizer.name == "extractive":
            del row["steps"]
        self.rows.append({**row, "strategy_a": labels})
        with self.output.open("a", encoding="utf-8") as file:
            file.write(_lines(self.rows[-1:]))

    def label_again(self, row: dict[str, Any], seed: int) -> None:
        """Ask again about what was labelled once, its solutions in another order."""
        if row.get("strategy_b") is not None:
            return
        order = second_order(row["problem"], len(row["solutions"]), seed)
        labels = self._ask({**row, "steps": row.get("steps") or self._steps(row)}, order)
        if labels is not None:
            row["strategy_b"] = labels
            beside = self.output.with_name(f"{self.output.name}.partial")
            beside.write_text(_lines(self.rows), encoding="utf-8")
            beside.replace(self.output)

    def _ask(self, row: dict[str, Any], order: Sequence[int]) -> list[int] | None:
        asked = (row["problem"], row["steps"], row["solutions"])
        found = run(label_once(self.labeller, *asked, order))
        if found.value is None:
            self.skipped[found.reason or Reason.NO_VERDICT] += 1
            return None
        return list(found.value)

    def _steps(self, row: dict[str, Any]) -> list[list[str]]:
        summaries = run(self.summarizer.summarize(row["problem"], row["solutions"]))
        return [list(summary.steps) or ["(no steps)"] for summary in summaries]


def _lines(rows: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _read(output: Path) -> list[dict[str, Any]]:
    """The rows that the file already holds. Raises [`InputError`] where it is another file."""
    # By line feeds alone: a solution may hold other characters that end a line.
    text = output.read_text(encoding="utf-8").strip() if output.exists() else ""
    rows = []
    for number, line in enumerate(text.split("\n") if text else (), 1):
        try:
            rows.append(json.loads(line))
            _key(rows[-1])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(
                f"{output}:{number} is no labelled row; name a file that rpd label wrote, or a new "
                "one, with --output"
            ) from None
    return rows


def _key(row: dict[str, Any]) -> str:
    return Problem(row["problem"], tuple(row["solutions"])).key


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
            return Judgement(None, Reason.SKIPPED)
        numbers = map(str, range(1, len(solutions) + 1))
        if len(answer) == 2 and answer[0] == "t" and answer[1] in numbers:
            print(f"\n--- solution {answer[1]}\n{solutions[int(answer[1]) - 1]}", file=sys.stderr)
        elif len(answer) == len(steps) and "t" not in answer:
            return Judgement(renumbered(answer))
        else:
            print(f"That is {len(answer)} of {len(steps)}. {HOW}", file=sys.stderr)
