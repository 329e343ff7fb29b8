"""From a problem's texts to distance matrices: read, encode each text once, compare.

The middle of the pipeline, shared by the metric, by curation and by the benchmark of distances.
Steps come in as text; making steps of solutions is `rpd_metric.steps`, the arithmetic
`rpd_metric.distance`.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rpd_metric.distance.core import (
    Evidence,
    Ties,
    mean_pairwise,
    none_for_nan,
    problem_score,
    rpd_matrix,
)
from rpd_metric.distance.distances import Distance, load_distance
from rpd_metric.errors import InputError
from rpd_metric.grading.work import counted_lines
from rpd_metric.models.concurrency import run
from rpd_metric.models.spec import Embedder, load_embedder
from rpd_metric.models.static import default_embedder
from rpd_metric.plugins import border, checked_vectors
from rpd_metric.reasons import Reason
from rpd_metric.steps.passages import answer_part, word_spans
from rpd_metric.steps.protocol import Summarizer, Summary, summaries_of
from rpd_metric.steps.summarizers import load_summarizer
from rpd_metric.steps.vocabulary import expressions, find_methods, known_methods

Matrix = npt.NDArray[np.float64]
Steps = Sequence[Sequence[str]]

PROBLEMS_PER_CALL = 64
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
    row: Mapping[str, Any] | None = None,
) -> dict[str, Matrix]:
    """The `(k, k)` matrices of several distances, by name, each text encoded once.

    Solutions that cannot be placed are NaN. Distances are names, or [`Distance`] objects;
    `steps` is for those that read them, `seed` for those that draw, and `row`, the columns beside
    the solutions, for those that run programs on its tests.
    """
    loaded = [load_distance(distance) for distance in distances]
    kinds = dict.fromkeys(kind for distance in loaded for kind in distance.reads)
    evidence = gather(kinds, problem, solutions, steps, embedder, seed, row)
    return {distance.name: distance(evidence) for distance in loaded}


def gather(
    kinds: Iterable[str],
    problem: str,
    solutions: Sequence[str],
    steps: Steps | None,
    embedder: Embedder,
    seed: int = 0,
    row: Mapping[str, Any] | None = None,
) -> Evidence:
    """Read texts of these kinds and encode them; see [`distance_matrices`]."""
    filled: Steps = steps if steps is not None else [()] * len(solutions)
    texts = {kind: texts_of(kind, problem, solutions, filled) for kind in kinds}
    counted: dict[str, Callable[[list[list[str]]], list[Any]]] = {
        "methods": _rarities,
        "expressions": _occurrences,
        "work": lambda _: list(counted_lines(row or {}, solutions)[:, None]),
    }
    vectors = {kind: count(texts[kind]) for kind, count in counted.items() if kind in texts}
    taught = [kind for kind in texts if kind in TAUGHT_KINDS]
    encoders = [(embedder, [kind for kind in texts if kind not in (*counted, *taught)])]
    if taught:
        threads = getattr(getattr(embedder, "options", None), "threads", 1)
        encoders.append((load_embedder("taught", threads=threads), taught))
    for encoder, encoded_kinds in encoders:
        encoded = _encoded([texts[kind] for kind in encoded_kinds], encoder)
        vectors |= {kind: _rows(texts[kind], encoded) for kind in encoded_kinds}
    return Evidence(problem, len(solutions), texts, vectors, seed)


def compute_rpd(
    predictions: Sequence[Any],
    references: Sequence[str] | None = None,
    *,
    summarizer: str | Summarizer = "extractive",
    embedder: str | Embedder | None = None,
    ties: Ties = "mean",
    return_matrices: bool = False,
) -> dict[str, Any]:
    """Reasoning Path Divergence of groups of solutions, from text or from steps.

    Args:
        predictions (sequence): Of each problem its solutions, as texts or as lists of steps; or
            solution texts, each compared with the text in `references`.
        references (`list[str]`, *optional*): The problem of each group, which the summarizer reads.
        summarizer (`str`): Turns solution texts into steps: `"extractive"` or a chat model's spec.
        embedder (`str`, *optional*): Encodes steps: `"minilm"`, `"static"` or a spec; `"minilm"` if
            unset, or `"static"` where its packages are missing.
        ties (`"mean"` or `"first"`): As in [`~rpd_metric.rpd_distance`].
        return_matrices (`bool`): Also return every problem's distance matrix.

    Returns:
        `dict`: `rpd`, the mean over problems; `rpd_per_problem` and `problem_score` (Eq. 3), `None`
            where fewer than two solutions are usable; and how many solutions had no steps, and why.

    >>> groups = [[["Expand the product.", "Add like terms."], ["Set x to zero."]]]
    >>> compute_rpd(groups, embedder="static")["num_solutions"]
    2
    """
    rows, texts, _ = validated_groups(predictions, references)
    encoder = load_embedder(default_embedder() if embedder is None else embedder)
    reader = None
    matrices: list[Matrix] = []
    reasons: Counter[str] = Counter()
    num_solutions = 0
    for start in range(0, len(rows), PROBLEMS_PER_CALL):
        groups = []
        batch = slice(start, start + PROBLEMS_PER_CALL)
        for row, text in zip(rows[batch], texts[batch], strict=True):
            pair = isinstance(row, str)
            problem, solutions = (None, [row, text]) if pair else (text or None, row)
            if solutions and isinstance(solutions[0], str):
                reader = reader or load_summarizer(summarizer)
                summaries = run(summaries_of(reader, problem, solutions))
            else:
                summaries = [Summary(tuple(steps)) for steps in solutions]
            groups.append([summary.steps for summary in summaries])
            num_solutions += len(solutions)
            reasons.update(
                summary.reason or Reason.NO_STEPS
                for summary in summaries
                if not _nonempty(summary.steps)
            )
        matrices += step_matrices(groups, encoder, ties)
    means = [mean_pairwise(matrix) for matrix in matrices]
    measured = [mean for mean in means if mean is not None]
    lists = [none_for_nan(matrix) for matrix in matrices]
    return {
        "rpd": sum(measured) / len(measured) if measured else None,
        "rpd_per_problem": means,
        "problem_score": [problem_score(matrix) for matrix in matrices],
        **({"matrices": lists} if return_matrices else {}),
        "num_problems": len(rows),
        "num_solutions": num_solutions,
        "num_unsummarized": sum(reasons.values()),
        "unsummarized_reasons": {str(reason): count for reason, count in reasons.items()},
    }


def step_matrices(
    problems: Sequence[Steps], embedder: Embedder, ties: Ties = "mean"
) -> list[Matrix]:
    """RPD matrices of several problems, with one call to the encoder for all of them.

    A solution without steps has NaN in its row and column: it is unknown, not maximally far away,
    which is what Algorithm 3 alone would make of it.

    A blank step is none; `ties` is as in [`~rpd_metric.rpd_distance`].
    """
    cleaned = [[_nonempty(steps) for steps in solutions] for solutions in problems]
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
    texts = list(dict.fromkeys(text for reading in readings for texts in reading for text in texts))
    if not texts:
        return {}
    what = f"the embedder {embedder.name!r}"
    with border(what, embedder):
        vectors = checked_vectors(embedder.encode(texts), len(texts), what)
    return dict(zip(texts, vectors, strict=True))


def _rows(
    readings: Sequence[Sequence[str]], encoded: Mapping[str, npt.NDArray[np.float32]]
) -> list[npt.NDArray[np.float32]]:
    empty = np.zeros((0, 0), dtype=np.float32)
    return [np.stack([encoded[text] for text in texts]) if texts else empty for texts in readings]


def _rarities(readings: Sequence[Sequence[str]]) -> list[npt.NDArray[np.float32]]:
    """Per solution one row with the weight of each method that it names."""
    column = {method.phrase: place for place, method in enumerate(known_methods())}
    weights = np.array([method.weight for method in known_methods()], dtype=np.float32)
    rows = []
    for texts in readings:
        row = np.zeros((len(texts), len(weights)), dtype=np.float32)
        columns = [column[phrase] for text in texts for phrase in text.splitlines()]
        row[:, columns] = weights[columns]
        rows.append(row)
    return rows


def _occurrences(readings: Sequence[Sequence[str]]) -> list[npt.NDArray[np.float32]]:
    """Per solution one row, 1 in the place of each expression of the problem that it has."""
    expression_sets = [[set(text.splitlines()) for text in texts] for texts in readings]
    places = sorted(set().union(*(positions for texts in expression_sets for positions in texts)))
    return [
        np.array(
            [[place in positions for place in places] for positions in texts], dtype=np.float32
        )
        for texts in expression_sets
    ]


def pieces_read(solution: str) -> list[str]:
    """The pieces of a solution that are read, evenly spaced from first to last."""
    text = answer_part(solution)
    words = word_spans(text)
    parts = [words[start : start + PIECE_WORDS] for start in range(0, len(words), PIECE_WORDS)]
    pieces = [" ".join(text[part[0][0] : part[-1][1]].split()) for part in parts]
    if len(pieces) <= MOST_PIECES:
        return pieces
    return [pieces[round(place)] for place in np.linspace(0, len(pieces) - 1, MOST_PIECES)]


def _nonempty(steps: Sequence[str]) -> list[str]:
    return [step for step in steps if step.strip()]


def _expressions(problem: str, solution: str) -> list[str]:
    if not solution.strip():
        return []
    return ["\n".join(sorted(expressions(answer_part(solution)) - expressions(problem)))]


def _method_names(solution: str) -> list[str]:
    return ["\n".join(method.phrase for method in find_methods(answer_part(solution)))]


def texts_of(kind: str, problem: str, solutions: Sequence[str], steps: Steps) -> list[list[str]]:
    """What a distance reads of each solution, by the kind of texts."""
    if kind == "steps":
        return [_nonempty(solution) for solution in steps]
    if kind == "summary":
        return [[" ".join(nonempty)] if nonempty else [] for nonempty in map(_nonempty, steps)]
    if kind == "expressions":
        return [_expressions(problem, text) for text in solutions]
    if kind in ("statement", "taught statement"):
        return [[problem] for _ in solutions]
    return [OF_A_TEXT[kind](text) for text in solutions]


# Kinds that need nothing but a solution's text.
OF_A_TEXT: Mapping[str, Callable[[str], list[str]]] = {
    "text": lambda text: _nonempty([text]),
    "pieces": pieces_read,
    "taught": pieces_read,
    "methods": _method_names,
    "work": lambda text: _nonempty([text]),
}


def _plain(value: Any) -> Any:
    """Lists for tuples, arrays and a dataset's columns: one kind of container left to check."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        return value
    return [_plain(item) for item in value]


