"""A hard limit on what a run may spend with a chat model: requests, new tokens, money.

Before an attempt is sent, the most that it can cost is set aside; when it has ended, what it did
cost takes that place. So the limit is never passed, whatever is in flight. What a prompt costs is
estimated until the server has counted its tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rpd_metric.models.chat import ChatReply, ChatRequest

# Fewer characters a token than in any text this project sends: an estimate on the safe side.
CHARACTERS_PER_TOKEN = 2.0


@dataclass
class Spending:
    """What may be spent, and what is; several flows may share one.

    Args:
        requests (`int`, *optional*): Attempts at requests.
        output_tokens (`int`, *optional*): New tokens.
        cost (`float`, *optional*): In the currency of the prices.
        price_in, price_out (`float`): For a million prompt tokens, and new tokens.
    """

    requests: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    price_in: float = 0.0
    price_out: float = 0.0
    sent: int = 0
    written: int = 0
    spent: float = 0.0
    _aside: list[tuple[int, float]] = field(default_factory=list, repr=False)

    @property
    def waiting(self) -> bool:
        """Whether something is set aside: it may yet turn out to be more than was needed."""
        return bool(self._aside)

    def take(self, request: ChatRequest) -> tuple[int, float] | None:
        """Set the tokens and the price aside that an attempt can cost; `None`: there is no room."""
        tokens = request.sampling.max_tokens
        characters = sum(len(message["content"]) for message in request.messages)
        share = tokens, self.price(int(characters / CHARACTERS_PER_TOKEN) + 1, tokens)
        limits = (self.requests, self.output_tokens, self.cost)
        if any(limit is not None for limit in limits):
            aside = [*self._aside, share]
            written = self.written + sum(tokens for tokens, _ in aside)
            spent = self.spent + sum(price for _, price in aside)
            for most, used in zip(limits, (self.sent + 1, written, spent), strict=True):
                if most is not None and used > most:
                    return None
        self.sent += 1
        self._aside.append(share)
        return share

    def settle(self, share: tuple[int, float], reply: ChatReply | None) -> None:
        """Note what an attempt did cost: all that was set aside, where no reply says otherwise."""
        self._aside.remove(share)
        tokens, price = share
        if reply is not None and reply.completion_tokens is not None:
            tokens = reply.completion_tokens
            if reply.prompt_tokens is not None:
                price = self.price(reply.prompt_tokens, tokens)
        self.written += tokens
        self.spent += price

    def said(self) -> str:
        """What was spent, in a few words."""
        money = f" and {self.spent:.2f} of {self.cost:g}" if self.cost is not None else ""
        return f"{self.sent:,} requests, {self.written:,} new tokens{money}"

    def price(self, prompt: float, new: float) -> float:
        """What so many prompt and new tokens cost."""
        return (prompt * self.price_in + new * self.price_out) / 1e6
