"""Strategies by name: what is asked, and what is read."""

import asyncio
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from parts.fake_tgi import FakeTGI
from rpd_metric.distance.groups import ReaderTrust, group_distances, groups_auroc, scores_by_groups
from rpd_metric.errors import ModelError, ReplyError
from rpd_metric.models.chat import ChatReply
from rpd_metric.models.spec import load_chat
from rpd_metric.statistics.strategy_counts import effective_number
from rpd_metric.steps.grouping import BATCH, Grouping, StrategyReader, parse_strategies

PROBLEM = "How many paths are there?"


def reply(**strategies):
    found = [{"name": name, "solutions": numbers} for name, numbers in strategies.items()]
    return f"Two ideas.\n```json\n{json.dumps({'strategies': found})}\n```\nThat is all."


class Sorter:
    """Groups solutions by the first word of their steps; remembers what it was asked."""

    model = "sorter"

    def __init__(self, answer=None):
        self.answer, self.asked = answer, []

    async def __call__(self, request):
        user = request.messages[1]["content"]
        self.asked.append(user)
        if isinstance(self.answer, Exception):
            raise self.answer
        words = [line.split()[1] for line in user.splitlines() if line.startswith("1. ")]
        found = {word: [n for n, one in enumerate(words, 1) if one == word] for word in words}
        return ChatReply(self.answer or reply(**found), "stop")


def test_summaries_are_shown_in_a_drawn_order_and_numbered_back_by_first_appearance():
    steps = [["Count rows."], [" "], ["Recur on length."], ["Count columns."], []]
    first, again, other = (StrategyReader(Sorter(), seed=seed) for seed in (0, 0, 1))
    found = [asyncio.run(reader.sort(PROBLEM, steps)) for reader in (first, again, other)]
    assert set(found) == {Grouping((0, None, 1, 0, None), ("Count", "Recur"))}
    assert first.chat.asked == again.chat.asked
    orders = {
        tuple(StrategyReader(Sorter(), seed=seed).request(PROBLEM, steps).messages[1].values())
        for seed in range(2)
    }
    assert len(orders) == 1, "a request shows what it is given, in that order"
    alone = StrategyReader(Sorter())
    assert asyncio.run(alone.sort(PROBLEM, [["Count."], []])) == Grouping((None, None))
    assert not alone.chat.asked


def test_more_than_fit_are_sorted_in_batches_against_the_names_found_so_far():
    words = ["Count", "Recur", "Draw"]
    steps = [[f"{words[n % 3 if n else 0]} {n}."] for n in range(2 * BATCH + 1)]
    chat = Sorter()
    found = asyncio.run(StrategyReader(chat).sort(PROBLEM, steps))
    assert found.groups == tuple(n % 3 for n in range(len(steps)))
    assert found.names == tuple(words)
    assert [user.count("Solution ") for user in chat.asked] == [14, 14, 13]
    assert ["Count\n" in user for user in chat.asked] == [False, True, True]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (reply(sums=[1, 2], areas=[3, 4]), {"sums": [0, 1], "areas": [2, 3]}),
        (reply(sums=["1", "Solution 2", 2], areas=[4]), {"sums": [0, 1], "areas": [3]}),
        (reply(sums=[1, 2, 3], areas=[3, 4]), {"sums": [0, 1], "areas": [3]}),
        ("{'strategies': [{'name': 'a  b', 'solutions': [1,2,3,4,],},]}", {"a b": [0, 1, 2, 3]}),
        (f"<think>{reply(sums=[1])}</think>{reply(areas=[1, 2, 3, 4])}", {"areas": [0, 1, 2, 3]}),
        (reply(Sums=[1, 2], sums=[1, 2, 3, 4]), {"Sums": [0, 1, 2, 3]}),
        (reply(Sums=[1, 2], sums=[3, 4]), "wrong_shape"),
        (reply(sums=[1.0, 2.0], areas=["3", 4]), {"sums": [0, 1], "areas": [2, 3]}),
        (reply(sums="1, 2", areas="Solutions 3 and 4"), {"sums": [0, 1], "areas": [2, 3]}),
        ('{"strategies": [{"a": [1, 2]}, {"b": [3, 4]}]}', {"a": [0, 1], "b": [2, 3]}),
        ('{"strategies": {"a": [1, 2], "b": [3, 4]}}', {"a": [0, 1], "b": [2, 3]}),
        (reply(sums=[1, 2, 3], areas=[4, 7], none=[]), {"sums": [0, 1, 2], "areas": [3]}),
        (reply(sums=[1, 2, 3, 5]), "bad_verdict"),
        (reply(sums=[1.5, 2, 3, 4]), "bad_verdict"),
        (reply(sums=[0, 1, 2, 3]), "bad_verdict"),
        (reply(sums=[1]), "wrong_count"),
        (reply(sums=[1, 2, 3, 4], areas=[1, 2, 3, 4]), "wrong_count"),
        (reply(**{" -": [1, 2, 3, 4]}), "wrong_shape"),
        ('{"strategies": {"sums": 4}}', "wrong_shape"),
        ("All four proceed alike.", "no_envelope"),
        ('{"strategies": [{"name": "sums", "solutions": [1, 2', "truncated"),
    ],
)
def test_a_reply_is_read_or_refused_with_a_reason(text, found):
    try:
        read = parse_strategies(text, "length" if text.endswith("2") else "stop", count=4)
    except ReplyError as error:
        read = error.reason
    assert read == found


