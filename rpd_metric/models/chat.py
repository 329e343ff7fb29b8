"""One protocol for every chat model: an async callable, a request in, a raw reply out.

The request holds everything that decides the reply, so that a reply can be stored under it.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

# Called before each send of an attempt but the first: a redirect's hop, or a request without the
# field that a server refused. It raises where the run may send nothing more.
before_resend: ContextVar[Callable[[], None]] = ContextVar("before_resend", default=lambda: None)
# Counts the replies of a context by the model that was asked and `ChatReply.served_by`, if set.
answered_by: ContextVar[Counter[tuple[str, str, str, str]] | None] = ContextVar(
    "answered_by", default=None
)


# Where a loop is looked for.
LOOP_CHARACTERS = 4000


@dataclass(frozen=True)
class Sampling:
    """How a reply is sampled; the defaults are those of the paper's summaries."""

    temperature: float = field(default=0.1, metadata={"help": "sampling temperature; 0 is greedy"})
    top_p: float = field(default=0.95, metadata={"help": "probability mass of nucleus sampling"})
    max_tokens: int = field(
        default=2048, metadata={"help": "maximum tokens of a summary", "metavar": "N"}
    )
    seed: int | None = None
    thinking: bool = field(
        default=False, metadata={"help": "let a chat model think first, if it can"}
    )


@dataclass(frozen=True)
class ChatRequest:
    """Everything that decides a reply, apart from the model itself."""

    messages: tuple[Mapping[str, str], ...]  # {"role": ..., "content": ...} each
    sampling: Sampling = field(default_factory=Sampling)
    schema: Mapping[str, Any] | None = None  # guides decoding where the server can
    template: str = ""  # content hash of the prompt template the messages came from
    stop: tuple[str, ...] = ()  # tokens that end a reply beside the model's own


@dataclass(frozen=True)
class ChatReply:
    """A model's raw reply; tokens are as the server counted them."""

    text: str  # exactly as it came
    finish_reason: str | None = None  # "stop", or "length" when it was cut
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float | None = None  # from request to reply, where a flow asked
    cached: bool = False  # whether it came from the store
    reasoning: str | None = None  # thoughts, where the server tells them from the reply
    # Who answered: the model and its version in the server's words, and the server's host.
    model: str | None = field(default=None, compare=False)
    system_fingerprint: str | None = field(default=None, compare=False)
    host: str | None = field(default=None, compare=False)

    @property
    def served_by(self) -> tuple[str, str, str] | None:
        """Who answered; `None` where nobody recorded it."""
        source = self.model or "", self.system_fingerprint or "", self.host or ""
        return source if any(source) else None

    @property
    def only_thought(self) -> bool:
        """Whether the model thought until its limit, and wrote nothing."""
        return bool(self.reasoning) and not self.text.strip()


class Chat(Protocol):
    """A chat model. `model` names it in cards, manifests and store keys, never with a secret.

    Every call is one attempt; it raises `ServerError` and leaves retries, time limits, concurrency
    and storage to `flow.py`. Servers also have `max_concurrency`, the requests that they take at
    once (`None` where they do not say).
    """

    model: str

    async def __call__(self, request: ChatRequest) -> ChatReply:
        """Send one request. Raises [`ModelError`]."""
        ...


def judge_reply(chat: Chat, reply: ChatReply, fault: str | None = None) -> None:
    """Tell a [`~flow.Flow`] whether a reply could be used; other chat models need not know.

    `fault` says what is wrong with it; `None`: it could be used.
    """
    judge = getattr(chat, "judge_reply", None)
    if judge is not None:
        judge(reply, fault)


async def give_up(chat: Chat, why: str) -> None:
    """End the run of a [`~flow.Flow`]: going on would bring nothing."""
    end = getattr(chat, "give_up", None)
    if end is not None:
        await end(why)


def ends_in_loop(text: str) -> bool:
    """Whether a text, however long, repeats itself to its end.

    The same stretch must occur at least four times in a row and fill 200 characters.
    """
    tail = text[-LOOP_CHARACTERS:]
    # A loop has its own last characters once more one period earlier.
    probe = tail[-20:]
    at = tail.rfind(probe, 0, len(tail) - 1)
    while at >= 0:
        period = len(tail) - len(probe) - at
        length = max(200, 4 * period)
        if length > len(tail):
            return False
        end = tail[-length:]
        if end[period:] == end[:-period]:
            return True
        at = tail.rfind(probe, 0, at + len(probe) - 1)
    return False


@dataclass(frozen=True)
class ChatOptions:
    """How a chat model is loaded."""

    device: str | None = None  # of `hf:`; the first GPU, else the CPU, if unset
    dtype: str = "auto"  # of the weights of `hf:` and `vllm:`; "auto": as the model was saved
