"""Evaluating models: benchmarks as tasks of Inspect, and reports of its logs."""
