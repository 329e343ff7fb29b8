"""Curation as seven scripts would do it, one after the other: what `corpus.py` compares with.

Each script reads everything the one before it wrote into memory, goes over it once, and writes
everything again: group, filter, summarise, embed, compare, choose, write. Steps are encoded
solution by solution without looking for duplicates, and each pair of solutions is a call of SciPy's
`cdist`. The rules are the paper's and the filters are this project's own, so the choice must be the
same as `curate_folder`'s, and `differences` says whether it is.
"""

from __future__ import annotations

import itertools
import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from synthetic import HashingEmbedder, InstantChat

from rpd_datasets.curation.scoring import DIGITS
from rpd_datasets.filters.pipeline import FilterConfig, filter_problem
from rpd_datasets.problem import Problem
from rpd_datasets.tokens import token_counter

# Two computations of one distance, in single and in double precision, may lie so far apart.
TOLERANCE = 1e-5


def curate_naively(
    corpus: Path, folder: Path, chat: InstantChat, num_problems: int, num_solutions: int
) -> list[dict[str, Any]]:
    """Run all seven scripts.

    Args:
        corpus (`Path`): Parquet with one solution a row, or with one problem a row.
        folder (`Path`): Where each script leaves its result.
        chat (`InstantChat`): Who summarises.
        num_problems (`int`): Problems to choose.
        num_solutions (`int`): Solutions to choose of each.

    Returns:
        `list[dict]`: Per chosen problem, best first: `problem`, `selected` and the `matrix` of
        distances between its solutions, with NaN for those left out.
    """
    group(corpus, folder / "1.json")
    keep_complete(folder / "1.json", folder / "2.json")
    summarise(folder / "2.json", folder / "3.json", chat)
    embed(folder / "3.json", folder / "4.pickle")
    compare(folder / "4.pickle", folder / "5.pickle")
    choose(folder / "5.pickle", folder / "6.pickle", num_problems, num_solutions)
    return write(folder / "1.json", folder / "6.pickle", folder / "7.json")


def group(corpus: Path, output: Path) -> None:
    """Rows with one solution each become problems with all of theirs."""
    import pandas as pd

    table = pd.read_parquet(corpus)
    problems: dict[str, list[str]] = {}
    if "conversations" in table:
        for turns in table["conversations"]:
            problems.setdefault(turns[0]["value"], []).append(turns[1]["value"])
    else:
        for problem, solutions in zip(table["problem"], table["solutions"], strict=True):
            problems[problem] = list(solutions)
    rows = [{"problem": text, "solutions": solutions} for text, solutions in problems.items()]
    output.write_text(json.dumps(rows))


def keep_complete(rows: Path, output: Path) -> None:
    """Mark the solutions that the filters keep."""
    count_tokens = token_counter("estimate")
    kept = json.loads(rows.read_text())
    for row in kept:
        problem = Problem(row["problem"], tuple(row["solutions"]))
        row["kept"] = filter_problem(problem, FilterConfig(), count_tokens).kept
    output.write_text(json.dumps(kept))


def summarise(rows: Path, output: Path, chat: InstantChat) -> None:
    """Ask for the steps of each solution, one after the other."""
    summarised = json.loads(rows.read_text())
    for row in summarised:
        row["steps"] = [[] for _ in row["solutions"]]
        for index in row["kept"]:
            reply = chat.reply(row["solutions"][index])
            found = json.loads(reply[reply.index("//boxed") + len("//boxed") :])
            row["steps"][index] = [step["step_description"] for step in found["logical_steps"]]
    output.write_text(json.dumps(summarised))


def embed(rows: Path, output: Path) -> None:
    """Encode each solution's steps."""
    embedder = HashingEmbedder()
    embedded = json.loads(rows.read_text())
    for row in embedded:
        row["vectors"] = [embedder.encode(steps) for steps in row["steps"]]
    output.write_bytes(pickle.dumps(embedded))


