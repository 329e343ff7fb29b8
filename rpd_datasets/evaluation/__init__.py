"""Evaluating a model by pass@k: tasks for Inspect, and reports and comparisons of its logs.

    benchmarks.py -> inspect_tasks.py -> LOG -> results.py -> reporting.py, comparison.py
    (problems)       (Inspect runs)             (figures)     (tables and sentences)

`livecodebench.py` reads that benchmark's own files; `recipes/passk.py` is the command.
"""
