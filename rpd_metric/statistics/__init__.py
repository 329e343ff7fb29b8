"""pass@k and its neighbours: estimators, intervals and tests on plain arrays."""
