"""Every option of an evaluation as one plain value, read strictly from YAML.

A key that is not known stops the run and is answered with the nearest one that is: a misspelt
`max_tokens` would otherwise change every figure unnoticed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import date
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped,unused-ignore]

from rpd_datasets.evaluation.benchmarks import find_benchmark
from rpd_datasets.instructions import prompt_template
from rpd_datasets.options import read_options, unknown
from rpd_metric.errors import InputError

KS = (1, 2, 4, 8, 16)
# A run's seeds start this far after those of the run before.
SEEDS_PER_RUN = 1000

# The prompt of a kind of benchmark, where a configuration names none.
KIND_PROMPTS = {"math": "reason_and_box", "function": "python_function", "contest": "problem"}


@dataclass(frozen=True)
class EvaluationConfig:
    """What is sampled, how it is graded, and what is reported.

    Args:
        benchmark (`str`): See [`~rpd_datasets.evaluation.benchmarks.BENCHMARKS`].
        data (`str`, *optional*): A local file of the benchmark; the Hub's if unset.
        limit (`int`, *optional*): Only the first so many problems, for a quick look. Reports
            say so.
        since (`str`, *optional*): Of LiveCodeBench, only problems of contests from this day on,
            as `"2024-08-01"`. Reports say how many problems that leaves.
        until (`str`, *optional*): Likewise, up to this day.
        samples (`int`): Samples per problem and run; 16 in the paper.
        runs (`int`): Independent runs; 4 for AIME24 and MATH500, 2 for Olympiad Bench.
        max_tokens (`int`): Limit on new tokens; 14,000, 10,000 and 8,000 in the paper.
        temperature (`float`): 0.6 in the paper.
        top_p (`float`): 0.95 in the paper.
        thinking (`bool`): Leave a thinking model's template as the training data had it. When
            false, templates such as Qwen3's put an empty think block before the reply.
        seed (`int`): Sample `s` of run `r`, both from 0, has the seed `seed + 1000 r + s`.
        prompt (`str`, *optional*): What is sent: a name of
            [`~rpd_datasets.instructions.PROMPTS`], or a text in which `{problem}` stands for the
            problem; the one of the benchmark's kind if unset.
        diversity (`bool`): Measure the diversity of correct solutions (Table 3).
        summarizer (`str`): Who turns solutions into steps for that.
        embedder (`str`): Who encodes the steps.
        grader (`str`, *optional*): Decides which answers are right where mathematics does not, see
            [`~rpd_metric.grading.custom.OwnGrader`].
        paper (`str`, *optional*): The paper's model whose published rows are printed beside:
            `"Qwen3-4B-Base"`, `"Qwen2.5-3B"` or `"Llama-3.1-8B-Instruct"`.
    """

    benchmark: str
    data: str | None = None
    limit: int | None = None
    since: str | None = None
    until: str | None = None
    samples: int = 16
    runs: int = 4
    max_tokens: int = 14_000
    temperature: float = 0.6
    top_p: float = 0.95
    thinking: bool = True
    seed: int = 0
    prompt: str | None = None
    diversity: bool = True
    summarizer: str = "extractive"
    embedder: str = "minilm"
    grader: str | None = None
    paper: str | None = None

    def __post_init__(self) -> None:
        find_benchmark(self.benchmark)
        for name in ("samples", "runs", "max_tokens"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; use 1 or more")
        if self.grader is not None and find_benchmark(self.benchmark).kind != "math":
            raise InputError(f"{self.benchmark} is graded by its tests; leave grader out")
        if self.limit is not None and self.limit < 1:
            raise InputError(f"limit is {self.limit}; use 1 or more, or leave it out")
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
        decides = asdict(self) | {"prompt": self.sent}
        for name in ("diversity", "summarizer", "embedder", "grader", "paper", "data"):
            del decides[name]
        return decides


def read_config(path: str | Path, changes: Sequence[str] = ()) -> EvaluationConfig:
    """Read a configuration from a YAML file.

    Args:
        path (`str` or `Path`): The file.
        changes (`Sequence[str]`): `"key=value"`, the value in YAML; they win over the file.

    Raises:
        [`InputError`]: The file cannot be read, a key is unknown or there twice, or a value is of
            another type.
    """
    values = read_options(path)
    for change in changes:
        key, separator, value = change.partition("=")
        if not separator:
            raise InputError(f"--set {change!r} is not of the form key=value")
        try:
            values[key.strip()] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise InputError(f"--set {change!r}: the value is not YAML") from error
    return parse_config(values, str(path))


def parse_config(values: Mapping[str, Any], where: str = "the configuration") -> EvaluationConfig:
    """Make a configuration of plain values.

    Raises:
        [`InputError`]: A key is unknown, or a value is of another type.

    Example:

    ```py
    >>> from rpd_datasets.evaluation.passk_config import parse_config
    >>> parse_config({"benchmark": "aime24", "max_tokens": 14000}).samples
    16
    >>> parse_config({"benchmark": "aime24", "max_token": 14000})
    Traceback (most recent call last):
    rpd_metric.errors.InputError: unknown key 'max_token' in the configuration; did you mean \
'max_tokens'?

    ```
    """
    types = {field.name: str(field.type) for field in fields(EvaluationConfig)}
    parsed: dict[str, Any] = {}
    for key, value in values.items():
        if key not in types:
            raise unknown(key, types, where)
        kind, _, optional = types[key].partition(" | ")
        if isinstance(value, date):
            value = value.isoformat()  # YAML reads 2024-08-01 as a date
        if value is None and optional:
            parsed[key] = None
            continue
        if kind == "float" and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value).__name__ != kind:
            raise InputError(f"{key} in {where} is {value!r}; it must be a value of type {kind}")
        parsed[key] = value
    if "benchmark" not in parsed:
        raise InputError(f"{where} names no benchmark; add a line such as benchmark: aime24")
    return EvaluationConfig(**parsed)


def _day(text: str | None, name: str) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise InputError(f"{name} is {text!r}; use a day such as 2024-08-01") from None


def with_data(config: EvaluationConfig, data: str | None) -> EvaluationConfig:
    """The configuration with another local file, where one is named."""
    return config if data is None else replace(config, data=data)
