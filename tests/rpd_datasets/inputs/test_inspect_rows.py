"""Inspect logs: what `inspect eval` writes is read as problems; ours opens there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rpd_datasets.evaluation.benchmarks import BENCHMARKS, Task
from rpd_datasets.evaluation.inspect_log import SCORER, write_inspect_log
from rpd_datasets.evaluation.marking import Mark
from rpd_datasets.evaluation.passk_config import EvaluationConfig
from rpd_datasets.evaluation.results import measure
from rpd_datasets.evaluation.samples import Sample
from rpd_datasets.inputs.local_files import LocalRows
from rpd_datasets.inputs.raw_rows import Row
from rpd_datasets.rejects import Rejected

inspect_ai = pytest.importorskip("inspect_ai")

EPOCHS = 4
PROBLEMS = {"a": "What is 2 + 3?", "b": "What is 4 + 5?"}
TARGETS = {"a": "5", "b": "9"}
WAYS = tuple(
    f"{way}\n\nANSWER: {{}}"
    for way in ("Count up.", "Draw both numbers on a line.", "Split the second.", "Use a table.")
)


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Inspect keeps traces in the user's folders: here in one of the test's own."""
    with pytest.MonkeyPatch.context() as patch:
        folder = str(tmp_path_factory.mktemp("home"))
        for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
            patch.setenv(name, folder)
        yield


@pytest.fixture(scope="module")
def log(home: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log by Inspect itself, with epochs, two scorers and an epoch that failed."""
    from inspect_ai import Task as InspectTask
    from inspect_ai import eval as inspect_eval
    from inspect_ai.dataset import Sample as InspectSample
    from inspect_ai.model import get_model
    from inspect_ai.scorer import includes, match
    from inspect_ai.solver import Generate, TaskState, solver

    @solver
    def scripted():  # type: ignore[no-untyped-def]
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            if state.sample_id == "b" and state.epoch == 3:
                raise RuntimeError("the model is gone")
            right = TARGETS[str(state.sample_id)] if state.epoch != 2 else "7"
            state.output.completion = WAYS[state.epoch - 1].format(right)
            return state

        return solve

    folder = tmp_path_factory.mktemp("logs")
    samples = [
        InspectSample(id=name, input=text, target=TARGETS[name]) for name, text in PROBLEMS.items()
    ]
    scorers = [match(numeric=True), includes()]
    task = InspectTask(samples, solver=scripted(), scorer=scorers, epochs=EPOCHS)
    task.fail_on_error = False
    model = get_model("mockllm/model")
    (done,) = inspect_eval(task, model=model, log_dir=str(folder), display="none")
    assert done.status == "success"
    (path,) = folder.glob("*.eval")
    return path


def test_epochs_are_solutions_and_scores_are_marks(log: Path) -> None:
    found = list(LocalRows(log, name="log"))
    (failed,) = [row for row in found if isinstance(row, Rejected)]
    assert (failed.reason, failed.where) == ("failed_epoch", f"{log.name}:b:epoch 3")
    first, second = (row.values for row in found if isinstance(row, Row))
    assert (first["id"], first["problem"], first["answer"]) == ("a", PROBLEMS["a"], "5")
    assert first["solutions"] == [way.format(7 if n == 1 else 5) for n, way in enumerate(WAYS)]
    assert first["correct"] == first["correct_match"] == [True, False, True, True]
    assert len(second["solutions"]) == 3
    assert second["correct"] == [True, False, True]
    assert second["correct_includes"] == [True, False, True]


@pytest.mark.slow
def test_our_log_is_read_by_inspect_with_the_same_figures(tmp_path: Path) -> None:
    from inspect_ai.log import read_eval_log
    from inspect_ai.scorer import pass_at, value_to_float

    tasks = [Task(f"t{n}", f"Problem {n}?", gold=str(n)) for n in range(30)]
    config = EvaluationConfig("aime24", samples=8, runs=2, max_tokens=100)
    rng = np.random.default_rng(0)
    right = rng.random((2, 8, 30)) < rng.random(30)
    keys = [(t, r, s) for r in range(2) for s in range(8) for t in range(30)]
    samples = [Sample(f"t{t}", r, s, s, f"Work.\n\\boxed{{{t}}}", "stop", 7) for t, r, s in keys]
    marks = [
        Mark(f"t{t}", r, s, "correct" if right[r, s, t] else "wrong", bool(right[r, s, t]), str(t))
        for t, r, s in keys
    ]
    names = {"name": "m", "model": "org/m"}
    benchmark = BENCHMARKS["aime24"]
    results = measure(benchmark, tasks, samples, marks, config, of_problems=30, **names)
    path = tmp_path / "logs" / "out.eval"
    write_inspect_log(path, tasks, samples, marks, results)

    read = read_eval_log(path)
    assert (read.status, read.eval.model, read.eval.config.epochs) == ("success", "org/m", 16)
    assert read.samples is not None
    by_problem: dict[int | str, list] = {}
    for sample in read.samples:
        assert sample.scores is not None
        by_problem.setdefault(sample.id, []).append(sample.scores[SCORER])
    assert read.results is not None
    for score, k in zip(read.results.scores, (1, 2, 4, 8), strict=True):
        theirs = [pass_at(k, value_to_float=value_to_float())(s).value for s in by_problem.values()]
        assert np.mean(theirs) == pytest.approx(results.figures["pass_at_k"][str(k)]["value"])
        assert score.metrics["accuracy"].value == pytest.approx(np.mean(theirs))
        assert score.reducer == f"pass_at_{k}"
    # And it comes back as rows, in the order of the samples.
    (first, *_) = [row.values for row in LocalRows(path, name="log") if isinstance(row, Row)]
    assert first["correct"] == right[:, :, 0].ravel().tolist()
