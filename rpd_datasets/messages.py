"""Messages in TRL's conversational form: roles, calls of tools, their results, and thoughts.

A trajectory is one sample of a problem as a training row: `prompt` and `completion`, two lists of
messages, and `tools` if there are some. A problem carries its trajectories as JSON text, one per
solution, in the column `trajectories`, because calls of different tools have no Arrow type in
common. A problem whose samples are one answer to one message needs none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from rpd_datasets.problem import Problem, each_solution

TRAJECTORIES = "trajectories"
Message = dict[str, Any]
Trajectory = dict[str, Any]

ROLES = {
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "assistant", "model"), "assistant"),
    **dict.fromkeys(("function_call", "tool_call"), "call"),
    **dict.fromkeys(("tool", "function", "observation", "function_response"), "tool"),
}
SYSTEM = ("system", "developer")
IMAGE = "[image]"
# Hermes' format writes calls and their results into the text.
_CALL = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.S)
_RESULT = re.compile(r"<tool_response>\n?(.*?)\n?</tool_response>", re.S)


def role_of(turn: Any) -> str | None:
    """The role of a turn in TRL's words; `None` if it is not a turn.

    >>> role_of({"from": "gpt", "value": "Hello."})
    'assistant'
    """
    name = (turn.get("from") or turn.get("role")) if isinstance(turn, dict) else None
    role = ROLES.get(name, name) if isinstance(name, str) else None
    return "assistant" if role == "call" else role


def as_turns(value: Any) -> list[Any] | None:
    """The turns of a conversation, also as columns or as JSON texts; `None` if it is none."""
    if isinstance(value, dict) and value and all(isinstance(x, list) for x in value.values()):
        # Older versions of `datasets` turn a list of objects into an object of lists.
        rows = zip(*value.values(), strict=False)
        value = [dict(zip(value, values, strict=True)) for values in rows]
    if isinstance(value, list) and value and isinstance(value[0], str) and value[0][:1] == "{":
        # So does Arrow give the JSON type of `datasets`.
        value = [_parsed(turn) for turn in value]
    return value if isinstance(value, list) and value and role_of(value[0]) else None


def messages_of(turn: Any) -> list[Message]:
    """The messages of a turn: nearly always one; results of several tools are one message each.

    >>> messages_of({"from": "observation", "value": "5"})
    [{'role': 'tool', 'content': '5'}]
    """
    role, name = role_of(turn), turn.get("from") or turn.get("role")
    values = map(turn.get, ("content", "value", "text"))
    content = next((value for value in values if value is not None), None)
    thoughts = turn.get("reasoning_content") or turn.get("reasoning")
    calls = _parsed(turn.get("tool_calls")) or list(filter(None, [turn.get("function_call")]))
    results: list[Message] = []
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        parts = _Parts(content)
        calls = [*(calls if isinstance(calls, list) else ()), *parts.calls]
        results, content = parts.results, parts.text
        thoughts = thoughts or parts.thoughts
        # Without its image, a question is another one.
        content = turn["content"] if role == "user" and parts.images else content
    elif ROLES.get(str(name)) == "call" and isinstance(content, str):
        parsed = _parsed(content)
        calls, content = (parsed if isinstance(parsed, list) else [parsed]), ""
    elif role == "assistant" and isinstance(content, str) and not calls:
        content, calls = _hermes_calls(content)
    elif role == "tool" and isinstance(content, str) and (inner := _RESULT.findall(content)):
        return [{"role": "tool", "content": text} for text in inner]
    elif role == "tool" and not isinstance(content, str):
        content = "" if content is None else json.dumps(content, ensure_ascii=False)
    message: Message = {"role": role, "content": "" if content is None and calls else content}
    if role == "assistant" and isinstance(thoughts, str) and thoughts.strip():
        message["reasoning_content"] = thoughts
    if isinstance(calls, list) and calls:
        message["tool_calls"] = [_call(call) for call in calls]
    message |= {key: turn[key] for key in ("name", "tool_call_id") if turn.get(key)}
    return results if results and not content else [*results, message]


class _Parts:
    """The parts of a message's content, by kind; images are named and left out."""

    def __init__(self, parts: Sequence[Mapping[str, Any]]) -> None:
        texts: list[str] = []
        thoughts: list[str] = []
        self.calls: list[Any] = []
        self.results: list[Message] = []
        self.images = 0
        for part in parts:
            kind = str(part.get("type", "text"))
            if kind in ("thinking", "reasoning") and part.get("redacted"):
                thoughts.append(str(part.get("summary") or ""))  # only their maker can read them
            elif kind in ("thinking", "reasoning"):
                thoughts.append(str(part.get("thinking") or part.get("reasoning") or ""))
            elif kind == "tool_use":
                call = {"name": part.get("name"), "arguments": part.get("input")}
                self.calls.append({"id": part.get("id"), "function": call})
            elif kind == "tool_result":
                content = part.get("content") or ""
                text = _Parts(content).text if isinstance(content, list) else str(content)
                result = {"role": "tool", "content": text, "tool_call_id": part.get("tool_use_id")}
                self.results.append(result)
            elif "image" in kind:
                self.images += 1
                texts.append(IMAGE)
            elif isinstance(text := part.get("text", part.get("content")), str):
                texts.append(text)
        self.text: str = "".join(texts)
        self.thoughts = "\n\n".join(filter(str.strip, thoughts))


