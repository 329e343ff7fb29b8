"""Where the processor's time goes in a run of `curate_folder`, stage by stage.

The clock wraps the functions that do a stage's work and adds up their threads' processor time. What
one wrapped function spends in another belongs to the outer one, except where the inner one is
wrapped with `apart`. Waiting for the disk or for another process is no processor time. What no
stage accounts for is the event loop: tasks, futures and threads that carry the requests.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

STAGES = (
    "reading and grouping",
    "filters and tokens",
    "summaries and their store",
    "embedding",
    "distances",
    "journal",
    "selection and second pass",
    "writing",
)
STAND_IN = "the stand-in for a model"


class StageClock:
    """Processor seconds by stage.

    Attributes:
        seconds (`Counter`): By stage.
    """

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._local = threading.local()

    def wrap(self, owner: Any, name: str, stage: str, *, apart: bool = False) -> None:
        """Count a function's time to a stage from now on.

        Args:
            owner (`Any`): The module or class whose attribute is replaced.
            name (`str`): The function's name there.
            stage (`str`): The stage.
            apart (`bool`): Whether it counts to its own stage even inside another one's function.
        """
        function = getattr(owner, name)

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            return self._timed(stage, apart, lambda: function(*args, **kwargs))

        setattr(owner, name, timed)

    def wrap_iterator(self, owner: Any, stage: str) -> None:
        """Count to a stage what iterating over objects of a class takes."""
        iterate = owner.__iter__
        end = object()

        def timed(instance: Any) -> Iterator[Any]:
            iterator = iterate(instance)
            while (item := self._timed(stage, False, lambda: next(iterator, end))) is not end:
                yield item

        owner.__iter__ = timed

    def _timed(self, stage: str, apart: bool, call: Callable[[], Any]) -> Any:
        # A list per function that is running: what functions apart from it took inside.
        running: list[float] = self._local.__dict__.setdefault("running", [])
        if running and not apart:
            return call()
        running.append(0.0)
        began = time.thread_time()
        try:
            return call()
        finally:
            took = time.thread_time() - began
            self.seconds[stage] += took - running.pop()
            if running:
                running[-1] += took


def watch_curation() -> StageClock:
    """A clock on every stage of `curate_folder`, with `synthetic`'s models or `extractive`."""
    import synthetic

    import rpd_datasets.curation.journal
    import rpd_datasets.curation.judged
    import rpd_datasets.curation.run
    import rpd_datasets.curation.scoring
    import rpd_datasets.inputs.source
    import rpd_metric.models.store
    import rpd_metric.steps.chat_summarizer
    import rpd_metric.steps.extractive

    reading, filters, summaries, embedding, distances, journal, selection, writing = STAGES
    clock = StageClock()
    clock.wrap_iterator(rpd_datasets.inputs.source.Source, reading)
    clock.wrap(rpd_datasets.inputs.source.Source, "fingerprint", reading)
    clock.wrap(rpd_datasets.curation.judged, "filter_problem", filters)
    clock.wrap(rpd_metric.steps.chat_summarizer.ChatSummarizer, "request", summaries)
    clock.wrap(rpd_metric.steps.chat_summarizer, "parse_steps", summaries)
    clock.wrap(rpd_metric.models.store.RequestKeys, "of", summaries)
    clock.wrap(rpd_metric.models.store.ReplyStore, "find", summaries)
    clock.wrap(rpd_metric.models.store.ReplyStore, "keep", summaries)
    clock.wrap(rpd_metric.steps.extractive.ExtractiveSummarizer, "steps", summaries)
    clock.wrap(synthetic.InstantChat, "reply", STAND_IN)
    clock.wrap(synthetic.HashingEmbedder, "encode", embedding, apart=True)
    clock.wrap(rpd_datasets.curation.scoring, "_matrices", distances)
    clock.wrap(rpd_datasets.curation.scoring, "problem_score", distances)
    clock.wrap(rpd_datasets.curation.journal.Journal, "get", journal)
    clock.wrap(rpd_datasets.curation.journal.Journal, "put", journal)
    clock.wrap(rpd_datasets.curation.run._Run, "order", selection)
    clock.wrap(rpd_datasets.curation.run._Run, "choose_all", selection)
    clock.wrap(rpd_datasets.curation.run, "write_tables", writing)
    clock.wrap(rpd_datasets.curation.run, "write_scores", writing)
    return clock
