"""Every option of curation, as one plain value; `curation/models.py` loads the models it names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property, lru_cache
from typing import Any, Literal, get_args

from rpd_datasets.filters.candidates import FilterConfig
from rpd_datasets.options import choice_option, documented, model_option, option
from rpd_datasets.selection.solutions import GREEDY, SELECTIONS, Selection
from rpd_metric.distance.core import Ties
from rpd_metric.distance.distances import DISTANCES
from rpd_metric.errors import InputError, check_least
from rpd_metric.models.chat import Sampling
from rpd_metric.models.requests import RequestOptions
from rpd_metric.models.static import default_embedder
from rpd_metric.steps.summarizers import asks_chat_model

DEFAULT_TEMPLATE = "summarize"
AUTO = "auto"
# A chat model sorts a problem's summaries into strategies; within one this distance decides.
GROUPS, WITHIN_GROUPS = "groups", "strategy"
# Options that cannot be combined with a budget of samples.
BESIDE_SAMPLES = ("num_problems", "num_solutions", "problems", "selection", "quality_column")


class Choices(Iterable[str]):
    """Distances, those of other packages included, and the names given here.

    Installed packages are searched only for an unknown name, or to list all.
    """

    # `ties` says which RPD is meant, and choosing at random needs no matrix.
    HIDDEN = ("rpd_first", "random")

    def __init__(self, *names: str) -> None:
        self.names = names

    def __contains__(self, name: object) -> bool:
        return name in self.names or (name not in self.HIDDEN and name in DISTANCES)

    def __iter__(self) -> Iterator[str]:
        return iter([*(name for name in DISTANCES if name not in self.HIDDEN), *self.names])


METRICS = Choices()
PROBLEM_CHOICES = Choices(AUTO, GROUPS, "random", "llm")
SOLUTION_CHOICES = Choices(AUTO, GROUPS, "random", "llm", "all")


@lru_cache
def distance_of(choice: str) -> str | None:
    """The distance of a choice; `None` if it compares nothing.

    >>> distance_of("groups"), distance_of("rpd"), distance_of("llm")
    ('strategy', 'rpd', None)
    """
    if choice == GROUPS:
        return WITHIN_GROUPS
    return choice if choice in METRICS else None


@documented
@dataclass(frozen=True)
class CurationConfig:
    """Every option that decides what is curated; the defaults need no server and no download.

    It is complete when it is made: `auto`, and what a budget of samples decides, are settled.
    """

    summarizer: str = model_option(
        "extractive",
        "turns solutions into steps: extractive (no language model), tgi:URL, openai:URL#MODEL, "
        "hf:MODEL or vllm:MODEL",
        metavar="SPEC",
    )
    embedder: str = model_option(
        default_embedder(),
        "encodes steps: minilm, static (word vectors, the default without minilm), st:MODEL or "
        "openai:URL#MODEL",
        metavar="SPEC",
    )
    template: str = model_option(
        DEFAULT_TEMPLATE,
        "prompt of a chat model: summarize, summarize_json or your own file",
        metavar="NAME",
    )
    guided: bool = model_option(
        False,
        "guide a chat model's decoding by a JSON schema where the server can; the template is then "
        "summarize_json unless you name another",
    )
    solution_part: Literal["full", "final"] = model_option(
        "full",
        "send the whole solution to a chat model, or only what follows its think block",
    )
    sampling: Sampling = option(
        factory=Sampling,
        help="how a chat model samples summaries; judges are greedy",
        group=None,
    )
    requests: RequestOptions = option(
        factory=RequestOptions,
        help="how requests to a chat model are sent: time limit, retries, the longest reply",
        group=None,
    )
    store: str | None = model_option(
        None,
        "keeps every reply of a chat model, so that no request is paid for twice (default: "
        "$RPD_STORE, or the user's cache folder)",
        metavar="FILE",
    )
    device: str | None = model_option(None, "device of a local embedder, e.g. cuda")
    batch_size: int = model_option(
        64, "texts per request to an embedding server, or per forward pass on a GPU"
    )
    dtype: Literal["float32", "bfloat16", "float16"] = model_option(
        "float32", "weights of a local embedder"
    )
    threads: int = model_option(
        1,
        "CPU threads of a local embedder in each process; the result is the same",
        metavar="N",
    )
    ties: Ties = model_option(
        "mean",
        "RPD of equally long step lists: average both directions, or query by the first "
        "(Algorithm 3)",
    )
    problems: str = choice_option(
        AUTO,
        "rank problems by a distance (Algorithm 1), by the number of strategies that a chat model "
        "finds (groups), at random, or by a judge (llm); auto is groups with a chat model, else "
        "taught",
        metavar="BY",
        choices=PROBLEM_CHOICES,
    )
    num_problems: int = choice_option(100, "number of problems", metavar="N")
    solutions: str = choice_option(
        AUTO,
        "choose solutions by a distance (Algorithm 2), one of each strategy in turn (groups), at "
        "random, by a judge (llm), or the first ones (all)",
        metavar="BY",
        choices=SOLUTION_CHOICES,
    )
    num_solutions: int = choice_option(3, "number of solutions per problem", metavar="N")
    num_samples: int | None = choice_option(
        None,
        "total number of solutions, instead of num_problems and num_solutions: first one per "
        "problem, then always the solution furthest from those chosen for its problem; with more "
        "problems than samples, one solution for each of a random draw",
        metavar="N",
    )
    selection: Selection = choice_option(
        "maxmin",
        "selection by distance: maxmin is the paper's Algorithm 2, maxavg its text",
    )
    seed: int = choice_option(0, "random seed", metavar="N")
    quality_column: str | None = choice_option(
        None,
        "column with a score per solution, higher is better (a reward model's), to trade off "
        "against distance",
        metavar="NAME",
    )
    quality_weight: float = choice_option(
        0.1,
        "weight of the quality score: the next solution maximizes d + weight x q, where d is its "
        "distance to those chosen and q its score, scaled to 0 to 1 within the problem; negative "
        "weights prefer low scores",
        metavar="W",
    )
    judge: str | None = choice_option(
        None,
        "chat model for llm: tgi:URL, openai:URL#MODEL, hf:MODEL or vllm:MODEL (default: the "
        "summarizer)",
        metavar="SPEC",
    )
    completeness: Literal["rules", "llm"] = choice_option(
        "rules",
        "checks whether a solution is complete: rules, or the judge (llm), as in the paper",
    )
    filters: FilterConfig = option(
        factory=FilterConfig, help="what is left out before scoring", group=None
    )
    tokenizer: str = option(
        "estimate",
        "counts tokens: a tokenizer's id or folder, or estimate (offline)",
        group="tokens",
        metavar="ID",
    )
    problem_column: str = option(
        "problem", "the column that rpd_curate reads the problem from", group=None
    )
    solutions_column: str = option(
        "solutions", "the column that rpd_curate reads the solutions from", group=None
    )

    def __post_init__(self) -> None:
        check_least(1, self, "num_samples", "num_problems", "num_solutions", "threads")
        for name, value, choices in (
            ("ties", self.ties, get_args(Ties)),
            ("selection", self.selection, SELECTIONS),
            ("choice of problems", self.problems, PROBLEM_CHOICES),
            ("choice of solutions", self.solutions, SOLUTION_CHOICES),
            ("completeness", self.completeness, ("rules", "llm")),
        ):
            if value not in choices:
                raise InputError(f"unknown {name} {value!r}; use one of {', '.join(choices)}")
        automatic = [name for name in ("problems", "solutions") if getattr(self, name) == AUTO]
        # The most accurate on labelled problems, see docs/distances.md; `taught` is made of minilm.
        default = "taught" if self.embedder in ("minilm", "taught") else "pieces"
        if automatic and asks_chat_model(self.summarizer):
            default = GROUPS if self.selection in GREEDY else WITHIN_GROUPS
        settled: dict[str, Any] = dict.fromkeys(automatic, default)
        by_distance = self.solutions == AUTO or distance_of(self.solutions) is not None
        if self.num_samples is not None:
            # At most so many problems, and at least one solution of each.
            settled |= {"num_problems": self.num_samples, "num_solutions": 1, "problems": "random"}
            beside = [] if by_distance else ["solutions"]
            for name in BESIDE_SAMPLES:
                unset = getattr(CurationConfig, name)
                if getattr(self, name) not in (unset, settled.get(name, unset)):
                    beside.append(name)
            if beside:
                raise InputError(
                    "{num_samples} cannot be combined with "
                    f"{' and '.join(f'{{{name}}}' for name in beside)}: it spends a budget over "
                    "all problems, by a distance",
                    option=("num_samples", *beside),
                )
        elif self.solutions == "llm" and self.num_solutions < 2:
            raise InputError(
                "a judge chooses two solutions or more; raise {num_solutions}, or use "
                "{solutions=random}",
                option=("num_solutions", "solutions"),
            )
        if self.quality_column is not None and (not by_distance or self.selection == "random"):
            raise InputError(
                "{quality_column} is traded off against a distance; set {solutions} to one of "
                f"{', '.join(METRICS)}, got {self.solutions!r}",
                option=("quality_column", "solutions"),
            )
        for name, value in settled.items():
            object.__setattr__(self, name, value)  # the class is frozen
        if GROUPS in (self.problems, self.solutions) and not asks_chat_model(self.summarizer):
            raise InputError(
                f'"groups" needs a chat model as summarizer, got {self.summarizer!r}; name one '
                "with {summarizer}, e.g. tgi:http://host:port",
                option="summarizer",
            )
        if self.solutions == GROUPS and self.selection not in GREEDY:
            raise InputError(
                f'"groups" cannot use selection {self.selection!r}; use {" or ".join(GREEDY)}'
            )
        if self.asks_judge and self.judge is None and not asks_chat_model(self.summarizer):
            raise InputError(
                '"llm" asks a chat model: name one with {judge} or {summarizer}, e.g. '
                "tgi:http://host:port",
                option=("judge", "summarizer"),
            )

    @classmethod
    def paper(cls, chat: str, embeddings: str, **changes: Any) -> CurationConfig:
        """The paper's set-up: its filters, Algorithm 3's ties, 100 problems x 3 solutions.

        Serve Qwen3-14B and Qwen3-Embedding-8B (Sec. 3.1) and pass their specs. The paper also has
        the chat model judge completeness: `completeness="llm"`. `changes` override fields.
        """
        paper: dict[str, Any] = {"summarizer": chat, "embedder": embeddings, "ties": "first"}
        paper |= {"problems": "rpd", "solutions": "rpd", "filters": FilterConfig.paper()}
        return cls(**{**paper, **changes})

    def __getstate__(self) -> dict[str, Any]:
        # Not what follows from the options: equal configurations have equal pickles, by which
        # `datasets` knows what it has mapped.
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    @cached_property
    def asks_judge(self) -> bool:
        """Whether a judge is asked."""
        checks = self.completeness == "llm" and self.filters.require_complete
        return checks or "llm" in (self.problems, self.solutions)

    @cached_property
    def asks_groups(self) -> bool:
        """Whether a chat model sorts summaries into strategies."""
        return GROUPS in (self.problems, self.solutions)

    @cached_property
    def problem_distance(self) -> str | None:
        """The distance that ranks problems, if one does."""
        return distance_of(self.problems)

    @cached_property
    def solution_distance(self) -> str | None:
        """The distance that chooses solutions, if one does."""
        return distance_of(self.solutions)

    @cached_property
    def metrics(self) -> Mapping[str, str]:
        """The distances to compute, with the registry's names: `ties` decides which RPD.

        With steps also RPD, to compare sets.
        """
        compared = {self.problem_distance, self.solution_distance}
        compared |= {"rpd"} if self.reads_steps else set()
        rpd = {"rpd": "rpd_first"} if self.ties == "first" else {}
        return {name: rpd.get(name, name) for name in METRICS if name in compared}

    @cached_property
    def reads_steps(self) -> bool:
        """Whether steps are made: some choice reads them, or they are cheap: for distances that
        read texts, without a chat model.
        """
        names = (self.problems, self.solutions)
        if {"pieces", "taught", "growth"} & {*names} and not asks_chat_model(self.summarizer):
            return True
        compared = filter(None, (self.problem_distance, self.solution_distance))
        return "llm" in names or any(DISTANCES[name].reads_steps for name in compared)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types, for manifests and cards."""
        return asdict(self)


def config_or_default(config: CurationConfig | None) -> CurationConfig:
    """A configuration, the default one if unset."""
    config = CurationConfig() if config is None else config
    if not isinstance(config, CurationConfig):
        raise InputError(f"config must be CurationConfig(...), not {type(config).__name__}")
    return config
