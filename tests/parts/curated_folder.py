"""A curated folder as `rpd curate` writes it, with any texts in it, without a model."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parts.rows import write_rows
from rpd_datasets.curation.parquet import column_types, write_table
from rpd_datasets.options import MANIFEST_FORMAT
from rpd_datasets.problem import Rejected
from rpd_metric.distance.core import mean_pairwise, none_for_nan, problem_score
from rpd_metric.measure import step_matrices

PLAN = "Compare both sides of the equation."
STEPS = [
    ["Set up two equations.", "Subtract them.", "Solve for the rest."],
    ["Draw the figure.", "Compare areas."],
    ["Guess a pattern.", "Prove it by induction.", PLAN],
    [PLAN, "Count both ways."],
]


class HashEmbedder:
    """Vectors that depend on the text alone: equal texts are equal, others far apart."""

    def __init__(self, name: str = "hash") -> None:
        self.name = name

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        digests = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
        rows = [np.random.default_rng(list(code)).standard_normal(16) + 0.7 for code in digests]
        return np.array(rows, dtype=np.float32).reshape(len(rows), 16)


def a_row(problem: str = "What is $1+1$?", **changes: Any) -> dict[str, Any]:
    """A row with four solutions of which the last but one was left out."""
    return {
        "problem": problem,
        "solutions": ["We add: $1+1=2$.", "A picture shows 2.", "Two", "By counting, 2."],
        "steps": [STEPS[0], STEPS[1], [], STEPS[3]],
        "selected": [3, 0],
        "drop_reasons": ["", "", "duplicate", ""],
        "num_tokens": [40, 30, 2, 35],
        **changes,
    }


def write_folder(
    folder: Path,
    rows: Sequence[dict[str, Any]],
    *,
    not_chosen: Sequence[float | None] = (),
    rejects: Sequence[Rejected] = (),
    **options: Any,
) -> Path:
    """Write a folder of chosen problems, best first, with their distances.

    `not_chosen` has the scores of other problems; `options` are the manifest's.
    """
    full, scores = [], []
    for rank, row in enumerate(rows):
        matrix = step_matrices([row["steps"]], HashEmbedder())[0]
        score = problem_score(matrix)
        full.append({**row, "rpd_matrix": none_for_nan(matrix), "rpd_score": score})
        tokens = sum(row["num_tokens"]) / len(row["num_tokens"])
        usable = row["drop_reasons"].count("")
        scores.append(_score(rank, score, mean_pairwise(matrix), usable, tokens, rank))
    for place, value in enumerate(not_chosen, start=len(rows)):
        scores.append(_score(place, value, value, 4, 100.0 + place % 7, None))
    write_rows(folder / "scores.jsonl", scores)
    write_rows(folder / "rejects.jsonl", (reject.as_row() for reject in rejects))
    write_table(full, folder / "data", *column_types(full))
    (folder / "manifest.json").write_text(json.dumps(_manifest(scores, full, options)))
    return folder


def change_manifest(folder: Path, **changes: dict[str, Any]) -> None:
    """Change entries of a manifest's parts, e.g. `embedder={"name": "minilm"}`."""
    file = folder / "manifest.json"
    manifest = json.loads(file.read_text())
    for name, entries in changes.items():
        manifest[name] = manifest.get(name, {}) | entries
    file.write_text(json.dumps(manifest))


def _score(place, score, mean, usable, tokens, rank) -> dict[str, Any]:
    return {
        **{"key": f"k{place}", "where": f"rows.jsonl:{place + 1}", "statement": "", "rank": rank},
        **{"rpd_score": score, "problem_score": None, "mean_rpd": mean, "strategies": None},
        **{"num_solutions": 4, "num_usable": usable, "mean_tokens": tokens},
    }


def _manifest(scores, rows, options) -> dict[str, Any]:
    defaults = {"problems": "rpd", "solutions": "rpd", "selection": "maxmin", "ties": "mean"}
    defaults |= {"completeness": "rules", "require_complete": True, "num_samples": None}
    defaults |= {"seed": 0, "dtype": "float32"}
    return {
        "format": MANIFEST_FORMAT,
        "input": {"name": "rows.jsonl", "layout": "grouped", "fingerprint": "f"},
        "used": {"summarizer": True, "embedder": True, "judge": False},
        "judge": None,
        "decontaminated": None,
        "rules": {"problems": "ranked", "solutions": "the furthest"},
        "outcome": {},
        "evidence": {"measured": [], "curves": []},
        "options": defaults | options,
        "summarizer": {"name": "extractive"},
        "embedder": {"name": "hash"},
        "tokenizer": {"name": "estimate", "estimated": True},
        "counts": {
            "rows_read": len(scores),
            "problems_read": len(scores),
            "solutions_read": sum(score["num_solutions"] for score in scores),
            "solutions_usable": sum(score["num_usable"] for score in scores),
            "problems_scored": sum(score["rpd_score"] is not None for score in scores),
            "problems_chosen": len(rows),
            "solutions_chosen": sum(len(row["selected"]) for row in rows),
        },
    }
