"""Warm SmolLM2-135M up, make the arms from it, sample and grade, write docs/loop-real.md.

    python -m benchmarks.loop_strategies                       # make loop-strategies
    python -m benchmarks.loop_strategies --arms random_1p3s rpd_1p3s --seeds 0 1 2
    python -m benchmarks.loop_strategies --arms                # only the page

Every stage is a command of this project: `rpd curate`, `recipes/sft.py`, `merge.py` and `grpo.py`;
samples are graded and logged as `recipes/passk.py` does it, but drawn in batches. What is finished
is not run again: results.jsonl in the output folder has a line for each arm and seed, and the page
is written from all that are there. An arm whose start is gone makes it again.
"""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow.parquet import read_table

from benchmarks.loop_strategies.arms import ARMS, START, Scale
from benchmarks.loop_strategies.model import make_smollm2
from benchmarks.loop_strategies.page import write_page
from benchmarks.loop_strategies.sampling import sample
from benchmarks.loop_strategies.task import by_strategy, factors, rows, split, strategy_of
from rpd_datasets.evaluation.results import read_results
from rpd_datasets.inputs.inspect_rows import read_inspect_log
from rpd_datasets.options import read_options
from rpd_metric.errors import InputError, RPDError

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LOG = "evaluation/log.eval"
RESULTS = "results.jsonl"
# More replies in a batch, on a CPU, gain little.
CPU_BATCH = 50
OUT_OF_TIME = 3


class OutOfTime(RPDError):
    """No more stages are begun; the same command goes on."""


