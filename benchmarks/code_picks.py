"""Do three picked programs differ in algorithm more often than three by chance?

    python benchmarks/code_picks.py [--data FOLDER]

HumanEval problems, eight samples of each that pass its tests and are no copies of each
other, sorted by algorithm before any distance was looked at; `code_labels.json` holds the numbers
of the samples and the groups, and nothing of the data. For each distance three samples are picked
by max-min, and the algorithms among them are counted beside those among all triples.
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # before numpy loads its BLAS

import argparse
import ast
import gzip
import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from labelled_sets import DATA, extractive_steps
from machine import markdown

from rpd_datasets.judging.auroc import (
    count_wins,
    estimate,
    pooled_auroc,
    resamples,
    weighted_mean,
    within_auroc,
)
from rpd_datasets.judging.labels import Labels
from rpd_datasets.select import select_solutions
from rpd_metric.grading.code import FunctionTask, function_program
from rpd_metric.metrics.matrices import distance_matrices
from rpd_metric.models.kinds import load_embedder

LABELS = Path(__file__).with_name("code_labels.json")
PICKED = 3
DISTANCES = ("pieces", "rpd", "combined", "raw")


def read_problems(folder: Path) -> list[dict[str, Any]]:
    """The labelled problems with their programs."""
    with gzip.open(folder / "benchmarks" / "HumanEval.jsonl.gz", "rt", encoding="utf-8") as lines:
        tasks = {row["task_id"]: row for row in map(json.loads, lines)}
    samples: dict[str, list[str]] = {}
    path = folder / "benchmarks" / "humaneval_codegen16b_100samples.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        samples[re.findall(r"def (\w+)\(", row["prompt"])[-1]] = row["samples"]
    found = []
    for row in json.loads(LABELS.read_text(encoding="utf-8")):
        task = tasks[row["task_id"]]
        function = FunctionTask(task["prompt"], task["entry_point"], task["test"])
        drawn = [samples[task["entry_point"]][number] for number in row["samples"]]
        solutions = [f"```python\n{function_of(function, sample)}\n```" for sample in drawn]
        found.append({"problem": task["prompt"], "solutions": solutions, **row})
    return found


def function_of(task: FunctionTask, completion: str) -> str:
    """The function that a completion defines, without the docstring of the prompt."""
    program = function_program(task, completion)
    functions = [
        node
        for node in ast.parse(program).body
        if isinstance(node, ast.FunctionDef) and node.name == task.entry_point
    ]
    lines = program.splitlines()
    function = functions[-1]
    first, last = function.lineno - 1, function.end_lineno
    if ast.get_docstring(function) is not None:
        doc = function.body[0]
        assert doc.end_lineno is not None
        lines[doc.lineno - 1 : doc.end_lineno] = [""] * (doc.end_lineno - doc.lineno + 1)
    kept = "\n".join(lines[first:last])
    return re.sub(r"\n{2,}", "\n", kept).rstrip()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--num-bootstrap", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    encoder = load_embedder("minilm")
    rows = read_problems(args.data)
    weights = resamples(len(rows), args.num_bootstrap, args.seed)
    groups = [row["algorithms"] for row in rows]
    labels = [Labels((tuple(one),)) for one in groups]
    different = [np.array([y for _, _, y in one.pairs()]) for one in labels]
    chance = [
        float(np.mean([len(set(three)) for three in itertools.combinations(one, PICKED)]))
        for one in groups
    ]
    best = [min(PICKED, len(set(one))) for one in groups]
    matrices = [
        distance_matrices(
            DISTANCES, row["problem"], row["solutions"], extractive_steps(row), encoder
        )
        for row in rows
    ]
    table: list[dict[str, object]] = []
    for name in DISTANCES:
        picked = [
            float(len({one[index] for index in select_solutions(found[name], PICKED)}))
            for one, found in zip(groups, matrices, strict=True)
        ]
        gain = estimate(weighted_mean(np.subtract(picked, chance), weights))
        wins = count_wins(
            [
                np.array([found[name][i, j] for i, j, _ in one.pairs()])
                for one, found in zip(labels, matrices, strict=True)
            ],
            different,
        )
        table.append(
            {
                "distance": f"`{name}`",
                "algorithms among three": f"{np.mean(picked):.2f}",
                "minus three by chance": format(gain, "+.2f"),
                "AUROC pooled": f"{estimate(pooled_auroc(wins, weights))}",
                "AUROC within": f"{estimate(within_auroc(wins, weights))}",
            }
        )
    several = sum(len(set(one)) > 1 for one in groups)
    print(
        f"{len(rows)} problems of {len(groups[0])} programs, {several} "
        f"with several algorithms; among three by chance {np.mean(chance):.2f} algorithms, at best "
        f"{np.mean(best):.2f}; {encoder.name}, {args.num_bootstrap} resamples of the problems.\n"
    )
    print(markdown(table))


if __name__ == "__main__":
    main()
