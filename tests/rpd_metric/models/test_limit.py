"""The limit on requests in flight finds what a server takes, and stays near it."""

from __future__ import annotations

import heapq
import random
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpd_metric.errors import InputError
from rpd_metric.models.limit import AdaptiveLimit


def play(limit: AdaptiveLimit, capacity: int, requests: int) -> tuple[float, float]:
    """Requests against a server that refuses beyond `capacity`.

    Returns the use of the slots and the share of refused attempts, over the second half.
    """
    draw = random.Random(0)
    under_way: list[tuple[float, int, bool]] = []
    now = busy_seconds = since = 0.0
    busy = refused = 0
    for served in range(requests):
        if served == requests // 2:
            busy_seconds, since, refused = 0.0, now, 0
        while True:
            while not limit.full:
                ticket = limit.started()
                takes = draw.lognormvariate(0.0, 0.5) if busy < capacity else 0.01
                heapq.heappush(under_way, (now + takes, ticket, busy < capacity))
                busy += busy < capacity
            then, ticket, accepted = heapq.heappop(under_way)
            busy_seconds += busy * (then - now)
            now = then
            if accepted:
                busy -= 1
                limit.replied()
                limit.ended()
                break
            refused += 1
            limit.refused(ticket)
            limit.ended()
    return busy_seconds / capacity / (now - since), refused / (requests // 2)


@pytest.mark.parametrize("capacity", [4, 17, 64, 200])
def test_the_limit_finds_an_unknown_capacity_and_stays_near_it(capacity):
    use, refused = play(AdaptiveLimit(most=1000), capacity, requests=20 * capacity)
    assert use >= 0.95
    assert refused <= 1.5 / capacity


def test_growth_doubles_per_round_until_the_first_refusal():
    limit = AdaptiveLimit(start=2)
    for expected in (4, 8, 16, 32):
        tickets = []
        while not limit.full:
            tickets.append(limit.started())
        for _ in tickets:
            limit.in_flight = limit.allowed  # each reply makes room that is taken at once
            limit.replied()
        limit.in_flight = 0
        assert limit.allowed == expected


def test_a_burst_of_refusals_counts_once():
    limit = AdaptiveLimit(start=100)
    tickets = [limit.started() for _ in range(100)]
    for ticket in tickets:
        limit.refused(ticket)
        limit.ended()
    assert limit.allowed == 90


def test_trouble_halves_the_limit_and_a_new_round_halves_it_again():
    limit = AdaptiveLimit(start=64)
    for expected in (32, 16, 8, 4, 2, 1, 1):
        tickets = []
        while not limit.full:
            tickets.append(limit.started())
        for ticket in tickets:
            limit.troubled(ticket)
            limit.ended()
        assert limit.allowed == expected


@given(
    start=st.integers(1, 50),
    most=st.integers(50, 100),
    events=st.lists(st.sampled_from(["reply", "refuse", "trouble"]), max_size=300),
)
def test_the_limit_stays_between_one_and_the_most(start, most, events):
    limit = AdaptiveLimit(start=start, most=most)
    tickets: deque[int] = deque()
    for event in events:
        while not limit.full:
            tickets.append(limit.started())
        ticket = tickets.popleft()
        if event == "reply":
            limit.replied()
        elif event == "refuse":
            limit.refused(ticket)
        else:
            limit.troubled(ticket)
        limit.ended()
        assert 1 <= limit.allowed <= most


@given(limit=st.integers(1, 64), replies=st.integers(0, 100))
def test_the_limit_does_not_grow_where_it_is_not_reached(limit, replies):
    half = AdaptiveLimit(start=2 * limit)
    for _ in range(replies):
        half.started()
        half.replied()
        half.ended()
    assert half.allowed == 2 * limit


@pytest.mark.parametrize(("start", "most"), [(0, None), (None, 0), (-1, None), (5, 4)])
def test_a_limit_that_makes_no_sense_is_refused(start, most):
    with pytest.raises(InputError):
        AdaptiveLimit(start, most=most)


def served(limit, slots, replies, seconds=1.0):
    """Play requests against a server with so many slots; returns the most that were in flight."""
    most, now, free = 0, 0.0, [0.0] * slots
    flight = []  # when each ends, when it began
    for _ in range(replies):
        while not limit.full:
            limit.started()
            slot = min(range(slots), key=free.__getitem__)
            free[slot] = max(free[slot], now) + seconds
            heapq.heappush(flight, (free[slot], now))
        most = max(most, limit.in_flight)
        now, began = heapq.heappop(flight)
        limit.replied(now - began)
        limit.ended()
    return most


def test_a_serial_server_that_never_refuses_is_not_given_more_and_more():
    limit = AdaptiveLimit()
    assert served(limit, slots=1, replies=5000) <= 16


@pytest.mark.parametrize("slots", [16, 64])
def test_a_server_that_never_refuses_has_its_slots_filled_and_hardly_more(slots):
    limit = AdaptiveLimit()
    assert slots <= served(limit, slots, replies=5000) <= 2 * slots
    assert slots <= limit.allowed


def test_the_first_round_goes_out_at_once_and_growth_does_not_wait_for_single_replies():
    """24 requests for a server with 16 slots: no slower than all of them at once."""
    limit = AdaptiveLimit()
    assert limit.allowed == 16
    for _ in range(16):
        limit.started()
    for _ in range(16):
        limit.replied(1.0)
        limit.started()
        limit.ended()
    assert limit.allowed == 32


def test_a_serial_server_is_found_out_by_the_first_round():
    limit = AdaptiveLimit()
    served(limit, slots=1, replies=16)
    assert limit.allowed < 8


def test_short_replies_are_no_sign_of_waiting():
    limit = AdaptiveLimit()
    for _ in range(16):
        limit.started()
    for number in range(16):
        tokens = 10 if number < 4 else 300
        limit.replied(tokens / 30, tokens)
        limit.started()
        limit.ended()
    assert limit.allowed == 32


def test_a_server_that_works_on_many_at_once_is_begun_with_more_unless_told_otherwise():
    limit, few, told = AdaptiveLimit(), AdaptiveLimit(most=10), AdaptiveLimit(start=4)
    for one in (limit, few, told):
        one.server_batches(64)
    assert (limit.allowed, few.allowed, told.allowed) == (64, 10, 4)
    assert served(AdaptiveLimit(), 16, 500) <= 32  # and it is still measured
    served(limit, slots=1, replies=200)
    assert limit.allowed <= 8
    limit.server_batches(64)  # too late: it has been seen what the server can do
    assert limit.allowed <= 8
