"""Text-level diversity: Self-BLEU beside sacrebleu's own, and groups."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU

from rpd_metric.distance.diversity import (
    div_self_bleu,
    strategy_groups,
)

words = st.sampled_from(["we", "factor", "the", "cubic,", "so", "x=2.", "Then", "$y^2$", "angle"])
texts = st.lists(st.lists(words, min_size=1, max_size=12).map(" ".join), min_size=2, max_size=6)


@given(texts=texts)
@settings(max_examples=150)
def test_self_bleu_is_sacrebleus_sentence_score_against_the_other_texts(texts):
    bleu = BLEU(tokenize="13a", smooth_method="exp", effective_order=True)
    scores = [
        bleu.sentence_score(text, texts[:i] + texts[i + 1 :]).score for i, text in enumerate(texts)
    ]
    assert div_self_bleu(texts) == pytest.approx(100 - np.mean(scores), abs=1e-9)


def uniform(k, value):
    return np.full((k, k), value) - value * np.eye(k)


def test_a_chain_of_small_differences_is_not_one_strategy():
    places = np.array([0.0, 0.29, 0.6, 0.88])
    matrix = np.abs(places[:, None] - places)
    assert strategy_groups(matrix, 0.35) == [0, 0, 1, 1]


def test_solutions_without_distances_belong_to_no_group():
    matrix = uniform(3, 0.6)
    matrix[1] = matrix[:, 1] = np.nan
    assert strategy_groups(matrix, 0.5) == [0, None, 1]
    assert strategy_groups(np.full((2, 2), np.nan), 0.5) == [None, None]
