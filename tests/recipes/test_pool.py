"""Drawing the paper's pool: seeded, whatever the order of the rows, each problem whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parts.recipe_scripts import script
from rpd_metric.errors import InputError

ROWS = [
    {"problem": f"Problem {n}?", "solutions": [f"{n}a.", f"{n}b."], "domain": "math", "id": n}
    for n in range(40)
]


def drawn(tmp_path: Path, rows: list[dict], *more: str) -> list[dict]:
    source, output = tmp_path / "rows.jsonl", tmp_path / "pool.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    script("pool").main([str(source), "--output", str(output), *more])
    return [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]


def ids(rows: list[dict]) -> set[int]:
    return {row["id"] for row in rows}


def test_a_seed_draws_the_same_problems_whatever_their_order(tmp_path, capsys):
    first = drawn(tmp_path, ROWS, "--num-problems", "10")
    assert len(first) == 10
    assert all(row in ROWS for row in first), "each with all its solutions and columns"
    assert ids(drawn(tmp_path, ROWS[::-1], "--num-problems", "10")) == ids(first)
    assert ids(drawn(tmp_path, ROWS, "--num-problems", "10", "--seed", "1")) != ids(first)
    assert ids(drawn(tmp_path, ROWS, "--num-problems", "20")) > ids(first)
    assert "drew 20 of 40 problems with seed 0" in capsys.readouterr().err


def test_only_and_exactly_count_what_they_leave_out(tmp_path, capsys):
    rows = [*ROWS, {**ROWS[0], "problem": "Code?", "domain": "code"}]
    rows.append({"problem": "Single?", "solutions": ["x."], "domain": "math", "id": 99})
    found = drawn(tmp_path, rows, "--only", "domain=math", "--exactly", "2")
    assert ids(found) == set(range(40))
    assert "drew 40 of 40 problems" in capsys.readouterr().err


def test_a_wrong_option_is_refused_by_name(tmp_path):
    with pytest.raises(InputError, match="COLUMN=VALUE"):
        drawn(tmp_path, ROWS, "--only", "domain")
    with pytest.raises(InputError, match="num-problems"):
        drawn(tmp_path, ROWS, "--num-problems", "0")
