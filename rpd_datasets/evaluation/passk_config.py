"""What an evaluation samples, how it grades and what it reports: options of `passk.py`.

They stand in a YAML file, `--config FILE`, or on the command line, which wins.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from rpd_datasets.evaluation.benchmarks import find_benchmark
from rpd_datasets.instructions import prompt_template
from rpd_datasets.options import documented, option
from rpd_metric.errors import InputError

KS = (1, 2, 4, 8, 16)
# A run's seeds start this far after those of the run before.
SEEDS_PER_RUN = 1000

# The prompt of a kind of benchmark, where a configuration names none.
KIND_PROMPTS = {"math": "reason_and_box", "function": "python_function", "contest": "problem"}
# Options that do not decide what is sampled.
_AFTERWARDS = ("diversity", "summarizer", "embedder", "grader", "paper", "data")


@documented
@dataclass(frozen=True)
class EvaluationConfig:
    """What is sampled, how it is graded, and what is reported."""

    benchmark: str = option("", "e.g. aime24; an unknown one is answered with those there are")
    data: str | None = option(
        None, "a local file of the benchmark (default: from the Hub)", metavar="FILE"
    )
    limit: int | None = option(
        None, "only the first so many problems, for a quick look; reports say so", metavar="N"
    )
    since: str | None = option(
        None,
        "of LiveCodeBench, only problems of contests from this day on; reports say how many",
        metavar="DAY",
    )
    until: str | None = option(None, "likewise, up to this day", metavar="DAY")
    samples: int = option(16, "samples per problem and run; 16 in the paper", metavar="N")
    runs: int = option(
        4, "independent runs; in the paper 4 for AIME24 and MATH500, 2 for others", metavar="N"
    )
    max_tokens: int = option(14_000, "limit on new tokens", metavar="N")
    temperature: float = option(0.6, "of sampling; 0.6 in the paper")
    top_p: float = option(0.95, "of sampling; 0.95 in the paper")
    thinking: bool = option(
        True,
        "leave a thinking model's template as the training data had it; otherwise templates such "
        "as Qwen3's put an empty think block before the reply",
    )
    seed: int = option(0, "sample s of run r, both from 0, has the seed SEED + 1000 r + s")
    prompt: str | None = option(
        None,
        "what is sent: a name (rpd_datasets.instructions.PROMPTS), or a text in which {problem} "
        "stands for the problem (default: by the kind of benchmark)",
    )
    diversity: bool = option(True, "measure the diversity of correct solutions (Table 3)")
    summarizer: str = option("extractive", "who turns solutions into steps for that")
    embedder: str = option("minilm", "who encodes the steps")
    grader: str | None = option(
        None, "decides which answers are right where mathematics does not", metavar="FILE.py:NAME"
    )
    paper: str | None = option(
        None,
        "the paper's model whose published rows are printed beside, e.g. Qwen3-4B-Base",
        metavar="MODEL",
    )

    def __post_init__(self) -> None:
        if not self.benchmark:
            raise InputError(
                "no benchmark is named; use --benchmark, e.g. aime24, or --config FILE"
            )
        kind = find_benchmark(self.benchmark).kind
        for name in ("samples", "runs", "max_tokens", "limit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}; use 1 or more")
        if self.grader is not None and kind != "math":
            raise InputError(f"{self.benchmark} is graded by its tests; leave grader out")
        since, until = self.window
        if since and until and since > until:
            raise InputError(f"since is {since} and until {until}; the window is empty")
        if self.samples > SEEDS_PER_RUN:
            raise InputError(f"samples is {self.samples}; use at most {SEEDS_PER_RUN} per run")
        if self.temperature < 0 or not 0 < self.top_p <= 1:
            raise InputError(
                f"temperature is {self.temperature} and top_p {self.top_p}; use 0 or more, and a "
                "share above 0"
            )
        if self.temperature == 0 and self.samples * self.runs > 1:
            raise InputError(
                "temperature 0 gives the same sample again and again; raise it, or set samples "
                "and runs to 1"
            )
        if self.prompt is not None:
            prompt_template(self.prompt)

    @property
    def window(self) -> tuple[date | None, date | None]:
        """The first and the last day of the contests that take part."""
        return _day(self.since, "since"), _day(self.until, "until")

    @property
    def ks(self) -> tuple[int, ...]:
        """The k of pass@k that the samples of one run allow."""
        return tuple(k for k in KS if k <= self.samples)

    @property
    def sent(self) -> str:
        """The prompt, the one of the benchmark's kind included."""
        return prompt_template(self.prompt or KIND_PROMPTS[find_benchmark(self.benchmark).kind])

    @property
    def sampling(self) -> dict[str, Any]:
        """What decides the samples, for the file that goes with them."""
        decides = {**asdict(self), "prompt": self.sent}
        return {name: value for name, value in decides.items() if name not in _AFTERWARDS}


def _day(text: str | None, name: str) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise InputError(f"{name} is {text!r}; use a day such as 2024-08-01") from None
