"""How requests to a chat model are sent, and the most that one of them can cost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from rpd_metric.errors import InputError
from rpd_metric.models.failures import ServerError
from rpd_metric.models.spending import Spending

# Failed attempts that may have been paid for are repeated so often: those that timed out, and
# replies that could not be read. Together they are repeated as often as the latter.
TIMEOUT_RETRIES = 1
UNREADABLE_RETRIES = 2


@dataclass(frozen=True)
class RequestOptions:
    """How requests to a chat model are sent; the help of the commands is made from the fields."""

    timeout: float = field(
        default=600.0,
        metadata={"help": "seconds for one attempt at a request", "metavar": "SECONDS"},
    )
    max_in_flight: int | None = field(
        default=None,
        metadata={
            "help": "requests at once, at most (default: what the server says that it takes, "
            "else 64)",
            "metavar": "N",
        },
    )
    longest_reply: int | None = field(
        default=None,
        metadata={
            "help": "tokens with which a reply that was cut off is asked for once more (default: "
            "twice --max-tokens; 0: never)",
            "metavar": "N",
        },
    )
    max_retries: int = field(
        default=9,
        metadata={
            "help": "times that a failed attempt is repeated; one that timed out once, one whose "
            "reply cannot be read twice at most",
            "metavar": "N",
        },
    )
    keep_going: bool = field(
        default=False,
        metadata={"help": "ask on where no reply can be used, or request after request fails"},
    )
    max_requests: int | None = field(
        default=None, metadata={"help": "stop after so many requests", "metavar": "N"}
    )
    max_output_tokens: int | None = field(
        default=None, metadata={"help": "stop before so many new tokens are passed", "metavar": "N"}
    )
    max_cost: float | None = field(
        default=None,
        metadata={"help": "stop before this cost is passed; needs the prices", "metavar": "COST"},
    )
    price_in: float = field(
        default=0.0, metadata={"help": "for a million prompt tokens", "metavar": "PRICE"}
    )
    price_out: float = field(
        default=0.0, metadata={"help": "for a million new tokens", "metavar": "PRICE"}
    )

    def __post_init__(self) -> None:
        if self.max_cost is not None and not self.priced:
            raise InputError("max_cost needs prices: --price-in and --price-out, for 1M tokens")
        if self.timeout <= 0:
            raise InputError(f"timeout is {self.timeout:g} s; it must be above 0")
        for name, least in (("max_in_flight", 1), ("longest_reply", 0), ("max_retries", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name} is {value}; it must be {least} or more")

    def spending(self) -> Spending:
        """What the run may spend."""
        return Spending(
            self.max_requests, self.max_output_tokens, self.max_cost, self.price_in, self.price_out
        )

    @property
    def priced(self) -> bool:
        """Whether there are prices."""
        return self.price_in > 0 or self.price_out > 0

    def cost(self, prompt_tokens: float, new_tokens: float) -> float:
        """What tokens cost at these prices.

        >>> RequestOptions(price_in=0.1, price_out=0.4).cost(1_000_000, 500_000)
        0.3
        """
        return self.spending().price(prompt_tokens, new_tokens)

    def longer(self, max_tokens: int) -> int:
        """The tokens with which a cut reply is asked for once more; not above `max_tokens`: never.

        >>> RequestOptions().longer(300), RequestOptions(longest_reply=0).longer(300)
        (600, 0)
        """
        return 2 * max_tokens if self.longest_reply is None else self.longest_reply

    def repeats(self, failure: ServerError, failed: Counter[str]) -> bool:
        """Whether a failed attempt is repeated, given how many failed so far, by kind."""
        return (
            failure.retryable
            and failed.total() <= self.max_retries
            and failed["timeout"] <= TIMEOUT_RETRIES
            and failed["timeout"] + failed["protocol"] <= UNREADABLE_RETRIES
        )

    def worst_case(self, max_tokens: int, requests: int = 1) -> WorstCase:
        """The most that the replies to some requests can cost, whatever the model does.

        Replies may be unreadable until no attempt is left that may be repeated, and the reply may
        then be cut and asked for once more, with one attempt.

        Args:
            max_tokens (`int`): The limit of each request.
            requests (`int`): How many; a summary that is repaired takes two.

        >>> RequestOptions(timeout=60.0).worst_case(300, requests=2)
        WorstCase(tokens=3000, attempts=8, seconds=480.0)
        """
        attempts = 1 + min(self.max_retries, UNREADABLE_RETRIES)
        longer = self.longer(max_tokens)
        extended = longer > max_tokens
        return WorstCase(
            requests * (attempts * max_tokens + extended * longer),
            requests * (attempts + extended),
            requests * (attempts + extended) * self.timeout,
        )


@dataclass(frozen=True)
class WorstCase:
    """A bound on what replies cost.

    Args:
        tokens (`int`): New tokens.
        attempts (`int`): Requests that are sent, each with its prompt.
        seconds (`float`): On the way to the server and back; waits for other requests not counted.
    """

    tokens: int
    attempts: int
    seconds: float