def _form_of(row: Any, where: str) -> str | None:
    """`"pair"`, `"solutions"`, `"steps"`, or `None` for an empty group; refuses anything else."""
    if isinstance(row, str):
        return "pair"
    solutions = row if isinstance(row, list) else [None]
    if not solutions:
        return None
    if all(isinstance(solution, str) for solution in solutions):
        return "solutions"
    for solution in solutions:
        steps = solution if isinstance(solution, list) else [None]
        if not all(isinstance(step, str) for step in steps):
            raise InputError(
                f"{where} is {str(row)[:80]}; a row is a list of solution texts, a list of lists "
                "of steps, or one solution text to compare with its reference"
            )
    return "steps"


def validated_groups(predictions: Any, references: Any) -> tuple[list[Any], list[str], str]:
    """Rows, their references and form, for [`compute_rpd`]. Raises [`InputError`] for a bad row."""
    rows = _plain(predictions)
    if not isinstance(rows, list) or not rows:
        kind = "empty" if rows == [] else f"of the type {type(predictions).__name__}"
        raise InputError(f"predictions are {kind}: pass a list with one group per problem")
    forms = [_form_of(row, f"predictions[{index}]") for index, row in enumerate(rows)]
    form = next((entry for entry in forms if entry is not None), "solutions")
    for index, other in enumerate(forms):
        if other not in ((form,) if form == "pair" else (None, form)):
            raise InputError(
                f"predictions[{index}] has the form {other or 'of an empty group'!r}, earlier rows "
                f"the form {form!r}: use one form for all rows"
            )
    if references is None and form == "pair":
        raise InputError(
            "flat solution texts need references, the other solution of each pair; for groups pass "
            "a list of lists"
        )
    references = [""] * len(rows) if references is None else _plain(references)
    if not isinstance(references, list) or len(references) != len(rows):
        raise InputError(f"{len(rows)} predictions need a list of as many references")
    for index, reference in enumerate(references):
        if not isinstance(reference, str):
            raise InputError(f"references[{index}] is a text, not {type(reference).__name__}")
        try:
            json.dumps([rows[index], reference], ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"row {index} holds the lone surrogate {error.object[error.start]!a}, which is no "
                "text: decode the input with errors='replace'"
            ) from None
    return rows, references, form
