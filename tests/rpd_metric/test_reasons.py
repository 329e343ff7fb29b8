"""Every reason has a meaning, and the documentation prints the list."""

from __future__ import annotations

from pathlib import Path

from rpd_metric.reasons import Reason, table


def test_the_documentation_prints_the_list() -> None:
    page = (Path(__file__).parents[2] / "docs" / "inputs.md").read_text(encoding="utf-8")
    _, _, rest = page.partition("<!-- reasons: python -m rpd_metric.reasons -->\n")
    assert rest.partition("\n<!-- end of reasons -->")[0] == table()
    assert all(reason.meaning for reason in Reason)
