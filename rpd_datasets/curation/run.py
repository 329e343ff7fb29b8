"""From an input to a curated folder: resumable, atomic, in bounded memory.

A run scores every problem once (journalled as it goes), ranks the scores, reads the input a second
time for the chosen problems only, and writes them. Everything is built in `<output>.partial` and
moved into place at the end.
"""

import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing, closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rpd_datasets.config import GROUPS, CurationConfig, distance_of
from rpd_datasets.curation.engines import Engine, score_in_shards
from rpd_datasets.curation.folder import Journal, check_folder, partial_folder, reject_to
from rpd_datasets.curation.models import Models
from rpd_datasets.curation.outcome import unfit_summarizer
from rpd_datasets.curation.parquet import Chosen, write_scores, write_tables
from rpd_datasets.curation.scoring import (
    MAX_IN_FLIGHT,
    Scored,
    choose,
    left_out,
    needed_solutions,
    score_problem,
    scoring_fingerprint,
    solution_order,
    without_groups,
)
from rpd_datasets.curation.summary import RunSummary, evidence_of, measured_by
from rpd_datasets.filters.contamination import Contamination
from rpd_datasets.inputs.source import IN_MEMORY, Source
from rpd_datasets.judging.judges import Judgement
from rpd_datasets.options import documented, hidden, option
from rpd_datasets.problem import Problem, Rejected, strategy_labels
from rpd_datasets.selection.problems import draw_lot, rank, shares
from rpd_metric.distance.groups import scores_by_groups
from rpd_metric.errors import InputError
from rpd_metric.models.concurrency import run, run_bounded
from rpd_metric.models.failures import BudgetSpent
from rpd_metric.reasons import Reason

REJECTS = ("rejects-read.jsonl", "rejects-scored.jsonl")

OpenSource = Callable[..., Source]  # given `scratch`, a folder, and `on_reject`


class Listener:
    """Is told how far a run is, and shows nothing; what shows it overrides these methods."""

    def stage(self, name: str) -> None:
        """The run begins this stage."""

    def expect(self, total: int) -> None:
        """So many problems will be scored."""

    def advance(self) -> None:
        """One more problem was scored."""


@documented
@dataclass(frozen=True)
class RunOptions:
    """How a run goes about its work and what its card says beside: nothing here decides what is
    chosen."""

    overwrite: bool = option(False, "replace a folder of rpd curate, at the very end")
    license: str | None = option(
        None,
        "licence of the input's texts, for the card, e.g. apache-2.0 (default: as the input's own "
        "card on the Hub says)",
        metavar="ID",
    )
    language: str | None = option(
        None, "their language, for the card, e.g. en (default: likewise)", metavar="CODE"
    )
    evidence: str | None = option(
        None,
        "figures of your own for the card, as rpd compare-metrics --write-evidence writes them: "
        "how well the distance tells strategies apart, and what it means",
        group="evidence",
        metavar="FILE",
    )
    preset: str | None = hidden(None, "the name of a training set of the paper, for the card")
    name: str = hidden(IN_MEMORY, "what the card calls a dataset in memory")
    models: Models | None = hidden(None, "what the configuration names, loaded already")
    engine: Engine | None = hidden(None, "who scores; this process if unset")
    contamination: Contamination | None = hidden(None, "problems of benchmarks, to be left out")
    reads: Sequence[Any] = hidden((), "further files of the run; an output with them is refused")
    max_in_flight: int = hidden(MAX_IN_FLIGHT, "problems worked on at once")
    progress: Listener = hidden(Listener(), "is told each stage, and each problem that was scored")


