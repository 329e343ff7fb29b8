"""The whole chain with SmolLM2-135M-Instruct on GSM8K: curate, fine-tune, merge, sample, compare.

    python -m benchmarks.loop_real            # on one core, no download

Base against two arms of equally many samples: one random solution of each of many problems, and
three solutions each of a third as many problems, both chosen by RPD. Every stage is a command of
this project; what is finished is not run again. The page docs/loop-real.md is written from the
results, whichever way they fall, with the time that each stage took. One seed and few problems: the
intervals on the page are wide, and say so.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.loop.sampling import sample
from benchmarks.loop_real.model import make_smollm2
from benchmarks.loop_real.page import LOG, write_page
from benchmarks.loop_real.task import FILE, problems, split
from rpd_datasets.evaluation.results import read_results
from rpd_metric.errors import InputError, RPDError

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DATA = ROOT.parent / "shared/data/benchmarks" / FILE
BASE = "base"
CPU_BATCH = 16
# Arm: what chooses problems and solutions, and how many solutions it takes of a problem.
ARMS = {"random_1p1s": ("random", 1), "rpd_1p3s": ("rpd", 3)}


@dataclass(frozen=True)
class Scale:
    """How much of everything.

    Args:
        pool (`int`): Problems that an arm may choose from.
        samples (`int`): Training samples of an arm.
        tests (`int`): Test problems.
        calculations (`int`): Most calculations in the reference solution of a problem of the pool.
        test_calculations (`int`): The same of a test problem.
        attempts (`int`): Samples per test problem.
        tokens (`int`): Longest reply.
        epochs (`int`): Of fine-tuning.
        seed (`int`): Of all of it.
    """

    pool: int = 96
    samples: int = 48
    tests: int = 20
    calculations: int = 2
    test_calculations: int = 1
    attempts: int = 8
    tokens: int = 160
    epochs: int = 3
    seed: int = 0


class Journal:
    """How long each stage took, kept in a file; a stage that is in it is not run again.

    Args:
        path (`Path`): The file.
        minutes (`float`, *optional*): Begin no stage later than this after the start.
    """

    def __init__(self, path: Path, minutes: float | None = None) -> None:
        self._path = path
        self._end = None if minutes is None else time.monotonic() + 60 * minutes
        text = path.read_text(encoding="utf-8") if path.is_file() else "{}"
        self.seconds: dict[str, float] = json.loads(text)

    def run(self, name: str, stage: Callable[[], object]) -> None:
        """Run a stage, unless it has been."""
        if name in self.seconds:
            return
        if self._end is not None and time.monotonic() >= self._end:
            raise RPDError(f"stopped before {name}; the same command goes on from there")
        sys.stderr.write(f"== {name}\n")
        start = time.monotonic()
        stage()
        self.seconds[name] = round(time.monotonic() - start, 1)
        self._path.write_text(json.dumps(self.seconds, indent=1) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything that is not done yet, and write the page."""
    args = _parser().parse_args(arguments)
    scale = Scale(**{name: getattr(args, name) for name in Scale.__annotations__})
    try:
        loop(scale, args.data, args.output, gpu=args.gpu, minutes=args.minutes)
        results = [read_results(args.output / name / LOG) for name in (BASE, *ARMS)]
        facts = {name: _facts(args.output / name) for name in ARMS}
        seconds = Journal(args.output / "seconds.json").seconds
        write_page(args.page, scale, results, facts, seconds, args.output)
    except RPDError as error:
        sys.stderr.write(f"loop_real: {error}\n")
        return 1
    sys.stderr.write(f"wrote {args.page}\n")
    return 0


