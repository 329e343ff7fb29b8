"""Every reason has a meaning, which the documentation prints."""

from __future__ import annotations

from rpd_metric.reasons import Reason


def test_every_reason_has_a_meaning() -> None:
    assert all(reason.meaning for reason in Reason)
