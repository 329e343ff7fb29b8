"""pass@k and its neighbours: right-or-wrong arrays in, one value per problem out.

    samples (problems, runs, n) -> one value per problem (problems,)

A benchmark's figure is the mean of those values; `intervals.py` says how far to trust it.

Two estimators of pass@k are offered because published figures mix them. The unbiased one
uses all samples and has the smaller variance; the paper instead asks, run by run, which
problems are solved within the first k samples, and averages the runs. They agree in
expectation, not sample by sample.

Plain numpy. Not here: deciding which answers are right (`rpd_metric.grading`) and filling in
for samples that never came. The arrays are rectangular on purpose: a model is not scored on
fewer samples than were asked for.
"""

from typing import Any, overload

import numpy as np
import numpy.typing as npt

from rpd_metric.errors import InputError

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@overload
def pass_at_k(n: int, c: int, k: int) -> float: ...
@overload
def pass_at_k(n: npt.ArrayLike, c: npt.ArrayLike, k: npt.ArrayLike) -> float | Floats: ...
def pass_at_k(n: npt.ArrayLike, c: npt.ArrayLike, k: npt.ArrayLike) -> float | Floats:
    """Unbiased estimate of the chance that one of k samples is right (Chen et al. 2021, Eq. 1).

    `1 - C(n - c, k) / C(n, k)`, as a product of k ratios, so that no binomial coefficient is
    ever formed. Never decreases, not by a rounding error either, when k or c grows.

    Args:
        n (`int` or integer array): Samples drawn per problem.
        c (`int` or integer array): Right ones among them.
        k (`int` or integer array): How many attempts count; at most `n`.

    Returns:
        `float`, or an `array` of the arguments' broadcast shape; in [0, 1].

    >>> pass_at_k(4, 1, 2)
    0.5
    >>> pass_at_k(16, [0, 1, 16], 4)
    array([0.  , 0.25, 1.  ])
    """
    try:
        samples, right, attempts = np.broadcast_arrays(
            _integers(n, "n"), _integers(c, "c"), _integers(k, "k")
        )
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"n, c and k do not broadcast to one shape: {error}") from None
    _refuse(samples < 1, "n is below 1; a problem needs at least one sample")
    _refuse(attempts < 1, "k is below 1; pass@k needs at least one attempt")
    _refuse(right < 0, "c is negative; it counts right samples")
    _refuse(right > samples, "c is above n; more samples are right than were drawn")
    _refuse(attempts > samples, "k is above n; draw at least k samples per problem")
    missed = np.ones(samples.shape)
    for i in range(int(attempts.max(initial=0))):
        # A problem with fewer attempts than the largest k is finished early: its ratio is 1.
        wrong_left = np.maximum(samples - right - i, 0)
        left = np.maximum(samples - i, 1)
        missed = missed * np.where(i < attempts, wrong_left / left, 1.0)
    passed = 1.0 - missed
    return float(passed) if passed.ndim == 0 else passed


def first_k_per_problem(correct: npt.ArrayLike, k: int) -> Floats:
    """pass@k of every problem as the paper computes it: share of runs that solve it in k tries.

    A run solves a problem when one of its first k samples is right. The mean over problems is
    the mean over runs of the share of problems solved: 52.61 % on the 134 problems of MATH-500
    Level 5 with 4 runs is 282 of 536.

    Args:
        correct (`bool` array of shape `(problems, runs, n)` or `(problems, n)`): Which samples
            are right, in the order they were drawn.
        k (`int`): At most `n`.

    >>> first_k_per_problem([[[0, 1, 1], [0, 0, 1]], [[0, 0, 0], [0, 0, 0]]], k=2)
    array([0.5, 0. ])
    """
    samples = _samples(correct)
    num_samples = samples.shape[2]
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k <= num_samples:
        raise InputError(f"k is {k!r}; use an integer from 1 to the {num_samples} samples of a run")
    return np.asarray(samples[:, :, :k].any(axis=2).mean(axis=1), dtype=np.float64)


def cons_at_n(correct: npt.ArrayLike, answers: npt.ArrayLike) -> Floats:
    """Majority vote: how often the most frequent answer of a run is right (cons@n, maj@n).

    Right samples are one candidate whatever their notation, because the grader has already
    found them equal; wrong samples are candidates by their text, so hand in normalised
    answers. A sample without an answer does not vote. A tie is split: a right answer that
    ties with one other counts one half, as breaking the tie by lot would on average.

    Args:
        correct (`bool` array of shape `(problems, runs, n)` or `(problems, n)`): Which are right.
        answers (array of `str` or `None`, same shape): The final answers.

    >>> cons_at_n([[1, 1, 0, 0]], [["0.5", "1/2", "3", "3"]])
    array([0.5])
    """
    samples = _samples(correct)
    texts = np.asarray(answers, dtype=object)
    if texts.ndim == 2:
        texts = texts[:, None, :]
    if texts.shape != samples.shape:
        raise InputError(
            f"correct has shape {samples.shape} and answers {texts.shape} (problems, runs, n); "
            "give one answer per sample, None where there is none"
        )
    votes = np.empty(samples.shape[:2])
    for place in np.ndindex(*votes.shape):
        votes[place] = _vote(samples[place].tolist(), texts[place].tolist())
    return np.asarray(votes.mean(axis=1), dtype=np.float64)


def _integers(values: npt.ArrayLike, name: str) -> npt.NDArray[np.int64]:
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise InputError(f"{name} must hold integers, not {array.dtype}")
    return array.astype(np.int64)


def _refuse(bad: npt.NDArray[np.bool_], message: str) -> None:
    if bad.any():
        raise InputError(message)


def _samples(correct: npt.ArrayLike) -> Bools:
    try:
        array = np.asarray(correct)
    except ValueError:
        raise InputError(
            "correct is ragged: every problem needs the same number of runs and samples; "
            "a missing sample is not a wrong one"
        ) from None
    if array.ndim == 2:
        array = array[:, None, :]
    if array.ndim != 3 or array.size == 0:
        raise InputError(
            f"correct has shape {array.shape}; give (problems, runs, n) or (problems, n)"
        )
    if array.dtype.kind not in "biu" or not np.isin(array, (0, 1)).all():
        raise InputError("correct must hold booleans (or 0 and 1)")
    return array.astype(np.bool_)


def _vote(correct: list[bool], answers: list[Any]) -> float:
    """1 when the majority is right, 0 when it is not, a share when it ties."""
    right = 0
    wrong: dict[str, int] = {}
    for is_right, answer in zip(correct, answers, strict=True):
        if is_right and answer is None:
            raise InputError("a sample is right but its answer is None; pass the graded answer")
        if is_right:
            right += 1
        elif answer is not None:
            wrong[answer] = wrong.get(answer, 0) + 1
    most = max(right, *wrong.values(), 0)
    if right == 0 or right < most:
        return 0.0
    return 1 / (1 + sum(count == most for count in wrong.values()))