def loop(
    scale: Scale, data: Path, output: Path, *, gpu: bool = False, minutes: float | None = None
) -> None:
    """Run every stage that is not done yet; begin none later than so many minutes from now."""
    output.mkdir(parents=True, exist_ok=True)
    claim(output / "scale.json", scale)
    journal = Journal(output / "seconds.json", minutes)
    model = output / "model"
    journal.run("model", lambda: make_smollm2(model))
    pool, tests = split(
        problems(data),
        pool=scale.pool,
        tests=scale.tests,
        calculations=scale.calculations,
        test_calculations=scale.test_calculations,
        seed=scale.seed,
    )
    _write(output / "pool.jsonl", pool)
    _write(output / "tests.jsonl", tests)
    journal.run(f"{BASE}: pass@k", lambda: _evaluate(scale, output, BASE, model, gpu))
    for name, (choice, each) in ARMS.items():
        folder = output / name
        journal.run(f"{name}: curate", lambda: _curate(scale, output, folder, choice, each))  # noqa: B023 run at once
        journal.run(f"{name}: fine-tune", lambda: _tune(scale, model, folder, gpu))  # noqa: B023
        merge = ["--adapter", folder / "adapter", "--output", folder / "merged"]
        journal.run(f"{name}: merge", lambda: _script("merge", merge))  # noqa: B023
        journal.run(
            f"{name}: pass@k",
            lambda: _evaluate(scale, output, name, folder / "merged", gpu),  # noqa: B023
        )


def _curate(scale: Scale, output: Path, folder: Path, choice: str, each: int) -> None:
    from rpd_datasets.cli import main as rpd

    line: list[object] = ["curate", output / "pool.jsonl"]
    line += ["--problems", choice, "--solutions", choice]
    line += ["--num-problems", scale.samples // each, "--num-solutions", each]
    line += ["--seed", scale.seed, "--output", folder / "data", "--overwrite"]
    if rpd([str(part) for part in line]):
        raise RPDError(f"rpd curate failed for {folder.name}")


def _tune(scale: Scale, model: Path, folder: Path, gpu: bool) -> None:
    options: dict[str, object] = {
        "config": HERE / "sft.yaml",
        "model_name_or_path": model,
        "data": folder / "data",
        "output_dir": folder / "adapter",
        "num_samples": scale.samples,
        "num_train_epochs": scale.epochs,
        "seed": scale.seed,
        "use_cpu": not gpu,
    }
    _script("sft", [part for name, value in options.items() for part in (f"--{name}", value)])


def _evaluate(scale: Scale, output: Path, name: str, model: Path, gpu: bool) -> None:
    changes = {"samples": scale.attempts, "max_tokens": scale.tokens}
    # On a CPU each token is compared with the caches of all replies: more at once gain little.
    at_once = scale.tests * scale.attempts // 2 if gpu else CPU_BATCH
    loading = {"dtype": "bfloat16", "device_map": "cuda" if gpu else "cpu"}
    config, tests, log = HERE / "passk.yaml", output / "tests.jsonl", output / name / LOG
    sample(model, config, tests, log, changes, name=name, at_once=at_once, **loading)
    _script("passk", ["report", log])


def _script(name: str, line: Sequence[object]) -> None:
    """Run a script of `recipes/`, which lies beside this package and in none itself."""
    if importlib.import_module(f"recipes.{name}").main([str(part) for part in line]):
        raise RPDError(f"recipes/{name}.py failed")


def claim(path: Path, scale: Scale) -> None:
    """See that a folder holds a run of this scale, or none."""
    text = json.dumps(vars(scale), sort_keys=True)
    if path.is_file() and path.read_text(encoding="utf-8") != text:
        raise InputError(f"{path.parent} holds a run of another size; use another --output")
    path.write_text(text, encoding="utf-8")


def _facts(folder: Path) -> dict[str, Any]:
    """What an arm was trained on, and its losses."""
    record = json.loads((folder / "adapter/recipe.json").read_text(encoding="utf-8"))
    states = sorted((folder / "adapter").glob("checkpoint-*/trainer_state.json"))
    history = json.loads(states[-1].read_text(encoding="utf-8"))["log_history"]
    losses = [row["loss"] for row in history if "loss" in row]
    return {**record["counts"], "first loss": losses[0], "last loss": losses[-1]}


def _write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    summary, _, details = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="loop_real",
        description=summary,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, default=DATA, help=f"the file {FILE}")
    parser.add_argument("--output", type=Path, default=Path("loop-real-output"))
    parser.add_argument("--page", type=Path, default=ROOT / "docs/loop-real.md")
    parser.add_argument("--gpu", action="store_true", help="train and sample on a GPU")
    parser.add_argument(
        "--minutes", type=float, metavar="M", help="begin no stage later than M minutes from now"
    )
    for name, default in vars(Scale()).items():
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N")
    return parser
