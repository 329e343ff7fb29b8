r"""Rewards: right answers, readable form, and diversity among right answers only."""

from collections.abc import Iterator

import pytest

from rpd_datasets.rewards import diversity
from rpd_datasets.training.recipe import ReinforcementOptions
from rpd_datasets.training.reinforcement import load_rewards
from rpd_datasets.training.reward_functions import (
    AccuracyReward,
    DiversityReward,
    FormatReward,
    well_formed,
)
from rpd_metric.errors import InputError
from rpd_metric.grading.mathematics import Grader
from rpd_metric.models.spec import load_embedder
from rpd_metric.steps.extractive import ExtractiveSummarizer


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(workers=1) as grader:
        yield grader


def reply(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def test_accuracy_is_one_for_a_right_answer_and_zero_for_others(grader):
    logged: dict[str, float] = {}
    rewards = AccuracyReward(grader)(
        [reply(r"So \boxed{25}."), reply(r"So \boxed{26}."), reply("Hm."), r"\boxed{0.5}"],
        answer=["025", "025", "025", "1/2"],
        log_metric=logged.__setitem__,
    )
    assert rewards == [1.0, 0.0, 0.0, 1.0]
    assert logged["accuracy/no_answer"] == 0.25


@pytest.mark.parametrize(
    ("text", "good"),
    [
        (r"So \boxed{3}.", True),
        (r"<think>hm</think>So \boxed{3}.", True),
        (r"hm</think>So \boxed{3}.", True),
        (r"<think>So \boxed{3}.", False),
        (r"<think>\boxed{3}</think> Done.", False),
        ("So 3.", False),
        (r"</think></think>\boxed{3}", False),
    ],
)
def test_form_is_closed_thoughts_and_then_a_box(text, good):
    assert well_formed(text) is good
    assert FormatReward()([reply(text)]) == [float(good)]


INDUCTION = (
    r"We argue by induction. The base case n = 1 holds. Assume the claim for n. Then the step to "
    r"n + 1 follows by adding one term. So the sum is \boxed{55}."
)
PAIRING = (
    r"Pair the first number with the last. Each pair adds up to eleven. There are five pairs. "
    r"Multiply to get \boxed{55}."
)


def test_diversity_counts_among_right_answers_of_one_prompt_only(grader):
    reward = DiversityReward(grader, ExtractiveSummarizer(), load_embedder("minilm"))
    logged: dict[str, float] = {}
    wrong = PAIRING.replace("55", "54")
    completions = [INDUCTION, PAIRING, wrong, INDUCTION, INDUCTION, PAIRING]
    rewards = reward(
        prompts=["p", "p", "p", "q", "q", "r"],
        completions=[reply(text) for text in completions],
        answer=["55"] * 6,
        log_metric=logged.__setitem__,
    )
    different, same = rewards[0], rewards[3]
    assert different == rewards[1] > 0.1
    assert rewards[2] == 0, "a wrong answer earns nothing by being different"
    assert same == rewards[4] == pytest.approx(0, abs=1e-6)
    assert rewards[5] == 0, "the only right answer has nothing to differ from"
    assert set(logged) == {"diversity/distance", "diversity/wording", "diversity/length"}
    assert 0 < logged["diversity/wording"] < 1


def test_a_paraphrase_earns_less_by_the_default_distance_than_by_rpd(grader):
    """A policy finds rewordings first, so they must pay less than another method."""
    text = (
        "Proof by induction. It is true at n = 1. Suppose that n is fine. Adding one more term "
        r"carries it over to n + 1. The total is \boxed{55}."
    )

    def paid(distance: str, other: str) -> float:
        reward = DiversityReward(
            grader, ExtractiveSummarizer(), load_embedder("minilm"), distance=distance
        )
        texts = [reply(INDUCTION), reply(other)]
        return reward(prompts=["p"] * 2, completions=texts, answer=["55"] * 2)[0]

    default, rpd = (paid(name, text) / paid(name, PAIRING) for name in ("taught", "rpd"))
    assert default < rpd < 1.2
    named = load_rewards(ReinforcementOptions(diversity_weight=1.0), grader)[0][-1]
    first, *_ = named(["p"] * 2, [reply(INDUCTION), reply(PAIRING)], ["55"] * 2)
    assert first == paid("taught", PAIRING)


def test_other_trainers_call_diversity_by_name_and_tell_groups_by_their_ids():
    texts = [INDUCTION, PAIRING, INDUCTION, INDUCTION]
    asked = {"prompts": ["p"] * 4, "completions": [reply(text) for text in texts]}
    # As TRL calls it: one problem of four completions, or two problems in the same words.
    one = diversity(**asked, solution=[PAIRING] * 4, log_metric=lambda *_: None)
    two = diversity(**asked, answer=["55"] * 4, problem_id=[1, 1, 2, 2])
    assert min(one) > 0.1
    assert two[0] == two[1] > 0.1
    assert two[2:] == pytest.approx([0, 0], abs=1e-6)
    with pytest.raises(InputError, match="a column answer or solution"):
        diversity(**asked)


def test_a_group_that_is_split_over_processes_is_refused(monkeypatch: pytest.MonkeyPatch):
    def gather(everywhere: list[set[int]], mine: set[int]) -> None:
        everywhere[:] = [mine, {2, 3}]

    monkeypatch.setattr("torch.distributed.is_initialized", lambda: True)
    monkeypatch.setattr("torch.distributed.get_world_size", lambda: 2)
    monkeypatch.setattr("torch.distributed.all_gather_object", gather)
    asked = {"prompts": ["p", "q"], "completions": [PAIRING] * 2, "answer": ["55"] * 2}
    assert diversity(**asked, uid=[0, 1]) == [0, 0]
    with pytest.raises(InputError, match=r"of 1 problem\(s\) are split over processes"):
        diversity(**asked, uid=[1, 2])