class Runner:
    """Makes models and measures them, stage by stage.

    Args:
        scale ([`Scale`]): How much of everything.
        output (`Path`): Where all of it is kept.
        gpu (`bool`): Train and sample on a GPU.
        minutes (`float`, *optional*): Begin no stage later than so long after the start.
        training (`Sequence`): Options for the recipes beside those of the YAML files here.
    """

    def __init__(
        self, scale: Scale, output: Path, gpu: bool, minutes: float | None, training: list[str]
    ) -> None:
        self.scale, self.output, self.gpu, self.training = scale, output, gpu, training
        self._end = None if minutes is None else time.monotonic() + 60 * minutes
        output.mkdir(parents=True, exist_ok=True)
        claim(output / "scale.json", {**vars(scale), "training": self.training})

    def finished(self) -> list[dict[str, Any]]:
        """All results that are there."""
        path = self.output / RESULTS
        if not path.is_file():
            return []
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def measure(self, name: str, seed: int) -> None:
        """Sample and grade an arm's model, unless it has been, and keep the result."""
        if any((one["arm"], one["seed"]) == (name, seed) for one in self.finished()):
            return
        folder, model = self._folder(name, seed), self._model(name, seed)
        tests = folder / "tests.jsonl"
        write_rows(tests, rows(split(seed)[2][: self.scale.tests], 1, seed))
        self._stage(folder, "pass@k", lambda: self._sample(name, seed, model, tests))
        result = {"arm": name, "seed": seed, **outcome(folder)}
        with (self.output / RESULTS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
        if name != START and not any(arm.base == name for arm in ARMS.values()):
            shutil.rmtree(model)  # 270 MB, which nothing goes on from

    def _folder(self, name: str, seed: int) -> Path:
        folder = self.output / f"seed-{seed}" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _model(self, name: str, seed: int) -> Path:
        """The folder of an arm's model, which is made where it is missing."""
        folder = self._folder(name, seed)
        if name == START:  # the same for all seeds
            folder, seed = self.output / START, 0
            folder.mkdir(exist_ok=True)
        merged, rough, learnt = folder / "merged", folder / "merging", folder / "adapter"
        if merged.is_dir():
            return merged
        arm = ARMS[name]
        line: list[object] = ["--output", rough]
        if arm.share is not None:
            self._model(str(arm.base), seed)
            learnt = self._folder(str(arm.base), seed) / "adapter"
            line += ["--interpolate", arm.share]
            rough = folder / f"merging-{arm.share:g}"
        elif arm.base is not None:
            base = self._model(arm.base, seed)
            self._stage(folder, "train", lambda: self._reinforce(base, name, seed, folder))
        else:
            base = self.output / "model" if name == START else self._model(START, seed)
            number = self.scale.warm if name == START else self.scale.samples
            of_data = {"data": folder / "data", "num_samples": number}
            if name == START:
                self._stage(folder, "model", lambda: make_smollm2(base))
            self._stage(folder, "curate", lambda: self._curate(name, seed, folder))
            self._stage(folder, "train", lambda: self._recipe("sft", base, seed, folder, **of_data))
        shutil.rmtree(rough, ignore_errors=True)
        line += ["--adapter", learnt]
        self._stage(folder, "merge", lambda: script("merge", line), again=True)
        rough.rename(merged)
        return merged

    def _curate(self, name: str, seed: int, folder: Path) -> None:
        from rpd_datasets.cli import main as rpd

        arm, scale = ARMS[name], self.scale
        warm, pool, _ = split(seed)
        if name == START:
            found = rows(warm[: scale.warm], 1, seed=0)
        else:
            found = rows(pool[: scale.pool], scale.candidates, seed)
        if arm.candidates != "all":
            found = by_strategy(found, arm.each, different=arm.candidates == "different")
        write_rows(folder / "pool.jsonl", found)
        choice, each = (arm.choice, arm.each) if arm.choice else ("random", 1)
        number = scale.warm if name == START else scale.samples // each
        line: list[object] = ["curate", folder / "pool.jsonl", "--output", folder / "data"]
        line += ["--problems", choice, "--solutions", choice, "--overwrite", "--seed", seed]
        line += ["--num-problems", number, "--num-solutions", each, "--min-solutions", each]
        if rpd([str(part) for part in line]):
            raise RPDError(f"rpd curate failed for {name}")

    def _reinforce(self, base: Path, name: str, seed: int, folder: Path) -> None:
        problems = folder / "problems.jsonl"
        write_rows(problems, rows(split(seed)[1][: self.scale.practice], 1, seed))
        weight = ARMS[name].diversity_weight
        self._recipe("grpo", base, seed, folder, problems=problems, diversity_weight=weight)

    def _recipe(self, name: str, base: Path, seed: int, folder: Path, **options: object) -> None:
        options |= {"config": HERE / f"{name}.yaml", "model_name_or_path": base, "seed": seed}
        options |= {"output_dir": folder / "adapter", "use_cpu": not self.gpu}
        line = [part for key, value in options.items() for part in (f"--{key}", value)]
        script(name, [*line, *self.training])

    def _sample(self, name: str, seed: int, model: Path, tests: Path) -> None:
        config = {**read_options(HERE / "passk.yaml"), "samples": self.scale.attempts, "name": name}
        # On a GPU, all replies at once.
        at_once = self.scale.tests * self.scale.attempts if self.gpu else CPU_BATCH
        device = "cuda" if self.gpu else "cpu"
        log = self._folder(name, seed) / LOG
        sample(model, config, tests, log, seed=seed, at_once=at_once, device=device)

    def _stage(
        self, folder: Path, name: str, stage: Callable[[], object], again: bool = False
    ) -> None:
        """Run a stage, unless it has been, and write down how long it took."""
        path = folder / "seconds.json"
        seconds = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        if name in seconds and not again:
            return
        where = f"{folder.relative_to(self.output)}: {name}"
        if self._end is not None and time.monotonic() >= self._end:
            raise OutOfTime(f"stopped before {where}; the same command goes on from there")
        sys.stderr.write(f"== {where}\n")
        start = time.monotonic()
        stage()
        seconds[name] = round(time.monotonic() - start, 1)
        path.write_text(json.dumps(seconds) + "\n", encoding="utf-8")


def outcome(folder: Path) -> dict[str, Any]:
    """What an arm was trained on, how long its stages took, and what its samples are.

    Of each test problem each sample's strategy: `None` of a wrong one, `"other"` of no known.
    """
    log, samples = folder / LOG, {}
    read_results(log)  # which refuses a log that lacks samples or verdicts
    for one in read_inspect_log(log):
        if not isinstance(one, dict):
            raise InputError(f"{log}: {one.detail}")
        samples[one["id"]] = [
            (strategy_of(*factors(one["id"]), text) or "other") if right else None
            for text, right in zip(one["solutions"], one["correct"], strict=True)
        ]
    found: dict[str, Any] = {"samples": samples}
    found["seconds"] = json.loads((folder / "seconds.json").read_text(encoding="utf-8"))
    for file in (folder / "data").glob("data/*.parquet"):
        found["strategies"] = float(
            np.mean([_strategies(one) for one in read_table(file).to_pylist()])
        )
    record = folder / "adapter/recipe.json"
    if record.is_file():
        found["counts"] = json.loads(record.read_text(encoding="utf-8"))["counts"]
    return found


def _strategies(row: Mapping[str, Any]) -> int:
    """How many strategies the chosen solutions of a problem show."""
    texts = [row["solutions"][place] for place in row["selected"]]
    return len({strategy_of(*factors(row["id"]), text) for text in texts})


def script(name: str, line: Sequence[object]) -> None:
    """Run a script of `recipes/`, which lies beside this package and in none itself."""
    if importlib.import_module(f"recipes.{name}").main([str(part) for part in line]):
        raise RPDError(f"recipes/{name}.py failed")


def claim(path: Path, settings: Mapping[str, Any]) -> None:
    """See that a folder holds a run of these settings, or none."""
    text = json.dumps(settings, sort_keys=True)
    if path.is_file() and path.read_text(encoding="utf-8") != text:
        raise InputError(f"{path.parent} holds a run of another size; use another --output")
    path.write_text(text, encoding="utf-8")


def write_rows(path: Path, found: Sequence[Mapping[str, Any]]) -> None:
    """Write rows, without what is known of the strategies: no stage may look at that."""
    plain = [{key: value for key, value in one.items() if key != "strategies"} for one in found]
    path.write_text("".join(json.dumps(one) + "\n" for one in plain), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything that is not done yet, and write the page; returns the exit status."""
    args = _parser().parse_args(arguments)
    scale = Scale(**{name: getattr(args, name) for name in Scale.__annotations__})
    status = 0
    try:
        runner = Runner(scale, args.output.resolve(), args.gpu, args.minutes, args.training.split())
        try:
            for seed in args.seeds:
                for name in filter(args.arms.__contains__, ARMS):
                    runner.measure(name, seed)
        except OutOfTime as error:
            sys.stderr.write(f"loop_strategies: {error}\n")
            status = OUT_OF_TIME
        write_page(args.page, scale, runner.finished())
    except RPDError as error:
        sys.stderr.write(f"loop_strategies: {error}\n")
        return 1
    sys.stderr.write(f"wrote {args.page}\n")
    return status


def _parser() -> argparse.ArgumentParser:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("loop_strategies", description=__doc__, formatter_class=plain)
    add = parser.add_argument
    add("--arms", nargs="*", choices=list(ARMS), default=list(ARMS))
    add("--seeds", nargs="+", type=int, default=[0], metavar="N")
    add("--output", type=Path, default=Path("loop-strategies-output"), metavar="FOLDER")
    add("--page", type=Path, default=ROOT / "docs/loop-real.md", metavar="FILE")
    add("--gpu", action="store_true", help="train and sample on a GPU")
    add("--minutes", type=float, metavar="M", help="begin no stage later than M minutes from now")
    add("--training", default="", metavar="OPTIONS", help="options for sft.py and grpo.py")
    for name, default in vars(Scale()).items():
        add(f"--{name}", type=int, default=default, metavar="N")
    return parser
