"""`--student`: what the model to be trained finds natural, and what is left out for it."""

from pathlib import Path
from typing import Any

import pytest

from parts import smollm2
from parts.rows import read_lines, write_rows
from rpd_datasets.cli import main
from rpd_datasets.filters.candidates import FilterConfig
from rpd_datasets.filters.pipeline import filter_problem
from rpd_datasets.problem import Problem
from rpd_datasets.tokens import token_counter
from rpd_metric.errors import InputError, SpecError
from rpd_metric.models.spec import load_chat
from rpd_metric.reasons import Reason

PROBLEM = "A box holds 27 pencils. How many pencils are in 6 boxes?"
PLAIN = (
    "Each box holds 27 pencils. There are 6 boxes, so there are 27 x 6 = 162 pencils. The answer "
    "is \\boxed{162}.",
    "We multiply the number of pencils in a box by the number of boxes: 27 x 6 = 162. So there are "
    "\\boxed{162} pencils.",
)
FOREIGN = (
    "Jede Schachtel fasst 27 Stifte. Bei 6 Schachteln sind es 27 x 6 = 162 Stifte. Die Antwort "
    "lautet \\boxed{162}.",
    "Koska laatikossa on 27 kynää ja laatikoita on 6, kyniä on 27 x 6 = 162. Vastaus on "
    "\\boxed{162}.",
)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"student": "openai:http://127.0.0.1:1/v1#m"}, InputError, "use hf:MODEL or vllm:MODEL"),
        ({"student": "SmolLM2"}, SpecError, "hf:model-id"),
        ({"student": "hf:x", "student_share": 1.0}, InputError, r"in \[0, 1\), got 1.0"),
    ],
)
def test_what_is_no_student_is_refused(options: dict, error: type, message: str):
    with pytest.raises(error, match=message):
        FilterConfig(**options)


@pytest.mark.slow
@pytest.mark.skipif(smollm2.missing() is not None, reason=f"SmolLM2 {smollm2.missing()}")
def test_solutions_in_another_language_are_less_natural_and_left_out(tmp_path: Path):
    student = f"hf:{smollm2.smollm2()}"
    model: Any = load_chat(student)
    plain, foreign = (
        [model.surprise(PROBLEM, text) for text in texts] for texts in (PLAIN, FOREIGN)
    )
    assert 0 < max(plain) < min(foreign)
    # A mean per token: a text that repeats itself surprises less.
    assert model.surprise(PROBLEM, f"{PLAIN[0]}\n{PLAIN[0]}") < plain[0]

    texts = [FOREIGN[0], PLAIN[0], FOREIGN[1], PLAIN[1]]
    problem = Problem(PROBLEM, tuple(texts))
    for share, least, reasons in (
        (0.5, 2, [Reason.UNNATURAL, "", Reason.UNNATURAL, ""]),
        (0.5, 4, ["", "", "", ""]),  # never fewer than are needed
        (0.0, 2, ["", "", "", ""]),
    ):
        options = FilterConfig(student=student, student_share=share, min_solutions=least)
        filtered = filter_problem(problem, options, token_counter("estimate"))
        assert list(filtered.reasons) == reasons
    source = write_rows(tmp_path / "pool.jsonl", [{"problem": PROBLEM, "solutions": texts}])
    line = ["curate", f"{source}", "--output", f"{tmp_path / 'out'}", "--student", student]
    assert main([*line, "--num-problems", "1", "--num-solutions", "2"]) == 0
    rejects = read_lines(tmp_path / "out/rejects.jsonl")
    left_out = {row["solution_index"]: row for row in rejects}
    assert left_out.keys() == {0, 2}
    assert "nats of surprise per token" in left_out[0]["detail"]
