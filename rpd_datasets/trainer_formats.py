"""Rows in the formats that trainers read, from TRL's prompt-completion rows.

Every format was read off the reader of its trainer; docs/export.md has the versions. A row that a
format cannot hold is an [`InputError`] with the reason, never a shortened row.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from rpd_datasets.messages import (
    Message,
    Trajectory,
    message_text,
    trajectories_of,
    with_thoughts,
    without_ids,
)
from rpd_datasets.preferences import matched_pairs, right_and_wrong
from rpd_datasets.problem import Problem, Rejected
from rpd_datasets.sft import training_rows
from rpd_metric.errors import InputError
from rpd_metric.reasons import Reason

TrainingRow = dict[str, Any]

SPEAKERS = {"system": "system", "user": "human", "assistant": "gpt", "tool": "observation"}
# What LLaMA-Factory reads beside the rows; its defaults name the speakers as we do.
_COLUMNS = {"messages": "conversations", "tools": "tools"}
DATASET_INFO = {"rpd": {"file_name": "train.jsonl", "formatting": "sharegpt", "columns": _COLUMNS}}


def dpo_row(right: Trajectory, wrong: Trajectory) -> TrainingRow:
    """TRL's row of a preference."""
    prompts = [[without_ids(turn) for turn in row["prompt"]] for row in (right, wrong)]
    if prompts[0] != prompts[1]:
        raise InputError("the prompts of the two solutions differ")
    both = {"chosen": right["completion"], "rejected": wrong["completion"]}
    return {"prompt": right["prompt"], **both, **_tools(right)}


def kto_row(row: Trajectory, *, right: bool) -> TrainingRow:
    """TRL's row of an unpaired preference."""
    return {"prompt": row["prompt"], "completion": row["completion"], "label": right, **_tools(row)}


def messages_row(
    row: Trajectory, *, thoughts: bool = True, tools_as_text: bool = False
) -> TrainingRow:
    """Messages as OpenAI's chat API has them: calls with ids, and arguments as JSON text.

    axolotl parses the arguments. verl reads Parquet, in which objects of different keys would get
    each other's. `thoughts` stay in a key of their own, which that API has not.
    """
    messages: list[Message] = []
    waiting: list[str] = []
    for place, turn in enumerate(_turns(row)):
        message = {**turn, **({} if thoughts else {"content": _text(turn)})}
        if not thoughts:
            message.pop("reasoning_content", None)
        calls = [_api_call(call, f"call_{place}_{n}") for n, call in enumerate(_calls(turn))]
        if calls:
            message["tool_calls"] = calls
            waiting += [call["id"] for call in calls]
        elif turn["role"] == "tool" and waiting:
            name = turn.get("tool_call_id")
            message["tool_call_id"] = waiting.pop(waiting.index(name) if name in waiting else 0)
        messages.append(message)
    tools = _tools(row) if tools_as_text else {"tools": row.get("tools") or []}
    return {"messages": messages, **tools}


def sharegpt_row(row: Trajectory) -> TrainingRow:
    """Turns with `from` and `value`; calls beside a text are in Hermes' format."""
    turns = [_speech(turn, hermes=True) for turn in _turns(row)]
    return {"conversations": turns, "tools": _tools(row).get("tools", "")}


