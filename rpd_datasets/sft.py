"""Training rows: the chosen solutions in TRL's conversational prompt-completion format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rpd_metric.errors import InputError


def to_sft(ds: Any, *, problem_column: str = "problem", solutions_column: str = "solutions") -> Any:
    """One training row per chosen solution, in TRL's conversational prompt-completion format.

    With prompt and completion apart, TRL computes the loss on the completion only.

    Args:
        ds (`datasets.Dataset`): Rows with `selected`, as `ds.map(rpd_curate)` makes them.
        problem_column (`str`): The column with the problem.
        solutions_column (`str`): The column with the solutions.

    Returns:
        `datasets.Dataset`: Columns `prompt` and `completion`, each a list with one message. A
        problem's solutions stand next to each other, in order of choice.

    Raises:
        [`InputError`]: A column is missing.
    """
    import datasets

    for column in (problem_column, solutions_column, "selected"):
        if column not in ds.column_names:
            raise InputError(
                f"the dataset has no column {column!r}, only {', '.join(ds.column_names)}; "
                "run ds.map(rpd_curate) first"
            )

    def explode(batch: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        rows: dict[str, list[Any]] = {"prompt": [], "completion": []}
        for problem, solutions, selected in zip(
            batch[problem_column], batch[solutions_column], batch["selected"], strict=True
        ):
            for index in selected:
                prompt, completion = sft_messages(problem, solutions[index])
                rows["prompt"].append(prompt)
                rows["completion"].append(completion)
        return rows

    message = {"role": datasets.Value("string"), "content": datasets.Value("string")}
    return ds.map(
        explode,
        batched=True,
        remove_columns=ds.column_names,
        features=datasets.Features(
            {"prompt": datasets.List(message), "completion": datasets.List(message)}
        ),
    )


def sft_messages(problem: str, solution: str) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """The prompt and the completion of one training row."""
    return (
        [{"role": "user", "content": problem}],
        [{"role": "assistant", "content": solution}],
    )
