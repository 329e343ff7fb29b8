"""Many items through an async worker: bounded, in order, and without a task left behind."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpd_metric.errors import InputError
from rpd_metric.models.concurrency import run_bounded


def no_task_is_left() -> bool:
    return asyncio.all_tasks() == {asyncio.current_task()}


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def counted(numbers):
    for number in numbers:
        await asyncio.sleep(0)
        yield number


@given(
    delays=st.lists(st.integers(0, 5), max_size=30),
    max_in_flight=st.integers(1, 8),
    ordered=st.booleans(),
    asynchronous=st.booleans(),
)
def test_every_item_gives_one_result_in_order_and_never_too_many_are_held(
    delays, max_in_flight, ordered, asynchronous
):
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
        items = counted(source()) if asynchronous else source()
        results = []
        async for result in run_bounded(
            items,
            worker,
            max_in_flight=max_in_flight,
            ordered=ordered,
        ):
            given_out += 1
            results.append(result)
        assert no_task_is_left()
        return results

    results = asyncio.run(main())
    assert (results if ordered else sorted(results)) == list(range(len(delays)))
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


async def test_an_endless_source_is_read_only_as_far_as_needed():
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield taken

    async def worker(number):
        return number

    async with aclosing(run_bounded(endless(), worker, max_in_flight=3)) as results:
        assert [await anext(results) for _ in range(5)] == [1, 2, 3, 4, 5]
        await settle()
        assert taken <= 5 + 27
    assert no_task_is_left()


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


async def test_what_is_done_is_given_out_before_an_error_is_raised():
    async def worker(number):
        if number == 2:
            raise KeyError("two")
        return number

    async def collect(results, ordered):
        async for result in run_bounded(range(4), worker, max_in_flight=4, ordered=ordered):
            results.append(result)

    for ordered, expected in ((True, [0, 1]), (False, [0, 1, 3])):
        results = []
        with pytest.raises(KeyError, match="two"):
            await collect(results, ordered)
        assert results == expected


async def test_cancelling_the_consumer_cancels_the_workers():
    async def worker(number):
        await asyncio.sleep(60)

    async def consume():
        async for _ in run_bounded(range(100), worker, max_in_flight=5):
            pass

    consumer = asyncio.create_task(consume())
    await settle()
    consumer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await consumer
    assert no_task_is_left()


async def test_no_items_at_a_time_is_refused():
    with pytest.raises(InputError, match="max_in_flight must be >= 1, got 0"):
        await anext(run_bounded([1], None, max_in_flight=0))
