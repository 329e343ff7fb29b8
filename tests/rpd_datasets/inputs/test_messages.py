"""A transcript of an agent, in the shapes that people have, is the same messages in every row."""

import copy
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset, Features, Json, List, Value

from parts.rows import write_rows
from parts.tiny_models import make_tokenizer
from rpd_datasets import CurationConfig, curate_dataset
from rpd_datasets.inputs.source import InputSpec, open_source
from rpd_datasets.messages import trajectories_of, without_ids
from rpd_datasets.problem import Problem

QUESTION = "What is 12 times 8?"
SYSTEM = {"role": "system", "content": "Use the calculator."}
PARAMETERS = {"type": "object", "properties": {"expression": {"type": "string"}}}
TOOLS = [
    {
        "type": "function",
        "function": {"name": "calculator", "description": "Computes.", "parameters": PARAMETERS},
    }
]
# What each sample computes, and says of it.
WAYS = {"12*8": "I multiplied, which gives 96.", "12*10-24": "I took 2 times 12 from 120: 96."}
THOUGHT = "One call is enough."


def call(expression: str, **own: Any) -> dict[str, Any]:
    function = {"name": "calculator", "arguments": {"expression": expression}}
    return {"type": "function", **own, "function": function}


def transcript(expression: str, system: bool = True, thought: bool = True) -> list[dict[str, Any]]:
    asks = {"role": "assistant", "content": "", "tool_calls": [call(expression)]}
    if thought:
        asks["reasoning_content"] = THOUGHT
    talk = [SYSTEM, {"role": "user", "content": QUESTION}, asks, {"role": "tool", "content": "96"}]
    return [*talk[not system :], {"role": "assistant", "content": WAYS[expression]}]


def openai(expression: str) -> dict[str, Any]:
    """As a client of OpenAI keeps a chat: arguments are text, and no content is null."""
    talk = copy.deepcopy(transcript(expression))
    asks = call(expression, id=f"call_{expression}")
    asks["function"]["arguments"] = json.dumps(asks["function"]["arguments"])
    talk[2] |= {"content": None, "tool_calls": [asks], "refusal": None}
    talk[3]["tool_call_id"] = f"call_{expression}"
    return {"messages": talk, "tools": TOOLS}


def sharegpt(expression: str) -> dict[str, Any]:
    """As LLaMA-Factory reads it: system prompt and tools have columns."""
    asks = json.dumps(call(expression)["function"])
    turns = [("human", QUESTION), ("function_call", asks)]
    turns += [("observation", "96"), ("gpt", WAYS[expression])]
    talk = [{"from": role, "value": text} for role, text in turns]
    tools = json.dumps([TOOLS[0]["function"]])
    return {"conversations": talk, "tools": tools, "system": SYSTEM["content"]}


def hermes(expression: str) -> dict[str, Any]:
    """Its own dataset writes some calls as Python does."""
    function = call(expression)["function"]
    asks = f"<tool_call>\n{function if '*8' in expression else json.dumps(function)}\n</tool_call>"
    result = "<tool_response>\n96\n</tool_response>"
    turns = [("human", QUESTION), ("gpt", asks), ("tool", result), ("gpt", WAYS[expression])]
    told = SYSTEM | {"content": f"Use these. <tools>{json.dumps(TOOLS)}</tools>"}
    rows = [{"from": "system", "value": told["content"]}]
    return {"conversations": rows + [{"from": role, "value": text} for role, text in turns]}


def anthropic(expression: str) -> dict[str, Any]:
    """Messages of parts, with a problem's id; one system prompt has another date."""
    asks = [{"type": "thinking", "thinking": THOUGHT, "signature": "x"}]
    asks += [
        {"type": "tool_use", "id": "t", "name": "calculator"}
        | {"input": {"expression": expression}}
    ]
    image = {"type": "image", "source": {"type": "base64", "data": "AA=="}}
    result = {"type": "tool_result", "tool_use_id": "t"}
    result |= {"content": [{"type": "text", "text": "96"}, image]}
    said = [{"type": "text", "text": WAYS[expression]}]
    talk = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": asks}]
    talk += [{"role": "user", "content": [result]}, {"role": "assistant", "content": said}]
    function = TOOLS[0]["function"]
    tool = {"name": "calculator", "description": function["description"]}
    row = {"instance_id": "sum-1", "tools": [tool | {"input_schema": PARAMETERS}]}
    return row | {"system": f"Today is day {len(expression)}.", "messages": talk}


