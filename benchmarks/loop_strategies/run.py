"""When does diversity pay? Make starts and arms of SmolLM2-135M, score them, write the page.

    python -m benchmarks.loop_strategies                       # make loop-strategies
    python -m benchmarks.loop_strategies --corners all-different --arms start   # and its gate
    python -m benchmarks.loop_strategies --corners little-same --arms rpd_1p3s --seeds 0 1 2
    python -m benchmarks.loop_strategies --arms                # only the page

Sets are chosen by `rpd curate`, adapters are trained by `training.py`, and `exact.py` computes the
chance of every right text. Each result is a file in `results/`, written at once: a run skips what
is there, and the page is written from all of them. A start that is gone is made again.
"""

import argparse
import importlib
import json
import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow.parquet import read_table

from benchmarks.loop_strategies.arms import (
    ALL,
    ARMS,
    CHECKS,
    CORNERS,
    LITTLE,
    PRIMARY_K,
    SETTLING,
    SOME,
    START,
    TRIED,
    WARMING,
    Corner,
    Scale,
)
from benchmarks.loop_strategies.gate import right, solved
from benchmarks.loop_strategies.model import make_smollm2
from benchmarks.loop_strategies.page import gate_sections, write_page
from benchmarks.loop_strategies.task import (
    SKEWS,
    STRATEGIES,
    WARMING_SHARES,
    by_strategy,
    drawn,
    factors,
    fitting,
    split,
    story,
    strategy_of,
    texts,
)
from rpd_metric.errors import InputError, RPDError

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OUT_OF_TIME = 3


class OutOfTime(RPDError):
    """No more stages are begun; run the same command again to continue."""


