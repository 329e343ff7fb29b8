"""What has happened to the requests of a run so far: the figures behind a progress bar."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class FlowStats:
    """Counts of a run, kept by [`~flow.Flow`]; tokens are as the server counted them."""

    done: int = 0  # replies that came from the model
    cached: int = 0  # replies that came from the store
    shared: int = 0  # calls answered by an equal request under way
    failed: int = 0  # requests that no reply could be had for
    retried: int = 0  # attempts repeated after a failure
    extended: int = 0  # asked again with more tokens because the reply was cut
    kept_cut: int = 0  # of those, whose longer reply did not come
    looping: int = 0  # cut replies that ended in a loop, not asked for again
    paid_twice: int = 0  # of `done`, those that another run had answered meanwhile
    in_flight: int = 0  # attempts under way now
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0  # from the first request to the latest event
    trouble: Counter[str] = field(default_factory=Counter)  # failed attempts by reason

    @property
    def _speed(self) -> float:
        return self.completion_tokens / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        """One line for a progress bar."""
        timed_out = self.trouble["timeout"]
        return (
            f"{self.done:,} done, {self.cached:,} cached, {self.failed:,} failed, "
            f"{self.retried:,} retried, {self.in_flight:,} in flight, {self._speed:,.0f} tokens/s"
            + (f", {timed_out:,} timed out" if timed_out else "")
        )

    def summary(self) -> str:
        """Several lines for the end of a run."""
        lines = [
            f"{self.done + self.cached + self.shared + self.failed:,} requests: {self.done:,} "
            f"answered by the model, {self.cached:,} from the store, {self.shared:,} shared, "
            f"{self.failed:,} failed",
            f"{self.prompt_tokens:,} prompt and {self.completion_tokens:,} new tokens in "
            f"{self.seconds:,.1f} s ({self._speed:,.0f} new tokens/s); "
            f"{self.retried:,} retries, {self.extended:,} asked again with more tokens",
        ]
        if self.paid_twice:
            lines.append(
                f"{self.paid_twice:,} of the answered requests were answered by another run on "
                "this store meanwhile: they were paid for twice"
            )
        if self.kept_cut or self.looping:
            lines.append(
                f"{self.looping:,} replies looped until they were cut, {self.kept_cut:,} were kept "
                "as they were cut"
            )
        if self.trouble:
            reasons = (f"{reason} {count:,}" for reason, count in self.trouble.most_common())
            lines.append(f"failed attempts by reason: {', '.join(reasons)}")
        return "\n".join(lines)
