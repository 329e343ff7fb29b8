"""Rewards of reinforcement learning on mathematics: right answer, readable form, and diversity.

TRL calls each with all completions of a batch and the columns of their rows, repeated per
completion; it returns one number per completion. GRPO compares the completions of a prompt.

The diversity reward is off by default. A policy can raise a diversity measure without solving
anything in another way (arXiv 2606.29985): by rewording, by padding, by detours. So it counts only
among right answers, its distance is the one that curation uses, which a paraphrase moves least
(docs/distances.md), and `diversity/wording` and `diversity/length` are logged beside it. If the
distance rises with them, or while accuracy falls, the policy games the measure.
"""

import atexit
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np

from rpd_datasets.config import CurationConfig
from rpd_metric.distance.distances import load_distance
from rpd_metric.errors import InputError
from rpd_metric.grading.answers import Verdict, final_answer
from rpd_metric.grading.custom import GraderLike, load_grader
from rpd_metric.measure import Matrix, distance_matrices
from rpd_metric.models.concurrency import run
from rpd_metric.models.spec import Embedder, load_embedder
from rpd_metric.models.static import default_embedder
from rpd_metric.steps.protocol import Summarizer
from rpd_metric.steps.summarizers import load_summarizer

Completion = str | Sequence[dict[str, Any]]
Log = Callable[[str, float], None]
# Columns that name the problem a completion is for, the most telling first.
GROUP_IDS = ("group", "uid", "problem_id", "example_id")
COUNTED = {
    "unreadable_reference": Verdict.UNPARSABLE_GOLD,
    "timed_out": Verdict.TIMED_OUT,
    "no_answer": Verdict.NO_ANSWER,
}


class AccuracyReward:
    """1 for a right answer, 0 for a wrong or missing one; `None` where the reference is unreadable.

    TRL leaves `None` out; such rows are counted as `accuracy/unreadable_reference`.
    """

    __name__ = "accuracy"

    def __init__(self, grader: GraderLike) -> None:
        self._grader = grader

    def __call__(
        self,
        completions: Sequence[Completion],
        answer: Sequence[str],
        log_metric: Log | None = None,
        **_: Any,
    ) -> list[float | None]:
        """One reward per completion."""
        rows = zip(answer, map(text_of, completions), strict=True)
        verdicts = list(self._grader.grade(rows))
        if log_metric is not None:
            for name, verdict in COUNTED.items():
                log_metric(f"accuracy/{name}", verdicts.count(verdict) / len(verdicts))
        # A group that has no reward at all stops TRL; its row's other rewards keep it going.
        return [
            None if verdict is Verdict.UNPARSABLE_GOLD else float(verdict is Verdict.CORRECT)
            for verdict in verdicts
        ]


class FormatReward:
    """1 for a completion that closes its thoughts, if it has any, and then boxes its answer."""

    __name__ = "format"

    def __call__(self, completions: Sequence[Completion], **_: Any) -> list[float]:
        """One reward per completion."""
        return [float(well_formed(text_of(completion))) for completion in completions]


class DiversityReward:
    """The mean distance of a right completion to the other right completions of its prompt.

    0 for a wrong one, and where it is the only right one. See this module's docstring for what
    is logged beside it, and why.
    """

    __name__ = "diversity"

    def __init__(
        self,
        grader: GraderLike,
        summarizer: Summarizer,
        embedder: Embedder,
        *,
        distance: str = "taught",
    ) -> None:
        self._grader = grader
        self._summarizer = summarizer
        self._embedder = embedder
        self._distance = load_distance(distance)

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Completion],
        answer: Sequence[str],
        log_metric: Log | None = None,
        group: Sequence[Hashable] | None = None,
        **_: Any,
    ) -> list[float]:
        """One reward per completion; `group` says, in the prompts' place, which are compared."""
        texts = [text_of(completion) for completion in completions]
        problems = [text_of(prompt) for prompt in prompts]
        verdicts = self._grader.grade(zip(answer, texts, strict=True))
        groups: dict[Hashable, list[int]] = defaultdict(list)
        for place, (key, verdict) in enumerate(zip(group or problems, verdicts, strict=True)):
            if verdict is Verdict.CORRECT:
                groups[key].append(place)
        compared = [places for places in groups.values() if len(places) > 1]
        rewards = [0.0] * len(texts)
        if not compared:
            return rewards
        for places in compared:
            matrix = self._matrix(problems[places[0]], [texts[place] for place in places])
            for row, place in enumerate(places):
                others = np.delete(matrix[row], row)
                # A completion without text or steps is unknown, not maximally far away.
                if not np.isnan(others).all():
                    rewards[place] = float(np.nanmean(others))
        if log_metric is not None:
            right = [place for places in compared for place in places]
            wording = [_wording([texts[p] for p in places]) for places in compared]
            log_metric("diversity/distance", float(np.mean([rewards[place] for place in right])))
            log_metric("diversity/length", float(np.mean([len(texts[p].split()) for p in right])))
            log_metric("diversity/wording", float(np.mean(wording)))
        return rewards

    def _matrix(self, problem: str, solutions: Sequence[str]) -> Matrix:
        steps = None
        if self._distance.reads_steps:
            summaries = run(self._summarizer.summarize(problem, solutions))
            steps = [list(summary.steps) for summary in summaries]
        compared = distance_matrices([self._distance], problem, solutions, steps, self._embedder)
        return compared[self._distance.name]


