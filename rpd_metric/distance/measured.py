"""What distances were measured to see: the table of evidence that card, page and terminal read.

`measured.json` holds two lists. `measured`: how well a distance tells pairs of another strategy
from the rest (AUROC, 0.5 is chance), by its name, the encoder, who wrote the steps and the kind of
text; `curves`: what a distance means ([`Calibration`]), a logistic curve for each distance and
encoder, fitted to labelled pairs. A chance depends on how common several strategies are: in the
sets of the packaged curves 16 % of the pairs differ. What has no row is called not measured.
`rpd compare-metrics --write-evidence FILE` writes the same from labels of one's own, and
`--evidence FILE` reads it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rpd_metric.distance.distances import DISTANCES
from rpd_metric.errors import InputError

NOT_MEASURED = "not measured"
# A chat model wrote the steps, whichever it was.
CHAT = "chat"
# Problems that were written to mislead: their figure counts for every kind of text.
MISLEADING = "misleading"
_KINDS = {
    "program": "programs",
    "run": "runs of agents",
    "mixed": "texts in several languages",
    "en": "English texts",
}
# Up to which chance each phrase holds.
_PHRASES = (
    (0.1, "almost surely the same method"),
    (0.35, "probably the same method"),
    (0.65, "the same method or another"),
    (0.9, "probably another method"),
    (1.0, "almost surely another method"),
)
_SCALE = (0.1, 0.3, 0.5, 0.7)
_BINS = 10
_MOST_STEPS = 100
# Keeps the slope finite where a distance splits the pairs without an error.
_RIDGE = 1e-3


@dataclass(frozen=True)
class Calibration:
    """The curve of one distance with one embedder: log odds at distance 0, and their slope.

    Args:
        steps (`str`): `"chat"` where a chat model made the steps, `"extractive"`, or `""` where it
            reads none.
        pairs (`int`): Labelled pairs that it was fitted to.
        texts (`str`): The kind of text, see [`~rpd_metric.distance.measured.Measurement`].
        error (`float`, *optional*): Mean gap between chance and share, in ten bins, on pairs that
            were left out of the fit: of the packaged curves the largest over three sets left out
            in turn, of others over five folds of the problems together.
    """

    distance: str
    embedder: str
    steps: str
    intercept: float
    slope: float
    pairs: int
    error: float | None = None
    texts: str = "en"

    def chance(self, distance: float) -> float:
        """The chance that a pair at this distance differs in strategy."""
        odds = self.intercept + self.slope * distance
        return 1 / (1 + math.exp(-max(min(odds, 700.0), -700.0)))

    def phrase(self, distance: float) -> str:
        """The chance in words, e.g. `"probably the same method"`."""
        chance = self.chance(distance)
        return next(words for most, words in _PHRASES if chance <= most)

    def scale(self) -> str:
        """A few distances with their chance of another strategy, to read others by."""
        marks = ", ".join(f"{distance:.1f}: {self.chance(distance):.0%}" for distance in _SCALE)
        error = "" if self.error is None else f", off by {self.error:.0%} on sets it had not seen"
        return (
            f"the chance of another method at a distance of {marks} (encoder {self.embedder}, "
            f"{self.pairs:,} labelled pairs{error})"
        )

    def effective_strategies(
        self, matrix: npt.ArrayLike, among: Sequence[int] | None = None
    ) -> float | None:
        """How many equally common strategies solutions are worth; `None` without a usable one.

        The inverse of the chance that two solutions drawn with replacement have the same strategy.

        Args:
            matrix (`array` of shape `(k, k)`): Distances; rows and columns of NaN (in nested
                lists: None) are left out.
            among (`Sequence[int]`, *optional*): Of these solutions only.
        """
        distances = np.asarray(matrix, dtype=np.float64)
        among = range(len(distances)) if among is None else among
        keep = [index for index in among if not np.isnan(distances[index, index])]
        if not keep:
            return None
        odds = self.intercept + self.slope * distances[np.ix_(keep, keep)]
        same = 1 - 1 / (1 + np.exp(-np.clip(odds, -700, 700)))
        np.fill_diagonal(same, 1)
        return float(len(keep) ** 2 / same.sum())


def fit_curve(distances: npt.ArrayLike, different: npt.ArrayLike) -> tuple[float, float]:
    """Intercept and slope of the logistic curve of labelled pairs, by Newton's method.

    Pairs without a distance (NaN) are left out; the labels must be of both kinds.
    """
    x = np.asarray(distances, dtype=np.float64)
    y = np.asarray(different, dtype=np.float64)[~np.isnan(x)]
    x = x[~np.isnan(x)]
    if not 0 < y.sum() < len(y):
        raise InputError("calibration needs labelled pairs of the same and of another strategy")
    design = np.column_stack([np.ones_like(x), x])
    weights = np.zeros(2)
    for _ in range(_MOST_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(design @ weights, -30, 30)))
        slope = design.T @ (y - chance) - _RIDGE * weights
        curvature = (design * (chance * (1 - chance))[:, None]).T @ design + _RIDGE * np.eye(2)
        step = np.linalg.solve(curvature, slope)
        weights += step
        if np.abs(step).max() < 1e-9:
            break
    return float(weights[0]), float(weights[1])


def calibration_error(chances: Sequence[float], different: Sequence[bool]) -> float:
    """Mean gap between the chance that was given and the share that differed, in ten bins."""
    order = np.argsort(chances, kind="stable")
    given = np.asarray(chances, dtype=np.float64)[order]
    truth = np.asarray(different, dtype=np.float64)[order]
    bins = np.array_split(np.arange(len(order)), min(_BINS, len(order)))
    gaps = [len(part) * abs(given[part].mean() - truth[part].mean()) for part in bins]
    return float(sum(gaps) / len(order))


@dataclass(frozen=True)
class Measurement:
    """The AUROC of a distance over all labelled pairs of a set, with its 95 % interval.

    Args:
        distance (`str`): Its name, or `"groups"`.
        steps (`str`): Who wrote them: `"chat"`, another summarizer, or `""` where it reads none.
        texts (`str`): The code of a language, `"program"`, `"run"`, `"mixed"`, or `"misleading"`.
        data (`str`): What it was measured on, e.g. `"164 natural problems"`.
    """

    distance: str
    embedder: str
    steps: str
    texts: str
    auroc: float
    low: float
    high: float
    data: str

    def __str__(self) -> str:
        return f"{self.auroc:.3f} [{self.low:.3f}, {self.high:.3f}] on {self.data}"


@dataclass(frozen=True)
class EvidenceTable:
    """What is known of distances; the rows of one's own come first.

    [`about`] names an `embedder`, and who wrote the `steps`.
    """

    measured: tuple[Measurement, ...] = ()
    curves: tuple[Calibration, ...] = ()
    embedder: str = ""
    steps: str = ""

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> EvidenceTable:
        """The inverse of [`as_dict`]."""
        return cls(
            tuple(Measurement(**row) for row in content["measured"]),
            tuple(Calibration(**row) for row in content["curves"]),
        )

    def as_dict(self, texts: str | None = None) -> dict[str, list[dict[str, Any]]]:
        """Plain JSON types, as in the file; with the curves of this kind of text, if one is given.

        Curves of other texts would put wrong words on a page.
        """
        return {
            "measured": [asdict(row) for row in self.measured],
            "curves": [asdict(row) for row in self.curves if texts in (None, row.texts)],
        }

    def about(self, names: Iterable[str | None], embedder: str, steps: str) -> EvidenceTable:
        """The rows of distances as they are made: by this encoder, from steps by this summarizer.

        >>> table = read_evidence().about(["pieces", "strategy"], "minilm", "extractive")
        >>> {row.distance for row in table.measured}, table.curve("strategy", "en")
        ({'pieces'}, None)
        """
        made = {
            (name, _encoder(name, embedder), steps if _reads_steps(name) else "")
            for name in names
            if name
        }

        def of_these(row: Measurement | Calibration) -> bool:
            return (row.distance, row.embedder, row.steps) in made

        measured = tuple(row for row in self.measured if of_these(row))
        curves = tuple(row for row in self.curves if of_these(row))
        return EvidenceTable(measured, curves, embedder, steps)

    def curve(self, distance: str | None, texts: str | None = None) -> Calibration | None:
        """The first curve of a distance, of this kind of text if one is given."""
        kinds = [row for row in self.curves if texts in (None, row.texts)]
        return next((row for row in kinds if row.distance == distance), None)

    def describe(self, choice: str, texts: str) -> str:
        """What a distance, or the groups of a chat model, sees in such texts, and how well.

        >>> read_evidence().about(["raw"], "static", "").describe("raw", "en").split("; ")
        ['wording and method together', 'not measured with the encoder static']
        """
        rows = [row for row in self.measured if row.distance == choice]
        known = [row for row in rows if row.texts == texts]
        sees = "the strategies that the chat model names"
        if choice in DISTANCES:
            sees = DISTANCES[choice].measures(chat=self.steps == CHAT)
        if known:
            known += [row for row in rows if row.texts == MISLEADING != texts]
            figures = ", ".join(map(str, known))
            worth = f"tells strategies apart with an AUROC of {figures} (0.5 is chance)"
        else:
            made = [f"with the encoder {_encoder(choice, self.embedder)}"] * (not rows)
            by_other = _reads_steps(choice) and self.steps != CHAT
            made += [f"with steps by {self.steps}"] * (not rows and by_other)
            made += [f"on {_KINDS.get(texts, f'texts in {texts!r}')}"] * bool(rows)
            worth = f"{NOT_MEASURED} {' and '.join(made)}"
        return f"{sees}; {worth}"


def _encoder(name: str, embedder: str) -> str:
    return (name in DISTANCES and DISTANCES[name].encoder) or embedder


def _reads_steps(name: str) -> bool:
    return name not in DISTANCES or DISTANCES[name].reads_steps


def read_evidence(path: str | Path | None = None) -> EvidenceTable:
    """The packaged table, below the rows of a file of one's own.

    Raises:
        [`InputError`]: The file cannot be read, or holds something else.
    """
    packaged = files("rpd_metric.distance").joinpath("measured.json")
    table = EvidenceTable.of(json.loads(packaged.read_text(encoding="utf-8")))
    if path is None:
        return table
    try:
        own = EvidenceTable.of(json.loads(Path(path).read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"cannot read the evidence {path}: {error.strerror or error}") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(
            f"{path} has no evidence; rpd compare-metrics FILE --write-evidence OUT writes some"
        ) from error
    return EvidenceTable(own.measured + table.measured, own.curves + table.curves)
