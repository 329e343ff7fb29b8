"""The tables of a curated folder: chosen problems, training rows made from them, all scores.

Which problems are chosen, and where their parts are kept until then, is `run.py`; columns, types
and files of Parquet are `parquet.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.parquet import ColumnTypes, ShardWriter
from rpd_datasets.curation.run_summary import RunSummary, TableInfo
from rpd_datasets.curation.scored import Scored
from rpd_datasets.curation.scoring import choice_columns, sft_messages
from rpd_datasets.problem import Problem

SFT_CONFIG = "sft"

# A chosen problem, its scores, and the indices of its chosen solutions in order of choice.
Chosen = tuple[Problem, Scored, list[int]]


def write_tables(
    chosen: Callable[[], Iterable[Chosen]],
    config: CurationConfig,
    summary: RunSummary,
    folder: Path,
) -> None:
    """Write the chosen problems best first, and the training rows made from them.

    Args:
        chosen (`Callable`): Gives the chosen problems; called twice, for the types and the rows.
        config ([`CurationConfig`]): The options.
        summary ([`RunSummary`]): Gets what the tables hold: columns, rows, bytes.
        folder (`Path`): Where the tables' folders are made.
    """

    def rows() -> Iterator[dict[str, Any]]:
        for problem, scored, selected in chosen():
            yield {
                **_kept_names(problem.extra, config),
                "problem": problem.problem,
                "solutions": list(problem.solutions),
                "steps": scored.steps,
                "rpd_matrix": scored.matrix,
                "rpd_score": scored.score,
                "selected": selected,
                "drop_reasons": scored.drop_reasons,
                "num_tokens": scored.num_tokens,
                **choice_columns(scored, len(problem.solutions), config),
            }

    types = ColumnTypes.of(rows())
    summary.json_columns = types.json_columns
    with (
        ShardWriter(folder / "data", types) as curated,
        ShardWriter(folder / SFT_CONFIG, ColumnTypes.sft()) as sft,
    ):
        for row in rows():
            curated.write(row)
            summary.num_selected += len(row["selected"])
            for index in row["selected"]:
                summary.selected_tokens.append(row["num_tokens"][index])
                prompt, completion = sft_messages(row["problem"], row["solutions"][index])
                sft.write({"prompt": prompt, "completion": completion})
    summary.tables = {
        "default": TableInfo(curated.schema, len(summary.chosen), curated.num_bytes),
        SFT_CONFIG: TableInfo(sft.schema, summary.num_selected, sft.num_bytes),
    }


def _kept_names(extra: Mapping[str, Any], config: CurationConfig) -> dict[str, Any]:
    """The input's other columns; those that are called like a new one, under another name."""
    taken = {"steps", "rpd_matrix", "rpd_score", "selected", "drop_reasons", "num_tokens"}
    taken |= set(choice_columns(None, 0, config))
    return {f"original_{name}" if name in taken else name: extra[name] for name in extra}


def write_scores(summary: RunSummary, path: Path) -> None:
    """Write the score of every problem that was read, with its rank where it was chosen."""
    place = {index: place for place, index in enumerate(summary.chosen)}
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for index, score in enumerate(summary.scores):
            # Not asdict, which would copy what is written at once.
            file.write(json.dumps({**vars(score), "rank": place.get(index)}) + "\n")
