"""The `evaluate` metric: Reasoning Path Divergence of groups of solutions.

Thin on purpose: this file is also the whole of a metric Space on the Hub, so it validates
what comes in, lets `rpd_metric` do the work, and returns plain JSON types.
"""

import inspect
from typing import Any

import datasets
import evaluate

from rpd_metric.errors import InputError
from rpd_metric.measure import compute_rpd, validated_groups
from rpd_metric.models.static import default_embedder

_DESCRIPTION = """
Reasoning Path Divergence (RPD) says how differently a problem was solved. Every solution
becomes a short list of steps; each step of the shorter list looks for its closest step in the
longer one; the mean of those cosine distances is the RPD of the pair. A retelling of the same
argument scores low, another strategy scores high, whatever the wording.
"""

_CITATION = """
@article{ju2025rpd,
  title  = {Reasoning Path Divergence: A New Metric and Curation Strategy to Unlock LLM Diverse
            Thinking},
  author = {Ju, Feng and Qin, Zeyu and Min, Rui and He, Zhitao and Kong, Lingpeng and
            Fung, Yi R.},
  year   = {2025}
}
"""

# One text for both: evaluate's own interface takes the same arguments.
_KWARGS_DESCRIPTION = f"""
`summarizer`, `embedder` and `ties` are options of `evaluate.load("rpd", ...)`, the others of
`compute`. As [`rpd_metric.compute_rpd`]:

{inspect.getdoc(compute_rpd)}
"""

# Offsets of 64 bits: those of 32 end at 2 GB of text.
_TEXT = datasets.Value("large_string")
# What one row of each form looks like.
_FEATURES = {
    "steps": datasets.Features(
        {"predictions": datasets.LargeList(datasets.LargeList(_TEXT)), "references": _TEXT}
    ),
    "solutions": datasets.Features({"predictions": datasets.LargeList(_TEXT), "references": _TEXT}),
    "pair": datasets.Features({"predictions": _TEXT, "references": _TEXT}),
}


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class Rpd(evaluate.Metric):  # type: ignore[misc]
    """Reasoning Path Divergence as an `evaluate` metric."""

    def __init__(
        self,
        *args: Any,
        summarizer: Any = "extractive",
        embedder: Any = None,
        ties: Any = "mean",
        **kwargs: Any,
    ) -> None:
        known = inspect.signature(evaluate.EvaluationModule.__init__).parameters
        if unknown := sorted(kwargs.keys() - known.keys() - {"hash"}):
            raise InputError(
                f"evaluate.load('rpd') has no option {', '.join(unknown)}; "
                "its options are summarizer, embedder and ties"
            )
        if ties not in ("mean", "first"):
            raise InputError(f'ties is {ties!r}; use "mean" or "first"')
        self.summarizer = summarizer
        self.embedder = default_embedder() if embedder is None else embedder
        self.ties = ties
        self._form = ""
        super().__init__(*args, **kwargs)

    def _info(self) -> Any:
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=list(_FEATURES.values()),
            reference_urls=["https://github.com/fengjujf/Reasoning-Path-Divergence"],
        )

    def add(self, *, prediction: Any = None, reference: Any = None, **kwargs: Any) -> None:
        """Add one problem's solutions (or one pair): a row of `predictions` and `references`."""
        # evaluate.combine passes a single row under the plural names.
        prediction = kwargs.pop("predictions", prediction)
        reference = kwargs.pop("references", reference)
        references = None if reference is None else [reference]
        self.add_batch(predictions=[prediction], references=references, **kwargs)

    def add_batch(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> None:
        """Add several problems (or pairs); a batch with a row that is wrong leaves nothing."""
        if kwargs:
            raise InputError(f"rpd takes predictions and references, not {', '.join(kwargs)}")
        rows, references, form = validated_groups(predictions, references)
        if self.writer is not None and form != self._form:
            raise InputError(
                f"these rows are of the form {form!r}, earlier ones of the form {self._form!r}: "
                "use one form for one result"
            )
        self._form = form
        super().add_batch(predictions=rows, references=references)

    def _infer_feature_from_example(self, example: Any) -> Any:  # noqa: ARG002
        # The base class tries the features on the first row and takes what happens to fit;
        # here the form is known.
        return _FEATURES[self._form]

    def _compute(
        self, predictions: Any, references: Any, return_matrices: bool = False
    ) -> dict[str, Any]:
        options = {"summarizer": self.summarizer, "embedder": self.embedder, "ties": self.ties}
        return compute_rpd(predictions, references, return_matrices=return_matrices, **options)
