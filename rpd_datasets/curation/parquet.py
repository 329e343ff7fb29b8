"""The tables of a curated folder: chosen problems, training rows made from them, all scores.

One Arrow schema holds for all Parquet files of a table, whatever the input carried. A column that
is carried along gets the type that holds all its values, and is stored as JSON text, which loses
nothing, where they have no type in common.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.outcome import RunSummary, TableInfo
from rpd_datasets.curation.scoring import Scored, choice_columns
from rpd_datasets.problem import Problem
from rpd_datasets.sft import sft_messages

SFT_CONFIG = "sft"
ROWS_PER_GROUP = 64
BYTES_PER_SHARD = 500 * 1024**2

# A chosen problem, its scores, and the indices of its chosen solutions in order of choice.
Chosen = tuple[Problem, Scored, list[int]]


def write_tables(
    chosen: Callable[[], Iterable[Chosen]],
    config: CurationConfig,
    summary: RunSummary,
    folder: Path,
) -> None:
    """Write the chosen problems best first, and the training rows made from them.

    The summary gets what the tables hold: columns, rows, bytes. `chosen` is called twice, for the
    types and for the rows.
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


@dataclass(frozen=True)
class ColumnTypes:
    """The Arrow schema of a table, and which of its columns hold values as JSON text."""

    schema: Any
    json_columns: list[str]

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> ColumnTypes:
        """The types that hold all rows; reads them once, a few at a time."""
        import pyarrow as pa

        own = {
            "problem": pa.string(),
            "solutions": pa.list_(pa.string()),
            "steps": pa.list_(pa.list_(pa.string())),
            "rpd_matrix": pa.list_(pa.list_(pa.float64())),
            "rpd_score": pa.float64(),
            "selected": pa.list_(pa.int64()),
            "drop_reasons": pa.list_(pa.string()),
            "num_tokens": pa.list_(pa.int64()),
        }
        types: dict[str, Any] = {}
        as_json: dict[str, None] = {}
        iterator = iter(rows)
        while chunk := list(islice(iterator, ROWS_PER_GROUP)):
            for name in dict.fromkeys(name for row in chunk for name in row):
                if name in own or name in as_json:
                    continue
                try:
                    found = pa.array([row.get(name) for row in chunk]).type
                    both = [pa.schema([("x", one)]) for one in (types.get(name, pa.null()), found)]
                    common = pa.unify_schemas(both, promote_options="permissive")
                    types[name] = common.field("x").type
                except (pa.ArrowException, OverflowError):
                    as_json[name] = None
        carried = {
            name: pa.string() if name in as_json else types[name]
            for name in dict.fromkeys([*types, *as_json])
        }
        return cls(pa.schema((own | carried).items()), list(as_json))

    @classmethod
    def sft(cls) -> ColumnTypes:
        """The types of conversational prompt-completion rows."""
        import pyarrow as pa

        turns = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
        return cls(pa.schema([("prompt", turns), ("completion", turns)]), [])


class ShardWriter:
    """Writes rows as `train-00000-of-00001.parquet` and so on; the count is known at the end.

    A new file begins after so many bytes in memory; `num_bytes` is the size of all rows.
    """

    def __init__(
        self, folder: Path, types: ColumnTypes, bytes_per_shard: int = BYTES_PER_SHARD
    ) -> None:
        folder.mkdir(parents=True)
        self.schema = types.schema
        self.num_bytes = 0
        self._folder = folder
        self._json_columns = types.json_columns
        self._bytes_per_shard = bytes_per_shard
        self._rows: list[dict[str, Any]] = []
        self._shards: list[Path] = []
        self._writer: Any = None
        self._written = 0

    def write(self, row: Mapping[str, Any]) -> None:
        """Add one row."""
        as_json = {
            name: json.dumps(row.get(name), ensure_ascii=False, default=str)
            for name in self._json_columns
        }
        self._rows.append({**row, **as_json})
        if len(self._rows) == ROWS_PER_GROUP:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_pylist(self._rows, schema=self.schema)
        self._rows = []
        if self._writer is None:
            self._shards.append(self._folder / f"shard-{len(self._shards):05d}")
            self._writer, self._written = pq.ParquetWriter(self._shards[-1], self.schema), 0
        self._writer.write_table(table)
        self._written += table.nbytes
        self.num_bytes += table.nbytes
        if self._written >= self._bytes_per_shard:
            self._close_shard()

    def _close_shard(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and (self._rows or not self._shards):
            self._flush()
        self._close_shard()
        for index, shard in enumerate(self._shards if kind is None else ()):
            name = f"train-{index:05d}-of-{len(self._shards):05d}.parquet"
            shard.rename(self._folder / name)
