"""How one arm is run, from pool to result.

An arm is curation (`rpd_datasets`), fine-tuning (`recipes/sft.py`, or `recipes/grpo.py` where it
goes on from another arm), sampling and grading (`recipes/passk.py`) and measuring. Arms of one
seed share base, pool and test problems. Every arm leaves `result.json`; one that has it is
finished.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from benchmarks.labelled_sets import KeptVectors
from benchmarks.loop.arms import (
    BASE_ARM,
    HERE,
    RESULT,
    Arm,
    ArmResult,
    Plan,
    finished,
    folder_of,
    model_of,
    settings_of,
)
from benchmarks.loop.sampling import sample
from benchmarks.loop.steps import Exact, Labels, StatedSteps, stated
from benchmarks.loop.task import pool_rows, problem_rows, strategy_of
from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.card import dataset_card
from rpd_datasets.curation.models import Models
from rpd_datasets.curation.outcome import RunSummary
from rpd_datasets.curation.run import RunOptions, curate_folder
from rpd_datasets.evaluation.results import read_results
from rpd_datasets.filters.pipeline import FilterConfig
from rpd_datasets.inputs.inspect_rows import read_inspect_log
from rpd_datasets.inputs.source import open_source
from rpd_datasets.tokens import token_counter
from rpd_datasets.training.record import last_checkpoint
from rpd_metric.distance.core import mean_pairwise
from rpd_metric.distance.diversity import div_self_bleu
from rpd_metric.errors import RPDError
from rpd_metric.metrics.matrices import step_matrices
from rpd_metric.models.embedders import Embedder
from rpd_metric.models.kinds import load_embedder
from rpd_metric.steps.protocol import Summarizer
from rpd_metric.steps.summarizers import load_summarizer

CANDIDATES = 16


def run_arm(arm: Arm, seed: int, plan: Plan, output: Path) -> ArmResult:
    """Run an arm, unless it is finished; the seed decides pool, candidates, tests and draws."""
    folder = folder_of(output, arm, seed)
    done = finished(folder, arm, plan)
    if done is not None:
        return done
    # What another plan or an interrupted run left: an arm is short enough to be run anew.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    before = resource.getrusage(resource.RUSAGE_SELF)
    with (folder / "log.txt").open("w", encoding="utf-8") as log, _logged_to(log):
        training, rewards = _train(arm, seed, plan, output, folder)
        result = _measure(arm, seed, plan, output, folder)
    after = resource.getrusage(resource.RUSAGE_SELF)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    result = replace(result, training=training, rewards=rewards, cpu_seconds=spent)
    text = json.dumps(asdict(result), indent=1) + "\n"
    (folder / f"{RESULT}.partial").write_text(text, encoding="utf-8")
    (folder / f"{RESULT}.partial").replace(folder / RESULT)
    return result


def _train(
    arm: Arm, seed: int, plan: Plan, output: Path, folder: Path
) -> tuple[dict[str, Any], list[dict[str, float]]]:
    if arm.name == BASE_ARM:
        return {}, []
    if arm.start is not None:
        return {}, _reinforce(arm, seed, plan, output, folder)
    data = folder / "data"
    facts = curate(arm, seed, plan, data, output / "vectors.sqlite")
    options = {
        "model_name_or_path": output / arm.base,
        "output_dir": folder / "model",
        "num_samples": facts["samples"],
        "seed": seed,
        **plan.sft,
        **({} if arm.epochs is None else {"num_train_epochs": arm.epochs}),
    }
    model = folder / "model"
    line = ["--config", str(HERE / "sft.yaml"), "--data", *[str(data)] * arm.repeat]
    _recipe("sft").main(line + _options(options))
    losses = [row["loss"] for row in _history(model) if "loss" in row]
    return {**facts, "first_loss": losses[0], "last_loss": losses[-1]}, []


def curate(arm: Arm, seed: int, plan: Plan, output: Path, kept: Path) -> dict[str, Any]:
    """Make an arm's training set; returns what is in it."""
    pool = output.parent / "pool.jsonl"
    rows = pool_rows(arm.pool or plan.pool, CANDIDATES, seed)
    _write_rows(pool, rows)
    size = {"num_problems": plan.num_problems(arm), "num_solutions": arm.per_problem}
    if arm.budget:
        size = {"num_samples": plan.num_problems(arm)}  # with one solution of each problem
    config = CurationConfig(
        summarizer="extractive",
        ties=arm.ties,
        problems=arm.problems,
        solutions=arm.solutions,
        **size,
        selection=arm.selection,
        seed=seed,
        # Candidates of one problem may be equal, as samples are; all arms draw from all of them.
        filters=FilterConfig(require_complete=False, drop_duplicates=False),
    )
    summarizer: Summarizer
    embedder: Embedder
    if arm.steps == "labels":
        summarizer, embedder = Labels(), Exact()
    else:
        summarizer = StatedSteps() if arm.steps == "stated" else load_summarizer("extractive")
        embedder = KeptVectors(load_embedder("minilm"), kept)
    models = Models(summarizer, embedder, token_counter(config.tokenizer))
    chosen: list[list[str]] = []

    def describe(summary: RunSummary) -> dict[str, str | bytes]:
        return {"README.md": dataset_card(summary, config, models, options)}

    def opened(scratch: Any, reject: Any) -> Any:
        return open_source(str(pool), scratch=scratch, on_reject=reject)

    options = RunOptions(
        on_chosen=lambda problem, _, places: chosen.append(
            [strategy_of(problem.solutions[place]) for place in places]
        )
    )
    sources = [(opened, config.num_problems)]
    curate_folder(sources, output, config, models, describe=describe, options=options)
    return {
        "problems": len(chosen),
        "samples": arm.repeat * sum(map(len, chosen)),
        "strategies_per_problem": float(np.mean([len(set(found)) for found in chosen])),
    }


