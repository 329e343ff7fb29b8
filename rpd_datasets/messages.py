"""Messages in TRL's conversational form: roles, calls of tools, their results, and thoughts.

A trajectory is one sample of a problem as a training row: `prompt` and `completion`, two lists of
messages, and `tools` if there are some. A problem carries its trajectories as JSON text, one per
solution, in the column `trajectories`, because calls of different tools have no Arrow type in
common. A problem whose samples are one answer to one message needs none.

A solution whose messages call tools is a run of an agent. Its actions then take the place of its
text: distances compare them, and without a chat model they are its steps.
"""

import json
import re
from ast import literal_eval
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import Any

from rpd_datasets.problem import Problem, each_solution
from rpd_metric.steps.actions import Call, actions

TRAJECTORIES = "trajectories"
# The column of the folder that a run worked in, as session files name it.
FOLDER = "cwd"
Message = dict[str, Any]
Trajectory = dict[str, Any]

# Templates of chats know no developer, and skip what they do not know.
ROLES = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "assistant", "model", "chatgpt", "bing", "bard"), "assistant"),
    **dict.fromkeys(("tool", "function", "observation", "function_response", "ipython"), "tool"),
}
# Turns that are a call, in ShareGPT.
CALLS = ("function_call", "tool_call")
# Hermes' format writes calls and their results into the text.
_CALL = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.S)
_RESULT = re.compile(r"<tool_response>\n?(.*?)\n?</tool_response>", re.S)

# Parts that are named in the text, and left out.
_NAMED = ("image", "audio", "video", "document", "file")
# How messages begin that Codex writes before the task; they differ between runs of one task.
_ENVIRONMENT = (
    *("<environment_context>", "<user_instructions>", "# AGENTS.md"),
    *("<permissions instructions>", "<collaboration_mode>"),
    *("<skills_instructions>", "<apps_instructions>", "<plugins_instructions>"),
)


def role_of(turn: Any) -> str | None:
    """The role of a turn, or of an item of OpenAI's Responses API, in TRL's words.

    `None` if it is neither, or has a role that is not known.

    >>> role_of({"from": "gpt", "value": "Hello."}), role_of({"type": "function_call_output"})
    ('assistant', 'tool')
    """
    if not isinstance(turn, dict):
        return None
    if name := turn.get("from") or turn.get("role"):
        return "assistant" if name in CALLS else ROLES.get(str(name))
    kind = str(turn.get("type"))
    if kind == "reasoning" or kind.endswith("_call"):
        return "assistant"
    return "tool" if kind.endswith("_output") else None


def as_turns(value: Any) -> list[Any] | None:
    """The turns of a conversation, also as columns or as JSON texts; `None` if it is none."""
    if isinstance(value, dict) and value and all(isinstance(x, list) for x in value.values()):
        # Older versions of `datasets` turn a list of objects into an object of lists.
        rows = zip(*value.values(), strict=False)
        value = [dict(zip(value, values, strict=True)) for values in rows]
    if isinstance(value, list) and value and isinstance(value[0], str) and value[0][:1] == "{":
        # So does Arrow give the JSON type of `datasets`.
        value = [_parsed(turn) for turn in value]
    return value if isinstance(value, list) and value and all(map(role_of, value)) else None


def conversation(value: Any) -> list[Message]:
    """The messages of turns or of items; none if the value is something else."""
    turns = as_turns(value) or []
    messages = [message for turn in turns for message in messages_of(turn)]
    items = any("from" not in turn and "role" not in turn for turn in turns)
    return merged(messages, "assistant") if items else messages