def _hermes_calls(text: str) -> tuple[str, list[Any]]:
    """The text before the calls of Hermes' format, and the calls; all of it if one is not JSON."""
    calls = [_parsed(call) for call in _CALL.findall(text)]
    if not calls or not all(isinstance(call, dict) and "name" in call for call in calls):
        return text, []
    before, *between = _CALL.split(text)[::2]
    return (text, []) if any(map(str.strip, between)) else (before.rstrip(), calls)


def _call(call: Any) -> dict[str, Any]:
    """A call of a tool in TRL's form, its arguments as an object."""
    call = call if isinstance(call, dict) else {"name": str(call)}
    inner = call.get("function")
    inner = inner if isinstance(inner, dict) else {**call, "name": inner or call.get("name")}
    arguments = inner.get("arguments", inner.get("parameters"))
    parsed = _parsed(arguments)
    arguments = parsed if isinstance(parsed, dict) else arguments
    function = {"name": inner.get("name"), "arguments": {} if arguments is None else arguments}
    own = {"id": call["id"]} if call.get("id") else {}
    return {"type": "function", **own, "function": function}


def _parsed(value: Any) -> Any:
    """A text as the JSON that it is, or the value itself."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


def with_thoughts(thoughts: Any, reply: Any) -> Any:
    """A reply after its thoughts, if they are separate.

    >>> with_thoughts("2 + 3", "It is 5.")
    '<think>\\n2 + 3\\n</think>\\n\\nIt is 5.'
    """
    if not isinstance(thoughts, str) or not thoughts.strip() or not isinstance(reply, str):
        return reply
    return f"<think>\n{thoughts}\n</think>\n\n{reply}"


def message_text(message: Message) -> str:
    """What a message says: thoughts, words, and calls of tools."""
    text = with_thoughts(message.get("reasoning_content"), message["content"])
    calls = [call["function"] for call in message.get("tool_calls", ())]
    written = [f"{call['name']}({json.dumps(call['arguments'])})" for call in calls]
    return "\n\n".join([text, *written] if text.strip() else written)


def solution_text(completion: Iterable[Message]) -> str:
    """The text of the model's turns."""
    texts = (message_text(turn) for turn in completion if turn["role"] == "assistant")
    return "\n\n".join(text for text in texts if text.strip())


def prompt_text(prompt: Iterable[Message]) -> str:
    """The text of a prompt, with the speakers' names if there are several turns; not the system's.

    >>> prompt_text([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}])
    'Hi'
    """
    turns = [turn for turn in prompt if turn["role"] not in SYSTEM]
    if len(turns) == 1:
        return str(turns[0]["content"])
    return "\n\n".join(f"{turn['role'].title()}: {message_text(turn)}" for turn in turns)


def identity_of(prompt: Sequence[Message]) -> str:
    """What prompts of one problem share beside their text; empty without a system prompt."""
    system = [turn["content"] for turn in prompt if turn["role"] in SYSTEM]
    return "\n".join([*system, prompt_text(prompt)]) if system else ""


