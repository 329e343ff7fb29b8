"""Tokens drawn by the seed of each request, whatever else is in the batch.

PyTorch's generator is one for all rows of a batch: a request's tokens then depend on its place and
on its neighbours. Here a token's draw is a function of the request's seed, its prompt, the position
in its reply and the token's number alone, computed by a hash on whatever device the scores are on.
The token with the largest log-probability minus log of an exponential draw is one drawn from the
distribution (the Gumbel trick), so the choice itself needs no generator.

What remains of the batch is the last digits of the scores: near-ties may fall otherwise.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_32_BITS = 0xFFFFFFFF
# Of greedy decoding: no draw, the largest score is taken.
GREEDY = -1


def request_key(seed: int, prompt: Sequence[int]) -> int:
    """What a request's draws start from: 31 bits out of its seed and its prompt's tokens.

    The prompt takes part, since requests about many problems share a seed: their draws would
    otherwise be the same, and the problems' results not independent.
    """
    return zlib.crc32(repr((seed, list(prompt))).encode()) >> 1


def token_key(key: int, position: int) -> int:
    """What the draws of one token start from: 31 bits, or [`GREEDY`].

    Args:
        key (`int`): See [`request_key`], or [`GREEDY`].
        position (`int`): Of the token in the reply, from 0.
    """
    if key == GREEDY:
        return GREEDY
    return zlib.crc32(position.to_bytes(8, "little"), key) >> 1


def draw(scores: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Draw one token for each row.

    Args:
        scores (`torch.Tensor` of shape `(rows, vocabulary)`): Log-probabilities up to a constant,
            `-inf` for tokens that cannot be.
        keys (`torch.Tensor` of shape `(rows,)`): Integers, see [`token_key`].

    Returns:
        `torch.Tensor` of shape `(rows,)`: The tokens' numbers.
    """
    import torch

    keys = keys.to(torch.int64).unsqueeze(-1)
    tokens = torch.arange(scores.shape[-1], device=scores.device, dtype=torch.int64)
    mixed = _hash(_hash(keys & _32_BITS) ^ tokens)
    # In (0, 1); small values, which decide, are exact enough in 32 bits of a float.
    uniform = (mixed.to(torch.float32) + 0.5) / 2.0**32
    waited = torch.log(-torch.log1p(-uniform))
    noise = torch.where(keys == GREEDY, torch.zeros_like(waited), waited)
    return torch.argmax(scores.float() - noise, dim=-1)


def _hash(x: Any) -> Any:
    """The finishing step of MurmurHash3: 32 bits, each of which depends on all that went in."""
    x = x ^ (x >> 16)
    x = (x * 0x85EBCA6B) & _32_BITS
    x = x ^ (x >> 13)
    x = (x * 0xC2B2AE35) & _32_BITS
    return x ^ (x >> 16)
