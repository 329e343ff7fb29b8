"""Steps that parse and are no summary: the prompt's example again, or one step several times."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from rpd_metric.errors import ReplyError
from rpd_metric.models.chat import ChatReply
from rpd_metric.prompts.templates import load_template
from rpd_metric.steps.chat_summarizer import ChatSummarizer
from rpd_metric.steps.checks import check_steps

PROMPTS = [load_template(name).text for name in ("summarize", "summarize_json")]
OWN = (
    "Complete the square to find the centre of the circle.",
    "Measure the distance of the centre from the line.",
    "Compare that distance with the radius.",
)
# The example of the prompts, a word changed here and there: what a small model wrote.
NEAR_COPY = (
    "Apply Fermat's little theorem to find a power of the number that is congruent to one.",
    "Reduce the exponent modulo that period by long division with remainder.",
    "Evaluate the small power that is left by repeated squaring.",
)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_steps_of_ones_own_pass(prompt: str) -> None:
    check_steps(OWN, prompt)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_near_copies_of_the_prompts_example_are_refused_by_name(prompt: str) -> None:
    with pytest.raises(ReplyError) as caught:
        check_steps(NEAR_COPY, prompt)
    assert caught.value.reason == "copied_example"
    assert "Fermat" in caught.value.detail


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_solution_may_use_the_method_of_the_example(prompt: str) -> None:
    check_steps((NEAR_COPY[0], *OWN), prompt)


@pytest.mark.parametrize(
    "steps",
    [
        (OWN[0], OWN[1], OWN[1]),
        (OWN[0], OWN[1], OWN[1].upper().rstrip(".")),
        ("Solve it.", "Check.", "Solve it."),
        (OWN[0], OWN[1], OWN[1].rstrip(".") + " again."),
    ],
)
def test_steps_that_repeat_each_other_are_refused_by_name(steps: Sequence[str]) -> None:
    with pytest.raises(ReplyError) as caught:
        check_steps(steps, PROMPTS[0])
    assert caught.value.reason == "repeated_steps"


async def test_a_copied_example_is_asked_for_again_and_then_counted() -> None:
    class Parrot:
        model = "parrot"
        asked = 0

        async def __call__(self, request):
            self.asked += 1
            steps = (
                OWN if "Your reply could not be used" in str(request.messages[-1]) else NEAR_COPY
            )
            return ChatReply(json.dumps({"logical_steps": steps}), "stop")

    parrot = Parrot()
    (repaired,) = await ChatSummarizer(parrot).summarize("Find x.", ["By completing the square."])
    assert (repaired.steps, repaired.asked_again, parrot.asked) == (OWN, True, 2)
    (refused,) = await ChatSummarizer(parrot, repair=0).summarize("Find x.", ["Another way."])
    assert (refused.reason, refused.asked_again) == ("copied_example", False)