def curate_folder(
    open_source: OpenSource,
    output: Path,
    config: CurationConfig,
    models: Models,
    describe: Callable[[RunSummary], Mapping[str, bytes]],
    *,
    options: RunOptions | None = None,
) -> RunSummary:
    """Curate an input into a folder that `load_dataset` reads.

    Args:
        open_source (`Callable`): Opens the input, given a scratch folder and where rejects go.
        describe (`Callable`): Makes the files beside the data (card, manifest, figures) from the
            summary, by name.
        output, config, models, options: See [`~rpd_datasets.curate_dataset`].
    """
    options = options or RunOptions()
    check = partial(check_folder, output, options.overwrite, options.reads, config.store)
    with partial_folder(output, check) as folder, ExitStack() as stack:
        fingerprint = scoring_fingerprint(config, models)
        journal = Journal(folder / "journal.sqlite", fingerprint, config.filters)
        stack.enter_context(closing(journal))
        result = folder / "result"
        shutil.rmtree(result, ignore_errors=True)  # half of an earlier attempt
        result.mkdir()
        names = models.embedder.name, models.summarizer.name
        evidence = evidence_of(config, *names, options.evidence)
        summary = RunSummary(
            evidence=evidence,
            curve=evidence.curve(distance_of(config.solutions) or measured_by(config)),
            not_compared=options.contamination.not_compared if options.contamination else "",
        )
        # Reading runs ahead of scoring by as much as is in flight. Each of the two writes in an
        # order of its own, or equal runs would not give equal files.
        read_rejects, reject = (
            reject_to(stack.enter_context((folder / name).open("wb")), summary.drops)
            for name in REJECTS
        )
        source = open_source(scratch=folder / "scratch", on_reject=read_rejects)
        work = _Run(source, config, models, options, journal, summary, reject)
        work.score_and_choose(folder / "shards")
        options.progress.stage("Writing")
        if not summary.chosen:
            raise InputError(
                "the judge gave no usable choice of solutions for any problem: "
                f"{summary.left_out()}. Try another model"
            )
        write_tables(work.chosen, config, summary, result)
        write_scores(summary, result / "scores.jsonl")
        for name, content in describe(summary).items():
            (result / name).parent.mkdir(exist_ok=True)
            (result / name).write_bytes(content)
        stack.close()
        with (result / "rejects.jsonl").open("wb") as file:
            for name in REJECTS:
                with (folder / name).open("rb") as part:
                    shutil.copyfileobj(part, file)
        check()  # a run takes hours
        # In two renames, each of them atomic.
        if output.exists():
            shutil.rmtree(folder / "replaced", ignore_errors=True)
            output.replace(folder / "replaced")
        result.replace(output)
    return summary


