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

from parts.rows import read_lines

SETS = ("controlled", "dev", "train")
SHARED = Path(__file__).parents[3] / "shared" / "data" / "strategy_bench"

_SHOWN = re.compile(r"^Solution \d+:\n<steps-\w+>\n(.*?)\n</steps-", re.MULTILINE | re.DOTALL)
_FENCED = re.compile(r"<(problem|solution)-(\w+)>\n(.*?)\n</\1-\2>", re.DOTALL)


class RecordedGroups:
    """Answers a chat request, given as its JSON.

    Args:
        rows: With `problem_id`, `problem`, `solutions` and `steps`.
        replies: With `problem_id`, `order`, `groups` in that order, and `names`.
    """

    def __init__(
        self, rows: Iterable[Mapping[str, Any]], replies: Iterable[Mapping[str, Any]]
    ) -> None:
        by_id = {reply["problem_id"]: reply for reply in replies}
        self._rows = {row["problem"].strip(): (row, by_id[row["problem_id"]]) for row in rows}

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
        texts = {label: text for label, _, text in _FENCED.findall(user)}
        row, reply = self._rows[texts["problem"]]
        if "solution" in texts:
            at = [solution.strip() for solution in row["solutions"]].index(texts["solution"])
            return json.dumps({"logical_steps": row["steps"][at]})
        listed = [
            "\n".join(f"{n}. {step.strip()}" for n, step in enumerate(steps, start=1))
            for steps in row["steps"]
        ]
        group_of = dict(zip(reply["order"], reply["groups"], strict=True))
        entries: dict[str, list[int]] = {}
        for number, steps in enumerate(_SHOWN.findall(user), start=1):
            at = listed.index(steps)
            listed[at] = ""  # equal summaries are told apart by their place
            entries.setdefault(reply["names"][str(group_of[at])], []).append(number)
        groups = [{"name": name, "solutions": numbers} for name, numbers in entries.items()]
        return f"They differ in their main idea.\n{json.dumps({'strategies': groups})}"
