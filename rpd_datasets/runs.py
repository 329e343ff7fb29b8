"""Runs of agents as solutions: their actions.

A solution is a run if its messages call tools. Its actions then take the place of its text:
distances compare them, and without a chat model they are its steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from rpd_datasets.messages import Trajectory, trajectories_of
from rpd_datasets.problem import Problem, each_solution
from rpd_metric.steps.actions import Call, actions

# The column of the folder that a run worked in, as session files name it.
FOLDER = "cwd"


def actions_of(problem: Problem) -> list[list[str]]:
    """The actions of each solution; none of a solution that is no run.

    They begin after the last message of the user's, also where the prompt has the first of them:
    runs of one task share it as far as their messages are equal.
    """
    rows = trajectories_of(problem.extra, problem.problem, problem.solutions)
    if not rows:
        return [[] for _ in problem.solutions]
    folders = each_solution(problem, FOLDER)
    if len(folders) != len(rows):
        folders = [""] * len(rows)
    return [
        actions(calls, folder if isinstance(folder, str) else "") if (calls := _calls(row)) else []
        for row, folder in zip(rows, folders, strict=True)
    ]


def _calls(row: Trajectory) -> list[Call]:
    prompt, completion = row["prompt"], row["completion"]
    if not any(turn.get("tool_calls") for turn in completion):
        return []
    begun = [*takewhile(lambda turn: turn["role"] != "user", reversed(prompt))]
    functions = [
        call["function"]
        for turn in [*reversed(begun), *completion]
        for call in turn.get("tool_calls") or ()
    ]
    return [(str(function["name"]), function["arguments"]) for function in functions]


def parting(problem: Problem, among: Sequence[int]) -> str:
    """After how many actions runs part, and how each continues; "" for fewer than two runs."""
    actions_by_solution = actions_of(problem)
    runs = {index: run for index in among if (run := actions_by_solution[index])}
    if len(runs) < 2:
        return ""
    columns = zip(*runs.values(), strict=False)
    shared = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))
    branches: dict[str, list[str]] = {}
    for index, run in runs.items():
        branches.setdefault((*run[shared:], "the end")[0], []).append(str(index))
    if len(branches) == 1:
        return f"The runs have the same {shared} actions."
    ways = "; ".join(f"{action}: {', '.join(indices)}" for action, indices in branches.items())
    common = f"{shared or 'no'} equal action{'s' * (shared != 1)}"
    return f"After {common}, solutions continue with {ways}."
