"""`rpd compare-metrics`: compare distances on labelled solutions.

Measure distances on rows with strategy labels (strategy_a and strategy_b, or strategies, as rpd
label writes them): AUROC over all pairs and within problems, the paper's success rate of the most
diverse pair (Table 1), and the share of chosen triples with as many strategies as possible, with 95
% intervals and paired differences to RPD. A column steps is measured beside the summarizer's steps.
"controlled" names the packaged set of 48 problems whose wording misleads.

Example: rpd compare-metrics controlled --methods rpd strategy raw
"""

import argparse
import json
from collections import Counter
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rpd_datasets.cli import arguments
from rpd_datasets.cli.output import Progress, print_result, print_table, scoring
from rpd_datasets.config import Choices
from rpd_datasets.curation.models import load_models
from rpd_datasets.destination import check_output, whole_file
from rpd_datasets.judging.metric_comparison import GROUPS, compare_metrics
from rpd_datasets.language import kind_of, written_in
from rpd_datasets.problem import Rejected
from rpd_metric.distance.measured import read_evidence
from rpd_metric.errors import InputError
from rpd_metric.steps.summarizers import asks_chat_model


def add_to(commands: Any) -> None:
    """Add `rpd compare-metrics`."""
    parser = arguments.add_command(commands, _compare, __doc__)
    arguments.add_input(parser)
    add = parser.add_argument
    help = (
        "distances to compare, of %(choices)s (default: all but combined and growth; "
        "groups, the chat model's own, with a chat model as --summarizer)"
    )
    choices = Choices(GROUPS, *Choices.HIDDEN)
    add("--methods", nargs="+", choices=choices, metavar="NAME", help=help)
    add("--num-bootstrap", type=int, default=2000, metavar="N", help="number of bootstrap samples")
    add("--seed", type=int, default=0, help="random seed")
    help = "also write the figures and what distances mean by these labels, for --evidence"
    add("--write-evidence", type=Path, metavar="FILE", help=help)
    arguments.add_models(parser)


def _evidence_names(place: Path) -> tuple[()] | None:
    with suppress(InputError):
        read_evidence(place)
        return ()
    return None


def _compare(args: argparse.Namespace) -> None:
    config = arguments.checked_config(args, ("models",))
    if args.write_evidence:
        check_output(args.write_evidence, _evidence_names)
    rejects: list[Rejected] = []
    rows = []
    with Progress("Loading models") as line:
        models = load_models(config)
        line.stage("Reading problems", args.limit)
        for problem in arguments.read_problems(args, rejects):
            own = {"problem": problem.problem, "solutions": list(problem.solutions)}
            rows.append({**problem.extra, **own})
            line.advance()
        with scoring(models.flows, line) as done:
            comparison = compare_metrics(
                rows,
                models.embedder,
                models.summarizer,
                args.methods,
                seed=args.seed,
                num_bootstrap=args.num_bootstrap,
                on_stage=line.stage,
                on_problem=done,
                reader=models.reader,
            )
    if args.write_evidence:
        texts = Counter(written_in(text) for row in rows for text in row["solutions"])
        evidence = comparison.evidence(
            embedder=comparison.embedder,
            chat=asks_chat_model(config.summarizer),
            texts=kind_of(texts),
            data=f"{comparison.num_problems:,} problems of {Path(args.input).name}",
        )
        with whole_file(args.write_evidence) as file:
            file.write(json.dumps(evidence.as_dict(), indent=2) + "\n")
    facts = asdict(comparison) | {"num_left_out": len(rejects)}
    results = facts.pop("results")
    for table in () if args.json else comparison.tables():
        print_table(table)
        print()
    print_result(args, facts, results=results, left_out=[reject.as_row() for reject in rejects])
