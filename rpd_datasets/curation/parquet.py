"""The tables of a curated folder: chosen problems, training rows made from them, all scores.

One Arrow schema holds for all Parquet files of a table, whatever the input carried. A column that
is carried along gets the type that holds all its values, and is stored as JSON text, which loses
nothing, where they have no type in common.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.scoring import COLUMNS, Scored, row_columns
from rpd_datasets.curation.summary import RunSummary, TableInfo
from rpd_datasets.messages import TRAJECTORIES, trajectories_of
from rpd_datasets.problem import Problem
from rpd_datasets.sft import message_features, training_rows

SFT_CONFIG = "sft"
FOLDERS = {"default": "data", SFT_CONFIG: SFT_CONFIG}  # of each configuration
SHARD = "train-00000-of-00001.parquet"
ROWS_PER_GROUP = 64

# A chosen problem, its scores, and the indices of its chosen solutions in order of choice.
Chosen = tuple[Problem, Scored, list[int]]


def write_tables(
    chosen: Callable[[], Iterable[Chosen]],
    config: CurationConfig,
    summary: RunSummary,
    folder: Path,
) -> None:
    """Write the chosen problems best first, and the training rows made from them.

    `chosen` is called for the types and for the rows of each table, so that none are held. The
    summary gets what the tables hold: columns, rows, bytes.
    """

    def rows() -> Iterator[dict[str, Any]]:
        for problem, scored, selected in chosen():
            new = row_columns(scored, selected, config)
            # A column of the input that is called like a new one gets another name.
            row = {
                f"original_{name}" if name in new else name: value
                for name, value in problem.extra.items()
            }
            yield row | {"problem": problem.problem, "solutions": [*problem.solutions], **new}

    def training() -> Iterator[dict[str, Any]]:
        for problem, scored, selected in chosen():
            yield from training_rows(
                *(problem.problem, problem.solutions, selected),
                *(scored.strategies, scored.strategy_names),
                trajectories_of(problem.extra, problem.problem, problem.solutions),
            )

    schema, summary.json_columns = column_types(rows())
    summary.tables = {
        "default": write_table(rows(), folder / FOLDERS["default"], schema, summary.json_columns),
        SFT_CONFIG: write_training_rows(
            training,
            folder / FOLDERS[SFT_CONFIG],
            config,
            has_messages=TRAJECTORIES in schema.names,
        ),
    }


def write_training_rows(
    rows: Callable[[], Iterable[dict[str, Any]]],
    folder: Path,
    config: CurationConfig,
    *,
    has_messages: bool,
) -> TableInfo:
    """Write training rows; `has_messages`: whole ones, with calls of tools, as JSON values."""
    import pyarrow as pa

    turns = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
    columns = [("prompt", turns), ("completion", turns)]
    strategy = [("strategy", pa.string())] * config.asks_groups
    if not has_messages:
        return write_table(rows(), folder, pa.schema(columns + strategy))
    features = message_features(tools=any(row.get("tools") for row in rows()))
    if config.asks_groups:
        from datasets import Value

        features["strategy"] = Value("string")
    messages = [name for name in features if name != "strategy"]

    def texts() -> Iterator[dict[str, Any]]:
        for row in rows():
            values = {name: row.get(name) for name in messages}
            yield row | {name: list(map(json.dumps, v)) for name, v in values.items() if v}

    stored = pa.schema([(name, pa.list_(pa.string())) for name in messages] + strategy)
    return write_table(texts(), folder, features.arrow_schema, stored=stored)


def write_scores(summary: RunSummary, path: Path) -> None:
    """Write the score of every problem that was read, with its rank where it was chosen."""
    place = {index: place for place, index in enumerate(summary.chosen)}
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for index, score in enumerate(summary.scores):
            # Not asdict, which would copy what is written at once.
            file.write(json.dumps({**vars(score), "rank": place.get(index)}) + "\n")


def column_types(rows: Iterable[Mapping[str, Any]]) -> tuple[Any, list[str]]:
    """The Arrow schema that holds all rows, and which columns hold their values as JSON text.

    Rows are read once, a few at a time.
    """
    import pyarrow as pa

    fixed = {"problem": pa.string(), "solutions": pa.list_(pa.string())}
    for name, column in COLUMNS.items():
        if column.arrow:
            fixed[name] = getattr(pa, column.arrow)()
            for _ in range(column.depth):
                fixed[name] = pa.list_(fixed[name])
    types: dict[str, Any] = {}
    as_json: dict[str, Any] = {}
    iterator, names = iter(rows), set[str]()
    while chunk := list(islice(iterator, ROWS_PER_GROUP)):
        for name in dict.fromkeys(name for row in chunk for name in row):
            names.add(name)
            if name in fixed or name in as_json:
                continue
            try:
                kinds = types.get(name, pa.null()), pa.array([row.get(name) for row in chunk]).type
                schemas = [pa.schema([("x", kind)]) for kind in kinds]
                common = pa.unify_schemas(schemas, promote_options="permissive")
                types[name] = common.field("x").type
            except (pa.ArrowException, OverflowError):
                as_json[name] = pa.string()
    # Columns that the options do not call for are in no row.
    fixed = {name: kind for name, kind in fixed.items() if name in names}
    return pa.schema((fixed | types | as_json).items()), list(as_json)


def write_table(
    rows: Iterable[dict[str, Any]],
    folder: Path,
    schema: Any,
    json_columns: Sequence[str] = (),
    *,
    stored: Any = None,
) -> TableInfo:
    """Write rows as one file, a group of a few at a time.

    Pages end where their content says so, and are indexed: the Hub stores only what a new version
    changes, and its viewer reads only the rows that it shows. `stored` is the schema of the rows
    if Arrow does not convert them to `schema` by itself.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    num_rows = num_bytes = 0
    iterator = iter(rows)
    for_the_hub = {"use_content_defined_chunking": True, "write_page_index": True}
    file = folder / SHARD
    with pq.ParquetWriter(file, schema, **for_the_hub) as writer:
        while chunk := list(islice(iterator, ROWS_PER_GROUP)):
            for row, name in product(chunk, json_columns):
                row[name] = json.dumps(row.get(name), ensure_ascii=False, default=str)
            table = pa.Table.from_pylist(chunk, schema=stored or schema)
            table = table.cast(schema) if stored else table
            writer.write_table(table)
            num_rows += len(chunk)
            num_bytes += table.nbytes
    return TableInfo(schema, num_rows, num_bytes)
