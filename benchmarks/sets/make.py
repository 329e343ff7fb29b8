"""Make the two sets that others can use, as folders for `rpd push`: `make sets`.

    python -m benchmarks.sets.make [OUTPUT]

The texts of a set are in the folder of its name; its rows are packaged (`rpd_datasets/sets`) or
beside this file, and the figures of its board are those of the documentation.
"""

import hashlib
import json
import re
import shutil
import sys
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Features
from huggingface_hub import DatasetCard, DatasetCardData

from benchmarks.machine import markdown
from rpd_datasets.publish.model_card import PLACE

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SETS = ROOT / "rpd_datasets" / "sets"
URL = f"https://huggingface.co/datasets/{PLACE}"
TYPES = {"string": "sc:Text", "int64": "sc:Integer", "bool": "sc:Boolean"}
CROISSANT = "http://mlcommons.org/croissant"
SAME = ("They use the same strategy.", "They use different strategies.")
RIGHT = ("The response is right.", "The response is wrong.")
Rows = list[dict[str, Any]]
Tables = dict[tuple[str, str], Rows]  # by config and split
Lines = list[dict[str, str]]


def read(path: Path) -> Rows:
    """The rows of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def table(page: str, head: str, columns: Sequence[int]) -> Lines:
    """Columns of the first table of a page of the documentation whose head begins so."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    match = re.search(rf"^\| {re.escape(head)}.*(?:\n\|.*)+", text, re.M)
    assert match is not None, f"docs/{page}.md has no table that begins with {head}"
    cells = [re.split(r" *\| *", line)[1:-1] for line in match[0].splitlines()]
    return [{cells[0][at]: row[at] for at in columns} for row in cells[2:]]


def labelled(row: dict[str, Any], *, both: bool) -> dict[str, Any]:
    """A problem with columns of one type each; the second labels and the steps where `both`."""
    row = dict(row)
    for names in ("methods", "reader_names"):
        if names in row:
            row[names] = [row[names][str(at)] for at in range(len(row[names]))]
    row["tests"] = json.dumps(row["tests"]) if row.get("tests") else None
    row["entry_point"] = row.get("entry_point")
    left_out = {"source", "licence"} | (set() if both else {"strategy_b"})
    return {name: value for name, value in row.items() if name not in left_out}


def question(text: str, options: Sequence[str], second: bool) -> dict[str, Any]:
    """A multiple-choice row of Inspect's tasks on the Hub."""
    return {"question": text, "options": list(options), "answer": int(second)}


def pairs(rows: Rows) -> Rows:
    """Each pair of solutions as a question."""
    ask = (
        "Two solutions of a problem use the same strategy if turning one into the other takes no "
        "new idea, whatever their words, order, notation and length. What is true of these two?"
    )
    return [
        question(
            f"{ask}\n\nProblem:\n{row['problem']}\n\nFirst solution:\n{row['solutions'][i]}\n\n"
            f"Second solution:\n{row['solutions'][j]}",
            SAME,
            row["strategy_a"][i] != row["strategy_a"][j],
        )
        for row in rows
        for i, j in combinations(range(len(row["solutions"])), 2)
    ]


def strategy_labels() -> tuple[Tables, dict[str, Lines]]:
    """The tables of the strategy labels, and those of the card."""
    written = [labelled(row, both=False) for row in read(HERE / "controlled_train.jsonl")]
    controlled = [labelled(row, both=True) for row in read(SETS / "controlled.jsonl")]
    # Every seventh problem was held back when `taught` was taught (benchmarks/teach.py).
    tables = {
        ("default", "train"): [row for at, row in enumerate(written) if at % 7],
        ("default", "test"): written[::7],
        ("controlled", "test"): controlled,
    }
    uses = ("teaching a distance", "measuring", "measuring, harder")
    lines: Lines = []
    for ((config, split), rows), use in zip(tables.items(), uses, strict=True):
        differ = [row["answer"] for row in pairs(rows)]
        counts = f"{sum(differ):,} / {len(differ) - sum(differ):,}"
        line = {"config": f"`{config}`", "split": f"`{split}`", "problems": f"{len(rows)}"}
        steps = "given" if "steps" in rows[0] else "none"
        lines.append({**line, "pairs": counts, "steps": steps, "use": use})
    tables["pairs", "test"] = pairs(written[::7])
    tables["controlled_pairs", "test"] = pairs(controlled)
    return tables, {
        "splits": lines,
        "auroc": table("distances", "distance | needs", (0, 1, 4)),
        "held-back": table("distances", "distance | 62", (0, 1)),
        "triples": table("distances", "chosen by", (0, 3)),
    }


def grading_pairs() -> tuple[Tables, dict[str, Lines]]:
    """The tables of the grading pairs, and those of the card."""
    rows = read(SETS / "answer_pairs.jsonl")
    half = {"test": "held-out", "train": "open"}
    tables: Tables = {
        ("default", split): [
            {name: value for name, value in row.items() if name != "half"}
            for row in rows
            if row["half"] == name_of
        ]
        for split, name_of in half.items()
    }
    lines: Lines = []
    for (_, split), of_split in tables.items():
        right = sum(row["right"] for row in of_split)
        counts = {"right": f"{right}", "wrong": f"{len(of_split) - right}"}
        use = "measuring graders" if split == "test" else "mending graders"
        lines.append({"split": f"`{split}`", "pairs": f"{len(of_split)}", **counts, "use": use})
    ask = "Does the final answer of the response equal the reference answer?"
    tables["judge", "test"] = [
        question(
            f"{ask}\n\nReference answer: {row['reference']}\n\nResponse:\n{row['response']}",
            RIGHT,
            not row["right"],
        )
        for row in tables["default", "test"]
    ]
    board = table("grading", "form | right", range(6))
    return tables, {
        "splits": lines,
        "board": board,
        "rules": table("grading", "Form | Equal", range(3)),
    }