def compare(rows: Path, output: Path) -> None:
    """The distance of each pair of solutions (Eq. 1-2, both directions on ties)."""
    from scipy.spatial.distance import cdist

    compared = pickle.loads(rows.read_bytes())
    for row in compared:
        matrix = np.full((len(row["solutions"]),) * 2, np.nan)
        matrix[row["kept"], row["kept"]] = 0
        for i, j in itertools.combinations(row["kept"], 2):
            a, b = row["vectors"][i], row["vectors"][j]
            between = cdist(a, b, "cosine")
            forward, backward = between.min(axis=1).mean(), between.min(axis=0).mean()
            value = forward if len(a) < len(b) else backward
            matrix[i, j] = matrix[j, i] = (forward + backward) / 2 if len(a) == len(b) else value
        # As curation does: of what is nearer than that, neither is the farther one.
        row["matrix"] = matrix.round(DIGITS)
    output.write_bytes(pickle.dumps(compared))


def choose(rows: Path, output: Path, num_problems: int, num_solutions: int) -> None:
    """Rank the problems (Eq. 3) and choose solutions (Algorithm 2)."""
    scored = pickle.loads(rows.read_bytes())
    for row in scored:
        usable = row["kept"]
        row["score"] = -1.0
        if len(usable) >= num_solutions:
            sums = [np.nansum(row["matrix"][index]) for index in usable]
            row["score"] = round(max(sums) / (len(usable) - 1), DIGITS)
            row["selected"] = _farthest(row["matrix"], usable, num_solutions)
    scored = [row for row in scored if row["score"] >= 0]
    scored.sort(key=lambda row: -row["score"])
    best = [{key: row[key] for key in ("problem", "selected", "matrix")} for row in scored]
    output.write_bytes(pickle.dumps(best[:num_problems]))


def _farthest(matrix: Any, usable: Sequence[int], count: int) -> list[int]:
    chosen = [max(usable, key=lambda index: np.nansum(matrix[index]))]
    while len(chosen) < count:
        left = [index for index in usable if index not in chosen]
        chosen.append(max(left, key=lambda index: min(matrix[index, done] for done in chosen)))
    return chosen


def write(problems: Path, chosen: Path, output: Path) -> list[dict[str, Any]]:
    """Look the chosen problems up again, and write their solutions."""
    texts = {row["problem"]: row["solutions"] for row in json.loads(problems.read_text())}
    best: list[dict[str, Any]] = pickle.loads(chosen.read_bytes())
    rows = [
        {
            "problem": row["problem"],
            "solutions": texts[row["problem"]],
            "selected": row["selected"],
            "rpd_matrix": row["matrix"].tolist(),
        }
        for row in best
    ]
    output.write_text(json.dumps(rows))
    return best


def differences(best: Sequence[dict[str, Any]], output: Path) -> list[str]:
    """Where a curated folder chose otherwise than the seven scripts.

    Rounding may decide between solutions that are equally far away; such choices count as equal
    when their smallest distances are.

    Args:
        best (`Sequence[dict]`): What [`curate_naively`] returned.
        output (`Path`): The curated folder.

    Returns:
        `list[str]`: A line per difference, none if there is none.
    """
    import pyarrow.parquet as pq

    found = []
    columns = ["problem", "selected"]
    rows = pq.read_table(output / "data", columns=columns).to_pylist()
    if [row["problem"] for row in rows] != [row["problem"] for row in best]:
        found.append("other problems, or in another order")
    for ours, theirs in zip(rows, best, strict=False):
        gaps = [_smallest(theirs["matrix"], row["selected"]) for row in (ours, theirs)]
        if ours["selected"] != theirs["selected"] and abs(gaps[0] - gaps[1]) > TOLERANCE:
            found.append(f"{ours['problem'][:20]}: {ours['selected']}, not {theirs['selected']}")
    return found


def _smallest(matrix: Any, chosen: Sequence[int]) -> float:
    return min(float(matrix[i, j]) for i, j in itertools.combinations(chosen, 2))