def diversity(
    prompts: Sequence[Any],
    completions: Sequence[Completion],
    answer: Sequence[str] | None = None,
    solution: Sequence[str] | None = None,
    log_metric: Log | None = None,
    **columns: Any,
) -> list[float]:
    """[`DiversityReward`] with its defaults, under a name for other people's trainers.

    TRL passes all completions of a process with the columns of their rows. The first of
    [`GROUP_IDS`] among the columns identifies a group, or else the prompt.

    Raises:
        [`InputError`]: Answers are missing, or a group is split over processes.
    """
    gold = solution if answer is None else answer
    if gold is None:
        raise InputError(
            "diversity counts among right answers only; give the rows a column answer or solution"
        )
    group = next((columns[name] for name in GROUP_IDS if columns.get(name) is not None), None)
    refuse_split_groups(group or [text_of(prompt) for prompt in prompts])
    # A solution ends in its answer.
    references = [final_answer(str(reference)) or str(reference) for reference in gold]
    return _default_reward()(prompts, completions, references, log_metric=log_metric, group=group)


def refuse_split_groups(group: Sequence[Hashable]) -> None:
    """Refuse a batch whose groups are split over processes: each process sees its own part only.

    Every process has to call it.
    """
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_initialized():
        return
    everywhere: list[set[Hashable]] = [set()] * distributed.get_world_size()
    distributed.all_gather_object(everywhere, set(group))
    processes = Counter(key for keys in everywhere for key in keys)
    if split := [key for key, count in processes.items() if count > 1]:
        raise InputError(
            f"the completions of {len(split)} problem(s) are split over processes, and diversity "
            "is measured among what one process sees; let per_device_train_batch_size x "
            "steps_per_generation be a multiple of num_generations"
        )


@cache
def _default_reward() -> DiversityReward:
    grader = load_grader()
    atexit.register(grader.close)
    return load_diversity(grader, "extractive", default_embedder())


def load_diversity(grader: GraderLike, summarizer: str, embedder: str) -> DiversityReward:
    """The reward by the distance that curation uses with these."""
    distance = CurationConfig(summarizer=summarizer, embedder=embedder).solution_distance
    parts = (load_summarizer(summarizer), load_embedder(embedder))
    return DiversityReward(grader, *parts, distance=distance or "rpd")


def text_of(message: Any) -> str:
    """The text of a completion or prompt, conversational or not."""
    if isinstance(message, str):
        return message
    return "\n".join(str(part.get("content") or "") for part in message)


def well_formed(text: str) -> bool:
    """Whether a completion closes its thoughts, if any, and names an answer in a box after them."""
    opened, closed = text.count("<think>"), text.count("</think>")
    # The prompt of some templates opens the thoughts, so that only their end is in the text.
    if closed > 1 or opened > 1 or opened > closed:
        return False
    reply = text.rpartition("</think>")[2]
    return "\\boxed{" in reply and final_answer(reply) is not None


def _wording(texts: Sequence[str]) -> float:
    """Mean share of words that two texts do not share (Jaccard distance)."""
    sets = [set(text.lower().split()) for text in texts]
    distances = [1 - len(a & b) / max(1, len(a | b)) for a, b in combinations(sets, 2)]
    return float(np.mean(distances))