def responses(expression: str) -> dict[str, Any]:
    """Items of OpenAI's Responses API."""
    asks = {"type": "function_call", "call_id": "c"} | call(expression)["function"]
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": THOUGHT}]}
    asks["arguments"] = json.dumps(asks["arguments"])
    result = {"type": "function_call_output", "call_id": "c", "output": "96"}
    told = {"role": "developer", "content": SYSTEM["content"]}
    said = [{"type": "output_text", "text": WAYS[expression]}]
    talk = [told, {"role": "user", "content": QUESTION}, thought, asks, result]
    talk += [{"type": "message", "role": "assistant", "content": said}]
    return {"messages": talk, "tools": [{"type": "function", **TOOLS[0]["function"]}]}


READERS = {"openai": openai, "sharegpt": sharegpt, "hermes": hermes, "anthropic": anthropic}
READERS |= {"responses": responses}


def read(file: Path, **options: Any) -> list[Problem]:
    spec = InputSpec(**options)
    return list(open_source(file, spec, scratch=file.parent / "scratch", on_reject=print))


def rendered(messages: Any, tools: Any) -> str:
    """A conversation as Qwen3 sees it."""
    template = files("trl").joinpath("chat_templates/qwen3_training.jinja").read_text("utf-8")
    special = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    tokenizer = make_tokenizer(["a"], special, template, vocab_size=300, length=4096)
    return str(tokenizer.apply_chat_template(messages, tools=tools, tokenize=False))


def check(problem: Problem, expected: Any, prompt: int, tools: Any) -> None:
    """Every solution's row is the expected messages, also to a chat template."""
    rows = trajectories_of(problem.extra, problem.problem, problem.solutions)
    for row, (way, said), text in zip(rows, WAYS.items(), problem.solutions, strict=True):
        messages = row["prompt"] + row["completion"]
        assert [without_ids(turn) for turn in messages] == list(map(without_ids, expected(way)))
        assert rendered(messages, row.get("tools")) == rendered(expected(way), tools)
        assert (len(row["prompt"]), row.get("tools")) == (prompt, tools)
        assert said in text
        assert f'calculator({{"expression": "{way}"}})' in text


@pytest.mark.parametrize("shape", READERS)
def test_a_transcript_in_any_shape_is_whole(tmp_path, shape):
    file = write_rows(tmp_path / "rows.jsonl", [READERS[shape](way) for way in WAYS])
    (problem,) = read(file)

    def expected(way: str) -> list[dict[str, Any]]:
        talk = transcript(way, thought=shape in ("openai", "anthropic", "responses"))
        if shape == "hermes":
            talk[0] = {"role": "system", "content": hermes(way)["conversations"][0]["value"]}
        if shape == "anthropic":
            talk[0] = {"role": "system", "content": f"Today is day {len(way)}."}
            talk[3]["content"] = "96[image]"
        return talk

    check(problem, expected, 2, None if shape == "hermes" else TOOLS)
    assert (problem.problem, "tools" in problem.extra) == (QUESTION, False)


def test_a_batch_of_vllm_finds_prompt_and_tools_in_its_requests(tmp_path):
    """The first step of an agent: each choice is a call."""
    body = {"messages": transcript("12*8")[:2], "tools": TOOLS}
    requests = write_rows(tmp_path / "requests.jsonl", [{"custom_id": "a", "body": body}])
    choices = [{"message": openai(way)["messages"][2]} for way in WAYS]
    for choice in choices:
        choice["message"]["reasoning"] = choice["message"].pop("reasoning_content")
    result = {"custom_id": "a", "response": {"status_code": 200, "body": {"choices": choices}}}
    file = write_rows(tmp_path / "rows.jsonl", [result])
    (problem,) = read(file, prompts=str(requests))
    rows = trajectories_of(problem.extra, problem.problem, problem.solutions)
    for row, way in zip(rows, WAYS, strict=True):
        assert (row["prompt"], row["tools"]) == (body["messages"], TOOLS)
        assert list(map(without_ids, row["completion"])) == [without_ids(transcript(way)[2])]


def test_the_prompt_ends_where_samples_differ_whatever_the_ids_of_calls(tmp_path):
    same = [openai("12*8") for _ in range(2)]
    same[0]["messages"][2]["tool_calls"][0]["id"] = "another"
    same[1]["messages"][-1]["content"] = "The calculator says 96."
    (problem,) = read(write_rows(tmp_path / "rows.jsonl", same))
    rows = trajectories_of(problem.extra, problem.problem, problem.solutions)
    assert [len(row["prompt"]) for row in rows] == [4, 4]
    assert problem.solutions == (WAYS["12*8"], "The calculator says 96.")
    assert problem.problem.startswith(f"User: {QUESTION}\n\nAssistant: <think>")


