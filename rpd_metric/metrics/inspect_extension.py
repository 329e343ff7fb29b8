"""What this package adds to Inspect: a scorer, metrics over epochs, and a provider of models.

    inspect score LOG.eval --scorer rpd_metric/math
    inspect score LOG.eval --scorer rpd_metric/math --metric rpd_metric/rpd
    inspect eval TASK --model rpd/hf:FOLDER

Inspect finds it by the entry point `rpd_metric` of the group `inspect_ai`. The scorers keep the
text that they scored as the score's explanation, as Inspect's own do: `rpd` reads it there.
"""

import atexit
import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from anyio import CapacityLimiter, to_thread
from inspect_ai._util.package import get_installed_package_name
from inspect_ai.model import (
    ChatMessage,
    Content,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    StopReason,
    modelapi,
)
from inspect_ai.scorer import (
    CORRECT,
    INCORRECT,
    Metric,
    SampleScore,
    Score,
    Scorer,
    Target,
    Value,
    metric,
    scorer,
)
from inspect_ai.solver import TaskState
from inspect_ai.tool import ToolChoice, ToolInfo

from rpd_metric.errors import InputError
from rpd_metric.grading.answers import Verdict, final_answer, tidy
from rpd_metric.grading.custom import load_grader
from rpd_metric.grading.score_scales import is_missing, score_scale
from rpd_metric.measure import compute_rpd
from rpd_metric.metrics.inspect_text import solution_texts
from rpd_metric.models.chat import Chat, ChatOptions, ChatRequest, Sampling
from rpd_metric.models.failures import ServerError
from rpd_metric.models.spec import chat_spec, load_chat
from rpd_metric.statistics.estimators import pass_at_k as estimate
from rpd_metric.statistics.intervals import mean_interval
from rpd_metric.statistics.strategy_counts import strategy_counts


def full_name(module: str, name: str) -> str:
    """What to register under in order to be called `PACKAGE/NAME`.

    Inspect prefixes the package of what is installed. It does not know an editable install from
    within the checkout, nor one whose distribution has another name than the package.
    """
    known = get_installed_package_name(sys.modules[module])
    return name if known else f"{module.partition('.')[0]}/{name}"


@metric(name=full_name(__name__, "pass_at_k"), scores="unreduced")
def pass_at_k(right_score: str | None = None) -> Metric:
    """pass@k without bias for k = 1, 2, 4, ... up to the number of epochs, with 95 % intervals.

    Where samples have different numbers of scored epochs the figures are NaN, and `missing` counts
    what is not there: a mean over those that are left would be of something else.

    Args:
        right_score (`str`, *optional*): Which scores are right, if they are neither right or wrong
            nor shares: `"7"` for 7 and above, or `"A,B"`.
    """

    def compute(scores: list[SampleScore]) -> Value:
        drawn: Counter[str] = Counter()
        right: Counter[str] = Counter()
        for name, score, is_right in _verdicts(scores, right_score):
            drawn[name] += not is_missing(score.value)
            right[name] += is_right
        epochs = max(drawn.values(), default=0)
        missing = epochs * len(drawn) - drawn.total()
        figures: dict[str, Any] = {"missing": missing} if missing else {}
        for k in (2**n for n in range(epochs.bit_length())):
            if missing:
                figures[f"pass@{k}"] = float("nan")
                continue
            counts = np.array([right[name] for name in drawn])
            mean = mean_interval(estimate(np.full(len(counts), epochs), counts, k))
            figures[f"pass@{k}"] = mean.value
            figures |= {f"pass@{k}_low": mean.low, f"pass@{k}_high": mean.high}
        return figures

    return compute


def _verdicts(
    scores: list[SampleScore], right_score: str | None
) -> Iterator[tuple[str, Score, bool]]:
    values = [sample.score.value for sample in scores]
    scale = score_scale("the log", values, right_score)
    for sample in scores:
        is_right = scale.is_right(sample.score.value) is True
        yield str(sample.sample_id), sample.score, is_right


@metric(name=full_name(__name__, "rpd"), scores="unreduced")
def rpd(
    summarizer: str = "extractive", embedder: str | None = None, right_score: str | None = None
) -> Metric:
    """How differently problems were solved: the mean RPD of the right solutions of a problem.

    Problems with fewer than two right solutions do not count.

    Args:
        summarizer (`str`): Who turns solutions into steps.
        embedder (`str`, *optional*): Who encodes the steps: `"minilm"`, `"static"`, `"st:<model>"`.
        right_score (`str`, *optional*): As for [`pass_at_k`].
    """

    def compute(scores: list[SampleScore]) -> Value:
        groups: dict[str, list[str]] = {}
        for name, score, is_right in _verdicts(scores, right_score):
            if is_right and score.explanation:
                groups.setdefault(name, []).append(score.explanation)
        several = [texts for texts in groups.values() if len(texts) > 1]
        if not several:
            return float("nan")
        distance = compute_rpd(several, summarizer=summarizer, embedder=embedder)["rpd"]
        return float("nan") if distance is None else float(distance)

    return compute


