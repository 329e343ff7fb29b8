"""What is left out before scoring, and why: App. C.1 of the paper and some further filters.

The order is the paper's: length, completeness, duplicates, and last the number of solutions that
remain. A filter is a function from [`Candidates`] to the solutions to drop. Ours have options;
[`FILTERS`] of other packages are applied by `--filter NAME` or `--filter NAME=VALUE`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from rpd_datasets.filters import completeness, naturalness, soundness
from rpd_datasets.filters.answer_checks import incorrect, marked_only, wrong_answers
from rpd_datasets.filters.candidates import (
    FILTERS,
    AnswerCheck,
    Candidates,
    Drops,
    EndVerdict,
    FilterConfig,
)
from rpd_datasets.problem import Problem, Rejected
from rpd_datasets.selection.decisions import REJECT, decided
from rpd_datasets.tokens import TokenCounter
from rpd_metric.errors import PluginError
from rpd_metric.plugins import border
from rpd_metric.reasons import Reason


@dataclass(frozen=True)
class Filtered:
    """What the filters left of a problem.

    Args:
        remaining (`tuple[int, ...]`): Indices of the solutions that stay; none if the problem goes.
        reasons (`tuple[str, ...]`): Why each solution goes, `""` if it stays. Solutions of a
            dropped problem have its reason unless they have their own.
        details (`tuple[str, ...]`): A line for a person per solution, or `""`.
        problem_reason (`str`, *optional*): Why the whole problem goes.
    """

    remaining: tuple[int, ...]
    reasons: tuple[str, ...]
    details: tuple[str, ...]
    num_tokens: tuple[int, ...]
    problem_reason: str | None = None
    problem_detail: str = ""

    def rejects(self, problem: Problem) -> list[Rejected]:
        """One record per solution with a reason of its own, and one for the problem."""
        records = [
            problem.rejected("filter", reason, detail, index)
            for index, (reason, detail) in enumerate(zip(self.reasons, self.details, strict=True))
            if detail
        ]
        if self.problem_reason is not None:
            records.append(problem.rejected("filter", self.problem_reason, self.problem_detail))
        return records


def filter_problem(
    problem: Problem,
    config: FilterConfig,
    count_tokens: TokenCounter,
    answers: AnswerCheck | None = None,
    unfinished: EndVerdict | None = None,
) -> Filtered:
    """Decide what is kept of a problem (App. C.1).

    Unset, `answers` are the input's marks, and ends are judged by rules.

    Raises:
        InputError: `only_correct` lacks its column.

    >>> from rpd_datasets.tokens import token_counter
    >>> problem = Problem("2 + 2?", ("So it is $4$.", "So it  is $4$.", "<think> We add two and"))
    >>> filtered = filter_problem(problem, FilterConfig(min_solutions=1), token_counter("estimate"))
    >>> filtered.remaining, filtered.reasons
    ((0,), ('', 'duplicate', 'unclosed_think'))
    """
    solutions = problem.solutions
    num_tokens = tuple(count_tokens(solution) for solution in solutions)
    mean = sum(num_tokens) / max(1, len(num_tokens))
    if config.max_mean_tokens is not None and mean > config.max_mean_tokens:
        blank = ("",) * len(solutions)
        reason = Reason.TOO_LONG
        detail = f"Its solutions have {mean:.0f} tokens on average, over {config.max_mean_tokens}."
        return Filtered((), (reason,) * len(solutions), blank, num_tokens, reason, detail)

    answers = answers or marked_only(problem, config.correct_column)
    left = tuple(range(len(solutions)))
    drops: dict[int, tuple[str, str]] = {}
    candidates = Candidates(problem, left, num_tokens, count_tokens, answers, unfinished)
    for turned_on, drop in OURS:
        if turned_on(config):
            drops |= drop(replace(candidates, left=left), config)
            left = tuple(index for index in left if index not in drops)
    few, least = Reason.TOO_FEW_SOLUTIONS, config.min_solutions
    enough = len(left) >= least
    # The latter: of a solution that goes for no reason of its own.
    whys = [drops.get(index, ("" if enough else few, "")) for index in range(len(solutions))]
    reasons, details = (tuple(why[part] for why in whys) for part in (0, 1))
    if enough:
        return Filtered(left, reasons, details, num_tokens)
    detail = f"{len(left)} of {len(solutions)} solutions are left, {least} are needed."
    return Filtered((), reasons, details, num_tokens, few, detail)


def rejected_by_hand(candidates: Candidates, config: FilterConfig) -> Drops:
    """Leave out the solutions that a person rejected in a file of decisions."""
    why = (Reason.REJECTED_BY_HAND, f"{Path(config.decisions or '').name} rejects it.")
    rejected = decided(config.decisions or "", candidates.problem, REJECT)
    return {index: why for index in rejected if index in candidates.left}


def duplicates(candidates: Candidates, _: FilterConfig) -> Drops:
    """Leave out copies of an earlier solution; white space is ignored."""
    first: dict[str, int] = {}
    drops = {}
    for index in candidates.left:
        text = " ".join(candidates.problem.solutions[index].split())
        original = first.setdefault(text, index)
        if original != index:
            drops[index] = (Reason.DUPLICATE, f"The same text as solution {original}.")
    return drops


def of_other_packages(candidates: Candidates, config: FilterConfig) -> Drops:
    """Apply filters of other packages, each to what the ones before it left."""
    drops: dict[int, tuple[str, str]] = {}
    for text in config.filters:
        name, _, value = text.partition("=")
        what, function = f"the filter {text!r}", FILTERS.find(name).function
        left = tuple(index for index in candidates.left if index not in drops)
        with border(what, function):
            dropped = dict(function(replace(candidates, left=left), value))
        for index, entry in dropped.items():
            texts = isinstance(entry, tuple) and [isinstance(part, str) for part in entry]
            if index not in left or texts != [True, True]:
                raise PluginError(
                    f"{what} returned {index!r}: {entry!r}; it must return indices of "
                    "candidates.left with a reason and a line each"
                )
        drops |= dropped
    return drops


# Our filters in their order, and when they are turned on.
OURS: tuple[
    tuple[Callable[[FilterConfig], object], Callable[[Candidates, FilterConfig], Drops]], ...
] = (
    (lambda config: config.decisions, rejected_by_hand),
    (lambda config: config.only_correct, incorrect),
    (lambda config: config.answers != "any" and not config.keep_wrong, wrong_answers),
    (lambda config: config.soundness == "rules", soundness.floundering),
    (lambda config: config.require_complete, completeness.unfinished),
    (lambda config: config.drop_duplicates, duplicates),
    (lambda config: config.filters, of_other_packages),
    (lambda config: config.student, naturalness.unnatural),
)
