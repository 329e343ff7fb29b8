"""The paper's training sets by name: what each row of its tables was trained on.

A preset sets the choice of problems and solutions and their numbers, with the paper's filters
(App. C.1) and tie rule (Algorithm 3). The user names the models; `paper` requires them.

All presets draw problems in the same order for a seed: `random-q-rpd-a` has the problems of
`random-1p3s`, which are among those of `random-1p1s`, unless a summary fails.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from rpd_datasets.config import CurationConfig
from rpd_datasets.filters.candidates import FilterConfig

PAPER = CurationConfig.paper("", "")


@dataclass(frozen=True)
class Preset:
    """One training set of the paper."""

    problems: str
    solutions: str
    num_problems: int
    num_solutions: int
    source: str  # where the paper reports on it
    filtered: bool = True
    names_models: bool = False  # whether summarizer and embedder must be named

    @property
    def settings(self) -> dict[str, Any]:
        """The fields of [`~rpd_datasets.CurationConfig`] that it sets, except filters."""
        names = ("problems", "solutions", "num_problems", "num_solutions")
        chosen = {name: getattr(self, name) for name in names}
        return {"ties": PAPER.ties, "selection": PAPER.selection, **chosen}

    @property
    def filters(self) -> FilterConfig:
        """What is left out before scoring."""
        if self.filtered:
            return PAPER.filters
        # Nothing is left out but problems that lack solutions: 1P16S wants 16 of each.
        return FilterConfig(
            min_solutions=self.num_solutions,
            require_complete=False,
            drop_duplicates=False,
            answers="any",
        )


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        # name                    problems   solutions  N     M   where
        "paper": Preset("rpd", "rpd", 100, 3, "Table 2, Ours (RPD)", names_models=True),
        "rpd": Preset("rpd", "rpd", 100, 3, "Table 2, Ours (RPD)"),
        "random-1p3s": Preset("random", "random", 100, 3, "Table 2, Random (1P3S)"),
        "raw": Preset("raw", "raw", 100, 3, "Table 2, Raw Emb."),
        "summary": Preset("summary", "summary", 100, 3, "Table 2, Summary Emb."),
        "llm": Preset("llm", "llm", 100, 3, "Table 2, LLM Selection"),
        "unfiltered-1p16s": Preset(
            "random", "all", 225, 16, "Table 2, Unfiltered (1P16S)", filtered=False
        ),
        "random-1p1s": Preset("random", "random", 300, 1, "Table 4, Random (1P1S)"),
        "rpd-1p2s": Preset("rpd", "rpd", 150, 2, "Table 4, RPD (1P2S)"),
        "rpd-1p3s": Preset("rpd", "rpd", 100, 3, "Table 4, RPD (1P3S)"),
        "rpd-1p4s": Preset("rpd", "rpd", 75, 4, "Table 4, RPD (1P4S)"),
        "rpd-1p5s": Preset("rpd", "rpd", 60, 5, "Table 4, RPD (1P5S)"),
        "random-q-rpd-a": Preset("random", "rpd", 100, 3, "Table 5, Random-Q + RPD-A"),
        "rpd-q-random-a": Preset("rpd", "random", 100, 3, "Table 5, RPD-Q + Random-A"),
        "rpd-3000": Preset("rpd", "rpd", 1000, 3, "Table 15, Ours (RPD 1P3S)"),
        "random-3000": Preset("random", "random", 3000, 1, "Table 15, Random (1P1S)"),
    }
)