def messages_of(turn: Any) -> list[Message]:
    """The messages of a turn: nearly always one; results of several tools are one message each.

    >>> messages_of({"from": "observation", "value": "5"})
    [{'role': 'tool', 'content': '5'}]
    """
    name = turn.get("from") or turn.get("role")
    turn = turn if name else _of_item(turn)
    role = role_of(turn)
    values = map(turn.get, ("content", "value", "text"))
    content = next((value for value in values if value is not None), None)
    calls = _parsed(turn.get("tool_calls")) or list(filter(None, [turn.get("function_call")]))
    if name in CALLS and isinstance(content, str):
        marked = content if "<tool_call>" in content else f"<tool_call>{content}</tool_call>"
        text, calls = _hermes_calls(marked)
        content = text if calls else content
    elif role == "assistant" and isinstance(content, str) and not calls:
        content, calls = _hermes_calls(content)
    elif role == "tool" and isinstance(content, str) and (inner := _RESULT.findall(content)):
        return [{"role": "tool", "content": text} for text in inner]
    elif role == "tool":
        content = _text_of(content)
    messages = [{"role": role, "content": content}]
    if isinstance(content, list) and content and all(map(_is_part, content)):
        messages = [_of_part(part, role) for part in content]
    if isinstance(calls, list) and calls:
        messages = [m for m in messages if m["content"] is not None] + [_with_calls(calls)]
    thoughts = turn.get("reasoning_content") or turn.get("reasoning")
    if role == "assistant" and isinstance(thoughts, str) and thoughts.strip():
        messages.insert(0, {"role": role, "content": "", "reasoning_content": thoughts})
    own = {key: turn[key] for key in ("name", "tool_call_id") if turn.get(key)}
    whole = merged(messages, role, "")
    return [message | own if message["role"] == role else message for message in whole]


def merged(messages: Iterable[Message], role: Any, between: str = "\n\n") -> list[Message]:
    """Messages in which neighbours of one role are one: the parts of a turn, or of an answer."""
    whole: list[Message] = []
    for message in messages:
        pair = [*whole[-1:], message]
        texts = [m["content"] for m in pair if m["role"] == role and isinstance(m["content"], str)]
        if len(texts) < 2:
            whole.append(message)
            continue
        joined: Message = {"role": role, "content": between.join(filter(None, texts))}
        if thoughts := [m["reasoning_content"] for m in pair if m.get("reasoning_content")]:
            joined["reasoning_content"] = "\n\n".join(thoughts)
        if calls := [call for m in pair for call in m.get("tool_calls", ())]:
            joined["tool_calls"] = calls
        whole[-1] = joined
    return whole


def _of_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item of the Responses API, as Codex keeps them, too, as a turn."""
    kind = str(item["type"])
    if kind == "reasoning":
        thoughts = _text_of(item.get("summary") or item.get("content"))
        return {"role": "assistant", "content": "", "reasoning_content": thoughts}
    if kind.endswith("_output"):
        return {"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")}
    arguments = item.get("arguments") or item.get("action") or {"input": item.get("input")}
    called = {"name": item.get("name") or kind.removesuffix("_call"), "arguments": arguments}
    calls = [{"id": item.get("call_id") or item.get("id"), "function": called}]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def _is_part(value: Any) -> bool:
    return isinstance(value, dict) and "role" not in value and "from" not in value


def _of_part(part: Mapping[str, Any], role: Any) -> Message:
    """A part of a message's content as a message; what is not text is named and left out."""
    kind = str(part.get("type", "text"))
    if kind in ("thinking", "reasoning"):
        # If they are redacted, only their maker can read them.
        names = ("summary",) if part.get("redacted") else ("thinking", "reasoning")
        thoughts = str(next(filter(None, map(part.get, names)), ""))
        return {"role": role, "content": "", "reasoning_content": thoughts.strip() and thoughts}
    if kind.endswith("tool_use"):
        called = {"name": part.get("name"), "arguments": part.get("input")}
        return _with_calls([{"id": part.get("id"), "function": called}])
    if kind.endswith("tool_result"):
        own = {"tool_call_id": part.get("tool_use_id")}
        return {"role": "tool", "content": _text_of(part.get("content"))} | own
    texts = map(part.get, ("text", "content", "refusal"))
    text = next((text for text in texts if isinstance(text, str)), None)
    if text is None and role == "user":
        return {"role": role, "content": [part]}  # without its image, a question is another one
    if text is None and kind != "redacted_thinking":
        named = next((name for name in _NAMED if name in kind), None)
        text = f"[{named}]" if named else json.dumps(part, ensure_ascii=False)
    return {"role": role, "content": text or ""}


