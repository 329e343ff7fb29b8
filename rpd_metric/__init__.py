"""Reasoning Path Divergence: how differently a problem was solved, from text to number.

Importing this package is fast, imports no torch, and registers the metric, so that

```py
>>> import evaluate, rpd_metric
>>> rpd = evaluate.load("rpd")

```

works in any directory, offline. The numbers alone are `rpd_distance` and `rpd_matrix`.
"""

from rpd_metric.distance.core import (
    mean_pairwise,
    problem_score,
    rpd_alignment,
    rpd_distance,
    rpd_matrix,
)
from rpd_metric.errors import (
    InputError,
    MissingExtraError,
    ModelError,
    OutputError,
    ReplyError,
    RPDError,
    SpecError,
    StoreError,
)
from rpd_metric.registration import register
from rpd_metric.statistics.estimators import pass_at_k

__all__ = [
    "InputError",
    "MissingExtraError",
    "ModelError",
    "OutputError",
    "RPDError",
    "ReplyError",
    "SpecError",
    "StoreError",
    "mean_pairwise",
    "pass_at_k",
    "problem_score",
    "register",
    "rpd_alignment",
    "rpd_distance",
    "rpd_matrix",
]

__version__ = "0.2.0"

register()
