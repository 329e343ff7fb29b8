"""Drawing the paper's pool: seeded, whatever the order of the rows, each problem whole."""

from __future__ import annotations

import json
from pathlib import Path

from parts.recipe_scripts import script

ROWS = [
    {"problem": f"Problem {n}?", "solutions": [f"{n}a.", f"{n}b."], "domain": "math", "id": n}
    for n in range(40)
]


def drawn(tmp_path: Path, rows: list[dict], *more: str) -> set[int]:
    source, output = tmp_path / "rows.jsonl", tmp_path / "pool.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    output.unlink(missing_ok=True)
    script("pool").main([str(source), "--output", str(output), *more])
    found = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert all(row in rows for row in found), "each with all its solutions and columns"
    return {row["id"] for row in found}


def test_a_seed_draws_the_same_problems_whatever_their_order(tmp_path, capsys):
    first = drawn(tmp_path, ROWS, "--num-problems", "10")
    assert len(first) == 10
    assert drawn(tmp_path, ROWS[::-1], "--num-problems", "10") == first
    assert drawn(tmp_path, ROWS, "--num-problems", "10", "--seed", "1") != first
    assert drawn(tmp_path, ROWS, "--num-problems", "20") > first
    assert "drew 20 of 40 problems with seed 0" in capsys.readouterr().err


def test_only_and_exactly_count_what_they_leave_out(tmp_path, capsys):
    rows = [*ROWS, {**ROWS[0], "problem": "Code?", "domain": "code"}]
    rows.append({"problem": "Single?", "solutions": ["x."], "domain": "math", "id": 99})
    assert drawn(tmp_path, rows, "--only", "domain=math", "--exactly", "2") == set(range(40))
    assert "drew 40 of 40 problems" in capsys.readouterr().err
