"""Training rows: the chosen solutions in TRL's conversational prompt-completion format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rpd_metric.errors import InputError

Messages = list[dict[str, str]]


def to_sft(ds: Any, *, problem_column: str = "problem", solutions_column: str = "solutions") -> Any:
    """One training row per chosen solution, in TRL's conversational prompt-completion format.

    With prompt and completion apart, TRL computes the loss on the completion only.

    Args:
        ds (`datasets.Dataset`): Rows with `selected`, as `ds.map(rpd_curate)` makes them.
        problem_column, solutions_column (`str`): The columns with problem and solutions.

    Returns:
        `datasets.Dataset`: Columns `prompt` and `completion`, each a list with one message. A
        problem's solutions stand next to each other, in order of choice.

    Raises:
        [`InputError`]: A column is missing.
    """
    import datasets

    needed = (problem_column, solutions_column, "selected")
    for column in needed:
        if column not in ds.column_names:
            raise InputError(
                f"the dataset has no column {column!r}, only {', '.join(ds.column_names)}; "
                "run ds.map(rpd_curate) first"
            )

    def explode(batch: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        pairs = [
            sft_messages(problem, solutions[index])
            for problem, solutions, selected in zip(*(batch[one] for one in needed), strict=True)
            for index in selected
        ]
        prompts, completions = zip(*pairs, strict=True) if pairs else ((), ())
        return {"prompt": list(prompts), "completion": list(completions)}

    message = {"role": datasets.Value("string"), "content": datasets.Value("string")}
    messages = datasets.List(message)
    return ds.map(
        explode,
        batched=True,
        remove_columns=ds.column_names,
        features=datasets.Features({"prompt": messages, "completion": messages}),
    )


def sft_messages(problem: str, solution: str) -> tuple[Messages, Messages]:
    """The prompt and the completion of one training row."""
    return (
        [{"role": "user", "content": problem}],
        [{"role": "assistant", "content": solution}],
    )
