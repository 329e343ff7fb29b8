"""Programs in a solution: found without a fence, cut where their author cut them."""

from __future__ import annotations

import pytest

from rpd_metric.steps.passages import passages
from rpd_metric.steps.program import blocks, fenced

PROGRAM = "def double(x):\n    # twice\n    return 2 * x"


@pytest.mark.parametrize(
    "program",
    [
        PROGRAM,
        "    total = 0\n    for x in xs:\n        total += x\n    return total",
        "import math\nprint(math.pi)",
        "class A:\n    x = 1",
        "    return sorted(set(xs))",
    ],
)
def test_a_program_without_a_fence_keeps_its_lines(program: str) -> None:
    found = passages(f"We write it down.\n{program}\nThat is all.")
    assert [p.text for p in found] == ["We write it down.", f"```\n{program}\n```", "That is all."]
    assert found[1].kind == "code"


@pytest.mark.parametrize(
    "text",
    [
        "We add:\nx = 2 + 3\ny = x + 1\nso y = 6.",
        "if n is even:\nthen n = 2k.\nfor all k in S:\nit holds.",
        "Return to the first case.\n    x = 3\n    y = 4",
        "[asy]\nimport graph;\nreal f(real x) {\n  if (x < 1) {\n    return(x);\n  }\n}\n[/asy]",
        "```python\ndef f(x):\n    return x\n```",
        "from 1 to 10:\n    1, 2, 3",
    ],
)
def test_mathematics_prose_drawings_and_fences_are_left_alone(text: str) -> None:
    assert fenced(text) == text


def test_a_long_block_is_cut_at_free_lines_and_comments_and_loses_nothing() -> None:
    body = "\n\n".join(
        f"    # part {n}\n" + "\n".join(f"    x{n}{i} = {i}" for i in range(5)) for n in range(3)
    )
    code = f"```python\ndef f():\n{body}\n```"
    found = blocks(code)
    assert len(found) == 3
    assert all(part.startswith("```python\n") and part.endswith("\n```") for part in found)
    lines = [line for part in found for line in part.split("\n")[1:-1] if line.strip()]
    assert lines == [line for line in code.split("\n")[1:-1] if line.strip()]
