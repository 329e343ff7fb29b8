"""Session files of Claude Code and Codex: one file is one conversation, a line a part of it.

    FILE -> {"messages", "session_id", "cwd"}

Lines are taken in their order. Subagents' lines, turns that the user took back and errors of the
server are left out, and Codex' thoughts are summaries. Neither file lists the tools.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rpd_datasets.inputs.raw_rows import Row
from rpd_datasets.messages import FOLDER, Message, is_environment, merged, messages_of, role_of
from rpd_datasets.problem import Rejected

_CODEX = ("session_meta", "turn_context", "response_item", "event_msg")

# Lines of Claude Code that are a subagent's, the program's own, or an error of the server.
_ASIDE = ("isSidechain", "parent_tool_use_id", "isMeta", "isApiErrorMessage")


def is_session(values: Mapping[str, Any]) -> bool:
    """Whether a row is a line of a session file.

    >>> is_session({"type": "user", "sessionId": "1", "message": {"role": "user"}})
    True
    """
    if isinstance(values.get("payload"), dict):
        return values.get("type") in _CODEX
    named = "sessionId" in values or "session_id" in values
    return named and isinstance(values.get("message"), dict)


def read_session(rows: Iterable[Row | Rejected], label: str) -> Iterator[Row | Rejected]:
    """A session as one row, after the lines that cannot be read."""
    messages: list[Message] = []
    session = folder = ""
    # Where the turn begins that answers a line of Claude Code.
    begun: dict[str, int] = {}
    for row in rows:
        if isinstance(row, Rejected):
            yield row
            continue
        values, turn = row.values, row.values.get("message")
        payload = values["payload"] if isinstance(values.get("payload"), dict) else {}
        if values.get("type") == "session_meta":
            session = str(payload.get("id", ""))
            folder = str(payload.get("cwd") or "")
        elif payload.get("type") == "thread_rolled_back":
            users = [at for at, message in enumerate(messages) if message["role"] == "user"]
            own = [at for at in users if not is_environment(messages[at])]
            count = payload.get("num_turns")
            taken_back = own[-count:] if isinstance(count, int) else own[-1:]
            del messages[min(taken_back, default=len(messages)) :]
        elif values.get("type") == "response_item" and role_of(payload):
            messages += messages_of(payload)
        elif isinstance(turn, dict):
            session = str(values.get("sessionId") or values.get("session_id") or session)
            folder = folder or str(values.get("cwd") or "")
            if (
                any(map(values.get, _ASIDE))
                or turn.get("model") == "<synthetic>"
                or not role_of(turn)
            ):
                continue
            spoken = messages_of(turn)
            if "parentUuid" in values and spoken[0]["role"] == "user":
                # A second message in the place of one is what the user wrote instead.
                del messages[begun.setdefault(str(values["parentUuid"]), len(messages)) :]
            messages += spoken
    whole: dict[str, Any] = {"messages": merged(messages, "assistant"), "session_id": session}
    yield Row(f"{label}:1", whole | ({FOLDER: folder} if folder else {}))
