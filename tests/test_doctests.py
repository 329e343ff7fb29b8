"""Every example in a docstring runs."""

import doctest
import importlib
import pkgutil

import rpd_datasets
import rpd_metric

# `evaluate` loads the first by its path; the other starts the command line.
NOT_IMPORTED = ("rpd_metric.metrics.rpd.rpd", "__main__")


def test_the_examples_in_docstrings_run():
    attempted = 0
    for package in (rpd_metric, rpd_datasets):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(NOT_IMPORTED):
                results = doctest.testmod(importlib.import_module(module.name))
                assert not results.failed, module.name
                attempted += results.attempted
    assert attempted
