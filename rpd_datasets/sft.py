"""Training rows: the chosen solutions in TRL's conversational prompt-completion format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rpd_metric.errors import InputError


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

    columns = (*needed, "strategies", "strategy_names") if named else needed

    def explode(batch: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        records = zip(*(batch[name] for name in columns), strict=True)
        rows = [row for record in records for row in training_rows(*record)]
        return {name: [row.get(name) for row in rows] for name in features}

    message = {"role": datasets.Value("string"), "content": datasets.Value("string")}
    messages = datasets.List(message)
    features = datasets.Features({"prompt": messages, "completion": messages})
    if named:
        features["strategy"] = datasets.Value("string")
    return ds.map(explode, batched=True, remove_columns=ds.column_names, features=features)


def training_rows(
    problem: str,
    solutions: Sequence[str],
    selected: Iterable[int],
    strategies: Sequence[int | None] = (),
    names: Sequence[str] = (),
) -> Iterator[dict[str, Any]]:
    """A row for each selected solution of a problem, with the name of its strategy if known."""
    for index in selected:
        row: dict[str, Any] = {
            "prompt": [{"role": "user", "content": problem}],
            "completion": [{"role": "assistant", "content": solutions[index]}],
        }
        if strategies and (group := strategies[index]) is not None:
            row["strategy"] = names[group]
        yield row
