"""From an input to a curated folder: resumable, atomic, in bounded memory.

A run scores every problem once (journalled as it goes), ranks the scores, reads the input a
second time for the chosen problems only, and writes them beside a card, a manifest, all scores
and the rejects. Several inputs can be mixed: each is scored and ranked by itself. Everything is
built in `<output>.partial` and moved into place at the end, so that `<output>` is either complete
or not there; an interrupted run goes on when it is started again. What happens to one problem is
`score.py`, what is written of it `tables.py`; how a run goes about it is `run_options.py`; the
card's words are `card.py`.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, aclosing, closing
from dataclasses import asdict, dataclass
from pathlib import Path

from rpd_datasets.config import METRICS
from rpd_datasets.curation.allocation import Allocation
from rpd_datasets.curation.health import SummaryHealth, health_line, health_warning
from rpd_datasets.curation.journal import Journal
from rpd_datasets.curation.outcome import count_candidates, measure_choice
from rpd_datasets.curation.run_options import MAX_IN_FLIGHT, RunOptions
from rpd_datasets.curation.run_summary import (
    Example,
    InputInfo,
    ProblemScore,
    RunSummary,
)
from rpd_datasets.curation.scored import Scored
from rpd_datasets.curation.scoring import (
    CurationConfig,
    Models,
    choose,
    scoring_fingerprint,
    solution_order,
)
from rpd_datasets.curation.shards import (
    failed_on_a_model,
    harvest_earlier,
    journal_key,
    score_in_shards,
)
from rpd_datasets.curation.strategies import (
    count_strategies,
    counting_distance,
    curve_of,
    own_curves,
)
from rpd_datasets.curation.tables import Chosen, write_scores, write_tables
from rpd_datasets.curation.undone import SPENT, Undone, budget_spent
from rpd_datasets.curation.working_folder import (
    Spill,
    join_files,
    move_into_place,
    open_text,
    partial_folder,
    reject_to,
    write_files,
)
from rpd_datasets.inputs.source import Source
from rpd_datasets.judging.judges import Judgement
from rpd_datasets.problem import Problem
from rpd_datasets.rejects import Rejected
from rpd_datasets.select import draw_lot, rank
from rpd_metric.errors import InputError
from rpd_metric.models.concurrency import run_bounded
from rpd_metric.models.failures import BudgetSpent
from rpd_metric.steps.summarizers import asks_chat_model

REJECTS = ("rejects-read.jsonl", "rejects-scored.jsonl")

OpenSource = Callable[[Path, Callable[[Rejected], None]], Source]


@dataclass(frozen=True)
class MixedIn:
    """A further input, and how many problems are chosen from it."""

    open_source: OpenSource
    num_problems: int


def curate_folder(
    open_source: OpenSource,
    output: Path,
    config: CurationConfig,
    models: Models,
    describe: Callable[[RunSummary], Mapping[str, str | bytes]],
    *,
    mixed_in: Sequence[MixedIn] = (),
    options: RunOptions | None = None,
) -> RunSummary:
    """Curate an input into a folder that `load_dataset` reads.

    Args:
        open_source (`Callable`): Opens the input, given a scratch folder and where rejects go.
        output (`Path`): The folder to make.
        config ([`CurationConfig`]): The options.
        models ([`Models`]): What the options name, loaded.
        describe (`Callable`): Makes the files beside the data (card, manifest, figures) from the
            summary: name to text or bytes.
        mixed_in (`Sequence[MixedIn]`): Further inputs, chosen from by the same options.
        options ([`RunOptions`], *optional*): How the run goes about it.

    Returns:
        [`RunSummary`]

    Raises:
        [`OutputError`]: The output exists, cannot be written, or another run is at it.
        [`InputError`]: The input cannot be read, or nothing in it can be chosen.
    """
    options = options or RunOptions()
    if mixed_in and config.num_samples is not None:
        raise InputError(
            "a budget (num_samples) is spent over one input: put several into one folder, or mix "
            "with num_problems and num_solutions"
        )
    with partial_folder(output, options.overwrite) as partial, ExitStack() as stack:
        journal = stack.enter_context(closing(Journal(partial / "journal.sqlite")))
        result = partial / "result"
        harvest_earlier(partial / "shards", journal)
        if result.exists():
            shutil.rmtree(result)  # half of an earlier attempt: it is cheap to write again
        result.mkdir()
        # Who else writes steps does not misread them: only a chat model's can be unfit.
        asks = config.reads_steps and asks_chat_model(config.summarizer)
        summary = RunSummary(
            health=SummaryHealth() if asks else None,
            calibration=curve_of(
                counting_distance(config), config, models.embedder.name, options.calibration
            ),
            own_curves=own_curves(config, models.embedder.name, options.calibration),
            embedder=models.embedder.name,
        )
        # Reading runs ahead of scoring by as much as is in flight. Each of the two writes in an
        # order of its own, or equal runs would not give equal files.
        read_rejects, reject = (
            reject_to(stack.enter_context(open_text(partial / name)), summary.drops)
            for name in REJECTS
        )
        spill = stack.enter_context(closing(Spill(partial / "chosen.sqlite")))
        work = _Run(config, models, options, journal, spill, summary, reject)
        for one in (MixedIn(open_source, config.num_problems), *mixed_in):
            work.take_in(one.open_source(partial / "scratch", read_rejects), one, partial)
        summary.shortfall = work.undone.shortfall()
        if summary.shortfall and not (options.partial and summary.chosen):
            raise budget_spent(summary.shortfall, options.partial)
        options.on_stage("Writing")
        if not summary.chosen:
            raise InputError(
                "the judge gave no usable choice of solutions for any problem: "
                f"{_most_common(summary)}. Try another model"
            )
        write_tables(work.chosen, config, summary, result)
        work.look_at_chosen()
        write_scores(summary, result / "scores.jsonl")
        write_files(describe(summary), result)
        stack.close()
        join_files([partial / name for name in REJECTS], result / "rejects.jsonl")
        move_into_place(result, output, partial)
    return summary


class _Run:
    """What the stages of a run share. Lists beside `summary.scores` are as long as that."""

    def __init__(
        self,
        config: CurationConfig,
        models: Models,
        options: RunOptions,
        journal: Journal,
        spill: Spill,
        summary: RunSummary,
        reject: Callable[[Rejected], None],
    ) -> None:
        self.config = config.resolved()
        self.models = models
        self.options = options
        self.journal = journal
        self.spill = spill
        self.summary = summary
        self.reject = reject
        self.fingerprint = scoring_fingerprint(config, models)
        self.keys: list[str] = []  # in the journal
        self.lots: list[str] = []  # the order in which problems are drawn
        self.picks: dict[int, list[int]] = {}  # by index into the scores
        self.budget = (
            None if config.num_samples is None else Allocation(config.num_samples, config.seed)
        )
        self.shares: dict[int, int] = {}  # of the budget, by index into the scores
        self.undone = Undone(config, models)  # what is left once the budget is spent

    def take_in(self, source: Source, part: MixedIn, partial: Path) -> None:
        """Score an input, and choose from it."""
        before = len(self.summary.scores)
        if before:
            self.options.on_stage("Scoring problems")
        engine = self.options.engine
        if engine is not None:
            score_in_shards(
                source,
                self.journal,
                self.fingerprint,
                self.config,
                partial / "shards",
                engine,
                size=self.options.shard_size,
                on_problem=self.options.on_problem,
            )
        asyncio.run(self.score_all(source, final=engine is not None))
        self.options.on_stage("Choosing")
        rows_read = source.rows_read  # the next pass ends with the last chosen problem
        if self.undone and not self.options.partial:
            return  # nothing will be written: only what is missing is still to be counted
        order = self.order(range(before, len(self.summary.scores)), source.name)
        chosen = self.choose_all(source, order, part.num_problems)
        self.summary.chosen += chosen
        self.summary.inputs.append(
            InputInfo(
                name=source.name,
                layout=source.layout,
                fingerprint=source.fingerprint(),
                rows_read=rows_read,
                problems_read=len(self.summary.scores) - before,
                # A budget does not say how many; it has a solution for each that it reaches.
                problems_wanted=part.num_problems if self.budget is None else len(order),
                problems_chosen=len(chosen),
                columns=asdict(source.columns),
                terms=source.terms,
            )
        )

    async def score_all(self, source: Source, *, final: bool = False) -> None:
        """Score every problem of an input, in its order; `final` if the journal has them all."""

        before = len(self.keys)
        # One thread encodes: several would each keep buffers of their own, and take turns anyway.
        with ThreadPoolExecutor(max_workers=1) as encoding:

            async def work(problem: Problem) -> tuple[Problem, str, Scored | None]:
                key = self.key(problem)
                record = self.journal.get(key)
                # What a server failed to do in an earlier run it may do now.
                if record is not None and (final or not failed_on_a_model(record)):
                    return problem, key, Scored.from_record(record).standing_at(problem.where)
                if final:
                    raise InputError(f"{source.name} changed while it was read; run it again")
                try:
                    scored = await self.options.score(problem, self.config, self.models, encoding)
                except BudgetSpent:
                    await self.undone.add(problem)
                    return problem, key, None
                self.journal.put(key, scored.as_record())
                return problem, key, scored

            results = run_bounded(source, work, max_in_flight=self.options.max_in_flight)
            async with aclosing(results):
                async for problem, key, scored in results:
                    if source.num_problems is not None and len(self.keys) == before:
                        self.options.on_total(source.num_problems)
                    if scored is None:
                        self.reject(problem.rejected("budget", *SPENT))
                        continue
                    self.keys.append(key)
                    self.lots.append(draw_lot(problem.problem, self.config.seed))
                    strategies = count_strategies(scored, self.summary.calibration)
                    self.summary.scores.append(ProblemScore.of(problem, scored, strategies))
                    count_candidates(self.summary, scored)
                    if self.summary.health is not None:
                        self.summary.health.add(scored)
                    for rejected in scored.rejects:
                        self.reject(rejected)
                    if self.budget is not None:
                        _, gains = solution_order(problem, scored, self.config)
                        self.budget.offer(len(self.keys) - 1, problem.problem, gains)
                    if not final:
                        self.options.on_problem(scored)

    def order(self, indices: Sequence[int], name: str) -> list[int]:
        """The problems of one input that can be chosen, those to be chosen first in front."""
        config, scores = self.config, self.summary.scores
        if self.budget is not None:
            self.shares = self.budget.shares()
        # With "all" the number of solutions is an upper limit; the filters set the lower one.
        needed = config.filters.min_solutions if config.solutions == "all" else config.num_solutions
        eligible = [index for index in indices if scores[index].num_usable >= needed]
        if self.budget is not None:
            eligible = [index for index in eligible if index in self.shares]
        if config.problems in METRICS:
            eligible = [i for i in eligible if scores[i].problem_score is not None]
        elif config.problems == "llm":
            eligible = [index for index in eligible if scores[index].diverse]
        if not eligible and self.undone:
            return []
        if not eligible:
            called = "is called diverse and " if config.problems == "llm" else ""
            raise InputError(
                f"no problem of {name} {called}has {needed} usable solutions to choose from; left "
                f"out: {_most_common(self.summary)}. {self._advice()}"
            )
        if config.problems in METRICS:
            places = rank([scores[index].problem_score for index in eligible])
            return [eligible[place] for place in places]
        return sorted(eligible, key=self.lots.__getitem__)

    def _advice(self) -> str:
        health = self.summary.health
        warning = health_warning(health.as_dict()) if health else None
        if health is None or warning is None:
            return "Lower num_solutions or loosen the filters"
        return f"Summaries: {health_line(health.as_dict())}. Take another model: {warning}"

    def choose_all(self, source: Source, order: Sequence[int], num_problems: int) -> list[int]:
        """Choose the solutions of the first problems in `order`.

        Only a judge can fail to; the next problem then takes the place.

        Returns:
            `list[int]`: The chosen problems.
        """
        waiting, chosen = deque(order), list[int]()
        while waiting and len(chosen) < num_problems:
            wanted = min(len(waiting), num_problems - len(chosen))
            batch = [waiting.popleft() for _ in range(wanted)]
            self._spill(source, batch)
            verdicts = asyncio.run(self._choose(batch))
            if any(verdict.reason == SPENT[0] for verdict in verdicts):
                waiting.clear()  # a lower one must not take the place of what was not asked for
            for index, verdict in zip(batch, verdicts, strict=True):
                if verdict.value is not None:
                    self.picks[index] = list(verdict.value)
                    chosen.append(index)
                    continue
                detail = f"the judge chose no solutions: {verdict.detail}"
                reason = verdict.reason or "no_verdict"
                self.reject(self.spill.get(index).rejected("select", reason, detail))
        return chosen

    def _spill(self, source: Source, batch: Sequence[int]) -> None:
        """Read the input again for some of its problems."""
        places = {self.keys[index]: index for index in batch}
        for problem in source:
            place = places.pop(self.key(problem), None)
            if place is not None:
                self.spill.put(place, problem)
            if not places:
                return
        raise InputError(f"{source.name} changed while it was read; run the command again")

    async def _choose(self, batch: Sequence[int]) -> list[Judgement[tuple[int, ...]]]:
        async def work(index: int) -> Judgement[tuple[int, ...]]:
            problem, scored = self.spill.get(index), self._scored(index)
            share = self.shares.get(index)
            try:
                return await choose(problem, scored, self.config, self.models, share)
            except BudgetSpent:
                await self.undone.add(problem)
                return Judgement(None, *SPENT)

        async with aclosing(run_bounded(batch, work, max_in_flight=MAX_IN_FLIGHT)) as results:
            return [verdict async for verdict in results]

    def key(self, problem: Problem) -> str:
        """The problem's name in the journal."""
        return journal_key(problem, self.fingerprint, self.config.filters)

    def _scored(self, index: int) -> Scored:
        record = self.journal.get(self.keys[index])
        assert record is not None, "a chosen problem was scored in this very run"
        return Scored.from_record(record)

    def chosen(self) -> Iterator[Chosen]:
        """The chosen problems, best first."""
        for index in self.summary.chosen:
            yield self.spill.get(index), self._scored(index), self.picks[index]

    def look_at_chosen(self) -> None:
        """Measure every choice, and keep the first for the card."""
        for problem, scored, selected in self.chosen():
            if self.summary.example is None:
                steps = {index: scored.steps[index] for index in selected}
                self.summary.example = Example(problem.problem, steps)
            choice = measure_choice(scored, selected, self.config, self.summary.calibration)
            self.summary.choices.append(choice)
            self.options.on_chosen(problem, scored, selected)


def _most_common(summary: RunSummary) -> str:
    reasons = [f"{reason} ({n})" for (_, reason, _), n in summary.drops.most_common(5)]
    return ", ".join(reasons) or "nothing"
