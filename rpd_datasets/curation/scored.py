"""What is known about a problem before anything is chosen, as scoring leaves it.

Scoring is `score.py`; what is kept of a whole run is `run_summary.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rpd_datasets.rejects import Rejected
from rpd_metric.arrays import MatrixRows


@dataclass(frozen=True)
class Scored:
    """What is known about a problem before anything is chosen.

    Args:
        steps (`list[list[str]]`): Per solution; empty where it was left out, and everywhere when
            nothing that was asked for reads steps.
        matrix (`list[list[float | None]]`): RPD, k x k; `None` in rows and columns of left-out
            solutions, and everywhere without steps.
        score (`float`, *optional*): Eq. 3 on it; `None` under two usable solutions.
        drop_reasons (`list[str]`): Per solution, why it was left out; `""` where it was not.
        num_tokens (`list[int]`): Per solution, by the configured tokenizer.
        rejects (`list[Rejected]`): The same as records for the rejects file.
        problem_score (`float`, *optional*): Eq. 3 on the distance that ranks problems.
        distances (`list[list[float | None]]`, *optional*): The distance that chooses solutions,
            like `matrix`; `None` when it is RPD, or no distance chooses.
        diverse (`bool`, *optional*): What a judge said of the problem, where it was asked.
        asked_again, repaired (`int`): Solutions whose summary had to be asked for again, and those
            that then had steps.
        marks (`list[bool | None]`): Per solution whether its final answer is right.
        marked_by (`str`): Who says so: `"marks"`, `"reference"`, `""` for nobody.
        agrees (`list[bool | None]`): Per solution whether it has the problem's most frequent
            answer; `None` where it names none, and everywhere without a majority.
        floundering (`list[bool]`): Per solution whether it shows signs of a failed argument.
        soundness (`list[str]`): Per solution what a judge made of its argument, see
            [`~rpd_datasets.filters.pipeline.Filtered`]; empty where none was asked.
    """

    steps: list[list[str]]
    matrix: MatrixRows
    score: float | None
    drop_reasons: list[str]
    num_tokens: list[int]
    rejects: list[Rejected]
    problem_score: float | None = None
    distances: MatrixRows | None = None
    diverse: bool | None = None
    asked_again: int = 0
    repaired: int = 0
    marks: list[bool | None] = field(default_factory=list)
    marked_by: str = ""
    agrees: list[bool | None] = field(default_factory=list)
    floundering: list[bool] = field(default_factory=list)
    soundness: list[str] = field(default_factory=list)

    @property
    def usable(self) -> list[int]:
        """Indices of the solutions that take part in scoring and selection."""
        return [index for index, reason in enumerate(self.drop_reasons) if not reason]

    def as_record(self) -> dict[str, Any]:
        """Plain JSON types, for the journal."""
        # Not asdict, which would copy every step and every distance.
        return {**vars(self), "rejects": [asdict(reject) for reject in self.rejects]}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Scored:
        """The inverse of `as_record`."""
        rejects = [Rejected(**reject) for reject in record["rejects"]]
        return cls(**{**record, "rejects": rejects})

    def standing_at(self, where: str) -> Scored:
        """The same, of an equal problem that stands elsewhere in the input."""
        return replace(self, rejects=[replace(reject, where=where) for reject in self.rejects])