class Runner:
    """Makes models and measures them, stage by stage.

    Args:
        scale ([`Scale`]): How much of everything.
        output (`Path`): For models and sets.
        results (`Path`): For what is measured.
        device (`str`): `"cpu"` or `"cuda"`.
        minutes (`float`, *optional*): Begin no stage later than so long after the start.
    """

    def __init__(
        self, scale: Scale, output: Path, results: Path, device: str, minutes: float | None
    ) -> None:
        self.scale, self.output, self.results, self.device = scale, output, results, device
        self._end = None if minutes is None else time.monotonic() + 60 * minutes

    def measure(
        self, corner: Corner, name: str, seed: int, tuned: tuple[float, float] | None = None
    ) -> None:
        """Make an arm's model and keep what it solves, unless that is there.

        With `tuned`, a learning rate and epochs, it is problems for validation that it solves.
        """
        path = self._path(corner, name, seed, tuned)
        if path.is_file():
            measured = json.loads(path.read_text(encoding="utf-8"))["scale"]
            if Scale(**measured).of(corner.start) != self.scale.of(corner.start):
                raise InputError(f"{path} is a result of another size; use another --results")
            return
        arm, base, began = ARMS[name], self.start(corner), time.monotonic()
        result: dict[str, Any] = {"corner": corner.name, "arm": name, "seed": seed}
        result |= {"tuned": bool(tuned), "scale": vars(self.scale), "start": digest(base)}
        adapter, ids = None, split(corner.task, seed)["validation" if tuned else "tests"]
        if name != START:
            rate, epochs = tuning = tuned or self.best(corner.start)
            result |= {"rate": rate, "epochs": epochs * arm.early}
            base, adapter, result["set"] = self._train(corner, name, seed, base, tuning)
        ids = ids[: self.scale.tests]
        checked = ids[: self.scale.checked] if name == START else []
        result |= self._score(corner, base, adapter, ids, arm.share, checked)
        result["minutes"] = round((time.monotonic() - began) / 60, 1)
        write_result(path, result)
        if name == START:
            gate = gate_sections({corner.name: {START: {0: result}}})
            sys.stdout.write("\n\n".join(gate) + "\n")

    def best(self, start: str) -> tuple[float, float]:
        """The learning rate and epochs by which random 1P1S solves most problems for validation."""
        corner, tried = TRIED[start]
        solving = {}
        for rate, epochs in tried:
            self.measure(corner, "random_1p1s", 0, (rate, epochs))
            path = self._path(corner, "random_1p1s", 0, (rate, epochs))
            result = json.loads(path.read_text(encoding="utf-8"))
            solving[rate, epochs] = float(solved(right(result), PRIMARY_K).mean())
        return max(solving, key=solving.__getitem__)

    def _path(
        self, corner: Corner, name: str, seed: int, tuned: tuple[float, float] | None
    ) -> Path:
        label = f"tune-{tuned[0]:g}x{tuned[1]:g}" if tuned else name
        return self.results / corner.name / f"{label}-{seed}.json"

    def start(self, corner: Corner) -> Path:
        """The folder of a corner's start, which is made where it is missing."""
        scale, task, shares = self.scale, corner.task, shares_of(corner)
        folder, warm = self.output / corner.name / START, split(corner.task, 0)["warm"]
        if folder.is_dir():
            return folder
        tuning = WARMING[corner.start]
        if corner.start == LITTLE:
            samples = first_solutions(drawn(task, warm[: scale.little], 1, shares, seed=1))
            self._merge(make_smollm2(self.output / "model"), samples, folder, tuning)
            return folder
        base = self.output / f"warmed-{corner.start}-{task}"
        if not base.is_dir():
            samples = warming_samples(
                corner, warm, scale.some if corner.start == SOME else scale.warm
            )
            self._merge(make_smollm2(self.output / "model"), samples, base, tuning)
        settling = drawn(task, warm[: scale.settle], 1, shares, seed=1)
        self._merge(base, first_solutions(settling), folder, SETTLING)
        return folder

    def _merge(
        self, base: Path, samples: list[tuple[str, str]], folder: Path, tuning: tuple[float, float]
    ) -> None:
        """Train a start and save it with all its weights."""
        from transformers import AutoTokenizer

        from benchmarks.loop_strategies.training import load, save

        adapter = folder.with_name(f"{folder.name}-adapter")
        if not adapter.is_dir():
            self._fit(base, samples, adapter, tuning, 0)
        tokenizer = AutoTokenizer.from_pretrained(base)
        save(load(base, self.device, adapter), tokenizer, folder)

    def _train(
        self, corner: Corner, name: str, seed: int, base: Path, tuning: tuple[float, float]
    ) -> tuple[Path, Path, dict[str, Any]]:
        """An arm's base, its adapter, and what is known of its set."""
        arm, (rate, epochs) = ARMS[name], tuning
        folder = self.output / corner.name / f"seed-{seed}" / f"{name}-{rate:g}x{epochs:g}"
        folder.mkdir(parents=True, exist_ok=True)
        adapter, facts = folder / "adapter", folder / "set.json"
        if arm.diversity_weight is not None:
            learnt = self._train(corner, str(arm.base), seed, base, tuning)[1]
            return self._reinforce(corner, name, seed, (base, learnt), folder), adapter, {}
        if arm.base and arm.early == 1.0:
            return self._train(corner, arm.base, seed, base, tuning)
        if not adapter.is_dir():
            data = self._curate(corner, arm.base or name, seed, base)
            known = described(corner.task, data)
            tuning = (rate, epochs * arm.early)
            known["loss"] = self._fit(base, pairs(data), folder / "trained", tuning, seed)
            facts.write_text(json.dumps(known), encoding="utf-8")
            (folder / "trained").rename(adapter)
        return base, adapter, json.loads(facts.read_text(encoding="utf-8"))

    def _reinforce(
        self, corner: Corner, name: str, seed: int, tuned: tuple[Path, Path], folder: Path
    ) -> Path:
        """Run GRPO from the model of the arm's base; returns that model's folder."""
        from transformers import AutoTokenizer

        from benchmarks.loop_strategies.training import load, save

        arm, merged = ARMS[name], folder / "merged"
        if not merged.is_dir():
            base, learnt = tuned
            tokenizer = AutoTokenizer.from_pretrained(base)
            save(load(base, self.device, learnt), tokenizer, merged)
        ids = split(corner.task, seed)["pool"][: self.scale.practice]
        problems = folder / "problems.jsonl"
        write_rows(problems, drawn(corner.task, ids, 1, shares_of(corner), seed))
        options: dict[str, object] = {"config": HERE / "grpo.yaml", "model_name_or_path": merged}
        options |= {"problems": problems, "output_dir": folder / "adapter", "seed": seed}
        options |= {"diversity_weight": arm.diversity_weight, "use_cpu": self.device == "cpu"}
        line = [str(part) for key, value in options.items() for part in (f"--{key}", value)]
        if not (folder / "adapter/adapter_config.json").is_file():
            self._begin(f"{folder.relative_to(self.output)}: GRPO")
            if importlib.import_module("recipes.grpo").main(line):
                raise RPDError("recipes/grpo.py failed")
        return merged

    def _curate(self, corner: Corner, name: str, seed: int, base: Path) -> Path:
        """The curated folder of an arm's set; starts share those that do not ask the student."""
        from rpd_datasets.cli import main as rpd

        arm, scale = ARMS[name], self.scale
        owner = corner.name if arm.student else f"{corner.task}-{corner.skew}"
        folder = self.output / "sets" / owner / f"seed-{seed}" / name
        data = folder / "data"
        if (data / "manifest.json").is_file():
            return data
        folder.mkdir(parents=True, exist_ok=True)
        ids = split(corner.task, seed)["pool"][: scale.pool]
        number = scale.samples // arm.each
        rows = drawn(corner.task, ids, scale.candidates, shares_of(corner), seed)
        if arm.candidates != "all":
            rows = by_strategy(rows, number, arm.each, different=arm.candidates == "different")
        write_rows(folder / "pool.jsonl", rows)
        line: list[object] = ["curate", folder / "pool.jsonl", "--output", data, "--overwrite"]
        line += ["--problems", arm.choice, "--solutions", arm.choice, "--seed", seed]
        line += ["--num-problems", number, "--num-solutions", arm.each]
        line += ["--min-solutions", arm.each]
        if arm.student:
            line += ["--student", f"hf:{base}"]
        self._begin(f"{folder.relative_to(self.output)}: curate")
        if rpd([str(part) for part in line]):
            raise RPDError(f"rpd curate failed for {name}")
        return data

    def _fit(
        self,
        base: Path,
        samples: list[tuple[str, str]],
        adapter: Path,
        tuning: tuple[float, float],
        seed: int,
    ) -> float:
        from benchmarks.loop_strategies.training import fine_tune

        self._begin(f"{adapter.relative_to(self.output)}: train on {len(samples)} samples")
        rate, epochs = tuning
        return fine_tune(
            base, samples, adapter, rate=rate, epochs=epochs, seed=seed, device=self.device
        )

    def _score(
        self,
        corner: Corner,
        base: Path,
        adapter: Path | None,
        ids: Sequence[str],
        share: float = 1.0,
        checked: Sequence[str] = (),
    ) -> dict[str, Any]:
        from transformers import AutoTokenizer

        from benchmarks.loop_strategies.exact import chances, sampled
        from benchmarks.loop_strategies.training import load

        self._begin(f"{(adapter or base).relative_to(self.output)}: score")
        network = load(base, self.device, adapter, share)
        tokenizer = AutoTokenizer.from_pretrained(base)
        scored: dict[str, Any] = {
            "chances": {id_: chances(network, tokenizer, corner.task, id_) for id_ in ids}
        }
        if checked:
            scored["sampled"] = sampled(network, tokenizer, corner.task, checked, CHECKS)
        return scored

    def _begin(self, stage: str) -> None:
        if self._end is not None and time.monotonic() >= self._end:
            raise OutOfTime(f"stopped before {stage}; run the same command again to continue")
        sys.stderr.write(f"== {time.strftime('%H:%M:%S')} {stage}\n")


