"""Every reason has a meaning, and the documentation prints the list."""

from __future__ import annotations

from pathlib import Path

from rpd_metric.reasons import Reason


def test_the_documentation_prints_the_list() -> None:
    page = (Path(__file__).parents[2] / "docs" / "inputs.md").read_text(encoding="utf-8")
    rows = [
        f"| `{reason}` | {reason.meaning} |" + (f" `{reason.option}` |" if reason.option else " |")
        for reason in Reason
    ]
    _, _, rest = page.partition("<!-- reasons: rpd_metric/reasons.py -->\n")
    table = rest.partition("\n<!-- end of reasons -->")[0]
    assert table.splitlines() == [
        "| Reason | What it means | Brought back by |",
        "|---|---|---|",
        *rows,
    ]
    assert all(reason.meaning for reason in Reason)
