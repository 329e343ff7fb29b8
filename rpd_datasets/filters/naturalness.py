"""How natural solutions are to the model that will be trained on them (`--student`).

A model learns least from texts that surprise it (arXiv 2502.12143, 2601.14249). One forward pass
reads the mean surprise per token of each solution after its problem; of each problem the most
surprising share is left out, so that diversity is chosen among what the model finds natural.
"""

from functools import lru_cache
from typing import Any

from rpd_datasets.filters.candidates import Candidates, Drops, FilterConfig
from rpd_metric.models.spec import load_chat
from rpd_metric.reasons import Reason


def unnatural(candidates: Candidates, config: FilterConfig) -> Drops:
    """Leave out the most surprising share of a problem's solutions; `min_solutions` always stay."""
    count, student = len(candidates.left), config.student or ""
    number = min(int(config.student_share * count), count - config.min_solutions)
    if number < 1:
        return {}
    problem = candidates.problem
    surprises = {
        index: _surprise(student, problem.problem, problem.solutions[index])
        for index in candidates.left
    }
    ranked = sorted(candidates.left, key=lambda index: (-surprises[index], index))
    mean = sum(surprises.values()) / count
    return {
        index: (
            Reason.UNNATURAL,
            f"{surprises[index]:.2f} nats of surprise per token to {student}; {mean:.2f} on "
            "average in its problem.",
        )
        for index in ranked[:number]
    }


# Filters run again where a judge is asked.
@lru_cache(maxsize=4096)
def _surprise(student: str, problem: str, solution: str) -> float:
    model: Any = load_chat(student)
    return float(model.surprise(problem, solution))