def croissant(name: str, about: dict[str, Any], files: dict[str, tuple[bytes, pa.Schema]]) -> Any:
    """The metadata of a set in Croissant 1.1, with the fields of responsible AI."""
    objects, records = [], []
    for path, (content, schema) in files.items():
        digest = hashlib.sha256(content).hexdigest()
        place = {"contentUrl": f"{URL}/resolve/main/{path}", "sha256": digest}
        kind = {"@type": "cr:FileObject", "@id": path, "name": path}
        objects.append({**kind, **place, "encodingFormat": "application/x-parquet"})
        part = path.removesuffix("-00000-of-00001.parquet")
        fields = [_field(part, path, column) for column in schema]
        records.append({"@type": "cr:RecordSet", "@id": part, "name": part, "field": fields})
    return {
        # As mlcroissant writes it, with the terms of provenance.
        "@context": json.loads((HERE / "context.json").read_text(encoding="utf-8")),
        "@type": "sc:Dataset",
        "name": name,
        "conformsTo": [f"{CROISSANT}/1.1", f"{CROISSANT}/RAI/1.0"],
        "license": "https://creativecommons.org/publicdomain/zero/1.0/",
        "url": URL,
        "creator": {"@type": "sc:Organization", "name": "The rpd-metric authors"},
        "citeAs": f"The rpd-metric authors: {name} {about['version']}, {URL}",
        "isLiveDataset": False,
        **about,
        "distribution": objects,
        "recordSet": records,
    }


def _field(part: str, path: str, column: pa.Field) -> dict[str, Any]:
    kind, depth = column.type, 0
    while pa.types.is_list(kind):
        kind, depth = kind.value_type, depth + 1
    name = {"@type": "cr:Field", "@id": f"{part}/{column.name}", "name": column.name}
    array = {"isArray": True, "arrayShape": ",".join(["-1"] * depth)} if depth else {}
    source = {"fileObject": {"@id": path}, "extract": {"column": column.name}}
    return {**name, "dataType": TYPES[str(kind)], **array, "source": source}


def write(folder: Path, tables: Tables, lines: dict[str, Lines]) -> None:
    """Write one set: data, card, licence, Croissant, tasks, board, loading code, manifest."""
    texts = HERE / folder.name
    about = json.loads((texts / "about.json").read_text(encoding="utf-8"))
    shutil.rmtree(folder, ignore_errors=True)
    files: dict[str, tuple[bytes, pa.Schema]] = {}
    counts: dict[str, int] = {}
    configs: dict[str, dict[str, Any]] = {}
    for (config, split), rows in tables.items():
        place = "data" if config == "default" else config
        path = f"{place}/{split}-00000-of-00001.parquet"
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        content = pa.Table.from_pylist(rows)
        pq.write_table(content, folder / path, compression="zstd")
        files[path] = (folder / path).read_bytes(), content.schema
        features = Features.from_arrow_schema(content.schema)._to_yaml_list()
        first = {"config_name": config, "features": features, "splits": [], "data_files": []}
        entry = configs.setdefault(config, first)
        counts[path] = len(rows)
        sizes = {"num_bytes": content.nbytes, "num_examples": len(rows)}
        entry["splits"].append({"name": split, **sizes})
        entry["data_files"].append({"split": split, "path": f"{place}/{split}-*.parquet"})
    info = [{k: v for k, v in entry.items() if k != "data_files"} for entry in configs.values()]
    parts = [{k: entry[k] for k in ("config_name", "data_files")} for entry in configs.values()]
    data = DatasetCardData(**about["card"], configs=parts, dataset_info=info)
    body = (texts / "README.md").read_text(encoding="utf-8")
    for name, rows_of in lines.items():
        shown = markdown(rows_of)
        # The head of the splits is the card's own.
        shown = "\n".join(shown.splitlines()[2:]) if name == "splits" else shown
        body = body.replace(f"<!-- {name} -->", shown)
    DatasetCard(f"---\n{data}\n---\n\n{body}").save(folder / "README.md")
    shutil.copy(HERE / "LICENSE", folder / "LICENSE")
    for name in ("eval.yaml", "load.py"):
        shutil.copy(texts / name, folder / name)
    made = {"made_by": "make sets", "rows": counts}
    for name, value in {
        "board.json": {name: rows for name, rows in lines.items() if name != "splits"},
        "croissant.json": croissant(folder.name, about["croissant"], files),
        "manifest.json": made,
    }.items():
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        (folder / name).write_text(text, encoding="utf-8")


def make(output: Path) -> list[Path]:
    """Write both folders."""
    folders = [output / "strategy-labels", output / "grading-pairs"]
    for folder, tables in zip(folders, (strategy_labels, grading_pairs), strict=True):
        write(folder, *tables())
    return folders


if __name__ == "__main__":
    for folder in make(Path((sys.argv[1:] or ["sets"])[0])):
        print(f"{folder} is ready: rpd push {folder} --dry-run")
