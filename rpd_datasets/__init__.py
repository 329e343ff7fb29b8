"""Reasoning Path Divergence for datasets: from raw rows to a curated, published dataset.

```py
from rpd_datasets import CurationConfig, rpd_curate, select_problems, to_sft

curated = select_problems(ds.map(rpd_curate), 100)
train = to_sft(curated)
```

Importing this package is fast and imports neither torch nor datasets.
"""

import rpd_metric  # noqa: F401  registers the metric
from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.curated import Curated, curate_dataset, load_curated
from rpd_datasets.curation.mapping import rpd_curate
from rpd_datasets.curation.run import RunOptions
from rpd_datasets.filters.candidates import Filter, FilterConfig
from rpd_datasets.inputs.layouts import Columns, RowLayout, grouped_items
from rpd_datasets.inputs.source import InputSpec
from rpd_datasets.problem import Problem, Rejected
from rpd_datasets.selection.problems import select_problems, select_samples
from rpd_datasets.selection.solutions import select_solutions
from rpd_datasets.sft import to_sft

__all__ = [
    "Columns",
    "Curated",
    "CurationConfig",
    "Filter",
    "FilterConfig",
    "InputSpec",
    "Problem",
    "Rejected",
    "RowLayout",
    "RunOptions",
    "curate_dataset",
    "grouped_items",
    "load_curated",
    "rpd_curate",
    "select_problems",
    "select_samples",
    "select_solutions",
    "to_sft",
]
