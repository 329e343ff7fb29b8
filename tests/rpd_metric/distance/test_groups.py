"""Text-level diversity: Self-BLEU, and groups."""

import numpy as np
import pytest

from rpd_metric.distance.groups import div_self_bleu, strategy_groups


def test_self_bleu_is_0_for_equal_texts_and_100_for_texts_without_a_common_word():
    cubic, other = "we factor the cubic, so x = 2", "draw every angle"
    assert div_self_bleu([cubic, cubic, " "]) == pytest.approx(0)
    assert div_self_bleu([cubic, other]) == 100
    assert 0 < div_self_bleu([cubic, cubic + " or 3", other]) < 100
    assert div_self_bleu([cubic, ""]) is None


def test_a_chain_of_small_differences_is_not_one_strategy():
    places = np.array([0.0, 0.29, 0.6, 0.88])
    matrix = np.abs(places[:, None] - places)
    assert strategy_groups(matrix, 0.35) == [0, 0, 1, 1]
    # Solutions without distances belong to no group.
    matrix[1] = matrix[:, 1] = np.nan
    assert strategy_groups(matrix, 0.35) == [0, None, 1, 1]
    assert strategy_groups(np.full((2, 2), np.nan), 0.5) == [None, None]
