"""Session files of Claude Code and Codex: one file is one conversation, a line a part of it.

    FILE -> {"messages", "session_id", "cwd"}

Lines are taken in their order. Subagents' lines are left out, and Codex' thoughts are summaries.
Neither file lists the tools. Codex puts its environment before the task, as messages of the user;
the task itself is then `task_id`, so that sessions in different folders are one problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rpd_datasets.inputs.raw_rows import Row
from rpd_datasets.rejects import Rejected
from rpd_datasets.runs import FOLDER

_CODEX = ("session_meta", "turn_context", "response_item", "event_msg")
# How Codex' messages begin that are not the user's own.
_ENVIRONMENT = ("<environment_context>", "<user_instructions>", "# AGENTS.md")
Turn = dict[str, Any]


def is_session(values: Mapping[str, Any]) -> bool:
    """Whether a row is a line of a session file.

    >>> is_session({"type": "user", "sessionId": "1", "message": {"role": "user"}})
    True
    """
    if isinstance(values.get("payload"), dict):
        return values.get("type") in _CODEX
    return isinstance(values.get("message"), dict) and "sessionId" in values


def read_session(rows: Iterable[Row | Rejected], label: str) -> Iterator[Row | Rejected]:
    """A session as one row, after the lines that cannot be read."""
    turns: list[Turn] = []
    session = folder = ""
    for row in rows:
        if isinstance(row, Rejected):
            yield row
            continue
        values = row.values
        payload = values.get("payload") or {}
        if values.get("type") == "session_meta":
            session = str(payload.get("id", ""))
            folder = str(payload.get("cwd") or "")
        elif values.get("type") == "response_item":
            _add(turns, _codex_turn(payload))
        elif isinstance(values.get("message"), dict):
            session = str(values["sessionId"]) if "sessionId" in values else session
            folder = folder or str(values.get("cwd") or "")
            if not values.get("isSidechain") and not values.get("isMeta"):
                _add(turns, values["message"])
    whole: dict[str, Any] = {"messages": turns, "session_id": session}
    if folder:
        whole[FOLDER] = folder
    own = [text for turn in turns if turn.get("role") == "user" and (text := _text(turn))]
    task = next((text for text in own if not text.startswith(_ENVIRONMENT)), None)
    if task and own[0] != task:
        whole["task_id"] = task
    yield Row(f"{label}:1", whole)


def _codex_turn(item: Mapping[str, Any]) -> Turn | None:
    """The turn that an item of Codex is part of; `None` for what is not said."""
    kind = str(item.get("type"))
    if kind == "message":
        return {"role": item.get("role"), "content": item.get("content")}
    if kind.endswith("_output"):
        content = item.get("output")
        return {"role": "tool", "tool_call_id": item.get("call_id"), "content": content}
    if kind in ("function_call", "custom_tool_call"):
        arguments = item.get("arguments") or {"input": item.get("input")}
        call = {"type": "tool_use", "id": item.get("call_id"), "name": item.get("name")}
        return {"role": "assistant", "content": [call | {"input": arguments}]}
    if kind == "reasoning" and (thought := _text({"content": item.get("summary")})):
        return {"role": "assistant", "content": [{"type": "reasoning", "reasoning": thought}]}
    return None


def _add(turns: list[Turn], turn: Turn | None) -> None:
    """Add a turn; the parts of one answer, a line each, are one turn."""
    if turn is None:
        return
    if turns and turn.get("role") == turns[-1].get("role") == "assistant":
        before, after = _parts(turns[-1]), _parts(turn)
        if any("text" in part for part in before):
            after = [_apart(part) for part in after]
        turns[-1] = {"role": "assistant", "content": before + after}
    else:
        turns.append(turn)


def _parts(turn: Turn) -> list[Any]:
    content = turn.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _apart(part: Any) -> Any:
    text = part.get("text")
    return {**part, "text": f"\n\n{text}"} if isinstance(text, str) else part


def _text(turn: Turn) -> str:
    texts = (part.get("text") for part in _parts(turn))
    return "".join(text for text in texts if isinstance(text, str))
