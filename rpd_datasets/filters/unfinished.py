"""Solutions that were not finished: cut off, looping, or without a final answer (App. C.1)."""

from __future__ import annotations

from rpd_datasets.filters.candidates import Candidates, Drops
from rpd_datasets.tokens import text_tail

# No limit on new tokens cuts a solution this short, and notes of a line or two need not announce
# an answer: rules about how a text should end do not apply to them.
SHORT_TOKENS = 40
OPEN_ENDED = ("cut_off", "no_final_answer")


def unfinished(candidates: Candidates, completeness_tokens: int) -> Drops:
    """Leave out every solution that was not finished.

    Args:
        candidates ([`Candidates`]): The solutions, and what decides.
        completeness_tokens (`int`): How much of a solution's end is looked at.
    """
    drops = {}
    for index in candidates.left:
        solution, num_tokens = candidates.problem.solutions[index], candidates.num_tokens[index]
        tail = text_tail(solution, completeness_tokens, candidates.count_tokens, num_tokens)
        finished, why = candidates.completeness(solution, tail)
        short = num_tokens < SHORT_TOKENS and why in OPEN_ENDED
        if not finished and not short:
            reason = why or "incomplete"
            drops[index] = (reason, f"The solution was not finished: {reason}.")
    return drops
