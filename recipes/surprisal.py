r"""How surprising is each solution to a model? Writes it beside the solutions, as a column.

    python recipes/surprisal.py solutions.jsonl --model Qwen/Qwen3-4B-Base --output scored.jsonl
    python recipes/surprisal.py solutions.jsonl --model openai:http://localhost:8000/v1#student ...
    rpd curate scored.jsonl --quality-column surprisal --quality-weight -0.1 --output curated

A solution's surprisal is the mean of -log p over its tokens, in nats, given the problem: what the
student that will be trained on it makes of it (arXiv 2601.14249 looks at it for the choice of
reasoning traces). A negative weight prefers solutions that the student finds likely, a positive one
those that are new to it. Solutions longer than the model's context, or than `--max-tokens`, get no
score (null), and are counted. Rows come out grouped, one problem each, marks and other columns with
them.

A Hub id or folder runs in this process, one solution at a time. `openai:URL#MODEL` asks a vLLM
server, many at a time, which tokenizes by its own chat template and gives `prompt_logprobs`; other
servers give no log-probabilities of a prompt.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TextIO

from rpd_datasets.commands import run_command
from rpd_datasets.inputs.source import Source, open_source
from rpd_datasets.problem import Problem
from rpd_datasets.rejects import Rejected
from rpd_metric.errors import OutputError
from rpd_metric.models.concurrency import run_bounded
from rpd_metric.models.likelihood import Likelihood, load_likelihood


def main(arguments: Sequence[str]) -> None:
    """Score as the command line says; see the module's docstring."""
    args = _parser().parse_args(arguments)
    left_out: Counter[str] = Counter()

    def count(rejected: Rejected) -> None:
        left_out[rejected.reason] += 1

    with tempfile.TemporaryDirectory() as scratch:
        # Opened first: what is wrong with the input is said before weights are loaded.
        source = open_source(args.input, scratch=Path(scratch), on_reject=count)
        likelihood = load_likelihood(
            args.model,
            device=args.device,
            max_tokens=args.max_tokens,
            in_flight=args.max_in_flight,
        )
        rough = args.output.with_name(f"{args.output.name}.partial")
        try:
            args.output.parent.mkdir(parents=True, exist_ok=True)
            with rough.open("w", encoding="utf-8") as file:
                done = asyncio.run(_score_all(source, likelihood, file, args.column))
            os.replace(rough, args.output)
        except OSError as error:
            raise OutputError(f"cannot write {args.output}: {error.strerror}") from error
    reasons = "".join(f", {reason} {number:,}" for reason, number in left_out.most_common())
    sys.stderr.write(
        f"scored {done['scored']:,} solutions of {done['problems']:,} problems into {args.output}; "
        f"{done['unscored']:,} "
        f"are too long for the model (left out: {left_out.total():,}{reasons})\n"
    )


async def _score_all(
    source: Source, likelihood: Likelihood, file: TextIO, column: str
) -> Counter[str]:
    """Write the input's problems with their scores; returns the counts."""
    done = Counter[str]()

    async def work(problem: Problem) -> tuple[Problem, list[float | None]]:
        found = await likelihood(problem.problem, problem.solutions)
        return problem, [None if one is None else round(-sum(one) / len(one), 5) for one in found]

    in_flight = likelihood.in_flight
    async with aclosing(run_bounded(source, work, max_in_flight=in_flight)) as results:
        async for problem, values in results:
            row = {
                **problem.extra,
                "problem": problem.problem,
                "solutions": list(problem.solutions),
                column: values,
            }
            file.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")
            done["problems"] += 1
            done["scored"] += sum(value is not None for value in values)
            done["unscored"] += sum(value is None for value in values)
    return done


def _parser() -> argparse.ArgumentParser:
    summary, _, details = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="recipes/surprisal.py",
        description=summary,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("input", help="a file, a folder, or a dataset id on the Hub")
    parser.add_argument(
        "--model",
        required=True,
        help="the student: a Hub id, a folder, or openai:URL#MODEL for a vLLM server",
    )
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="a JSONL file")
    parser.add_argument("--column", default="surprisal", metavar="NAME", help="what it is called")
    parser.add_argument("--device", default="cpu", help="e.g. cuda")
    parser.add_argument(
        "--max-in-flight", type=int, default=16, metavar="N", help="requests to a server at once"
    )
    parser.add_argument("--max-tokens", type=int, metavar="N", help="no score for longer texts")
    return parser


if __name__ == "__main__":
    sys.exit(run_command("recipes/surprisal.py", lambda: main(sys.argv[1:])))
