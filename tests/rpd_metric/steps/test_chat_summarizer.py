"""Steps by a language model, against recorded replies.

The chat is a recording: for each solution, by a word that it contains, the replies that a model
gave one after the other. Everything behind the chat is the real thing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rpd_metric.errors import InputError, ModelError, StoreError
from rpd_metric.models.chat import ChatReply, ChatRequest, Sampling
from rpd_metric.models.flow import Flow
from rpd_metric.prompts.templates import load_template
from rpd_metric.steps.chat_summarizer import ChatSummarizer, steps_schema
from rpd_metric.steps.protocol import Summary
from rpd_metric.steps.replies import parse_steps

PROBLEM = "How often does the line meet the circle?"
SOLUTION = "Completing the square gives the centre. Its distance from the line exceeds the radius."
STEPS = ("Complete the square.", "Measure the distance.", "Compare it with the radius.")
GOOD = ChatReply("### Analysis\nFine.\n\n//boxed" + json.dumps({"logical_steps": STEPS}), "stop")
TWO_STEPS = ChatReply('//boxed{"logical_steps": ["Solve.", "Check."]}', "stop")
REFUSAL = ChatReply("I cannot do that.", "stop")
CUT = ChatReply('### Analysis\nFine.\n\n//boxed{"logical_steps": ["Complete the sq', "length")


class RecordedChat:
    """Plays back the replies for each solution, found by a word in the user's message."""

    def __init__(self, replies: Mapping[str, list[ChatReply | BaseException]]) -> None:
        self.model = "recorded-14b"
        self.requests: list[ChatRequest] = []
        self._replies = {word: list(recorded) for word, recorded in replies.items()}

    async def __call__(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        user = next(each["content"] for each in request.messages if each["role"] == "user")
        word = next(word for word in self._replies if word in user)
        await asyncio.sleep(0)
        reply = self._replies[word].pop(0)
        if isinstance(reply, BaseException):
            raise reply
        return reply


async def summarize_one(*replies: ChatReply | BaseException, **options: Any) -> Summary:
    (summary,) = await summarizer_of(*replies, **options).summarize(PROBLEM, [SOLUTION])
    return summary


def summarizer_of(*replies: ChatReply | BaseException, **options: Any) -> ChatSummarizer:
    return ChatSummarizer(RecordedChat({"Completing": list(replies)}), **options)


def requests_of(summarizer: ChatSummarizer) -> list[ChatRequest]:
    assert isinstance(summarizer.chat, RecordedChat)
    return summarizer.chat.requests


async def test_a_request_holds_the_prompt_the_sampling_and_the_hash_of_the_template() -> None:
    sampling = Sampling(temperature=0, max_tokens=99)
    schema = steps_schema()
    summarizer = summarizer_of(GOOD, template="summarize_json", sampling=sampling, schema=schema)
    await summarizer.summarize(PROBLEM, [SOLUTION])
    (request,) = requests_of(summarizer)
    assert request == summarizer.request(PROBLEM, SOLUTION)
    assert request.sampling == sampling
    assert request.schema == schema
    assert request.template == load_template("summarize_json").sha
    system, user = request.messages
    assert PROBLEM not in system["content"]
    assert user["content"].index(PROBLEM) < user["content"].index(SOLUTION)


async def test_the_solutions_of_a_problem_are_asked_for_together_and_come_back_in_order() -> None:
    words = ["slow", "quick", "middling"]
    all_asked = asyncio.Event()

    class Waiting:
        model = "waiting"
        asked = 0

        async def __call__(self, request: ChatRequest) -> ChatReply:
            self.asked += 1
            if self.asked == len(words):
                all_asked.set()
            await all_asked.wait()  # nobody is answered before everybody has asked
            word = next(word for word in words if word in request.messages[1]["content"])
            for _ in range(5 if word == "slow" else 1):
                await asyncio.sleep(0)
            return ChatReply(json.dumps({"logical_steps": [word, "Solve.", "Check."]}))

    summaries = await ChatSummarizer(Waiting()).summarize(PROBLEM, words)
    assert [summary.steps[0] for summary in summaries] == words


async def test_one_solution_s_failure_leaves_the_others_alone() -> None:
    chat = RecordedChat(
        {
            "sunk": [ModelError("the server at 10.0.0.1 said 422:\n too long")],
            "mute": [REFUSAL, REFUSAL],
            "fine": [GOOD],
        }
    )
    solutions = ["sunk", "", "mute", "fine", " \n\t"]
    assert await ChatSummarizer(chat).summarize(PROBLEM, solutions) == [
        Summary((), "model_error", "the server at 10.0.0.1 said 422: too long"),
        Summary((), "empty_solution", "the solution is empty"),
        Summary((), "no_envelope", "the reply holds no JSON object with the key 'logical_steps'"),
        Summary(STEPS),
        Summary((), "empty_solution", "the solution is empty"),
    ]


# Repair


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (TWO_STEPS.text, TWO_STEPS.text),
        ("<think>Long.</think>" + TWO_STEPS.text, TWO_STEPS.text),
    ],
)
async def test_an_invalid_reply_is_asked_for_again_with_what_was_wrong(text, shown) -> None:
    summarizer = summarizer_of(ChatReply(text, "stop"), GOOD)
    (summary,) = await summarizer.summarize(PROBLEM, [SOLUTION])
    assert (summary, summary.asked_again) == (Summary(STEPS), True)
    first, second = requests_of(summarizer)
    assert second.messages[:2] == first.messages
    assert second.messages[2] == {"role": "assistant", "content": shown}
    assert second.messages[3]["role"] == "user"
    assert "2 steps, 3 to 5 wanted" in second.messages[3]["content"]
    assert (second.sampling, second.schema, second.template) == (
        first.sampling,
        first.schema,
        first.template,
    )