def shares_of(corner: Corner) -> dict[str, float]:
    """How often each strategy is among the candidates of a corner."""
    return dict(zip(STRATEGIES[corner.task], SKEWS[corner.skew], strict=True))


def warming_samples(corner: Corner, ids: Sequence[str], number: int) -> list[tuple[str, str]]:
    """Solutions of all strategies, on whichever problems each fits.

    For a start that is to know `some`, as many of each; for one that is to know `all`, more of the
    strategies that a model learns late.
    """
    rng, samples, task = random.Random(0), [], corner.task
    fits = {
        name: [id_ for id_ in ids if name in fitting(task, *factors(id_))]
        for name in STRATEGIES[task]
    }
    names = list(STRATEGIES[task] * number)[:number]
    if corner.start == ALL:
        names = rng.choices(STRATEGIES[task], WARMING_SHARES[task], k=number)
    for name in names:
        id_ = rng.choice(fits[name])
        samples.append((story(id_), rng.choice(texts(task, id_, name))))
    return samples


def first_solutions(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Each problem with its first solution."""
    return [(row["problem"], row["solutions"][0]) for row in rows]


def chosen_rows(data: Path) -> list[dict[str, Any]]:
    """The rows of a curated folder."""
    return [
        row for file in sorted(data.glob("data/*.parquet")) for row in read_table(file).to_pylist()
    ]


def pairs(data: Path) -> list[tuple[str, str]]:
    """Each problem of a curated folder with each of its chosen solutions."""
    rows = chosen_rows(data)
    return [(row["problem"], row["solutions"][place]) for row in rows for place in row["selected"]]


def described(task: str, data: Path) -> dict[str, Any]:
    """Which strategies a set shows, and how many of a problem."""
    rows = chosen_rows(data)
    names = [
        [strategy_of(task, row["id"], row["solutions"][place]) for place in row["selected"]]
        for row in rows
    ]
    taken = [name for row in names for name in row]
    return {
        "problems": len(rows),
        "samples": len(taken),
        "strategies": float(np.mean([len({*row}) for row in names])),
        "shares": {name: round(taken.count(name) / len(taken), 4) for name in STRATEGIES[task]},
    }


def digest(folder: Path) -> str:
    """The start of a hash of a model's weights."""
    hashed = sha256()
    for file in sorted(folder.glob("*.safetensors")):
        hashed.update(file.read_bytes())
    return hashed.hexdigest()[:12]


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows, without what is known of the strategies: no stage may look at that."""
    plain = [{key: value for key, value in row.items() if key != "strategies"} for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in plain), encoding="utf-8")


def write_result(path: Path, result: Mapping[str, Any]) -> None:
    """Write a result, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rough = path.with_suffix(".partial")
    rough.write_text(json.dumps(result) + "\n", encoding="utf-8")
    os.replace(rough, path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything that is not done yet, and write the page; returns the exit status."""
    args = _parser().parse_args(arguments)
    scale = Scale(**{name: getattr(args, name) for name in Scale.__annotations__})
    device = "cuda" if args.gpu else "cpu"
    runner = Runner(scale, args.output.resolve(), args.results.resolve(), device, args.minutes)
    status = 0
    try:
        try:
            for seed in args.seeds:
                for name in args.corners:
                    for arm in filter(args.arms.__contains__, ARMS):
                        if seed == args.seeds[0] or arm != START:
                            runner.measure(CORNERS[name], arm, 0 if arm == START else seed)
        except OutOfTime as error:
            sys.stderr.write(f"loop_strategies: {error}\n")
            status = OUT_OF_TIME
        files = sorted(runner.results.glob("*/*.json"))
        results = [json.loads(path.read_text(encoding="utf-8")) for path in files]
        write_page(args.page, scale, results)
    except RPDError as error:
        sys.stderr.write(f"loop_strategies: {error}\n")
        return 1
    sys.stderr.write(f"wrote {args.page}\n")
    return status


def _parser() -> argparse.ArgumentParser:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("loop_strategies", description=__doc__, formatter_class=plain)
    add = parser.add_argument
    add("--corners", nargs="+", choices=list(CORNERS), default=list(CORNERS))
    add("--arms", nargs="*", choices=list(ARMS), default=list(ARMS))
    add("--seeds", nargs="+", type=int, default=[0], metavar="N")
    add("--output", type=Path, default=Path("loop-strategies-output"), metavar="FOLDER")
    add("--results", type=Path, default=HERE / "results", metavar="FOLDER")
    add("--page", type=Path, default=ROOT / "docs/loop-real.md", metavar="FILE")
    add("--gpu", action="store_true", help="train and score on a GPU")
    add("--minutes", type=float, metavar="M", help="begin no stage later than M minutes from now")
    for name, default in vars(Scale()).items():
        add(f"--{name}", type=int, default=default, metavar="N")
    return parser
