"""Right and wrong solutions of one problem, and pairs of them to train on preferences."""

from collections.abc import Sequence
from math import log

from rpd_datasets.problem import UNNAMED, Problem, strategy_labels
from rpd_metric.reasons import Reason

# Why curation drops a solution that it knows to be wrong.
WRONG = (Reason.INCORRECT, Reason.WRONG_ANSWER)
# Two methods cost as much as one solution twice as long as the other.
OTHER_METHOD = log(2)


def right_and_wrong(
    problem: Problem, marks: Sequence[bool | None] = ()
) -> tuple[list[int], list[int]]:
    """The solutions to train on and those known to be wrong, by index.

    Of a curated row, the chosen solutions are trained on, else those that `marks` call right.

    >>> right_and_wrong(Problem("2 + 2?", ("4", "5", "four")), (True, False, None))
    ([0], [1])
    """
    places, extra = range(len(problem.solutions)), problem.extra
    chosen, reasons = extra.get("selected"), extra.get("drop_reasons")
    wrong = [n for n in places if marks and marks[n] is False]
    if not (isinstance(chosen, list) and isinstance(reasons, list)):
        return [n for n in places if marks and marks[n]], wrong
    wrong = [n for n in places if n in wrong or reasons[n] in WRONG]
    return [n for n in chosen if n not in wrong], wrong


def matched_pairs(
    problem: Problem, right: Sequence[int], wrong: Sequence[int]
) -> list[tuple[int, int]]:
    """Pairs of a right and a wrong solution, the best matched ones first.

    Each solution is in one pair at most, and the lengths in pairs are as near as possible: else a
    model learns to write longer or shorter answers. Where strategies are known, two strategies
    count as much as a doubled length.

    >>> matched_pairs(Problem("2 + 2?", ("4", "5 " * 9, "4 " * 9, "7")), [0, 2], [1, 3])
    [(0, 3), (2, 1)]
    """
    from scipy.optimize import linear_sum_assignment

    texts = problem.solutions
    methods = strategy_labels(problem.extra, len(texts)) or [UNNAMED] * len(texts)

    def cost(item: int, other: int) -> float:
        differ = UNNAMED not in (methods[item], methods[other]) and methods[item] != methods[other]
        return abs(log(len(texts[item]) / len(texts[other]))) + OTHER_METHOD * differ

    costs = [[cost(item, other) for other in wrong] for item in right]
    places = zip(*linear_sum_assignment(costs), strict=True)
    pairs = [(right[row], wrong[column]) for row, column in places]
    return sorted(pairs, key=lambda pair: cost(*pair))