def test_rows_that_were_curated_hold_the_calls_and_are_read_again(tmp_path):
    file = write_rows(tmp_path / "rows.jsonl", [openai(way) for way in WAYS])
    config = CurationConfig(num_problems=1, num_solutions=2, embedder="static")
    curated = curate_dataset(str(file), tmp_path / "set", config)
    assert curated.sft.column_names == ["prompt", "completion", "tools"]
    whole = {row["completion"][-1]["content"]: row for row in curated.sft}
    for way, said in WAYS.items():
        row = whole[said]
        assert list(map(without_ids, row["prompt"] + row["completion"])) == list(
            map(without_ids, transcript(way))
        )
        assert row["tools"] == TOOLS
    # Again from the folder, and from training rows by a reader that knows Arrow only.
    (again,) = read(tmp_path / "set" / "data")
    assert trajectories_of(again.extra, again.problem, again.solutions)[0]["tools"] == TOOLS
    (rows,) = read(tmp_path / "set" / "sft")
    assert {text.rpartition("\n\n")[2] for text in rows.solutions} == set(WAYS.values())


def claude_code(way: str) -> list[dict[str, Any]]:
    """The lines of a session: each part of an answer has its own."""
    talk = [{"type": "summary", "summary": "Sums", "leafUuid": "u"}]
    own = {"sessionId" if "*8" in way else "session_id": way}  # in files, and in its stream
    turns = anthropic(way)["messages"]
    for turn in turns:
        content = turn["content"]
        parts = [content] if isinstance(content, str) else [[part] for part in content]
        for part in parts:
            line = {"type": turn["role"], "isSidechain": False} | own
            talk.append(line | {"message": {"role": turn["role"], "content": part}})
    said = {"role": "assistant", "content": "Not the model's."}
    line = {"type": "assistant", "message": said} | own
    names = ("isSidechain", "isApiErrorMessage", "parent_tool_use_id")
    asides = [line | {name: True} for name in names]
    # The user wrote the question anew; what came of the first one is out.
    first = talk[1] | {"message": {"role": "user", "content": "What is 12?"}, "parentUuid": None}
    return [talk[0], first, line, talk[1] | {"parentUuid": None}, *asides, *talk[2:]]


def codex(way: str) -> list[dict[str, Any]]:
    def said(role: str, text: str) -> dict[str, Any]:
        kind = "output_text" if role == "assistant" else "input_text"
        return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}

    _, _, *items = responses(way)["messages"]
    told = [said("developer", f"<permissions instructions>{way}")]
    items = [*told, said("user", f"<environment_context>{way}"), said("user", QUESTION), *items]
    lines = [{"type": "response_item", "payload": item} for item in items]
    meta = {"type": "session_meta", "payload": {"id": way, "cwd": "/a"}}
    context = {"type": "turn_context", "payload": {"model": "m"}}
    undone = {"type": "response_item", "payload": said("user", "And 12 times 9?")}
    undo = {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}}
    return [meta, context, *lines[:-1], undone, undo, lines[-1]]


@pytest.mark.parametrize("session", [claude_code, codex])
def test_session_files_of_one_task_are_samples_of_a_problem(tmp_path, session):
    for number, way in enumerate(WAYS):
        write_rows(tmp_path / "sessions" / f"{number}.jsonl", session(way))

    def expected(way: str) -> list[dict[str, Any]]:
        talk = transcript(way, system=False)
        if session is claude_code:
            talk[2]["content"] = "96[image]"
            return talk
        told = {"role": "system", "content": f"<permissions instructions>{way}"}
        return [told, {"role": "user", "content": f"<environment_context>{way}"}, *talk]

    (problem,) = read(tmp_path / "sessions")
    check(problem, expected, 1 + 2 * (session is codex), None)
    assert (problem.problem, problem.extra["session_id"]) == (QUESTION, [*WAYS])


def test_traces_of_datasets_are_read_in_memory(tmp_path):
    """Its JSON type holds messages and tools, as for the traces of agents."""
    features = Features(
        {"messages": List(Json()), "tools": List(Json()), "harness": Value("string")}
    )
    rows = [openai(way) | {"harness": "pi"} for way in WAYS]
    ds = Dataset.from_list(rows, features=features)
    (problem,) = open_source(ds, InputSpec(), scratch=tmp_path, on_reject=print)
    check(problem, transcript, 2, TOOLS)
