"""What a folder that `rpd curate` made holds, as far as a report needs it, in bounded memory.

All scores are read (a line each), but texts only of a sample of the chosen problems, and of the
rejects file only a few examples per reason. Nothing is computed here but the counts of what was
left out, stage by stage.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rpd_metric.arrays import nan_for_none
from rpd_metric.errors import InputError

Array = npt.NDArray[np.float64]
EXAMPLES_PER_REASON = 3
# Problems that were left out as a whole are listed with their reason, up to so many.
MAX_LEFT_OUT = 2000
SCORED = ("rank", "key", "where", "mean_rpd", "num_solutions", "num_usable", "mean_tokens")
SHOWN = ("problem", "solutions", "steps", "selected", "drop_reasons", "num_tokens")
OWN = {*SHOWN, "rpd_matrix", "rpd_score", "problem_score", "diverse", "distance_matrix"}


@dataclass(frozen=True)
class Score:
    """One line of `scores.jsonl`.

    `rank` is that of a chosen problem, 0 for the first; `key` names the problem whatever its
    position, `where` says where it stood. `score` is Eq. 3 by the distance that ranked problems,
    else by RPD; `strategies` the effective number among the usable solutions.
    """

    rank: int | None
    key: str
    where: str
    score: float | None
    mean_rpd: float | None
    num_solutions: int
    num_usable: int
    mean_tokens: float
    statement: str = ""
    strategies: float | None = None


@dataclass(frozen=True)
class Drop:
    """What was left out for one reason, with the first few examples, each in one line."""

    stage: str
    reason: str
    unit: str
    count: int
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class LeftOut:
    """A problem that was left out as a whole: where it stands, its text, and why."""

    where: str
    problem: str | None
    reason: str
    detail: str


@dataclass(frozen=True)
class ChosenProblem:
    """One row of the curated dataset, with its line of `scores.jsonl`.

    `steps` are empty where a solution was left out, and everywhere if nothing reads steps; `rpd` is
    NaN there. `distances` are those that chose solutions, if not RPD. `extra` are the carried
    columns, `details` say in a sentence why solutions were left out.
    """

    score: Score
    problem: str
    solutions: list[str]
    steps: list[list[str]]
    rpd: Array
    distances: Array | None
    selected: list[int]
    drop_reasons: list[str]
    num_tokens: list[int]
    extra: Mapping[str, Any]
    details: Mapping[int, str] = field(default_factory=dict)

    @property
    def usable(self) -> list[int]:
        """Indices of the solutions that were not left out."""
        return [index for index, reason in enumerate(self.drop_reasons) if not reason]


@dataclass(frozen=True)
class CuratedFolder:
    """What a report is made from.

    `scores` are those of every problem, in the order of the input, `shown` the sample with texts,
    by rank. `left_out` are problems that were left out, the first ones.
    """

    manifest: dict[str, Any]
    scores: list[Score]
    shown: list[ChosenProblem]
    selected_tokens: list[int]
    drops: list[Drop]
    left_out: list[LeftOut] = field(default_factory=list)

    @property
    def chosen_by(self) -> str:
        """The name of what chose solutions: a distance, or a rule that compares nothing."""
        return str(self.manifest["options"].get("solutions", "rpd"))


def read_curated(folder: Path, max_problems: int) -> CuratedFolder:
    """Read a curated folder.

    Args:
        folder (`Path`): As `rpd curate` made it.
        max_problems (`int`): Chosen problems to read the texts of, spread evenly over the ranks.

    Raises:
        [`InputError`]: The folder is not one that `rpd curate` made, or was changed since.
    """
    if max_problems < 1:
        raise InputError(f"max_problems is {max_problems}; it must be 1 or more")
    shards = sorted((folder / "data").glob("train-*.parquet"))
    for name in ("manifest.json", "scores.jsonl", "data/train-*.parquet"):
        if not any(folder.glob(name)):
            raise InputError(
                f"{folder} has no {name}: name a folder that rpd curate made (its --output)"
            )
    manifest = _manifest(folder / "manifest.json")
    scores = list(_scores(folder / "scores.jsonl"))
    by_rank = {score.rank: score for score in scores if score.rank is not None}
    wanted = set(spread(len(by_rank), max_problems))
    shown, selected_tokens = _rows(shards, by_rank, wanted)
    drops, left_out, details = _drops(manifest, folder / "rejects.jsonl")
    shown = [replace(row, details=details.get(row.score.where, {})) for row in shown]
    return CuratedFolder(manifest, scores, shown, selected_tokens, drops, left_out)


def spread(count: int, wanted: int) -> list[int]:
    """At most `wanted` indices into `count` things, evenly spread, first and last included.

    >>> spread(9, 3), spread(2, 5)
    ([0, 4, 8], [0, 1])
    """
    if count <= wanted:
        return list(range(count))
    if wanted == 1:
        return [0]
    return [place * (count - 1) // (wanted - 1) for place in range(wanted)]


def _manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is not JSON ({error}); curate again") from None
    if not isinstance(manifest, dict) or manifest.get("format") != 1:
        raise InputError(f"{path} was written by another version of this package; curate again")
    return manifest


def _scores(path: Path) -> Iterator[Score]:
    for number, line in enumerate(_lines(path), 1):
        try:
            row = json.loads(line)
            ranked_by = row.get("problem_score")
            yield Score(
                score=row["rpd_score"] if ranked_by is None else ranked_by,
                statement=row.get("statement", ""),
                strategies=row.get("strategies"),
                **{name: row[name] for name in SCORED},
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(
                f"{path}:{number} is no score as rpd curate writes them; curate again"
            ) from None


def _rows(
    shards: list[Path], by_rank: Mapping[int, Score], wanted: set[int]
) -> tuple[list[ChosenProblem], list[int]]:
    """The wanted rows, and the lengths of the chosen solutions of all rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    shown, tokens = [], []
    rank = 0
    for shard in shards:
        try:
            with pq.ParquetFile(shard) as file:
                for group in range(file.num_row_groups):
                    lengths = file.read_row_group(group, ["selected", "num_tokens"]).to_pylist()
                    for row in lengths:
                        tokens += [row["num_tokens"][index] for index in row["selected"]]
                    here = [r for r in range(rank, rank + len(lengths)) if r in wanted]
                    if here:  # texts are most of a file: only what is shown of them is read
                        table = file.read_row_group(group)
                        rows = table.take([found - rank for found in here]).to_pylist()
                        for found, row in zip(here, rows, strict=True):
                            shown.append(_chosen(row, by_rank[found]))
                    rank += len(lengths)
        except (pa.ArrowException, OSError, KeyError) as error:
            raise InputError(f"{shard} cannot be read ({error}); curate again") from error
    if rank != len(by_rank):
        raise InputError(
            f"{shards[0].parent} holds {rank} problems, but scores.jsonl says that {len(by_rank)} "
            "were chosen; curate again"
        )
    return shown, tokens


