"""From what was read to what was chosen, and what left in between, for problems or solutions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rpd_datasets.report.reading import CuratedFolder, Drop


@dataclass(frozen=True)
class Level:
    """One line of a funnel.

    Args:
        label (`str`): What is counted, in words.
        count (`int`): How many.
        share (`float`): Percent of the largest count.
        gone (`bool`): Whether they left here, rather than being what is left.
        stage (`str`): Of what left, see [`~rpd_datasets.rejects.Rejected`].
        examples (`tuple[str, ...]`): Of what left.
    """

    label: str
    count: int
    share: float
    gone: bool
    stage: str = ""
    examples: tuple[str, ...] = ()


def funnel(folder: CuratedFolder, unit: Literal["problem", "solution"]) -> list[Level]:
    """Count what is left after each stage, and what left in between.

    Args:
        folder ([`~rpd_datasets.report.reading.CuratedFolder`]): What was curated.
        unit (`"problem"` or `"solution"`): What is counted.

    Returns:
        `list` of [`Level`]: In order; reasons that nothing left for are not among them.
    """
    counts = folder.manifest["counts"]
    read, chosen = counts[f"{unit}s_read"], counts[f"{unit}s_chosen"]
    drops = [drop for drop in folder.drops if drop.unit == unit]
    on_reading = [drop for drop in drops if drop.stage in ("read", "group")]
    at_choice = [drop for drop in drops if drop.stage == "select"]
    between = [drop for drop in drops if drop not in (*on_reading, *at_choice)]
    total = max(1, read, counts["rows_read"] if unit == "problem" else 0)

    def left(label: str, count: int) -> Level:
        return Level(label, count, 100 * count / total, gone=False)

    def gone(drop: Drop) -> Level:
        share = 100 * drop.count / total
        return Level(
            drop.reason.replace("_", " "), drop.count, share, True, drop.stage, drop.examples
        )

    levels = [left("rows read", counts["rows_read"])] if unit == "problem" and on_reading else []
    levels += [*map(gone, on_reading), left(f"{unit}s read", read), *map(gone, between)]
    compared = read - sum(drop.count for drop in between)
    if unit == "solution":
        # Solutions of a problem that goes as a whole have no record of their own.
        with_problem = compared - counts["solutions_usable"]
        compared = counts["solutions_usable"]
        levels.append(gone(Drop("filter", "problem_left_out", unit, with_problem, ())))
        levels.append(left("solutions compared", compared))
    elif counts["problems_scored"]:  # nothing is scored where problems are drawn
        compared = counts["problems_scored"]
        levels.append(left("problems scored", compared))
    levels += map(gone, at_choice)
    rest = max(0, compared - sum(drop.count for drop in at_choice) - chosen)
    levels.append(gone(Drop("select", "not_chosen", unit, rest, ())))
    levels.append(left(f"{unit}s chosen", chosen))
    return [level for level in levels if level.count or not level.gone]