@pytest.mark.parametrize("repair", [0, 1, 3])
async def test_the_number_of_repairs_is_an_option(repair: int) -> None:
    empty = ChatReply("", "stop")
    summarizer = summarizer_of(*[empty] * repair, REFUSAL, repair=repair)
    (summary,) = await summarizer.summarize(PROBLEM, [SOLUTION])
    assert summary.reason == "no_envelope"
    assert summary.asked_again == (repair > 0)
    assert len(requests_of(summarizer)) == repair + 1
    # However often it fails, the conversation holds one failed reply.
    assert all(len(request.messages) <= 4 for request in requests_of(summarizer))


# Replies that were cut off


async def test_a_cut_reply_is_lengthened_once_and_by_the_scheduler_alone() -> None:
    summarizer = summarizer_of(CUT, GOOD, sampling=Sampling(max_tokens=300))
    assert (await summarizer.summarize(PROBLEM, [SOLUTION]))[0].reason == "truncated"
    assert len(requests_of(summarizer)) == 1, "the summarizer only repairs"

    chat = RecordedChat({"Completing": [CUT, GOOD]})
    flowing = ChatSummarizer(Flow(chat), sampling=Sampling(max_tokens=300))
    assert await flowing.summarize(PROBLEM, [SOLUTION]) == [Summary(STEPS)]
    first, second = chat.requests
    assert (first.sampling.max_tokens, second.sampling.max_tokens) == (300, 600)
    assert second.messages == first.messages


# What the model must not get away with


async def test_a_reply_of_thoughts_alone_is_named_as_that_and_not_asked_for_again() -> None:
    summarizer = summarizer_of(ChatReply("", "length", reasoning="Hmm, the circle"))
    (summary,) = await summarizer.summarize(PROBLEM, [SOLUTION])
    assert (summary.reason, len(requests_of(summarizer))) == ("truncated", 1)
    assert "turn thinking off" in summary.detail


