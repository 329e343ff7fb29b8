"""Evaluating a model by pass@k: load a benchmark, sample, grade, report, compare.

    benchmarks.py -> generation.py -> marking.py -> results.py -> reporting.py, comparison.py
    (problems)       (samples)        (verdicts)    (figures)     (tables, files, sentences)

`livecodebench.py` reads that benchmark's own files, `serving.py` starts a server for a run, and
`inspect_log.py` writes what Inspect opens. `samples.py` is the file between the stages,
`passk_config.py` every option, `paper.py` the published figures. `recipes/passk.py` is the command.
The estimators themselves are in `rpd_metric.statistics`.
"""
