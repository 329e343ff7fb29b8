"""Time and money are bounded, whatever a server answers."""

import re

import pytest

from parts.misbehaving import MODES, run
from rpd_metric.models import failures, patience


@pytest.fixture(autouse=True)
def quick(mode, monkeypatch):
    """Waits of a hundredth, and as little patience.

    But whole ones where a server answers beside its refusals: how often it is asked again while it
    answers would else depend on the machine.
    """
    if mode == "429 past eight at once":
        return
    for module, name, seconds in (
        (failures, "FIRST_WAIT", 0.05),
        (failures, "LONGEST_WAIT", 0.4),
        (patience, "PATIENCE", 2.5),
        (patience, "UNANSWERED", 0.6),
    ):
        monkeypatch.setattr(module, name, seconds)


@pytest.mark.parametrize("mode", MODES)
def test_a_run_ends_in_one_line_and_asks_hardly_more_than_it_needs(mode, tmp_path):
    outcome = run(mode, tmp_path, timeout=1.0 if "hang" in mode else 60.0, outage=0.5)
    assert re.search(MODES[mode][1], outcome.last_line), outcome
    assert "\n" not in outcome.last_line
    assert ".." not in outcome.last_line.replace("...", "")
    assert outcome.requests <= 1.1 * outcome.distinct + 32, outcome
    assert outcome.paid_twice <= 60, outcome
