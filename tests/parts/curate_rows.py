"""Small made-up problems, and `rpd curate` on them."""

import json
from pathlib import Path

import datasets

import parts.rows
from rpd_datasets.cli import main

VERBS = ["Factor", "Integrate", "Count", "Draw", "Substitute", "Guess", "Induct", "Reflect"]
THINGS = ["the sum", "every case", "a triangle", "the remainder", "the roots", "each term"]


def write_rows(path, num_problems=12, num_solutions=5, start=0):
    rows = []
    for n in range(start, start + num_problems):
        solutions = [
            f"{VERBS[(n + i) % 8]} {THINGS[(n * i) % 6]} first. Then {VERBS[(3 * i + n) % 8]} "
            f"{THINGS[(i + n) % 6]} with great care {i}. So the answer is {n}."
            for i in range(num_solutions)
        ]
        rows.append({"problem": f"Problem {n}", "solutions": solutions, "level": n})
    return parts.rows.write_rows(path, rows)


def curate(capsys, rows, output, *options):
    arguments = ["curate", str(rows), "--output", str(output), "--json", *map(str, options)]
    assert main(arguments) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def curated(folder):
    return datasets.load_dataset(str(folder), split="train")


def manifest(folder):
    return json.loads((Path(folder) / "manifest.json").read_text())


def rejects(folder):
    return parts.rows.read_lines(Path(folder) / "rejects.jsonl")