def _text_of(content: Any) -> str:
    """The text of a tool's result, or of a summary: of its parts, else as JSON."""
    if isinstance(content, str) or content is None:
        return content or ""
    if isinstance(content, list) and all(map(_is_part, content)):
        return "".join(str(_of_part(part, "tool")["content"]) for part in content)
    return json.dumps(content, ensure_ascii=False)


def _hermes_calls(text: str) -> tuple[str, list[Any]]:
    """The text before the calls of Hermes' format, and the calls; all of it if one cannot be read.

    Its own datasets write some as Python does.
    """
    parsed = [_parsed(call, json.loads, literal_eval) for call in _CALL.findall(text)]
    calls = [call for item in parsed for call in (item if isinstance(item, list) else [item])]
    if not calls or not all(isinstance(call, dict) and "name" in call for call in calls):
        return text, []
    before, *between = _CALL.split(text)[::2]
    return (text, []) if any(map(str.strip, between)) else (before.rstrip(), calls)


def _with_calls(calls: Sequence[Any]) -> Message:
    """A message with calls of tools in TRL's form, their arguments as objects."""
    message: Message = {"role": "assistant", "content": "", "tool_calls": []}
    for call in calls:
        own = call if isinstance(call, dict) else {}
        inner = own.get("function")
        inner = inner if isinstance(inner, dict) else {**own, "name": inner or own.get("name")}
        if not isinstance(inner.get("name"), str):
            message["content"] = calls  # not text, which costs the row
        arguments = inner.get("arguments", inner.get("parameters"))
        parsed = _parsed(arguments)
        arguments = (parsed if isinstance(parsed, dict) else arguments) or {}
        function = {"name": inner.get("name"), "arguments": arguments}
        numbered = {"id": own["id"]} if own.get("id") else {}
        message["tool_calls"].append({"type": "function", **numbered, "function": function})
    return message


def _parsed(value: Any, *readers: Callable[[str], Any]) -> Any:
    """A text as JSON, or by the first of other readers that can read it; else the value itself."""
    for read in (readers or [json.loads]) if isinstance(value, str) else ():
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            return read(value)
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
    written = [
        f"{call['name']}({json.dumps(call['arguments'], ensure_ascii=False)})" for call in calls
    ]
    return "\n\n".join([text, *written] if text.strip() else written)


def solution_text(completion: Iterable[Message]) -> str:
    """The text of the model's turns."""
    texts = (message_text(turn) for turn in completion if turn["role"] == "assistant")
    return "\n\n".join(text for text in texts if text.strip())


def is_environment(message: Message) -> bool:
    """Whether an agent wrote a message before its task, and not the user."""
    return str(message["content"]).startswith(_ENVIRONMENT)


def prompt_text(prompt: Iterable[Message]) -> str:
    """The text of a prompt, with the speakers' names if there are several turns.

    It is without the system's turns, and without an agent's environment.

    >>> prompt_text([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}])
    'Hi'
    """
    turns = [turn for turn in prompt if turn["role"] != "system" and not is_environment(turn)]
    if len(turns) == 1:
        return str(turns[0]["content"])
    return "\n\n".join(f"{turn['role'].title()}: {message_text(turn)}" for turn in turns)


def identity_of(prompt: Sequence[Message]) -> str:
    """What prompts of one problem share beside their text; empty without a system prompt."""
    turns = [turn for turn in prompt if turn["role"] == "system" and not is_environment(turn)]
    system = [turn["content"] for turn in turns]
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
    schemas = [_schema(_parsed(tool)) for tool in listed] if isinstance(listed, list) else []
    # Hermes' system prompt lists the tools itself.
    named = any("<tools>" in str(turn["content"]) for turn in prompt if turn["role"] == "system")
    return row if named or not schemas or not all(schemas) else row | {"tools": schemas}


def _schema(tool: Any) -> Any:
    """A tool as TRL's chat templates take it; other formats have no key `function`."""
    if not isinstance(tool, dict) or isinstance(tool.get("function"), dict):
        return tool if isinstance(tool, dict) else None
    names = {"input_schema": "parameters"}
    own = {names.get(key, key): value for key, value in tool.items() if key != "type"}
    return {"type": "function", "function": own}


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
