"""Evaluating models: benchmarks as tasks of Inspect, reports and comparisons of its logs."""
