"""What a capable reader answered: summaries and groups of the labelled sets, for a fake server.

    with FakeTGI(reply=RecordedGroups.of_sets(SHARED)) as server:

A request for a summary gets the row's own steps. A request to sort summaries gets the strategies
that the reader found among those that are shown, whatever their order, in the form of the prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

SETS = ("controlled", "dev", "train")
SHARED = Path(__file__).parents[3] / "shared" / "data" / "strategy_bench"

_SHOWN = re.compile(r"^Solution \d+:\n<steps-\w+>\n(.*?)\n</steps-", re.MULTILINE | re.DOTALL)
_FENCED = re.compile(r"<(problem|solution)-(\w+)>\n(.*?)\n</\1-\2>", re.DOTALL)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSONL file."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


class RecordedGroups:
    """Answers a chat request, given as its JSON.

    Args:
        rows: With `problem_id`, `problem`, `solutions` and `steps`.
        replies: With `problem_id`, `order`, `groups` in that order, and `names`.
    """

    def __init__(
        self, rows: Iterable[Mapping[str, Any]], replies: Iterable[Mapping[str, Any]]
    ) -> None:
        said = {one["problem_id"]: one for one in replies}
        self._rows = {row["problem"].strip(): (row, said[row["problem_id"]]) for row in rows}

    @classmethod
    def of_sets(cls, folder: Path) -> RecordedGroups:
        """All that was recorded."""
        rows = [row for name in SETS for row in read_lines(folder / f"{name}.jsonl")]
        return cls(rows, read_lines(folder / "group_replies.jsonl"))

    def knows(self, problem: str) -> bool:
        """Whether the reader saw this problem."""
        return problem.strip() in self._rows

    def __call__(self, body: Mapping[str, Any]) -> str:
        """The text of a reply."""
        user = body["messages"][1]["content"]
        given = {label: text for label, _, text in _FENCED.findall(user)}
        row, said = self._rows[given["problem"]]
        if "solution" in given:
            at = [one.strip() for one in row["solutions"]].index(given["solution"])
            return json.dumps({"logical_steps": row["steps"][at]})
        listed = [
            "\n".join(f"{n}. {step.strip()}" for n, step in enumerate(steps, start=1))
            for steps in row["steps"]
        ]
        group_of = dict(zip(said["order"], said["groups"], strict=True))
        entries: dict[str, list[int]] = {}
        for number, shown in enumerate(_SHOWN.findall(user), start=1):
            at = listed.index(shown)
            listed[at] = ""  # equal summaries are told apart by their place
            entries.setdefault(said["names"][str(group_of[at])], []).append(number)
        found = [{"name": name, "solutions": numbers} for name, numbers in entries.items()]
        return f"They differ in their main idea.\n{json.dumps({'strategies': found})}"
