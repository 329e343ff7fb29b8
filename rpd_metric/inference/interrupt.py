"""Ctrl-C and SIGTERM during a run: what is in flight is finished, and nothing new is started."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rpd_metric.inference.errors import Interrupted
from rpd_metric.inference.scheduler import DRAIN_SECONDS, Flow

logger = logging.getLogger(__name__)


@contextmanager
def draining(*flows: Flow, notify: Callable[[str], object] = logger.warning) -> Iterator[None]:
    """On Ctrl-C or SIGTERM, let the requests in flight finish; on the second, stop at once.

    The first signal calls [`~Flow.drain`] on every flow, the second [`~Flow.abort`]. With the
    second the former handlers are back, so a third does what it did before this was entered
    (Ctrl-C: `KeyboardInterrupt`); so does the second when nothing is in flight. Not sooner,
    because an exception thrown into the middle of an event loop can leave it hanging.

    This is a plain context manager, since it must also go around code that runs an event loop
    of its own, such as `datasets.Dataset.map` with an async function; inside a coroutine it
    works just as well. Python delivers signals to the main thread only: in other threads it
    does nothing.

    Args:
        flows ([`Flow`]): What to drain.
        notify (`Callable`): Told in one line what happens now.

    Raises:
        Interrupted: When a signal came, even if the work within then ended by itself.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former: dict[signal.Signals, Any] = {}
    received: list[str] = []

    def put_back() -> None:
        for number, handler in former.items():
            # `None` stands for a handler that was not installed from Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def on_signal(number: int, _frame: object) -> None:
        received.append(signal.Signals(number).name)
        waiting = sum(flow.stats.in_flight for flow in flows)
        if len(received) == 1:
            for flow in flows:
                flow.drain()
            notify(
                f"{received[0]}: finishing {waiting} requests in flight, at most "
                f"{DRAIN_SECONDS:g} s; again to stop at once"
            )
            return
        put_back()
        for flow in flows:
            flow.abort()
        if not waiting:
            signal.raise_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        former[number] = signal.signal(number, on_signal)
    try:
        yield
    finally:
        put_back()
    if received:
        raise Interrupted(f"stopped by {received[0]}; run the same command again to continue")