@dataclass
class _Run:
    """What the stages of a run share. Lists beside `summary.scores` are as long as that."""

    source: Source
    config: CurationConfig
    models: Models
    options: RunOptions
    journal: Journal
    summary: RunSummary
    reject: Callable[[Rejected], None]

    def __post_init__(self) -> None:
        self.keys: list[str] = []  # in the journal
        self.lots: list[str] = []  # the order in which problems are drawn
        self.can_be_chosen: list[bool] = []
        self.picks: dict[int, list[int]] = {}  # by index into the scores
        # To a budget, see `spending_order`; by groups, and for a reader that is not trusted.
        self.offers = dict[str, list[tuple[str, list[float]]]]()
        self.by = self.config  # what ranks and chooses, once it is known whether groups may
        self.shares: dict[int, int] = {}  # of the budget, by index into the scores
        self.spent = False  # the budget: what is in flight is waited for, nothing else is sent

    def score_and_choose(self, shards: Path) -> None:
        """Score all problems, and choose."""
        source, progress, engine = self.source, self.options.progress, self.options.engine
        if engine is not None and not engine.suits(source):
            engine = None
        if engine is not None:
            if engine.num_proc is not None:
                stage = f"Scoring problems on {engine.num_proc} processes (--num-proc 1 keeps one)"
                progress.stage(stage)
                if source.num_problems is not None:
                    progress.expect(source.num_problems)
            score_in_shards(source, self.journal, shards, engine, progress.advance)
        run(self.score_all(scored_already=engine is not None))
        self._stop_if_spent()
        progress.stage("Choosing")
        rows_read = source.rows_read  # the next pass ends with the last chosen problem
        if self.config.asks_groups and not self.summary.trust.earned:
            self.by = without_groups(self.config)
            self.summary.untrusted = True
        order = self.order()
        self.summary.chosen = self.choose_all(order)
        self.summary.input = {
            "name": source.name,
            "layout": source.layout,
            "fingerprint": source.fingerprint,
            "rows_read": rows_read,
            "problems_read": len(self.summary.scores),
            # A budget does not say how many; it has a solution for each that it reaches.
            "problems_wanted": len(order) if self.shares else self.config.num_problems,
            "problems_chosen": len(self.summary.chosen),
            "columns": asdict(source.columns),  # as they were found
            **asdict(source.terms),
        }

    def _stop_if_spent(self) -> None:
        if self.spent:
            raise BudgetSpent(
                f"the budget is spent: {self.models.flows[0].spending.summary()}. Replies so far "
                "are kept: rpd plan counts what is missing, and the same command with a larger "
                "budget continues"
            )

    async def score_all(self, *, scored_already: bool) -> None:
        """Score every problem of the input, in its order; or find what an engine scored."""
        source = self.source

        async def work(problem: Problem) -> tuple[Problem, Scored | None]:
            scored = self.journal.find(problem, failed=scored_already)
            if scored is not None:
                return problem, scored
            if scored_already:
                raise InputError(f"{source.name} changed while it was read; run it again")
            if self.spent:
                return problem, None
            try:
                scored = await score_problem(problem, self.config, self.models)
            except BudgetSpent:
                self.spent = True
                return problem, None
            self.journal.put(self.journal.key(problem), scored.as_record())
            return problem, scored

        most = self.options.max_in_flight
        async with aclosing(run_bounded(source, work, max_in_flight=most)) as results:
            async for problem, scored in results:
                if source.num_problems is not None:
                    self.options.progress.expect(source.num_problems)
                if scored is None:
                    continue
                self.keys.append(self.journal.key(problem))
                self.lots.append(draw_lot(problem.problem, self.config.seed))
                self.summary.add(problem, scored)
                reasons = left_out(problem, scored, self.config)
                self.can_be_chosen.append(not reasons)
                for rejected in dict.fromkeys([*scored.rejects, *reasons]):
                    self.reject(rejected)
                if self.config.num_samples is not None:
                    for config in {self.config, without_groups(self.config)}:
                        _, gains = solution_order(problem, scored, config)
                        offers = self.offers.setdefault(config.solutions, [])
                        offers.append((problem.problem, gains))
                if not scored_already:
                    self.options.progress.advance()

    def order(self) -> list[int]:
        """The problems that can be chosen, those to be chosen first in front."""
        config, scores = self.by, self.summary.scores
        eligible = [index for index, can_be in enumerate(self.can_be_chosen) if can_be]
        if config.num_samples is not None:
            offers = self.offers.get(config.solutions, [])
            self.shares = shares(offers, config.num_samples, config.seed)
            self.summary.num_lower += len(eligible)
            eligible = [index for index in eligible if index in self.shares]
            self.summary.num_lower -= len(eligible)
        if not eligible:
            called = "is called diverse and " if config.problems == "llm" else ""
            unfit = unfit_summarizer(self.summary)
            advice = unfit or "Lower {num_solutions} or loosen the filters"
            raise InputError(
                f"no problem of {self.source.name} {called}has {needed_solutions(config)} usable "
                f"solutions to choose from; left out: {self.summary.left_out()}. {advice}",
                option=() if unfit else "num_solutions",
            )
        if config.problem_distance is None:
            return sorted(eligible, key=self.lots.__getitem__)
        values = [score.problem_score for score in scores]
        if config.problems == GROUPS:
            numbers = [score.strategies for score in scores]
            aurocs = [score.groups_auroc for score in scores]
            values = scores_by_groups(numbers, aurocs, values)
        return [eligible[at] for at in rank([values[index] for index in eligible])]

    def choose_all(self, order: Sequence[int]) -> list[int]:
        """Choose the solutions of the first problems in `order`, and return those problems.

        Only a judge can fail to; the next problem then takes the place.
        """
        waiting, chosen = deque(order), list[int]()
        while waiting and len(chosen) < self.config.num_problems:
            size = min(len(waiting), self.config.num_problems - len(chosen))
            batch = [waiting.popleft() for _ in range(size)]
            self._spill(batch)
            verdicts = run(self._choose(batch))
            self._stop_if_spent()
            for index, verdict in zip(batch, verdicts, strict=True):
                problem, scored = self.journal.spilled(index)
                if verdict.value is None:
                    detail = f"the judge chose no solutions: {verdict.detail}"
                    reason = verdict.reason or Reason.NO_VERDICT
                    self.reject(problem.rejected("select", reason, detail))
                    continue
                self.picks[index] = list(verdict.value)
                chosen.append(index)
                labels = strategy_labels(problem.extra, len(problem.solutions))
                self.summary.add_choice(scored, self.picks[index], self.config, labels)
        self.summary.num_lower += len(waiting)
        return chosen

    def _spill(self, batch: Sequence[int]) -> None:
        """Read the input again for some of its problems."""
        places = {self.keys[index]: index for index in batch}
        for problem in self.source:
            place = places.pop(self.journal.key(problem), None)
            if place is not None:
                self.journal.spill(place, problem)
            if not places:
                return
        raise InputError(f"{self.source.name} changed while it was read; run the command again")

    async def _choose(self, batch: Sequence[int]) -> list[Judgement[tuple[int, ...]]]:
        async def work(index: int) -> Judgement[tuple[int, ...]]:
            problem, scored = self.journal.spilled(index)
            share = self.shares.get(index)
            try:
                return await choose(problem, scored, self.by, self.models, share)
            except BudgetSpent:
                self.spent = True
                return Judgement(None)

        async with aclosing(run_bounded(batch, work, max_in_flight=MAX_IN_FLIGHT)) as results:
            return [verdict async for verdict in results]

    def chosen(self) -> Iterator[Chosen]:
        """The chosen problems, best first."""
        for index in self.summary.chosen:
            yield *self.journal.spilled(index), self.picks[index]