def is_plain(trajectory: Trajectory) -> bool:
    """Whether a trajectory is one answer to one message, of which the texts say everything."""
    turns = [*trajectory["prompt"], *trajectory["completion"]]
    plain = [turn["role"] for turn in turns] == ["user", "assistant"]
    return plain and not trajectory.get("tools") and "tool_calls" not in turns[-1]


def make_trajectory(
    prompt: Sequence[Message], completion: Sequence[Message], tools: Any = None
) -> Trajectory:
    """A trajectory; `tools` are JSON schemas, also as JSON text."""
    row: Trajectory = {"prompt": [*prompt], "completion": [*completion]}
    listed = _parsed(tools)
    schemas = [_parsed(tool) for tool in listed] if isinstance(listed, list) else []
    # Hermes' system prompt lists the tools itself.
    named = any("<tools>" in str(turn["content"]) for turn in prompt if turn["role"] in SYSTEM)
    usable = schemas and all(isinstance(tool, dict) for tool in schemas) and not named
    return row | {"tools": schemas} if usable else row


def as_json(row: Trajectory) -> str:
    """A trajectory as its column holds it."""
    return json.dumps(row, ensure_ascii=False)


def trajectories_of(extra: Mapping[str, Any], problem: str, solutions: Sequence[str]) -> list[Any]:
    """The trajectory of each solution; empty if the problem carries none."""
    texts = each_solution(Problem(problem, tuple(solutions), extra), TRAJECTORIES)
    rows = [_parsed(text) if isinstance(text, str) else None for text in texts]
    if len(rows) != len(solutions) or not any(map(_is_trajectory, rows)):
        return []
    prompt = [{"role": "user", "content": problem}]
    return [
        row
        if _is_trajectory(row)
        else {"prompt": prompt, "completion": [{"role": "assistant", "content": text}]}
        for row, text in zip(rows, solutions, strict=True)
    ]


def _is_trajectory(row: Any) -> bool:
    if not isinstance(row, dict) or not row.keys() >= {"prompt", "completion"}:
        return False
    return all(map(role_of, [*row["prompt"], *row["completion"]]))


def with_common_prompt(problem: Problem) -> Problem:
    """A problem whose prompt is the turns up to the first in which its samples differ.

    That is where an answer of the model begins. If they differ before, each sample keeps its own
    prompt. A problem that needs no trajectories loses them.
    """
    rows = trajectories_of(problem.extra, problem.problem, problem.solutions)
    if not rows:
        return problem
    texts, solutions = problem.problem, problem.solutions
    whole = [[*row["prompt"], *row["completion"]] for row in rows]
    start = min(len(row["prompt"]) for row in rows)
    cut = _first_difference(whole, start)
    if cut is not None and cut > start:
        rows = [
            row | {"prompt": turns[:cut], "completion": turns[cut:]}
            for row, turns in zip(rows, whole, strict=True)
        ]
        texts = prompt_text(rows[0]["prompt"])
        solutions = tuple(solution_text(row["completion"]) for row in rows)
    extra = {name: value for name, value in problem.extra.items() if name != TRAJECTORIES}
    if not (all(map(is_plain, rows)) and all(row["prompt"] == rows[0]["prompt"] for row in rows)):
        extra[TRAJECTORIES] = [as_json(row) for row in rows]
    return replace(problem, problem=texts, solutions=solutions, extra=extra)


def _first_difference(whole: Sequence[Sequence[Message]], start: int) -> int | None:
    """The model's turn from which samples differ, at `start` or later; `None` if it is earlier."""
    bare = [[without_ids(turn) for turn in turns] for turns in whole]
    same = sum(1 for _ in takewhile(_all_equal, zip(*bare, strict=False)))
    if same < start:
        return None
    if _all_equal(bare):
        return start
    shortest = min(map(len, bare))
    places = range(start, min(same + 1, shortest))
    model = [at for at in places if all(turns[at]["role"] == "assistant" for turns in bare)]
    return model[-1] if model else None


def _all_equal(values: Sequence[Any]) -> bool:
    return all(value == values[0] for value in values)


def without_ids(message: Message) -> Message:
    """A message but for the ids of calls, which a server draws anew for each reply."""
    bare = {name: value for name, value in message.items() if name != "tool_call_id"}
    if calls := message.get("tool_calls"):
        bare["tool_calls"] = [{**call, "id": None} for call in calls]
    return bare
