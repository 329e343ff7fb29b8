"""The `evaluate` module `pass_at_k`: pass@k of many problems with intervals.

Thin on purpose, as `rpd.py` is: it validates what comes in, lets `rpd_metric.statistics` and
`rpd_metric.grading` do the work, and returns plain JSON types. Programs are not run here
(`rpd_metric.grading.code` does): pass their verdicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import datasets
import evaluate
import numpy as np

from rpd_metric.errors import InputError
from rpd_metric.grading.answers import Verdict
from rpd_metric.grading.mathematics import Grader
from rpd_metric.statistics.estimators import pass_at_k
from rpd_metric.statistics.intervals import mean_interval

_DESCRIPTION = """
pass@k is the chance that one of k samples solves a problem. It is estimated without bias from n
samples of each problem, n at least k, and comes with a 95 % interval over problems.
"""

_CITATION = """
@article{chen2021evaluating,
  title  = {Evaluating Large Language Models Trained on Code},
  author = {Chen, Mark and others},
  year   = {2021}
}
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (`list`): One entry per problem: the verdicts on its samples (`True` or `1` for
        right), or their texts, which are then graded against `references` by math-verify. Every
        problem needs the same number of samples: a missing one is not a wrong one.
    references (`list[str]`, *optional*): The reference answer of each problem; with texts only.
    k (`int` or `list[int]`, *optional*): Defaults to those of 1, 2, 4, 8, 16 that the number of
        samples allows.

Returns:
    pass@k (`float`): For each k, from 0 to 1.
    intervals (`dict`): For each `pass@k`, the lower and upper end of its interval.
    mean@n (`float`): Share of right samples.
    num_problems, num_samples (`int`): Problems, and samples of each.
    verdicts (`dict`): Texts by verdict: `correct`, `wrong`, `no_answer`, `unparsable_gold`,
        `timed_out`. Empty when verdicts came in.

Examples:

    >>> import evaluate, rpd_metric
    >>> pass_at_k = evaluate.load("pass_at_k")
    >>> results = pass_at_k.compute(predictions=[[1, 0, 0, 0], [0, 0, 0, 0]], k=[1, 2])
    >>> results["pass@1"], results["pass@2"]
    (0.125, 0.25)
"""

_KS = (1, 2, 4, 8, 16)
_TEXT = datasets.Value("string")


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class PassAtK(evaluate.Metric):  # type: ignore[misc]
    """pass@k as an `evaluate` metric."""

    _graded = True

    def _info(self) -> Any:
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features({"predictions": datasets.List(_TEXT), "references": _TEXT}),
        )

    def add(self, *, prediction: Any = None, reference: Any = None, **kwargs: Any) -> None:
        """Add one problem: a row of `predictions` and `references`."""
        prediction = kwargs.pop("predictions", prediction)
        reference = kwargs.pop("references", reference)
        references = None if reference is None else [reference]
        self.add_batch(predictions=[prediction], references=references, **kwargs)

    def add_batch(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> None:
        """Add several problems; a batch with one that is wrong leaves nothing."""
        if kwargs:
            raise InputError(f"pass_at_k takes predictions and references, not {', '.join(kwargs)}")
        rows = list(_rows(predictions, references))
        forms = {graded for _, _, graded in rows}
        if self.writer is not None:
            forms.add(self._graded)
        if len(forms) > 1:
            raise InputError("some problems have verdicts and some texts; use one form")
        (self._graded,) = forms
        super().add_batch(
            predictions=[samples for samples, _, _ in rows],
            references=[reference for _, reference, _ in rows],
        )

    def _compute(self, predictions: Any, references: Any, k: Any = None) -> dict[str, Any]:
        samples = {len(row) for row in predictions}
        if len(samples) != 1:
            raise InputError(
                f"problems have {min(samples)} to {max(samples)} samples; every one needs the same "
                "number, because a missing sample is not a wrong one"
            )
        (n,) = samples
        verdicts: list[Verdict] = []
        if self._graded:
            correct = np.array([[text == "1" for text in row] for row in predictions])
        else:
            pairs = zip(predictions, references, strict=True)
            with Grader() as grader:
                verdicts = list(grader.grade((gold, text) for row, gold in pairs for text in row))
            marks = [verdict is Verdict.CORRECT for verdict in verdicts]
            correct = np.array(marks).reshape(len(predictions), n)
        ks = [size for size in _KS if size <= n] if k is None else [k] if isinstance(k, int) else k
        right = correct.sum(axis=1)
        intervals = {f"pass@{k}": mean_interval(pass_at_k(n, right, k)) for k in ks}
        return {
            **{name: interval.value for name, interval in intervals.items()},
            "intervals": {
                name: [interval.low, interval.high] for name, interval in intervals.items()
            },
            "mean@n": float(correct.mean()),
            "num_problems": len(predictions),
            "num_samples": n,
            "verdicts": dict(Counter(verdict.value for verdict in verdicts)),
        }


def _rows(predictions: Any, references: Any) -> Iterator[tuple[list[str], str, bool]]:
    """Per problem: its samples as text, its reference, and whether they are verdicts."""
    if predictions is None or isinstance(predictions, str) or not len(predictions):
        raise InputError("predictions are missing: pass a list with one list per problem")
    if references is not None and len(references) != len(predictions):
        raise InputError(f"{len(predictions)} predictions need as many references")
    for number, samples in enumerate(predictions):
        samples = samples.tolist() if hasattr(samples, "tolist") else samples
        where = f"predictions[{number}]"
        if not isinstance(samples, Sequence) or isinstance(samples, str) or not samples:
            raise InputError(f"{where} is not a list of verdicts or texts")
        reference = "" if references is None else str(references[number])
        if all(isinstance(sample, str) for sample in samples):
            if not reference.strip():
                raise InputError(f"{where} holds texts, which need a reference answer")
            yield list(samples), reference, False
        elif all(sample in (0, 1) for sample in samples):
            yield [str(int(sample)) for sample in samples], reference, True
        else:
            raise InputError(f"{where} must hold verdicts (True, False, 1, 0), or texts")
