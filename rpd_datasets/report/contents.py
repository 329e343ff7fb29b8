"""What a folder that `rpd curate` made holds, as far as a report needs it, in bounded memory.

All scores are read (a line each), but texts only of a sample of the chosen problems.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rpd_datasets.options import MANIFEST_FORMAT
from rpd_metric.errors import InputError

Array = npt.NDArray[np.float64]
Line = dict[str, Any]
ROWS = "data/train-00000-of-00001.parquet"
# Problems that were left out as a whole are listed with their reason, up to so many.
MAX_LEFT_OUT = 2000
SCORED = (
    *("rank", "key", "where", "rpd_score", "problem_score", "strategies", "statement"),
    *("num_solutions", "num_usable", "mean_tokens"),
)
REJECTED = ("stage", "reason", "where", "detail", "solution_index")
SHOWN = ("problem", "solutions", "steps", "selected", "drop_reasons", "num_tokens")
OWN = {*SHOWN, "rpd_matrix", "rpd_score", "problem_score", "diverse", "distance_matrix"}
OWN |= {"num_strategies", "groups_auroc"}


@dataclass(frozen=True)
class ChosenProblem:
    """One row of the curated dataset, with its line of `scores.jsonl`.

    `steps` are empty where a solution was left out, and everywhere if nothing reads steps; `rpd` is
    NaN there. `distances` are those that chose solutions, if not RPD. `extra` are the carried
    columns, `details` say in a sentence why solutions were left out.
    """

    score: Line
    problem: str
    solutions: list[str]
    steps: list[list[str]]
    rpd: Array
    distances: Array | None
    selected: list[int]
    drop_reasons: list[str]
    num_tokens: list[int]
    extra: Mapping[str, Any]
    details: Mapping[int, str]


@dataclass(frozen=True)
class CuratedFolder:
    """What a report is made from.

    `scores` are the lines of `scores.jsonl`, one for every problem in the order of the input, with
    their `score`: Eq. 3 by the distance that ranked problems, else by RPD. `shown` is the sample
    with texts, by rank. `left_out` are the first lines of `rejects.jsonl` about whole problems.
    """

    manifest: Line
    scores: list[Line]
    shown: list[ChosenProblem]
    selected_tokens: list[int]
    left_out: list[Line]
    word: str = "chosen"  # of problems and solutions: those of a log are only picked to be shown

    @property
    def chosen_by(self) -> str:
        """The name of what chose solutions: a distance, or a rule that compares nothing."""
        return str(self.manifest["options"]["solutions"])


def read_curated(folder: Path, max_problems: int) -> CuratedFolder:
    """Read a curated folder, with the texts of at most `max_problems`, spread over the ranks.

    Raises:
        [`InputError`]: The folder is not one that `rpd curate` made, or was changed since.
    """
    if max_problems < 1:
        raise InputError(f"max_problems must be >= 1, got {max_problems}")
    for name in ("manifest.json", "scores.jsonl", ROWS):
        if not (folder / name).is_file():
            raise InputError(
                f"{folder} has no {name}: name a folder that rpd curate made (its --output)"
            )
    manifest = _manifest(folder / "manifest.json")
    scores = list(_lines(folder / "scores.jsonl", SCORED, "score"))
    for line in scores:
        ranked_by = line["problem_score"]
        line["score"] = line["rpd_score"] if ranked_by is None else ranked_by
    by_rank = {line["rank"]: line for line in scores if line["rank"] is not None}
    left_out, details = _rejects(folder / "rejects.jsonl")
    sample, selected_tokens = _rows(folder / ROWS, by_rank, max_problems, details)
    return CuratedFolder(manifest, scores, sample, selected_tokens, left_out)


def spread(count: int, places: int) -> list[int]:
    """At most `places` indices into `count` things, evenly spread, first and last included.

    >>> spread(9, 3), spread(2, 5)
    ([0, 4, 8], [0, 1])
    """
    if count <= places:
        return list(range(count))
    return [place * (count - 1) // max(1, places - 1) for place in range(places)]


def _manifest(path: Path) -> Line:
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is not JSON ({error}); curate again") from None
    if not isinstance(manifest, dict) or manifest.get("format") != MANIFEST_FORMAT:
        raise InputError(f"{path} was written by another version of this package; curate again")
    return manifest


def _lines(path: Path, needed: tuple[str, ...], what: str) -> Iterator[Line]:
    """The lines of a file of `rpd curate`, each with what is needed of it."""
    with path.open(encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            try:
                line = json.loads(text)
            except ValueError:
                line = {}
            if not isinstance(line, dict) or not line.keys() >= set(needed):
                raise InputError(f"{path}:{number} is not a {what} of rpd curate; curate again")
            yield line


def _rows(
    path: Path,
    by_rank: Mapping[int, Line],
    max_problems: int,
    details: Mapping[str, Mapping[int, str]],
) -> tuple[list[ChosenProblem], list[int]]:
    """A sample of the rows, and the lengths of the chosen solutions of all of them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    ranks, sample, tokens = set(spread(len(by_rank), max_problems)), [], []
    rank = 0
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=64):
                for row in batch.select(["selected", "num_tokens"]).to_pylist():
                    tokens += [row["num_tokens"][index] for index in row["selected"]]
                in_batch = [place for place in range(len(batch)) if rank + place in ranks]
                for place, row in zip(in_batch, batch.take(in_batch).to_pylist(), strict=True):
                    score = by_rank[rank + place]
                    sample.append(_chosen(row, score, details.get(score["where"], {})))
                rank += len(batch)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise InputError(f"{path} cannot be read ({error}); curate again") from error
    if rank != len(by_rank):
        raise InputError(
            f"{path} holds {rank} problems, but scores.jsonl says that {len(by_rank)} were chosen; "
            "curate again"
        )
    return sample, tokens


def _chosen(row: Line, score: Line, details: Mapping[int, str]) -> ChosenProblem:
    distances = row.get("distance_matrix")
    return ChosenProblem(
        score=score,
        rpd=np.array(row["rpd_matrix"], dtype=np.float64),
        distances=None if distances is None else np.array(distances, dtype=np.float64),
        extra={name: value for name, value in row.items() if name not in OWN},
        details=details,
        **{name: row[name] for name in SHOWN},
    )


def _rejects(rejects: Path) -> tuple[list[Line], dict[str, dict[int, str]]]:
    """The problems that were left out as a whole, and by problem why solutions were."""
    left_out: list[Line] = []
    details: dict[str, dict[int, str]] = defaultdict(dict)
    # Reasons in words are a help: a folder may come without them.
    for line in _lines(rejects, REJECTED, "reject") if rejects.is_file() else ():
        if (index := line["solution_index"]) is not None:
            details[line["where"]][index] = line["detail"]
        elif len(left_out) < MAX_LEFT_OUT:
            left_out.append(line)
    return left_out, details
