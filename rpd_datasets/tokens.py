"""Counting tokens, with a real tokenizer or with an offline estimate that says it is one.

The estimate splits text by the published rule of the Qwen2/Qwen3 tokenizer (every digit alone, a
word with the space or backslash before it, runs of punctuation, line breaks). A piece is at least
one token; long words, long runs of symbols and letters outside ASCII count as more. It is meant for
limits such as "at most 14,000 tokens", and ignores chat templates.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from rpd_metric.errors import MissingExtraError, SpecError, first_line


def _patterns(letter: str, symbol: str, other: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Pieces by the rule of Qwen2's tokenizer in the words of `re`, and long runs of symbols.

    `other` is what is no letter, no digit and ends no line.
    """
    pieces = (
        "'(?:[stmdSTMD]|re|ve|ll|RE|VE|LL|Re|Ve|Ll)",
        rf"{other}?{letter}+",
        r"\d",
        rf" ?{symbol}+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
    return re.compile("|".join(pieces)), re.compile(symbol + "{3,}")


ANY_TEXT = _patterns(r"[^\W\d_]", r"(?:[^\s\w]|_)", r"(?:[^\r\n\w]|_)")
# The same where all is ASCII: plain classes take half the time.
ASCII_TEXT = _patterns("[A-Za-z]", r"[^\t-\r\x1c- 0-9A-Za-z]", r"[^\r\n0-9A-Za-z]")
# What is usually more than one token: each match costs tokens beyond the one of its piece.
LONG_WORD = re.compile("[A-Za-z]{11,}")
FOREIGN = re.compile(r"[^\W\d_A-Za-z]{2,}")
WORD_LETTERS = 10
SYMBOLS = 3
FOREIGN_LETTERS = 1.6


@dataclass(frozen=True)
class TokenCounter:
    """Counts the tokens of a text."""

    name: str
    estimated: bool
    count: Callable[[str], int]

    def __call__(self, text: str) -> int:
        """The number of tokens."""
        return self.count(text)


def token_counter(spec: str) -> TokenCounter:
    """A counter by name: `"estimate"` (offline), or a tokenizer's Hub id or folder.

    Raises:
        MissingExtraError: `transformers` is not installed.
        SpecError: No tokenizer can be loaded by that name.

    >>> count = token_counter("estimate")
    >>> count("The answer is 42."), count.estimated
    (7, True)
    """
    if spec == "estimate":
        return TokenCounter(spec, True, estimate_tokens)
    try:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(spec)
    except ImportError as error:
        missing = MissingExtraError(f"tokenizer={spec!r}", extra="local", module="transformers")
        raise missing from error
    except (OSError, ValueError) as error:
        raise SpecError(
            f"No tokenizer can be loaded as {spec!r}: {first_line(error)} "
            'Name a Hub id, a folder that holds a tokenizer, or "estimate".'
        ) from error

    def count(text: str) -> int:
        # verbose=False: a text longer than the model's context is what is being looked for.
        return len(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    return TokenCounter(spec, False, count)


def estimate_tokens(text: str) -> int:
    """Estimate how many Qwen2/Qwen3 tokens a text has; coarser for scripts other than Latin."""
    pieces, long_symbols = ASCII_TEXT if text.isascii() else ANY_TEXT
    count = len(pieces.findall(text))
    count += sum((len(word) - 1) // WORD_LETTERS for word in LONG_WORD.findall(text))
    count += sum(len(run) // SYMBOLS for run in long_symbols.findall(text))
    if text.isascii():
        return count
    return count + sum(int(len(run) / FOREIGN_LETTERS) - 1 for run in FOREIGN.findall(text))


def text_tail(
    text: str, tokens: int, count_tokens: TokenCounter, counted: int | None = None
) -> str:
    """About the last `tokens` tokens of a text; `counted` is the whole text's number, if known."""
    # Seven characters a token is more than any prose has, so this holds enough, at little cost.
    end = text[-7 * tokens :]
    if counted is None or len(end) < len(text):
        counted = count_tokens(end)
    if counted <= tokens:
        return end
    return end[-max(1, len(end) * tokens // counted) :]
