"""Step extraction by a language model (Sec. 3.1 and App. A.1 of the paper).

One request per solution. What comes back is read by `replies.py`; a reply that cannot be used is
asked for once more with what was wrong, and then given up with its reason. Requests in flight,
retries and the store of replies belong to the chat callable that is passed in (`flow.py`).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from rpd_metric.errors import InputError, ModelError, ReplyError
from rpd_metric.models.chat import (
    Chat,
    ChatReply,
    ChatRequest,
    Sampling,
    ends_in_loop,
    give_up,
    judge_reply,
)
from rpd_metric.models.concurrency import run_bounded
from rpd_metric.prompts.templates import PromptTemplate, fence, load_template, sendable
from rpd_metric.reasons import Reason
from rpd_metric.steps.protocol import MAX_STEPS, MIN_STEPS, Summary
from rpd_metric.steps.replies import (
    PARSER_VERSION,
    STEPS_KEY,
    after_thinking,
    check_steps,
    closed_object,
    parse_steps,
    repair_request,
)

ONLY_THOUGHT = (
    "the model thought until the limit and wrote nothing: turn thinking off, or raise --max-tokens"
)
CONSTANT = "its steps are those of the first reply, which was about another solution"
# Solutions that share fewer of their words are not told in the same words by a model that reads.
ALIKE = 0.9


def steps_schema() -> dict[str, Any]:
    """The JSON schema of a summary, for guided decoding."""
    step = closed_object(
        step_title={"anyOf": [{"type": "string"}, {"type": "null"}]},
        step_description={"type": "string", "minLength": 1},
    )
    steps = {"type": "array", "items": step, "minItems": MIN_STEPS, "maxItems": MAX_STEPS}
    return closed_object(**{STEPS_KEY: steps})


class ChatSummarizer:
    """Asks a chat model for the steps of each solution.

    Args:
        template (`str`, `Path` or [`PromptTemplate`]): `"summarize"` (notes, then JSON in an
            envelope, as in the paper), `"summarize_json"` (JSON only), or a file with
            `{{problem}}`, `{{solution}}` and, where wanted, `{{min_steps}}` and `{{max_steps}}`.
        sampling ([`~rpd_metric.models.chat.Sampling`], *optional*): Defaults to the paper's.
        solution_part (`"full"` or `"final"`): Whether the model sees the whole solution or only
            what follows its last `</think>`.
        schema (`Mapping`, *optional*): A JSON schema that guides decoding, usually
            [`steps_schema`]. It leaves no room for the notes that `"summarize"` asks for.
    """

    def __init__(
        self,
        chat: Chat,
        *,
        template: str | Path | PromptTemplate = "summarize",
        sampling: Sampling | None = None,
        solution_part: Literal["full", "final"] = "full",
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        if solution_part not in ("full", "final"):
            raise InputError(f"solution_part={solution_part!r}: choose 'full' or 'final'")
        self.chat = chat
        self._first: tuple[str, tuple[str, ...]] | None = None  # what was sent, and the steps
        self._constant = True  # until other steps come
        self.template = (
            template if isinstance(template, PromptTemplate) else load_template(template)
        )
        self.repair_template = load_template("repair", required=("fault",), optional=())
        self.sampling = sampling or Sampling()
        self.solution_part = solution_part
        self.schema = schema
        self.name = chat.model
        decisive = {
            "parser": PARSER_VERSION,
            "model": chat.model,
            "template": self.template.sha,
            "repair_template": self.repair_template.sha,
            "sampling": asdict(self.sampling),
            "schema": schema,
            "steps": [MIN_STEPS, MAX_STEPS],
            "repair": 1,
            "solution_part": solution_part,
        }
        self.fingerprint = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()

    def request(self, problem: str | None, solution: str) -> ChatRequest | None:
        """The first request for a solution; `None` where nothing is there to ask about."""
        part = solution if self.solution_part == "full" else after_thinking(solution)
        text = sendable(part or "").strip()
        if not text:
            return None
        messages = self.template.render(
            problem=fence("problem", sendable(problem or "(not given)").strip()),
            solution=fence("solution", text),
            min_steps=MIN_STEPS,
            max_steps=MAX_STEPS,
        )
        return ChatRequest(messages, self.sampling, self.schema, self.template.sha)

    async def summarize(self, problem: str | None, solutions: Sequence[str]) -> list[Summary]:
        """Extract the steps of each solution, all of them at once."""
        extract = partial(self._extract, problem)
        async with aclosing(run_bounded(solutions, extract, max_in_flight=len(solutions))) as parts:
            summaries = [summary async for summary in parts]
        usable = (text for text, summary in zip(solutions, summaries, strict=True) if summary.ok)
        words = [set(text.split()) for text in usable]
        if self._constant and any(
            len(words[0] & other) < ALIKE * len(words[0] | other) for other in words
        ):
            await give_up(
                self.chat,
                f"{self.name} gave different solutions of one problem the same steps, as all "
                "replies so far have. Take another model or --template; --keep-going asks on",
            )
        return summaries

    async def _extract(self, problem: str | None, solution: str) -> Summary:
        first = self.request(problem, solution)
        if first is None:
            empty = "nothing follows the solution's block of thoughts"
            detail = empty if solution.strip() else "the solution is empty"
            return Summary((), Reason.EMPTY_SOLUTION, detail)
        sent = "\n".join(message["content"] for message in first.messages)
        summary, bad_reply = await self._ask(first, sent)
        if bad_reply is None:
            return summary
        repair = repair_request(first, bad_reply, self.repair_template, summary.detail)
        summary, _ = await self._ask(repair, sent)
        return replace(summary, asked_again=True)

    async def _ask(self, request: ChatRequest, sent: str) -> tuple[Summary, ChatReply | None]:
        """The summary that a reply gives, and the reply itself if another one may be better."""
        try:
            reply = await self.chat(request)
        except ModelError as error:
            return Summary((), Reason.MODEL_ERROR, " ".join(str(error).split())), None
        try:
            if reply.only_thought:
                raise ReplyError(Reason.TRUNCATED, ONLY_THOUGHT)
            steps = parse_steps(reply.text, reply.finish_reason, sent=sent)
            check_steps(steps, self.template.text)
        except ReplyError as error:
            judge_reply(self.chat, reply, str(error))
            cut = reply.finish_reason == "length"
            if cut and ends_in_loop(reply.text):
                detail = "the reply repeats itself until it was cut off"
                return Summary((), Reason.REPETITION_LOOP, detail), None
            # A cut reply was asked for again with more tokens by the flow already.
            again = None if cut or reply.only_thought else reply
            return Summary((), error.reason, error.detail), again
        first_sent, first_steps = self._first = self._first or (sent, steps)
        self._constant = self._constant and steps == first_steps
        # The first reply is judged by those that follow.
        if not self._constant or sent != first_sent:
            judge_reply(self.chat, reply, CONSTANT if self._constant else None)
        return Summary(steps), None
