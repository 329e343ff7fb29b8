"""Reasoning Path Divergence: how differently a problem was solved, from text to number.

`compute_rpd` measures groups of solutions; the numbers alone are `rpd_distance` and `rpd_matrix`.
Importing this package is fast, imports no torch, and registers the metric, so that
`evaluate.load("rpd")` works in any directory, offline.
"""

from rpd_metric.distance.core import (
    mean_pairwise,
    problem_score,
    rpd_alignment,
    rpd_distance,
    rpd_matrix,
)
from rpd_metric.distance.distances import Distance
from rpd_metric.distance.groups import (
    ReaderTrust,
    div_self_bleu,
    groups_auroc,
    scores_by_groups,
    strategy_groups,
)
from rpd_metric.errors import (
    InputError,
    MissingExtraError,
    ModelError,
    OutputError,
    PluginError,
    ReplyError,
    RPDError,
    SpecError,
    StoreError,
)
from rpd_metric.grading.isolation import SandboxError
from rpd_metric.measure import compute_rpd
from rpd_metric.models.chat import Sampling
from rpd_metric.models.failures import BudgetSpent, Interrupted, ServerError, ServerUnavailable
from rpd_metric.models.requests import RequestOptions
from rpd_metric.models.spec import Kind
from rpd_metric.reasons import Reason
from rpd_metric.registration import register
from rpd_metric.statistics.estimators import pass_at_k
from rpd_metric.statistics.strategy_counts import (
    coverage_at_n,
    distinct_at_k,
    effective_number,
    rare_advantage,
    strategy_counts,
)
from rpd_metric.steps.grouping import StrategyReader
from rpd_metric.steps.protocol import Summary

__all__ = [
    "BudgetSpent",
    "Distance",
    "InputError",
    "Interrupted",
    "Kind",
    "MissingExtraError",
    "ModelError",
    "OutputError",
    "PluginError",
    "RPDError",
    "ReaderTrust",
    "Reason",
    "ReplyError",
    "RequestOptions",
    "Sampling",
    "SandboxError",
    "ServerError",
    "ServerUnavailable",
    "SpecError",
    "StoreError",
    "StrategyReader",
    "Summary",
    "compute_rpd",
    "coverage_at_n",
    "distinct_at_k",
    "div_self_bleu",
    "effective_number",
    "groups_auroc",
    "mean_pairwise",
    "pass_at_k",
    "problem_score",
    "rare_advantage",
    "register",
    "rpd_alignment",
    "rpd_distance",
    "rpd_matrix",
    "scores_by_groups",
    "strategy_counts",
    "strategy_groups",
]

__version__ = "0.2.0"

register()
