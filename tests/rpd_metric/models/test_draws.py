"""Draws of tokens: from the distribution, repeatable, and blind to what else is in the batch."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from rpd_metric.models.draws import GREEDY, draw, request_key, token_key

torch = pytest.importorskip("torch")


def test_tokens_come_as_often_as_their_probabilities_say() -> None:
    shares = np.array([0.5, 0.3, 0.15, 0.05])
    scores = torch.tensor(np.log(shares)).repeat(20_000, 1)
    keys = torch.tensor([token_key(request_key(seed, [1, 2]), 0) for seed in range(20_000)])
    counts = np.bincount(draw(scores, keys).numpy(), minlength=4)
    assert chisquare(counts, 20_000 * shares).pvalue > 0.001
    # And from one position to the next within one reply.
    key = request_key(0, [1, 2])
    keys = torch.tensor([token_key(key, place) for place in range(20_000)])
    counts = np.bincount(draw(scores, keys).numpy(), minlength=4)
    assert chisquare(counts, 20_000 * shares).pvalue > 0.001


def test_a_row_is_drawn_alike_wherever_it_stands() -> None:
    scores = torch.randn(6, 1000, generator=torch.Generator().manual_seed(0))
    keys = torch.arange(100, 106)
    together = draw(scores, keys)
    order = torch.tensor([4, 1, 5, 0, 3, 2])
    assert torch.equal(draw(scores[order], keys[order]), together[order])
    assert [int(draw(scores[[n]], keys[[n]])) for n in range(6)] == together.tolist()
    assert draw(scores, keys + 1000).tolist() != together.tolist()


def test_tokens_that_cannot_be_are_never_drawn_and_greedy_draws_nothing() -> None:
    scores = torch.full((5000, 8), -torch.inf)
    scores[:, 3], scores[:, 5] = 0.0, 0.5
    drawn = draw(scores, torch.arange(5000))
    assert set(drawn.tolist()) == {3, 5}
    assert set(draw(scores, torch.full((5000,), GREEDY)).tolist()) == {5}


def test_problems_that_share_a_seed_do_not_share_draws() -> None:
    assert request_key(0, [1, 2, 3]) != request_key(0, [1, 2, 4])
    assert request_key(0, [1, 2, 3]) != request_key(1, [1, 2, 3])
    assert token_key(GREEDY, 5) == GREEDY
