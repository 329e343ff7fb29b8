"""The protocol that every summarizer follows (Sec. 3.1, stage 1 of the paper), and what they share.

`extractive.py` works without a language model, `chat_summarizer.py` asks one, `summarizers.py`
knows them by name.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rpd_metric.errors import PluginError
from rpd_metric.plugins import border

MIN_STEPS = 3
MAX_STEPS = 5


@dataclass(frozen=True)
class Summary:
    """The steps of one solution, or the [`~rpd_metric.reasons.Reason`] why there are none."""

    steps: tuple[str, ...]
    reason: str | None = None
    detail: str | None = None  # one line for a person about the failure
    # Whether a first reply could not be used.
    asked_again: bool = field(default=False, compare=False, repr=False)

    @property
    def ok(self) -> bool:
        """Whether there is at least one step."""
        return self.reason is None and bool(self.steps)


class Summarizer(Protocol):
    """Turns solutions of one problem into steps.

    `name` is the spec that made it, for cards and reports; `fingerprint` changes whenever the
    same solution could give other steps (algorithm version, prompt hash, model, sampling).
    One solution's failure is a `Summary` with a reason, never an exception.
    """

    name: str
    fingerprint: str

    async def summarize(self, problem: str | None, solutions: Sequence[str]) -> list[Summary]:
        """Extract the steps of each solution, in order."""
        ...


async def summaries_of(
    summarizer: Summarizer, problem: str | None, solutions: Sequence[str]
) -> list[Summary]:
    """The summaries of a summarizer, held to its contract.

    Raises:
        [`PluginError`]: It failed, or did not return one [`Summary`] for each solution.
    """
    what = f"the summarizer {summarizer.name!r}"
    with border(what, summarizer):
        summaries = list(await summarizer.summarize(problem, solutions))
    if len(summaries) != len(solutions):
        raise PluginError(f"{what} returned {len(summaries)} summaries for {len(solutions)} texts")
    for summary in summaries:
        steps = summary.steps if isinstance(summary, Summary) else None
        if not isinstance(steps, tuple | list) or not all(isinstance(step, str) for step in steps):
            raise PluginError(
                f"{what} returned {summary!r:.80}; it must return Summary((step, ...))"
            )
    return summaries
