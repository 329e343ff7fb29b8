"""A hard limit on what a run may spend with a chat model: requests, new tokens, money.

Before an attempt is sent, the most that it can cost is set aside; when it has ended, what it did
cost takes that place. So the limit is never passed, whatever is in flight. What a prompt costs is
estimated until the server has counted its tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rpd_metric.models.chat import ChatReply, ChatRequest

# Fewer characters a token than in any text this project sends: an estimate on the safe side.
CHARACTERS_PER_TOKEN = 2.0


@dataclass
class Spending:
    """What may be spent, and what is.

    Args:
        requests (`int`, *optional*): Attempts at requests.
        output_tokens (`int`, *optional*): New tokens.
        cost (`float`, *optional*): In the currency of the prices.
        price_in, price_out (`float`): For a million prompt tokens, and new tokens.

    Several flows may share one; `on_settled` are called whenever something that was set aside is
    free again.
    """

    requests: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    price_in: float = 0.0
    price_out: float = 0.0
    sent: int = 0
    written: int = 0
    spent: float = 0.0
    on_settled: dict[int, Callable[[], object]] = field(default_factory=dict, repr=False)
    _aside: dict[int, tuple[int, float]] = field(default_factory=dict)
    _next: int = 0

    @property
    def limited(self) -> bool:
        """Whether there is any limit."""
        return any(limit is not None for limit in (self.requests, self.output_tokens, self.cost))

    @property
    def waiting(self) -> bool:
        """Whether something is set aside: it may yet turn out to be more than was needed."""
        return bool(self._aside)

    def take(self, request: ChatRequest) -> int | None:
        """Set the most that an attempt can cost aside.

        Returns:
            `int`, *optional*: What to [`settle`] it by; `None` where there is no room.
        """
        tokens = request.sampling.max_tokens
        characters = sum(len(message["content"]) for message in request.messages)
        price = self.price(int(characters / CHARACTERS_PER_TOKEN) + 1, tokens)
        aside: Sequence[float] = (0, 0.0)
        if self._aside and (self.output_tokens is not None or self.cost is not None):
            aside = [sum(column) for column in zip(*self._aside.values(), strict=True)]
        if self.requests is not None and self.sent + 1 > self.requests:
            return None
        if self.output_tokens is not None and self.written + aside[0] + tokens > self.output_tokens:
            return None
        if self.cost is not None and self.spent + aside[1] + price > self.cost:
            return None
        self.sent += 1
        self._next += 1
        self._aside[self._next] = (tokens, price)
        return self._next

    def settle(self, number: int, reply: ChatReply | None) -> None:
        """Note what an attempt did cost: all that was set aside, where no reply says otherwise."""
        tokens, price = self._aside.pop(number)
        if reply is not None and reply.completion_tokens is not None:
            tokens = reply.completion_tokens
            if reply.prompt_tokens is not None:
                price = self.price(reply.prompt_tokens, tokens)
        self.written += tokens
        self.spent += price
        for call in self.on_settled.values():
            call()

    def said(self) -> str:
        """What was spent, in a few words."""
        money = f" and {self.spent:.2f} of {self.cost:g}" if self.cost is not None else ""
        return f"{self.sent:,} requests, {self.written:,} new tokens{money}"

    def price(self, prompt: float, new: float) -> float:
        """What so many prompt and new tokens cost."""
        return (prompt * self.price_in + new * self.price_out) / 1e6
