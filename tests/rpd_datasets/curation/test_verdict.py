"""A word on a run, and the reason for it."""

from __future__ import annotations

import numpy as np
import pytest

from rpd_datasets.curation.verdict import FEW, GOOD, HARDLY, UNKNOWN, verdict


@pytest.mark.parametrize(
    ("gain", "spread", "problems", "word"),
    [
        (0.20, 0.05, 30, GOOD),
        (0.015, 0.01, 300, HARDLY),  # surely larger than nothing, and next to nothing
        (0.10, 0.40, 8, HARDLY),  # too few problems to tell
        (-0.1, 0.05, 30, HARDLY),
        (0.20, 0.05, 1, HARDLY),
    ],
)
def test_a_choice_is_good_where_it_surely_and_clearly_beats_a_draw(gain, spread, problems, word):
    rng = np.random.default_rng(1)
    drawn = rng.uniform(0.3, 0.4, problems)
    noise = rng.normal(0, spread, problems)
    chosen = np.clip(drawn + gain + noise - noise.mean(), 0, 2)
    found = verdict(list(zip(chosen, drawn, strict=True)), "rpd", usable=9, read=9)
    assert found["word"] == word
    assert f"{chosen.mean():.3f} rpd among the chosen" in found["reason"]
    low, high = map(float, found["reason"].partition("[")[2].rstrip("]").split(", "))
    assert low <= (chosen - drawn).mean() + 5e-4
    assert high >= (chosen - drawn).mean() - 5e-4


def test_warnings_too_few_solutions_and_nothing_to_compare_have_words_of_their_own():
    pairs = [(2.6, 2.0), (2.5, 2.1), (2.8, 2.0)] * 4
    assert verdict(pairs, "strategies", usable=5, read=9)["word"] == GOOD
    warned = verdict(pairs, "strategies", usable=5, read=9, warned=True)
    assert warned["word"] == "good, with warnings"
    few = verdict(pairs, "strategies", usable=4, read=9, left_out="no_steps (5)")
    assert few == {"word": FEW, "reason": "4 of 9 could be used; left out: no_steps (5)"}
    assert verdict([], "rpd", usable=9, read=9)["word"] == UNKNOWN
