"""Training rows: the chosen solutions in TRL's conversational prompt-completion format."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rpd_datasets.messages import TRAJECTORIES, trajectories_of
from rpd_metric.errors import InputError


def to_sft(ds: Any, *, problem_column: str = "problem", solutions_column: str = "solutions") -> Any:
    """One training row per chosen solution, in TRL's conversational prompt-completion format.

    With prompt and completion apart, TRL computes the loss on the completion only.

    Args:
        ds (`datasets.Dataset`): Rows with `selected`, as `ds.map(rpd_curate)` makes them.
        problem_column, solutions_column (`str`): The columns with problem and solutions.

    Returns:
        `datasets.Dataset`: Columns `prompt` and `completion`, lists of messages, and
            `strategy` (its name) if a chat model sorted the solutions. Of trajectories, the
            messages are whole, and the tools are in a column `tools`. A problem's solutions are
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

    whole = TRAJECTORIES in ds.column_names
    columns = (*needed, *(("strategies", "strategy_names") if named else ()))
    columns += (TRAJECTORIES,) * whole

    def explode(batch: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        rows: list[dict[str, Any]] = []
        for values in zip(*(batch[name] for name in columns), strict=True):
            row = dict(zip(columns, values, strict=True))
            problem, solutions = row.pop(problem_column), row.pop(solutions_column)
            messages = trajectories_of(row, problem, solutions)
            groups, names = row.get("strategies") or (), row.get("strategy_names") or ()
            rows += training_rows(problem, solutions, row["selected"], groups, names, messages)
        return {name: [row.get(name) for row in rows] for name in features}

    texts = datasets.List({"role": datasets.Value("string"), "content": datasets.Value("string")})
    features = datasets.Features({"prompt": texts, "completion": texts})
    if whole:
        features = message_features(tools=True)
    if named:
        features["strategy"] = datasets.Value("string")
    return ds.map(explode, batched=True, remove_columns=ds.column_names, features=features)


def message_features(*, tools: bool) -> Any:
    """The `datasets.Features` of messages with calls of tools, and of the tools."""
    import datasets

    if not hasattr(datasets, "Json"):
        raise InputError(
            f"calls of tools need the type Json, which datasets {datasets.__version__} lacks: "
            "pip install -U datasets"
        )
    names = ("prompt", "completion", *(["tools"] * tools))
    return datasets.Features({name: datasets.List(datasets.Json()) for name in names})


def training_rows(
    problem: str,
    solutions: Sequence[str],
    selected: Iterable[int],
    strategies: Sequence[int | None] = (),
    names: Sequence[str] = (),
    trajectories: Sequence[Any] = (),
) -> Iterator[dict[str, Any]]:
    """A row for each selected solution of a problem, with the name of its strategy if known.

    `trajectories` hold the messages of each solution, where the texts do not say everything.
    """
    for index in selected:
        row: dict[str, Any] = {
            "prompt": [{"role": "user", "content": problem}],
            "completion": [{"role": "assistant", "content": solutions[index]}],
            **(trajectories[index] if trajectories else {}),
        }
        if strategies and (group := strategies[index]) is not None:
            row["strategy"] = names[group]
        yield row
