"""Many items through an async worker: bounded, in order, and without a task left behind."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parts.scripted import no_task_is_left, settle
from rpd_metric.models.concurrency import run_bounded


@given(delays=st.lists(st.integers(0, 5), max_size=30), max_in_flight=st.integers(1, 8))
def test_every_item_gives_one_result_in_order_and_never_too_many_are_held(delays, max_in_flight):
    running = most_running = taken = given_out = most_held = 0

    def source():
        nonlocal taken
        for item in enumerate(delays):
            taken += 1
            yield item

    async def worker(item):
        nonlocal running, most_running, most_held
        running += 1
        most_running = max(most_running, running)
        most_held = max(most_held, taken - given_out)
        for _ in range(item[1]):
            await asyncio.sleep(0)
        running -= 1
        return item[0]

    async def main():
        nonlocal given_out
        results = []
        async for result in run_bounded(source(), worker, max_in_flight=max_in_flight):
            given_out += 1
            results.append(result)
        assert no_task_is_left()
        return results

    assert asyncio.run(main()) == list(range(len(delays)))
    assert most_running <= max_in_flight
    # One more: a result has left the window before the consumer has counted it.
    assert most_held <= 9 * max_in_flight + 1


async def test_a_slow_first_item_does_not_idle_the_others():
    release = asyncio.Event()
    done = []

    async def worker(number):
        if number == 0:
            await release.wait()
        done.append(number)
        return number

    async def consume():
        return [n async for n in run_bounded(range(30), worker, max_in_flight=2)]

    consumer = asyncio.create_task(consume())
    await settle()
    assert done == list(range(1, 18))
    release.set()
    assert await consumer == list(range(30))


async def test_an_error_of_the_worker_is_raised_and_the_others_are_cancelled():
    cancelled = []

    async def worker(number):
        if number == 3:
            raise KeyError("three")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(number)
            raise

    with pytest.raises(KeyError, match="three"):
        async for _ in run_bounded(range(100), worker, max_in_flight=5):
            pass
    assert sorted(cancelled) == [0, 1, 2, 4]
    assert no_task_is_left()
