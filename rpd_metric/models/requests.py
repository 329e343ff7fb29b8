"""How requests to a chat model are sent, what one can cost at most, and what a run spends."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rpd_metric.errors import InputError, check_least
from rpd_metric.models.chat import ChatReply, ChatRequest
from rpd_metric.models.failures import BudgetSpent, ServerError

# Fewer characters a token than in any text this project sends: an estimate on the safe side.
CHARACTERS_PER_TOKEN = 2.0
# More than in any prose or code: a server that counts fewer tokens in a text is not believed.
MOST_CHARACTERS_PER_TOKEN = 8.0
# How often attempts that may have been paid for are repeated: those that timed out, and replies
# that could not be read; together as often as the latter.
TIMEOUT_RETRIES = 1
UNREADABLE_RETRIES = 2


def _option(default: Any, about: str, metavar: str = "N") -> Any:
    """A field whose help the commands show."""
    return field(default=default, metadata={"help": about, "metavar": metavar})


@dataclass(frozen=True)
class RequestOptions:
    """How requests to a chat model are sent."""

    timeout: float = _option(600.0, "seconds for one attempt at a request", "SECONDS")
    max_in_flight: int | None = _option(
        None, "requests at once, at most (default: what the server says that it takes, else 64)"
    )
    longest_reply: int | None = _option(
        None,
        "tokens with which a reply that was cut off is asked for once more (default: twice "
        "--max-tokens; 0: never)",
    )
    max_retries: int = _option(
        9,
        "times that a failed attempt is repeated; one that timed out once, one whose reply cannot "
        "be read twice at most",
    )
    keep_going: bool = field(
        default=False,
        metadata={"help": "ask on where no reply can be used, or request after request fails"},
    )
    max_requests: int | None = _option(None, "stop after so many requests")
    max_output_tokens: int | None = _option(None, "stop before so many new tokens are passed")
    max_cost: float | None = _option(
        None, "stop before this cost is passed; needs the prices", "COST"
    )
    price_in: float = _option(0.0, "for a million prompt tokens", "PRICE")
    price_out: float = _option(0.0, "for a million new tokens", "PRICE")

    def __post_init__(self) -> None:
        if self.max_cost is not None and not self.priced:
            raise InputError(
                "{max_cost} needs {price_in} and {price_out}, for 1M tokens",
                option=("max_cost", "price_in", "price_out"),
            )
        if self.timeout <= 0:
            raise InputError(f"{{timeout}} must be > 0, got {self.timeout:g}", option="timeout")
        check_least(1, self, "max_in_flight")
        check_least(0, self, "longest_reply", "max_retries")

    @property
    def priced(self) -> bool:
        """Whether there are prices."""
        return self.price_in > 0 or self.price_out > 0

    def cost(self, prompt_tokens: float, new_tokens: float) -> float:
        """What tokens cost at these prices."""
        return (prompt_tokens * self.price_in + new_tokens * self.price_out) / 1e6

    def longer(self, max_tokens: int) -> int:
        """The tokens with which a cut reply is asked for once more, if they are more."""
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

        All attempts may fail, and the reply may then be cut and asked for once more.
        """
        attempts = 1 + min(self.max_retries, UNREADABLE_RETRIES)
        longer = self.longer(max_tokens)
        extended = longer > max_tokens
        return WorstCase(
            requests * (attempts * max_tokens + extended * longer), requests * (attempts + extended)
        )


class WorstCase(NamedTuple):
    """A bound on new tokens, and on attempts, each of which sends its prompt."""

    tokens: int
    attempts: int


class Share(NamedTuple):
    """The most tokens that an attempt can take, and the characters of its prompt."""

    prompt: int
    new: int
    characters: int


class Spending:
    """A hard limit on what is spent; several flows may share one.

    Before an attempt the most that it can cost is set aside; then what it did cost takes its place.
    """

    def __init__(self, options: RequestOptions) -> None:
        self.options = options
        self.sent = self.written = 0
        self.spent = 0.0
        self.aside: list[Share] = []

    def take(self, request: ChatRequest) -> Share | None:
        """Set the tokens aside that an attempt can take; `None`: there is no room."""
        characters = sum(len(message["content"]) for message in request.messages)
        prompt = int(characters // CHARACTERS_PER_TOKEN) + 1
        share = Share(prompt, request.sampling.max_tokens, characters)
        sent, written, _ = map(sum, zip(*self.aside, share, strict=True))
        spent = self.options.cost(sent, written)
        for used, most in (
            (self.sent + 1, self.options.max_requests),
            (self.written + written, self.options.max_output_tokens),
            (self.spent + spent, self.options.max_cost),
        ):
            if most is not None and used > most:
                return None
        self.sent += 1
        self.aside.append(share)
        return share

    def resend(self) -> None:
        """Count one more send of an attempt, such as a redirect's hop. Raises [`BudgetSpent`]."""
        if self.sent == self.options.max_requests:
            raise self.used_up()
        self.sent += 1

    def settle(self, share: Share, reply: ChatReply | None, *, charged: bool = True) -> None:
        """Note what an attempt took: all that was set aside, unless a reply credibly says less."""
        self.aside.remove(share)
        if not charged:
            return
        prompt, tokens, characters = share
        if reply is not None:
            prompt = _credible(reply.prompt_tokens, characters, prompt)
            length = len(reply.text) + len(reply.reasoning or "")
            tokens = _credible(reply.completion_tokens, length, tokens)
        self.written += tokens
        self.spent += self.options.cost(prompt, tokens)

    def used_up(self) -> BudgetSpent:
        """The error that ends the run."""
        more = "replies so far are kept: run the same command with a larger budget to continue"
        return BudgetSpent(f"the budget is spent: {self.summary()}; {more}")

    def summary(self) -> str:
        """What was spent, in a few words."""
        most = self.options.max_cost
        money = f" and {self.spent:.2f} of {most:g}" if most is not None else ""
        return f"{self.sent:,} requests, {self.written:,} new tokens{money}"


def _credible(count: int | None, characters: int, most: int) -> int:
    """A server's count of tokens; the most that there can be if so much text takes more.

    >>> _credible(60, 300, 2048), _credible(0, 300, 2048), _credible(None, 300, 2048)
    (60, 2048, 2048)
    """
    least = max(1, characters // MOST_CHARACTERS_PER_TOKEN)
    return most if count is None or count < least else count