def _reinforce(
    arm: Arm, seed: int, plan: Plan, output: Path, folder: Path
) -> list[dict[str, float]]:
    start = folder_of(output, replace(arm, name=str(arm.start)), seed) / "model"
    if not start.is_dir():
        raise RPDError(f"{arm.name} starts from {arm.start}; run that first")
    problems = folder / "problems.jsonl"
    _write_rows(problems, problem_rows("pool", plan.practice, seed))
    options = {
        "model_name_or_path": start,
        "output_dir": folder / "model",
        "problems": problems,
        "diversity_weight": arm.diversity_weight,
        "seed": seed,
        **plan.grpo,
    }
    _recipe("grpo").main(["--config", str(HERE / "grpo.yaml"), *_options(options)])
    wanted = ("reward", "rewards/accuracy/mean", "rewards/diversity/mean", "entropy")
    watched = ("diversity/rpd", "diversity/wording", "diversity/length")
    return [
        {name: row[name] for name in (*wanted, *watched) if name in row}
        for row in _history(folder / "model")
        if "reward" in row
    ]


def _measure(arm: Arm, seed: int, plan: Plan, output: Path, folder: Path) -> ArmResult:
    tests = folder / "tests.jsonl"
    rows = problem_rows("test", plan.tests, seed)
    _write_rows(tests, rows)
    log = folder / "evaluation" / "log.eval"
    model, config = Path(model_of(arm, seed, output)), HERE / "passk.yaml"
    changes = {"seed": 1000 * seed, **plan.passk}
    sample(model, config, tests, log, changes, name=arm.name, at_once=plan.tests)
    results = read_results(log)
    right = _right_outputs(log)
    pairs = [texts for texts in right.values() if len(texts) > 1]
    steps = [[list(stated(text).steps) for text in texts] for texts in pairs]
    embedder = KeptVectors(load_embedder("minilm"), output / "vectors.sqlite")
    distances = [mean_pairwise(matrix) for matrix in step_matrices(steps, embedder)]
    strategies = {key: len({strategy_of(text) for text in texts}) for key, texts in right.items()}
    return ArmResult(
        arm=arm.name,
        seed=seed,
        settings=settings_of(arm, plan),
        correct=results.correct,
        rpd=_mean([distance for distance in distances if distance is not None]),
        div_self_bleu=_mean([found for texts in pairs if (found := div_self_bleu(texts))]),
        strategies=_mean([strategies[key] for key, texts in right.items() if len(texts) > 1]),
        found=sum(strategies.values()) / len(rows),
        training={},
        rewards=[],
        cpu_seconds=0.0,
    )


def _recipe(name: str) -> Any:
    """A script of `recipes/`, which lies beside this package and in none itself."""
    return importlib.import_module(f"recipes.{name}")


def _history(model: Path) -> list[dict[str, float]]:
    """What a trainer logged."""
    checkpoint = last_checkpoint(model)
    assert checkpoint is not None, "the recipes here save at the end of every epoch"
    state = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
    shutil.rmtree(checkpoint)
    rows: list[dict[str, float]] = state["log_history"]
    return rows


@contextlib.contextmanager
def _logged_to(log: TextIO) -> Iterator[None]:
    """Everything that is printed goes into a file, that of libraries in other languages, too."""
    sys.stdout.flush()
    sys.stderr.flush()
    before = [os.dup(1), os.dup(2)]
    try:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
            yield
    finally:
        log.flush()
        for place, kept in enumerate(before, start=1):
            os.dup2(kept, place)
            os.close(kept)


def _right_outputs(log: Path) -> dict[str, list[str]]:
    rows = (row for row in read_inspect_log(log) if isinstance(row, dict))
    right = {
        row["id"]: [
            text for text, mark in zip(row["solutions"], row["correct"], strict=True) if mark
        ]
        for row in rows
    }
    return {name: texts for name, texts in right.items() if texts}


def _write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _options(options: Mapping[str, Any]) -> list[str]:
    return [part for name, value in options.items() for part in (f"--{name}", str(value))]


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