@pytest.mark.parametrize("template", ["summarize", "summarize_json"])
async def test_a_copy_of_the_prompt_s_example_is_not_a_summary(template: str) -> None:
    prompt = load_template(template).text
    start = prompt.rindex("{", 0, prompt.index('"logical_steps": ['))
    copy = prompt[start : prompt.index("[user]")]
    assert len(parse_steps(copy)) == 3
    parrot = ChatReply("### Analysis\nFine.\n" + copy, "stop")
    assert (await summarize_one(parrot, parrot, template=template)).reason == "quoted_envelope"


# Which part of the solution is sent


@pytest.mark.parametrize(
    ("solution", "sent"),
    [
        ("<think>Completing? No.</think>\nThe final text.", "The final text."),
        ("<think>a</think>b<think>c</think>d", "d"),
        ("No thoughts at all.", "No thoughts at all."),
    ],
)
async def test_the_final_part_is_what_follows_the_last_thoughts(solution: str, sent: str) -> None:
    request = summarizer_of(solution_part="final").request(PROBLEM, solution)
    assert request is not None
    lines = request.messages[1]["content"].splitlines()
    assert lines[-2] == sent
    assert lines[-3].startswith("<solution-")


@pytest.mark.parametrize("solution", ["<think>It goes on", "<think>a</think> \n"])
async def test_a_solution_without_a_final_part_is_empty_and_costs_nothing(solution: str) -> None:
    summarizer = summarizer_of(solution_part="final")
    assert await summarizer.summarize(PROBLEM, [solution]) == [
        Summary((), "empty_solution", "nothing follows the solution's block of thoughts")
    ]
    full = summarizer_of(solution_part="full").request(PROBLEM, solution)
    assert full is not None
    assert solution.strip() in full.messages[1]["content"]


async def test_what_cannot_be_encoded_is_replaced_before_it_is_sent() -> None:
    request = summarizer_of().request("\ud835 problem", "A\x00B \udc65 C {{problem}} {0} %s")
    assert request is not None
    user = request.messages[1]["content"]
    assert "AB ? C {{problem}} {0} %s" in user
    assert user.encode("utf-8")


# Errors that are not a solution's own


@pytest.mark.parametrize(
    "error", [StoreError("disk full"), ValueError("a bug"), KeyboardInterrupt()]
)
def test_an_error_that_is_not_the_model_s_passes_through(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        asyncio.run(summarizer_of(error).summarize(PROBLEM, [SOLUTION]))
    assert caught.value is error


async def test_an_error_or_a_cancellation_leaves_no_request_running() -> None:
    started, stopped = asyncio.Event(), []

    class Hanging:
        model = "hanging"

        async def __call__(self, request: ChatRequest) -> ChatReply:
            if "bug" in request.messages[1]["content"]:
                await started.wait()
                raise ValueError("a bug")
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append(request)
            raise AssertionError

    summarizer = ChatSummarizer(Hanging())
    with pytest.raises(ValueError, match="a bug"):
        await summarizer.summarize(PROBLEM, ["hangs", "bug"])
    assert len(stopped) == 1

    task = asyncio.ensure_future(summarizer.summarize(PROBLEM, ["hangs", "hangs too"]))
    while len(asyncio.all_tasks()) < 4:  # this test, the summary, and its two requests
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(stopped) == 3
    assert len(asyncio.all_tasks()) == 1


# Options, name and fingerprint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repair": -1}, "repair=-1"),
        ({"solution_part": "last"}, "choose 'full' or 'final'"),
        ({"template": "nowhere.txt"}, "no prompt template 'nowhere.txt'"),
    ],
)
def test_an_unusable_option_is_refused_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        summarizer_of(**options)


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
        summarizer_of(repair=0),
    ]
    assert len({variant.fingerprint for variant in variants}) == len(variants)
    assert summarizer_of(GOOD).fingerprint == variants[0].fingerprint
