"""The figure of a run: pass@k curves, with whiskers for intervals over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.loop.arms import Arm
from benchmarks.loop.catalogue import CORE, REINFORCED
from benchmarks.loop.measure import Found, figure
from rpd_datasets.report.charts import palette

KS = (1, 2, 4, 8, 16)


def draw(found: Found, file: Path) -> None:
    """Draw pass@k curves with intervals over seeds."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels: list[tuple[str, Sequence[Arm]]] = [("Fine-tuned", CORE)]
    if any(arm.name in found for arm in REINFORCED):
        starts = [arm for arm in CORE if arm.name in ("random_1p1s", "rpd_1p3s")]
        panels.append(("Reinforced", (*starts, *REINFORCED)))
    picture = Figure(figsize=(6.2 * len(panels), 4.4), dpi=110, layout="constrained")
    FigureCanvasAgg(picture)
    ks = range(1, 17)
    # Reinforced arms have the colour of the arm they start from.
    # The base in grey, the others in the report's colours.
    names = ("soft", *(f"s{place}" for place in range(5)), "raw")
    colours = dict(zip((arm.name for arm in CORE), map(palette().get, names), strict=True))
    for axes, (title, arms) in zip(
        picture.subplots(1, len(panels), squeeze=False, sharey=True)[0], panels, strict=True
    ):
        shown = [arm for arm in arms if arm.name in found]
        for place, arm in enumerate(shown):
            curve = [figure(found[arm.name], k) for k in ks]
            colour = colours[arm.start or arm.name]
            values = [100 * point.value for point in curve]
            dashes = ":" if arm.diversity_weight else "--" if arm.start or arm is CORE[0] else "-"
            axes.plot(ks, values, color=colour, ls=dashes, label=arm.title)
            if len(found[arm.name]) > 1:
                # Bands of all arms would hide each other; whiskers at the ends say as much.
                ends = (0, 15)
                axes.errorbar(
                    [ks[end] * (1 + 0.02 * (place - 3)) for end in ends],
                    [values[end] for end in ends],
                    yerr=[100 * (curve[end].high - curve[end].value) for end in ends],
                    color=colour,
                    fmt="none",
                    capsize=2,
                    lw=1,
                )
        axes.set_xscale("log", base=2)
        axes.set_xticks(KS, [str(k) for k in KS])
        axes.set(title=title, xlabel="k", ylabel="pass@k (%)")
        axes.grid(color="#eeeeee")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8, loc="upper left")
    # Without the software's version, so that the same results give the same file.
    picture.savefig(file, metadata={"Software": None})
