"""`rpd plan --student-results`: whether to expect a gain from diversity, by a model's log."""

import json
from pathlib import Path

import pytest
from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSample, EvalSpec, write_eval_log
from inspect_ai.scorer import Score

from rpd_datasets.cli import main


def write_log(path: Path, right: list[int], samples: int) -> Path:
    """A log in which so many of each problem's samples are right."""
    logged = [
        EvalSample(
            id=f"p{number}",
            epoch=epoch + 1,
            input=f"{number}?",
            target="1",
            scores={"match": Score(value="C" if epoch < count else "I")},
        )
        for number, count in enumerate(right)
        for epoch in range(samples)
    ]
    spec = EvalSpec(
        created="2026-01-01T00:00:00+00:00",
        task="own",
        dataset=EvalDataset(samples=len(right)),
        model="mockllm/model",
        config=EvalConfig(epochs=samples),
    )
    write_eval_log(EvalLog(status="success", eval=spec, samples=logged), str(path))
    return path


@pytest.mark.parametrize(
    ("right", "expect", "why"),
    [
        ([0, 0, 0, 1, 0, 0], "no gain", "it must learn one way first"),
        ([8, 7, 8, 0, 8, 8], "no gain", "pass@8 has little room"),
        ([4, 2, 1, 8, 0, 3], "unclear", "A file with the column strategies tells"),
    ],
)
def test_what_a_model_solves_says_what_to_expect(
    tmp_path: Path, capsys, right: list[int], expect: str, why: str
):
    log = write_log(tmp_path / "base.eval", right, 8)
    assert main(["plan", "--student-results", f"{log}", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["pass@1"] == pytest.approx(sum(right) / 48)
    assert told["pass@8"] == pytest.approx(sum(map(bool, right)) / 6)
    assert told["expect"] == expect
    assert main(["plan", "--student-results", f"{log}"]) == 0
    text = capsys.readouterr().out
    assert f"of 6 problems. From diverse solutions, expect: {expect}." in " ".join(text.split())
    assert why in text


@pytest.mark.parametrize(
    ("usual", "rare", "expect"),
    [(1, 4, "a gain at pass@16"), (3, 2, "no gain"), (4, 1, "no gain")],
)
def test_strategies_that_are_used_rarely_and_well_promise_a_gain(
    tmp_path: Path, capsys, usual: int, rare: int, expect: str
):
    """Of 8 samples by the usual strategy and 4 by another, so many of each are right."""
    marks = [n < usual for n in range(8)] + [n < rare for n in range(4)]
    row = {"correct": marks, "strategies": ["places"] * 8 + ["factors"] * 4}
    path = tmp_path / "samples.jsonl"
    path.write_text(
        "".join(
            json.dumps(row | {"problem": f"{p}?", "solutions": [f"{p}.{n}" for n in range(12)]})
            + "\n"
            for p in range(6)
        )
    )
    assert main(["plan", "--student-results", f"{path}"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"expect: {expect}." in text
    assert f"than by its usual one: {rare / 4 - usual / 8:.3f} [" in text


def test_too_few_samples_and_files_that_are_no_log_are_refused(tmp_path: Path, capsys):
    log = write_log(tmp_path / "base.eval", [1, 0], 2)
    assert main(["plan", "--student-results", f"{log}"]) == 1
    assert "2 samples of a problem, too few" in capsys.readouterr().err
    assert main(["plan", "--student-results", f"{tmp_path / 'missing.eval'}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "missing.eval" in line