def llamafactory_row(row: Trajectory) -> TrainingRow:
    """LLaMA-Factory's dialect of ShareGPT: speakers alternate, and one turn has all results.

    It skips other rows with a warning.
    """
    turns: list[TrainingRow] = []
    for turn in (_speech(turn, hermes=False) for turn in _turns(row)):
        if turns and turn["from"] == turns[-1]["from"] == "observation":
            turns[-1]["value"] += f"\n</tool_response>\n<tool_response>\n{turn['value']}"
        else:
            turns.append(turn)
    spoken = [turn["from"] for turn in turns[turns[0]["from"] == "system" :]]
    asking = [speaker in ("human", "observation") for speaker in spoken]
    if "system" in spoken or asking != [True, False] * (len(spoken) // 2):
        raise InputError(f"speakers do not alternate: {', '.join(spoken)}")
    return {"conversations": turns, "tools": _tools(row).get("tools", "")}


def alpaca_row(row: Trajectory) -> TrainingRow:
    """Instruction and output, with the system prompt if there is one."""
    turns = _turns(row)
    system = [_text(turns.pop(0))] if turns[0]["role"] == "system" else []
    if [turn["role"] for turn in turns] != ["user", "assistant"] or row.get("tools"):
        raise InputError("it is not one answer to one message")
    if turns[1].get("tool_calls"):
        raise InputError("it calls a tool")
    texts = {"instruction": _text(turns[0]), "input": "", "output": message_text(turns[1])}
    return texts | ({"system": system[0]} if system else {})


# The formats of supervised fine-tuning, by the name of `--to`.
FORMATS: Mapping[str, Callable[[Trajectory], TrainingRow]] = {
    "sharegpt": sharegpt_row,
    "alpaca": alpaca_row,
    "axolotl": partial(messages_row, tools_as_text=True),
    "llamafactory": llamafactory_row,
    "verl": messages_row,
    "openai": partial(messages_row, thoughts=False),
}


def rows_of(
    problem: Problem,
    to: str,
    marks: Sequence[bool | None],
    reject: Callable[[Rejected], None],
) -> Iterator[TrainingRow]:
    """The rows of a problem in the format `to`; `reject` receives what has none, with the reason.

    `marks` says whether each solution is right, `None` where that is not known.
    """
    right, wrong = right_and_wrong(problem, marks)
    if not right and not (to == "kto" and wrong):
        detail = "No solution was chosen, or is known to be right."
        return reject(problem.rejected("export", Reason.NO_RIGHT_SOLUTION, detail))
    if to == "dpo" and not wrong:
        detail = "No solution is known to be wrong."
        return reject(problem.rejected("export", Reason.NO_WRONG_SOLUTION, detail))
    texts = problem.solutions
    whole = trajectories_of(problem.extra, problem.problem, texts)
    rows = list(training_rows(problem.problem, texts, range(len(texts)), trajectories=whole))
    jobs: list[tuple[int, Callable[[], TrainingRow]]] = []
    if to == "dpo":
        pairs = matched_pairs(problem, right, wrong)
        jobs = [(entry, partial(dpo_row, rows[entry], rows[other])) for entry, other in pairs]
    elif to == "kto":
        jobs = [(n, partial(kto_row, rows[n], right=n in right)) for n in (*right, *wrong)]
    else:
        jobs = [(n, partial(FORMATS[to], rows[n])) for n in right]
    for index, job in jobs:
        try:
            yield job()
        except InputError as error:
            reject(problem.rejected("export", Reason.NOT_IN_FORMAT, f"{error}.", index))


def _turns(row: Trajectory) -> list[Message]:
    return [*row["prompt"], *row["completion"]]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _tools(row: Trajectory) -> TrainingRow:
    """The tools as JSON text, which every reader gives back as it was."""
    return {"tools": _json(row["tools"])} if row.get("tools") else {}


def _text(turn: Message) -> str:
    """A turn's thoughts and words."""
    text = with_thoughts(turn.get("reasoning_content"), turn["content"])
    if not isinstance(text, str):
        raise InputError("a message has other content than text")
    return text


def _calls(turn: Message) -> list[Any]:
    return turn.get("tool_calls") or []


def _speech(turn: Message, *, hermes: bool) -> TrainingRow:
    """A turn of ShareGPT; `hermes` says how a text and calls share one."""
    text, calls = _text(turn), [call["function"] for call in _calls(turn)]
    if not calls:
        return {"from": SPEAKERS[turn["role"]], "value": text}
    request = _json(calls[0] if len(calls) == 1 else calls)
    if not text.strip():
        return {"from": "function_call", "value": request}
    if hermes:
        each = (f"<tool_call>\n{_json(call)}\n</tool_call>" for call in calls)
        return {"from": "gpt", "value": "\n".join([text, *each])}
    return {"from": "function_call", "value": f"{text}<tool_call>{request}</tool_call>"}


def _api_call(call: Any, name: str) -> Any:
    """A call with an id, and its arguments as JSON text."""
    arguments = call["function"]["arguments"]
    text = arguments if isinstance(arguments, str) else _json(arguments)
    return {"id": name, **call, "function": {**call["function"], "arguments": text}}