def _chosen(row: dict[str, Any], score: Score) -> ChosenProblem:
    distances = row.get("distance_matrix")
    return ChosenProblem(
        score=score,
        rpd=nan_for_none(row["rpd_matrix"]),
        distances=None if distances is None else nan_for_none(distances),
        extra={name: value for name, value in row.items() if name not in OWN},
        **{name: row[name] for name in SHOWN},
    )


def _drops(
    manifest: Mapping[str, Any], rejects: Path
) -> tuple[list[Drop], list[LeftOut], dict[str, dict[int, str]]]:
    """The drops with examples, the problems left out, and by problem why solutions were."""
    counts = {
        (drop["stage"], drop["reason"], drop["unit"]): drop["count"] for drop in manifest["drops"]
    }
    examples: dict[tuple[str, str, str], list[str]] = {key: [] for key in counts}
    left_out: list[LeftOut] = []
    details: dict[str, dict[int, str]] = {}
    # Reasons in words are a help, the counts are the result: a folder may come without rejects.
    for number, line in enumerate(_lines(rejects) if counts and rejects.is_file() else (), 1):
        try:
            row = json.loads(line)
            index, where, detail = row["solution_index"], row["where"], row["detail"]
            unit = "problem" if index is None else "solution"
            found = examples.get((row["stage"], row["reason"], unit))
            if index is not None:
                details.setdefault(where, {})[index] = detail
            elif len(left_out) < MAX_LEFT_OUT:
                left_out.append(LeftOut(where, row.get("problem"), row["reason"], detail))
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"{rejects}:{number} is no reject as rpd curate writes them; curate again, or "
                "delete the file"
            ) from None
        if found is not None and len(found) < EXAMPLES_PER_REASON:
            place = where if index is None else f"{where}, solution {index}"
            found.append(f"{place}: {detail}")
    drops = [Drop(*key, count, tuple(examples[key])) for key, count in counts.items()]
    return drops, left_out, details


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        yield from file


@dataclass(frozen=True)
class Level:
    """One line of a funnel: how many are left, or with a `drop` how many left and why."""

    label: str
    count: int
    share: float
    drop: Drop | None = None


def funnel(folder: CuratedFolder, unit: Literal["problem", "solution"]) -> list[Level]:
    """What is left after each stage and what left in between, in order and without zeros."""
    counts = folder.manifest["counts"]
    read, chosen = counts[f"{unit}s_read"], counts[f"{unit}s_chosen"]
    drops = [drop for drop in folder.drops if drop.unit == unit]
    on_reading = [drop for drop in drops if drop.stage in ("read", "group")]
    at_choice = [drop for drop in drops if drop.stage == "select"]
    between = [drop for drop in drops if drop not in (*on_reading, *at_choice)]
    compared = read - sum(drop.count for drop in between)
    stages: list[tuple[str, int] | Drop] = [*on_reading, (f"{unit}s read", read), *between]
    if unit == "problem" and on_reading:
        stages.insert(0, ("rows read", counts["rows_read"]))
    if unit == "solution":
        # Solutions of a problem that goes as a whole have no record of their own.
        with_problem = compared - counts["solutions_usable"]
        compared = counts["solutions_usable"]
        stages.append(Drop("filter", "problem_left_out", unit, with_problem))
        stages.append(("solutions compared", compared))
    elif counts["problems_scored"]:  # nothing is scored where problems are drawn
        compared = counts["problems_scored"]
        stages.append(("problems scored", compared))
    rest = max(0, compared - sum(drop.count for drop in at_choice) - chosen)
    stages += [*at_choice, Drop("select", "not_chosen", unit, rest), (f"{unit}s chosen", chosen)]
    total = max(1, read, counts["rows_read"] if unit == "problem" else 0)
    levels = []
    for one in stages:
        if isinstance(one, Drop):
            name, share = one.reason.replace("_", " "), 100 * one.count / total
            levels += [Level(name, one.count, share, one)] if one.count else []
        else:
            levels.append(Level(one[0], one[1], 100 * one[1] / total))
    return levels
