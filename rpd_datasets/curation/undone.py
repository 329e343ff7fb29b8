"""What a run leaves undone when its budget is spent, and what it would cost to finish it."""

from __future__ import annotations

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.dry_run import ASSUMED_REPLY_TOKENS, DryRun
from rpd_datasets.curation.models import Models
from rpd_datasets.curation.run_summary import Shortfall
from rpd_datasets.problem import Problem
from rpd_metric.models.failures import BudgetSpent

# Why a problem is left out where a budget is spent: the reason, and a line about it.
SPENT = ("budget_spent", "the budget was spent before its requests were answered")


class Undone:
    """Problems for which the budget was spent; false while there are none.

    Args:
        config ([`CurationConfig`]): The options of the run.
        models ([`Models`]): Its models.
    """

    def __init__(self, config: CurationConfig, models: Models) -> None:
        self._config = config
        self._models = models
        self._count: DryRun | None = None

    def __bool__(self) -> bool:
        return self._count is not None

    async def add(self, problem: Problem) -> None:
        """Count what a problem lacks."""
        if self._count is None:
            store = next((flow.store for flow in self._models.flows), None)
            self._count = DryRun(
                self._config, self._models, store, reply_tokens=self._reply_tokens()
            )
        await self._count.count(problem)

    def _reply_tokens(self) -> int:
        """How long the replies of this run are, on average."""
        stats = [flow.stats for flow in self._models.flows]
        done, tokens = sum(one.done for one in stats), sum(one.completion_tokens for one in stats)
        return round(tokens / done) if done and tokens else ASSUMED_REPLY_TOKENS

    def shortfall(self) -> Shortfall | None:
        """All of it; `None` where nothing is left undone."""
        if self._count is None:
            return None
        count, requests = self._count, self._config.requests
        count.finish()
        tokens = count.missing * count.reply_tokens
        return Shortfall(
            spent=self._models.flows[0].budget.said(),
            problems=count.problems,
            solutions=count.solutions,
            requests=count.missing,
            prompt_tokens=count.prompt_tokens,
            new_tokens=tokens,
            cost=requests.cost(count.prompt_tokens, tokens) if requests.priced else None,
        )


def budget_spent(shortfall: Shortfall, partial: bool) -> BudgetSpent:
    """Why a run ends without a result, and how it goes on."""
    rest = "no problem is complete" if partial else "--partial writes what is complete"
    return BudgetSpent(
        f"the budget is spent: {shortfall.spent}. {shortfall}. Replies so far are kept: the same "
        f"command with a larger budget goes on; {rest}"
    )
