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
        `datasets.Dataset`: Columns `prompt` and `completion`, each a list with one message, and
            `strategy` (its name) if a chat model sorted the solutions. A problem's solutions are
            adjacent, in order of choice.

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

    # Names by label are the user's own; rpd_curate writes a list.
    named = isinstance(ds.features.get("strategy_names"), datasets.List)

    def explode(batch: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        rows: dict[str, list[Any]] = {name: [] for name in features}
        for place, selected in enumerate(batch["selected"]):
            for index in selected:
                problem, solutions = (batch[name][place] for name in needed[:2])
                prompt, completion = sft_messages(problem, solutions[index])
                rows["prompt"].append(prompt)
                rows["completion"].append(completion)
                if named:
                    group, names = batch["strategies"][place][index], batch["strategy_names"][place]
                    rows["strategy"].append(None if group is None else names[group])
        return rows

    message = {"role": datasets.Value("string"), "content": datasets.Value("string")}
    messages = datasets.List(message)
    features = datasets.Features({"prompt": messages, "completion": messages})
    if named:
        features["strategy"] = datasets.Value("string")
    return ds.map(explode, batched=True, remove_columns=ds.column_names, features=features)


def sft_messages(problem: str, solution: str) -> tuple[Messages, Messages]:
    """The prompt and the completion of one training row."""
    prompt, completion = {"role": "user", "content": problem}, {"content": solution}
    return [prompt], [{"role": "assistant", **completion}]
