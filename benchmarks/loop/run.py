"""Run the arms that are not finished yet, several at a time, and write the page.

    python -m benchmarks.loop               # make loop: about 40 minutes on two quiet cores
    python -m benchmarks.loop --map         # make loop-map: where the trade turns
    python -m benchmarks.loop --only core --seeds 2
    python -m benchmarks.loop --quick --output /tmp/quick --page /tmp/quick/loop.md

Arms with a result are skipped, so that the same command goes on where it was stopped, and more
seeds can be added later. The page is written anew from all results that are there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from benchmarks.loop.arms import Arm, ArmResult, finished, folder_of
from benchmarks.loop.base import make_base
from benchmarks.loop.catalogue import FULL, GROUPS, MAP, QUICK, QUICK_ARMS
from benchmarks.loop.measure import pass_at
from benchmarks.loop.page import RUNS, write_page
from benchmarks.loop.pipeline import run_arm
from rpd_metric.errors import InputError, RPDError

MAP_SEEDS = 3
Submit = Callable[..., Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    args = _parser().parse_args(arguments)
    args.output.mkdir(parents=True, exist_ok=True)
    try:
        # Two runs would empty each other's folders.
        with FileLock(args.output / "lock", timeout=0):
            _run(args)
    except Timeout:
        print(f"loop: another run is at work in {args.output}; wait for it", file=sys.stderr)
        return 1
    except RPDError as error:
        print(f"loop: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("loop: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.loop",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--output", type=Path, default=Path("loop-output"), metavar="DIR")
    parser.add_argument("--page", type=Path, default=Path("docs/loop.md"), metavar="FILE")
    parser.add_argument("--seeds", type=int, metavar="N", help="default: 5, and 3 on the map")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        help=f"only these arms or groups ({', '.join(GROUPS)}, map)",
    )
    parser.add_argument("--map", action="store_true", help="run the map's arms")
    parser.add_argument("--quick", action="store_true", help="a tiny run that means nothing")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes; 1: none")
    return parser


def _run(args: argparse.Namespace) -> None:
    started = time.perf_counter()
    plan = QUICK if args.quick else FULL
    waves = _waves(args)
    seeds = range(args.seeds or (1 if args.quick else MAP_SEEDS if args.map else 5))
    output: Path = args.output
    todo = [
        [
            (arm, seed)
            for seed in seeds
            for arm in wave
            if finished(folder_of(output, arm, seed), arm, plan) is None
        ]
        for wave in waves
    ]
    total = sum(map(len, todo))
    _say(f"{total} of {len(seeds) * sum(map(len, waves))} arms to run")
    done = 0
    with _workers(args.workers) as submit:
        bases = dict.fromkeys(arm.base for wave in todo for arm, _ in wave)
        for ended in as_completed(
            [submit(make_base, output / name, plan.bases[name], _say) for name in bases]
        ):
            ended.result()
        # One wave after the other: reinforcement learning starts from models of the first.
        for wave in todo:
            running = {submit(run_arm, arm, seed, plan, output): (arm, seed) for arm, seed in wave}
            for ended in as_completed(running):
                arm, seed = running[ended]
                result: ArmResult = ended.result()
                done += 1
                _say(
                    f"[{done}/{total}] seed {seed}, {arm.name}: pass@1 {pass_at(result, 1):.3f}, "
                    f"pass@16 {pass_at(result, 16):.3f} ({result.cpu_seconds:.0f} CPU seconds)"
                )
    if total:
        with (output / RUNS).open("a", encoding="utf-8") as log:
            spent = {"arms": total, "wall_seconds": round(time.perf_counter() - started)}
            log.write(json.dumps(spent) + "\n")
    write_page(args.page, output, plan, command="make loop" if plan is FULL else "a quick run")
    _say(f"written: {args.page}")


def _waves(args: argparse.Namespace) -> list[list[Arm]]:
    """Arms in the order in which they are run; those of a wave do not need one another."""
    groups: dict[str, Sequence[Arm]] = {**GROUPS, "map": MAP}
    wanted = args.only or (QUICK_ARMS if args.quick else ("map",) if args.map else tuple(GROUPS))
    known = {arm.name for group in groups.values() for arm in group} | groups.keys()
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise InputError(f"there is no arm or group {unknown[0]!r}; use {', '.join(sorted(known))}")
    return [
        [arm for arm in arms if name in wanted or arm.name in wanted]
        for name, arms in groups.items()
    ]


@contextmanager
def _workers(number: int) -> Iterator[Submit]:
    """Where work goes: to that many processes, or with 1 to this one."""
    if number == 1:
        yield _at_once
        return
    # Fresh processes, because threads of torch do not survive a fork.
    with ProcessPoolExecutor(
        number, mp_context=get_context("spawn"), initializer=one_thread
    ) as pool:
        try:
            yield pool.submit
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _at_once(function: Callable[..., Any], *arguments: Any) -> Any:
    future: Future[Any] = Future()
    future.set_result(function(*arguments))
    return future


def one_thread() -> None:
    """Keep a worker to one core; two workers with two threads each would be slower."""
    import torch

    torch.set_num_threads(1)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
