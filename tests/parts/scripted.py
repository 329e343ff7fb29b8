"""A chat model, a summarizer and an encoder that do as a test says, and what waits for tasks."""

import asyncio

import numpy as np

from rpd_metric.models.chat import ChatReply
from rpd_metric.steps.protocol import Summary


class ScriptedChat:
    """Gives answers one after the other; an error among them is raised.

    `by_word` has answers for requests whose user message contains a word.
    """

    model = "scripted"

    def __init__(self, *answers, **by_word):
        self.requests = []
        self._answers = {word: list(each) for word, each in by_word.items()} or {"": list(answers)}

    @property
    def users(self):
        """The user messages of the requests."""
        return [request.messages[1]["content"] for request in self.requests]

    async def __call__(self, request):
        self.requests.append(request)
        await asyncio.sleep(0)
        user = request.messages[1]["content"]
        answer = next(left for word, left in self._answers.items() if word in user).pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, ChatReply) else ChatReply(answer, "stop")


class Stopped(BaseException):  # as Ctrl-C is: it passes the border of outside parts
    """In the place of whatever ends a run in its middle."""


class SentenceSteps:
    """Takes sentences for steps; notes the problems, and stops a run at one of them."""

    name = "sentences"
    fingerprint = "sentences/1"

    def __init__(self, stop_at=None):
        self.asked = []
        self.stop_at = stop_at

    async def summarize(self, problem, solutions):
        if problem == self.stop_at:
            raise Stopped
        self.asked.append(problem)
        return [
            Summary((), "no_envelope", "there was no envelope")
            if "FAIL" in text
            else Summary(tuple(part.strip() for part in text.split(".") if part.strip()))
            for text in solutions
        ]


class WordCounts:
    """An encoder that counts words: what it should say can be worked out by hand."""

    name = "word counts"

    def __init__(self, words):
        self.words = words
        self.calls = []

    def encode(self, texts):
        self.calls.append(texts)
        counts = [[text.lower().count(word) for word in self.words] for text in texts]
        return np.array(counts, dtype=np.float32).reshape(len(texts), len(self.words))


def no_task_is_left():
    return asyncio.all_tasks() == {asyncio.current_task()}


async def settle():
    """Let all tasks go as far as they can."""
    for _ in range(50):
        await asyncio.sleep(0)
