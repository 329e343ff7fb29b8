"""Labelling: solutions of a problem sorted into groups of one strategy, in two passes.

The second pass comes after the first one of all problems and sees them, and the solutions of each,
in another order: the passes disagree where the labeller is not sure. Who labels is a callable: a
person at a terminal (`cli/label.py`) or a chat model ([`StrategyGrouper`]). What comes out is read
by `labels.py` and measured with by `benchmark.py`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Awaitable, Callable, Sequence

from rpd_datasets.judging.judges import Judgement, PromptedModel, fenced, listed
from rpd_datasets.judging.labels import Agreement, Labels, judge_agreement
from rpd_datasets.judging.verdicts import last_envelope
from rpd_metric.errors import ReplyError

# The problem, the steps of its solutions and the solutions themselves in; a group number for each
# solution, or why there is none.
Labeller = Callable[
    [str, Sequence[Sequence[str]], Sequence[str]], Awaitable[Judgement[tuple[int, ...]]]
]


def parse_groups(text: str, count: int, finish_reason: str | None = None) -> tuple[int, ...]:
    r"""Read a group number for each solution.

    Args:
        text (`str`): A chat model's reply.
        count (`int`): How many solutions there are.
        finish_reason (`str`, *optional*): `"length"` when the server cut the reply off.

    Returns:
        `tuple` of `int`: Numbered from 0 by first appearance.

    Raises:
        [`ReplyError`]: As [`~rpd_datasets.judging.verdicts.last_envelope`] does; `"wrong_count"`
            for too many or too few numbers, `"bad_verdict"` for anything else.

    Example:

    >>> parse_groups("Two methods.\n//boxed_json{[2, 2, 1]}", count=3)
    (0, 0, 1)
    """
    content = last_envelope(text, finish_reason)
    tokens = content.strip("[] \t\n").replace(",", " ").split()
    if not all(re.fullmatch(r"\d{1,4}", token) for token in tokens):
        raise ReplyError("bad_verdict", "the verdict is no list of group numbers")
    if len(tokens) != count:
        raise ReplyError("wrong_count", f"{len(tokens)} group numbers for {count} solutions")
    return renumbered(tokens)


def renumbered(labels: Sequence[object]) -> tuple[int, ...]:
    """Labels as numbers from 0, by first appearance.

    >>> renumbered(["b", "a", "b"])
    (0, 1, 0)
    """
    first = list(dict.fromkeys(labels))
    return tuple(first.index(label) for label in labels)


class StrategyGrouper(PromptedModel):
    """A chat model that sorts the solutions of a problem into groups of one strategy.

    Args:
        chat ([`~rpd_metric.models.chat.Chat`]): The model.
        template (`str` or `Path`, *optional*): One of your own, with the placeholders
            `{{problem}}`, `{{solutions}}` and `{{count}}`.
        sampling ([`~rpd_metric.models.chat.Sampling`], *optional*): Greedy by default.
    """

    prompt = "judge_group"
    required = ("problem", "solutions", "count")

    async def __call__(
        self, problem: str, steps: Sequence[Sequence[str]], _solutions: Sequence[str] = ()
    ) -> Judgement[tuple[int, ...]]:
        """Sort one problem's solutions by their steps; see `Labeller`."""
        return await self._ask(
            lambda text, finish_reason: parse_groups(text, len(steps), finish_reason),
            problem=fenced("problem", problem),
            solutions=listed(steps),
            count=len(steps),
        )


async def label_once(
    labeller: Labeller,
    problem: str,
    steps: Sequence[Sequence[str]],
    solutions: Sequence[str],
    order: Sequence[int],
) -> Judgement[tuple[int, ...]]:
    """Label one problem, its solutions shown in a given order.

    Args:
        labeller (`Labeller`): Who labels.
        problem (`str`): The problem.
        steps (`Sequence`): Per solution, its steps.
        solutions (`Sequence[str]`): The solutions themselves.
        order (`Sequence[int]`): Indices of the solutions, as they are shown.

    Returns:
        [`Judgement`]: Group numbers in the order of the solutions, or the reason why there are
            none.
    """
    judgement = await labeller(
        problem, [steps[index] for index in order], [solutions[index] for index in order]
    )
    if judgement.value is None:
        return judgement
    given = dict(zip(order, judgement.value, strict=True))
    return Judgement(renumbered([given[index] for index in range(len(steps))]))


def second_order(problem: str, count: int, seed: int) -> list[int]:
    """In which order the second pass shows a problem's solutions: never that of the first.

    >>> second_order("P", 2, seed=0), second_order("P", 2, seed=1)
    ([1, 0], [1, 0])
    """
    order = random.Random(f"{seed}:{problem}").sample(range(count), count)
    return order[::-1] if order == list(range(count)) else order


def agreement_of_passes(labels: Sequence[Labels]) -> Agreement:
    """How far two passes agree on which pairs of solutions differ, the first taken as the truth."""
    first, second = [], []
    for one in labels:
        for i in range(len(one.passes[0])):
            for j in range(i):
                first.append(one.passes[0][i] != one.passes[0][j])
                second.append(one.passes[1][i] != one.passes[1][j])
    return judge_agreement(first, second)