@given(st.text(max_size=80), st.integers(1, 5))
def test_any_text_is_read_or_refused(text, count):
    for body in (text, f'{{"strategies": [{text}]}}'):
        try:
            read = parse_strategies(body, count=count)
        except ReplyError:
            continue
        places = sorted(place for found in read.values() for place in found)
        assert len(places) == len(set(places)) >= count / 2


def test_half_a_surrogate_pair_is_sorted_like_any_text():
    steps = [["Count rows."], ["Recur on \ud800."]]
    found = asyncio.run(StrategyReader(Sorter()).sort("Odd \ud800?", steps))
    assert (found.groups, found.names) == ((0, 1), ("Count", "Recur"))


@pytest.mark.parametrize(
    ("answer", "reason"), [(ModelError("gone\naway"), "model_error"), ("No.", "no_envelope")]
)
def test_without_a_usable_reply_there_are_no_groups_but_a_reason(answer, reason):
    found = asyncio.run(StrategyReader(Sorter(answer)).sort(PROBLEM, [["A."], ["B."]]))
    assert (found.ok, found.groups, found.reason) == (False, (None, None), reason)
    assert "\n" not in found.detail


def test_a_guided_sorting_is_asked_for_by_its_schema_and_any_other_as_before():
    text = '{"difference": "The idea.", "strategies": [{"name": "sums", "solutions": [1, 2]}]}'
    with FakeTGI(reply=lambda body: text) as server:
        chat = load_chat(f"tgi:{server.url}")
        guided, plain = StrategyReader(chat, guided=True), StrategyReader(chat)
        for reader in (guided, plain):
            found = asyncio.run(reader.sort(PROBLEM, [["Count."], ["Recur."]]))
            assert found == Grouping((0, 0), ("sums",))
        asked, as_before = (one.body for one in server.requests)
    form = asked.pop("response_format")
    assert form["type"] == "json"
    Draft202012Validator(form["value"]).validate(json.loads(text))
    assert asked == as_before
    assert guided.fingerprint != plain.fingerprint


def test_a_bad_reply_is_asked_for_once_more_with_what_is_wrong():
    bad, good = reply(Sums=[1], sums=[2]), reply(sums=[1], areas=[2])
    steps = [["Count rows."], ["Recur on length."]]
    for texts, names in (([bad, good], 2), ([bad, bad, good], 0)):
        replies = iter(texts)
        with FakeTGI(reply=lambda body, replies=replies: next(replies)) as server:
            reader = StrategyReader(load_chat(f"tgi:{server.url}"))
            grouping = asyncio.run(reader.sort(PROBLEM, steps))
            first, second = (request.body["messages"] for request in server.requests)
        assert (len(grouping.names), grouping.reason) == (names, None if names else "wrong_shape")
        assert [one["role"] for one in second] == ["system", "user", "assistant", "user"]
        assert second[0] == first[0]
        assert second[2] == {"role": "assistant", "content": bad}
        assert "two strategies have the name 'sums'" in second[3]["content"]


def test_the_distance_tells_a_reader_that_knows_from_one_that_does_not():
    far = [[0, 0.1, 0.6], [0.1, 0, 0.5], [0.6, 0.5, 0]]
    assert groups_auroc([0, 0, 1], far) == 1
    assert groups_auroc([0, 1, 1], far) == 0.25 + 0.25  # 0.6 > 0.5 > 0.1
    # Neither all alone nor all together can be checked; nor is a solution without a place.
    for groups in ([0, 1, 2], [0, 0, 0], [0, 0, None], []):
        assert groups_auroc(groups, np.array(far)[: len(groups), : len(groups)]) is None
    few, many = ReaderTrust.of([0.7] * 3), ReaderTrust.of([0.7] * 40 + [None])
    assert (few.earned, many.earned, many.num_problems) == (False, True, 40)
    assert not ReaderTrust.of([None, None]).earned
    assert ReaderTrust.of([1.0] * 9).weight == 1


def test_groups_rank_as_far_as_their_reader_is_trusted():
    near, wide = 0.3, 0.5
    numbers, distances = [2.0, 1.0, 6.0, None], [near, wide, wide, wide]
    trusted = scores_by_groups(numbers, [0.9, None, None, None], distances)
    # Solutions that all stand alone are unchecked, and rank as the average problem does.
    assert trusted == pytest.approx([0.46, 0.1, 0.3, 0.3])
    assert scores_by_groups(numbers, [0.5, None, None, None], distances) == distances
    assert scores_by_groups([None], [None], [None]) == [None]
    assert effective_number([None]) is None
    assert group_distances([None, 1], [[0, 0.9], [0.9, 0]]).tolist() == [[0, 0.9], [0.9, 0]]
