"""Steps by a language model, against recorded replies.

The chat plays back the replies that a model gave. Everything behind it is the real thing.
"""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parts.scripted import ScriptedChat
from rpd_metric.errors import ModelError
from rpd_metric.models.chat import ChatReply, ChatRequest, Sampling
from rpd_metric.models.failures import ServerUnavailable
from rpd_metric.models.flow import Flow
from rpd_metric.models.requests import RequestOptions
from rpd_metric.steps.chat_summarizer import ChatSummarizer, steps_schema
from rpd_metric.steps.protocol import Summary

PROBLEM = "How often does the line meet the circle?"
SOLUTION = "Completing the square gives the centre. Its distance from the line exceeds the radius."
STEPS = ("Complete the square.", "Measure the distance.", "Compare it with the radius.")
GOOD = ChatReply("### Analysis\nFine.\n\n//boxed" + json.dumps({"logical_steps": STEPS}), "stop")
TWO_STEPS = ChatReply('//boxed{"logical_steps": ["Solve.", "Check."]}', "stop")
REFUSAL = ChatReply("I cannot do that.", "stop")
CUT = ChatReply('### Analysis\nFine.\n\n//boxed{"logical_steps": ["Complete the sq', "length")


def summarizer_of(*replies: ChatReply | BaseException, **options: Any) -> ChatSummarizer:
    return ChatSummarizer(ScriptedChat(*replies), **options)


async def test_one_solution_s_failure_leaves_the_others_alone() -> None:
    chat = ScriptedChat(
        sunk=[ModelError("the server at 10.0.0.1 said 422:\n too long")],
        mute=[REFUSAL, REFUSAL],
        fine=[GOOD],
    )
    solutions = ["sunk", "", "mute", "fine", " \n\t"]
    assert await ChatSummarizer(chat).summarize(PROBLEM, solutions) == [
        Summary((), "model_error", "the server at 10.0.0.1 said 422: too long"),
        Summary((), "empty_solution", "the solution is empty"),
        Summary((), "no_envelope", "the reply holds no JSON object with the key 'logical_steps'"),
        Summary(STEPS),
        Summary((), "empty_solution", "the solution is empty"),
    ]


async def test_an_invalid_reply_is_asked_for_again_with_what_was_wrong() -> None:
    summarizer = summarizer_of(ChatReply("<think>Long.</think>" + TWO_STEPS.text, "stop"), GOOD)
    (summary,) = await summarizer.summarize(PROBLEM, [SOLUTION])
    assert (summary, summary.asked_again) == (Summary(STEPS), True)
    first, second = summarizer.chat.requests
    assert second.messages[:2] == first.messages
    assert second.messages[2] == {"role": "assistant", "content": TWO_STEPS.text}
    assert second.messages[3]["role"] == "user"
    assert "2 steps, 3 to 5 wanted" in second.messages[3]["content"]
    assert replace(second, messages=()) == replace(first, messages=())


async def test_a_cut_reply_is_refused_and_left_to_the_flow() -> None:
    summarizer = summarizer_of(CUT, GOOD, sampling=Sampling(max_tokens=300))
    assert (await summarizer.summarize(PROBLEM, [SOLUTION]))[0].reason == "truncated"
    assert len(summarizer.chat.requests) == 1


async def test_the_final_part_is_what_follows_the_last_thoughts() -> None:
    text = "<think>a</think>b<think>c</think>\nThe final text."
    request = summarizer_of(solution_part="final").request(PROBLEM, text)
    *_, opening, sent, _closing = request.messages[1]["content"].splitlines()
    assert (opening.startswith("<solution-"), sent) == (True, "The final text.")


OTHER = ChatReply(GOOD.text.replace("Measure", "Guess"), "stop")


@pytest.mark.parametrize(
    ("replies", "solutions", "keep_going", "ended"),
    [
        ([GOOD] * 3, ["Count the rows.", "Count the rows. ", "Induct on n."], False, True),
        ([GOOD] * 2, ["Count the rows.", "Induct on n."], True, False),
        ([GOOD, OTHER], ["Count the rows.", "Induct on n."], False, False),
        # A model may well say the same of what is almost the same.
        ([GOOD] * 2, [SOLUTION, f" {SOLUTION}\n"], False, False),
        ([GOOD, REFUSAL, REFUSAL], ["Count the rows.", "Induct on n."], False, False),
    ],
)
async def test_one_summary_for_different_solutions_of_a_problem_ends_the_run(
    replies: list[ChatReply], solutions: list[str], keep_going: bool, ended: bool
) -> None:
    flow = Flow(ScriptedChat(*replies), RequestOptions(keep_going=keep_going))
    error = ""
    try:
        await ChatSummarizer(flow).summarize(PROBLEM, solutions)
    except ServerUnavailable as failure:
        error = str(failure)
    assert ("scripted gave different solutions of one problem the same steps" in error) == ended


@pytest.mark.parametrize("at", [None, 20])
async def test_one_summary_for_every_problem_is_of_no_use(at: int | None) -> None:
    replies = [OTHER if number == at else GOOD for number in range(60)]
    flow = Flow(ScriptedChat(*replies), RequestOptions(max_in_flight=1))
    summarizer = ChatSummarizer(flow)
    # The first reply has none to be compared with.
    for number in range(33 if at is None else 60):
        await summarizer.summarize(f"Problem {number}", [SOLUTION])
    if at is None:
        with pytest.raises(ServerUnavailable, match=r"none of the first 32.*those of the first"):
            await summarizer.summarize("Another problem", [SOLUTION])


async def test_a_cancellation_leaves_no_request_running() -> None:
    stopped = []

    class Hanging:
        model = "hanging"

        async def __call__(self, request: ChatRequest) -> ChatReply:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append(request)
            raise AssertionError

    task = asyncio.ensure_future(ChatSummarizer(Hanging()).summarize(PROBLEM, ["a", "b"]))
    for _ in range(9):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(stopped) == 2
    assert len(asyncio.all_tasks()) == 1


def test_the_fingerprint_changes_with_everything_that_can_change_the_steps(tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    own.write_text("{{problem}}\n{{solution}}", encoding="utf-8")
    another_model = summarizer_of()
    another_model.chat.model = "another"
    variants: list[ChatSummarizer] = [
        summarizer_of(),
        ChatSummarizer(another_model.chat),
        summarizer_of(template="summarize_json"),
        summarizer_of(template=own),
        summarizer_of(sampling=Sampling(seed=1)),
        summarizer_of(schema=steps_schema()),
        summarizer_of(solution_part="final"),
    ]
    assert len({variant.fingerprint for variant in variants}) == len(variants)
    assert summarizer_of(GOOD).fingerprint == variants[0].fingerprint