@metric(name=full_name(__name__, "strategies"), scores="unreduced")
def strategies(label: str = "strategy", right_score: str | None = None) -> Metric:
    """How many strategies the right solutions show: effective number, coverage@N and distinct@k.

    Each is a mean over problems with a 95 % bootstrap interval (`docs/statistics.md`). A scorer
    writes each solution's strategy into its score's metadata; `rpd score LOG.eval` has a chat model
    sort the solutions instead.

    Args:
        label (`str`): The key of the strategy in the metadata of a score.
        right_score (`str`, *optional*): As for [`pass_at_k`].
    """

    def compute(scores: list[SampleScore]) -> Value:
        labels: dict[str, list[Any]] = {}
        right: dict[str, list[bool | None]] = {}
        for name, score, is_right in _verdicts(scores, right_score):
            labels.setdefault(name, []).append((score.metadata or {}).get(label))
            right.setdefault(name, []).append(None if is_missing(score.value) else is_right)
        figures: dict[str, Any] = {}
        for count in strategy_counts(list(labels.values()), list(right.values())):
            name = count.figure
            figures |= {name: count.value, f"{name}_low": count.low, f"{name}_high": count.high}
        return figures or {"effective_strategies": float("nan")}

    return compute


@scorer(metrics=[pass_at_k()], name=full_name(__name__, "math"))
def math(grader: str | None = None, workers: int | None = None) -> Scorer:
    """Whether the final answer equals the target, decided in processes that can be killed.

    Args:
        grader (`str`, *optional*): `FILE.py:FUNCTION` that decides in the place of mathematics.
        workers (`int`, *optional*): Processes at a time; the number of cores, at most 8.
    """
    judge = load_grader(grader)  # what is missing is said before anything is sampled
    limiter = CapacityLimiter(workers or min(8, os.cpu_count() or 1))
    atexit.register(judge.close)

    async def score(state: TaskState, target: Target) -> Score:
        written = state.output.completion
        verdict = await to_thread.run_sync(judge.verdict, target.text, written, limiter=limiter)
        answer = final_answer(written)
        return Score(
            value=CORRECT if verdict is Verdict.CORRECT else INCORRECT,
            answer=None if answer is None else tidy(answer),
            explanation=solution_texts(state.messages, state.output)[0],
            metadata={"verdict": verdict.value},
        )

    return score


@modelapi(name="rpd")
class SpecAPI(ModelAPI):
    """A chat model that this project's specs name: `rpd/hf:FOLDER`, `rpd/tgi:http://host:port`.

    Model arguments are `device`, `dtype` and `thinking`; `state`, a fingerprint of the weights, is
    for the log.
    """

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig | None = None,
        thinking: bool = True,
        device: str | None = None,
        dtype: str = "auto",
        state: str = "",  # noqa: ARG002
    ) -> None:
        super().__init__(model_name, base_url, api_key, [], config or GenerateConfig())
        self._spec = chat_spec(model_name)
        self._options = ChatOptions(device=device, dtype=dtype)
        self._thinking = thinking
        self._chat: Chat | None = None

    def max_connections(self) -> int:
        """One reply at a time of a model of this process, which draws each by its own seed."""
        return 1 if self._spec.runs_here else 100

    def should_retry(self, ex: BaseException) -> bool:
        """Whether asking again may help."""
        return isinstance(ex, ServerError) and ex.retryable

    async def generate(
        self,
        input: list[ChatMessage],
        tools: list[ToolInfo],
        tool_choice: ToolChoice,  # noqa: ARG002  of the base class
        config: GenerateConfig,
    ) -> ModelOutput:
        """Ask the model once."""
        if tools:
            raise InputError("a model of rpd/ calls no tools; take one of Inspect's providers")
        names = ("temperature", "top_p", "max_tokens", "seed")
        named = config.model_dump(include=set(names), exclude_none=True)
        messages = tuple({"role": message.role, "content": message.text} for message in input)
        sampling = Sampling(thinking=self._thinking, **named)
        if self._chat is None:  # not earlier: grading a log makes its model, too
            self._chat = load_chat(self._spec.text, self._options)
        stop = tuple(config.stop_seqs or ())
        reply = await self._chat(ChatRequest(messages, sampling, stop=stop))
        content: str | list[Content] = reply.text
        if reply.reasoning:
            content = [ContentReasoning(reasoning=reply.reasoning), ContentText(text=reply.text)]
        ended: StopReason = "max_tokens" if reply.finish_reason == "length" else "stop"
        output = ModelOutput.from_content(self.model_name, content, ended)
        prompt, new = reply.prompt_tokens or 0, reply.completion_tokens or 0
        output.usage = ModelUsage(input_tokens=prompt, output_tokens=new, total_tokens=prompt + new)
        output.time = reply.seconds
        return output
