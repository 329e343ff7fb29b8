"""Drawing the paper's pool: seeded, whatever the order of the rows, each problem whole."""

import subprocess
import sys
from pathlib import Path

from parts.recipe_scripts import RECIPES, script
from parts.rows import read_lines, write_rows

ROWS = [
    {"problem": f"Problem {n}?", "solutions": [f"{n}a.", f"{n}b."], "domain": "math", "id": n}
    for n in range(40)
]


def drawn(tmp_path: Path, rows: list[dict], *more: str) -> set[int]:
    source, output = write_rows(tmp_path / "rows.jsonl", rows), tmp_path / "pool.jsonl"
    output.unlink(missing_ok=True)
    script("pool").main([str(source), "--output", str(output), *more])
    pool = read_lines(output)
    assert all(row in rows for row in pool), "each with all its solutions and columns"
    return {row["id"] for row in pool}


def test_a_seed_draws_the_same_problems_whatever_their_order(tmp_path, capsys):
    first = drawn(tmp_path, ROWS, "--num-problems", "10")
    assert len(first) == 10
    assert drawn(tmp_path, ROWS[::-1], "--num-problems", "10") == first
    assert drawn(tmp_path, ROWS, "--num-problems", "10", "--seed", "1") != first
    assert drawn(tmp_path, ROWS, "--num-problems", "20") > first
    assert "drew 20 of 40 problems with seed 0" in capsys.readouterr().err


def test_a_wrong_option_is_named_as_it_is_typed(tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", ROWS)
    line = [sys.executable, RECIPES / "pool.py", rows, "--only", "x", "--output", tmp_path / "out"]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.stderr.startswith("recipes/pool.py: --only 'x' is not of the form COLUMN=VALUE\n")


def test_only_and_exactly_count_what_they_leave_out(tmp_path, capsys):
    rows = [*ROWS, {**ROWS[0], "problem": "Code?", "domain": "code"}]
    rows.append({"problem": "Single?", "solutions": ["x."], "domain": "math", "id": 99})
    assert drawn(tmp_path, rows, "--only", "domain=math", "--exactly", "2") == set(range(40))
    assert "drew 40 of 40 problems" in capsys.readouterr().err
