"""From a problem's texts to distance matrices: read, encode each text once, compare.

The middle of the pipeline, shared by the metric, by curation and by the benchmark of distances.
Steps come in as text; making steps of solutions is `rpd_metric.steps`, the arithmetic
`rpd_metric.distance`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from rpd_metric.distance.core import Ties, rpd_matrix
from rpd_metric.distance.distances import Distance, load_distance
from rpd_metric.distance.evidence import Evidence
from rpd_metric.models.embedders import Embedder
from rpd_metric.models.kinds import load_embedder
from rpd_metric.plugins import border, checked_vectors
from rpd_metric.steps.expressions import expressions
from rpd_metric.steps.passages import answer_part, word_spans
from rpd_metric.steps.vocabulary import find_methods, known_methods

Matrix = npt.NDArray[np.float64]
Steps = Sequence[Sequence[str]]

# MiniLM reads 256 word pieces, which is about as many as 150 words with their mathematics.
CHUNK_WORDS = 150
# Long enough to say what is done, short enough to say one thing. Eight, evenly spaced, see strategy
# as well as all of them, and bound what a reasoning trace costs.
PIECE_WORDS = 40
MOST_PIECES = 8
# Of these kinds of texts the taught encoder makes the vectors, whatever the embedder is.
TAUGHT_KINDS = ("taught", "taught statement")


def distance_matrices(
    distances: Iterable[str | Distance],
    problem: str,
    solutions: Sequence[str],
    steps: Steps | None,
    embedder: Embedder,
    seed: int = 0,
) -> dict[str, Matrix]:
    """The `(k, k)` matrices of several distances, by name, each text encoded once.

    Solutions that cannot be placed are NaN. Distances are names, or [`Distance`] objects;
    `steps` is for those that read them, and `seed` for those that draw.
    """
    asked = [load_distance(distance) for distance in distances]
    kinds = dict.fromkeys(kind for distance in asked for kind in distance.reads)
    evidence = gather(kinds, problem, solutions, steps, embedder, seed)
    return {distance.name: distance(evidence) for distance in asked}


def gather(
    kinds: Iterable[str],
    problem: str,
    solutions: Sequence[str],
    steps: Steps | None,
    embedder: Embedder,
    seed: int = 0,
) -> Evidence:
    """Read texts of these kinds and encode them; see [`distance_matrices`]."""
    filled: Steps = steps if steps is not None else [()] * len(solutions)
    texts = {kind: READINGS[kind](problem, solutions, filled) for kind in kinds}
    counted = {"methods": _rarities, "expressions": _occurrences}
    taught = [kind for kind in texts if kind in TAUGHT_KINDS]
    others = [kind for kind in texts if kind not in (*counted, *taught)]
    encoded = _encoded([texts[kind] for kind in others], embedder)
    vectors = {kind: _rows(texts[kind], encoded) for kind in others}
    if taught:
        threads = getattr(getattr(embedder, "options", None), "threads", 1)
        encoded = _encoded(
            [texts[kind] for kind in taught], load_embedder("taught", threads=threads)
        )
        vectors |= {kind: _rows(texts[kind], encoded) for kind in taught}
    vectors |= {kind: count(texts[kind]) for kind, count in counted.items() if kind in texts}
    return Evidence(problem, len(solutions), texts, vectors, seed)


def step_matrices(
    problems: Sequence[Steps], embedder: Embedder, ties: Ties = "mean"
) -> list[Matrix]:
    """RPD matrices of several problems, with one call to the encoder for all of them.

    A solution without steps has NaN in its row and column: it is unknown, not maximally far away,
    which is what Algorithm 3 alone would make of it.

    A blank step is none; `ties` is as in [`~rpd_metric.rpd_distance`].
    """
    cleaned = [[_kept(steps) for steps in solutions] for solutions in problems]
    encoded = _encoded(cleaned, embedder)
    matrices = []
    for solutions in cleaned:
        usable = [index for index, steps in enumerate(solutions) if steps]
        matrix = np.full((len(solutions), len(solutions)), np.nan)
        rows = _rows([solutions[index] for index in usable], encoded)
        matrix[np.ix_(usable, usable)] = rpd_matrix(rows, ties=ties)
        matrices.append(matrix)
    return matrices


def _encoded(
    readings: Iterable[Sequence[Sequence[str]]], embedder: Embedder
) -> dict[str, npt.NDArray[np.float32]]:
    """The vector of each distinct text, by one call to the encoder."""
    texts = list(dict.fromkeys(text for read in readings for texts in read for text in texts))
    if not texts:
        return {}
    what = f"the embedder {embedder.name!r}"
    with border(what, embedder):
        vectors = checked_vectors(embedder.encode(texts), len(texts), what)
    return dict(zip(texts, vectors, strict=True))


def _rows(
    read: Sequence[Sequence[str]], encoded: Mapping[str, npt.NDArray[np.float32]]
) -> list[npt.NDArray[np.float32]]:
    """Per solution an array with a row for each of its texts."""
    empty = np.zeros((0, 0), dtype=np.float32)
    return [np.stack([encoded[text] for text in texts]) if texts else empty for texts in read]


def _rarities(read: Sequence[Sequence[str]]) -> list[npt.NDArray[np.float32]]:
    """Per solution one row with the weight of each method that it names."""
    column = {method.phrase: place for place, method in enumerate(known_methods())}
    weights = np.array([method.weight for method in known_methods()], dtype=np.float32)
    rows = []
    for texts in read:
        row = np.zeros((len(texts), len(weights)), dtype=np.float32)
        named = [column[phrase] for text in texts for phrase in text.splitlines()]
        row[:, named] = weights[named]
        rows.append(row)
    return rows


def _occurrences(read: Sequence[Sequence[str]]) -> list[npt.NDArray[np.float32]]:
    """Per solution one row, 1 in the place of each expression of the problem that it has."""
    own = [[set(text.splitlines()) for text in texts] for texts in read]
    places = sorted(set().union(*(found for texts in own for found in texts)))
    return [
        np.array([[place in found for place in places] for found in texts], dtype=np.float32)
        for texts in own
    ]


def _pieces_read(solution: str) -> list[str]:
    """The pieces of a solution that are read, evenly spaced from first to last."""
    pieces = _in_pieces(answer_part(solution), PIECE_WORDS)
    if len(pieces) <= MOST_PIECES:
        return pieces
    return [pieces[round(place)] for place in np.linspace(0, len(pieces) - 1, MOST_PIECES)]


def _in_pieces(text: str, size: int) -> list[str]:
    """A text in pieces of `size` words; the last one may be shorter."""
    words = word_spans(text)
    parts = [words[start : start + size] for start in range(0, len(words), size)]
    return [" ".join(text[part[0][0] : part[-1][1]].split()) for part in parts]


def _kept(steps: Sequence[str]) -> list[str]:
    return [step for step in steps if step.strip()]


def _expressions(problem: str, solution: str) -> list[str]:
    if not solution.strip():
        return []
    return ["\n".join(sorted(expressions(answer_part(solution)) - expressions(problem)))]


def _method_names(solution: str) -> list[str]:
    return ["\n".join(method.phrase for method in find_methods(answer_part(solution)))]


Reading = Callable[[str, Sequence[str], Steps], list[list[str]]]
# What the texts of each kind are, of a problem, its solutions and their steps.
READINGS: Mapping[str, Reading] = {
    "steps": lambda _problem, _solutions, steps: [_kept(one) for one in steps],
    "summary": lambda _problem, _solutions, steps: [
        [" ".join(kept)] if kept else [] for kept in map(_kept, steps)
    ],
    "text": lambda _problem, solutions, _steps: [_kept([text]) for text in solutions],
    "chunks": lambda _problem, solutions, _steps: [
        _in_pieces(text, CHUNK_WORDS) for text in solutions
    ],
    "pieces": lambda _problem, solutions, _steps: [_pieces_read(text) for text in solutions],
    "methods": lambda _problem, solutions, _steps: [_method_names(text) for text in solutions],
    "statement": lambda problem, solutions, _steps: [[problem] for _ in solutions],
    "taught": lambda _problem, solutions, _steps: [_pieces_read(text) for text in solutions],
    "taught statement": lambda problem, solutions, _steps: [[problem] for _ in solutions],
    "expressions": lambda problem, solutions, _steps: [
        _expressions(problem, text) for text in solutions
    ],
}
