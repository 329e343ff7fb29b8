"""Every option of curation, as one plain value.

Nothing is loaded here: `models.py` makes models out of the names, `score.py` does the work.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from rpd_datasets.filters.pipeline import FilterConfig
from rpd_datasets.select import SELECTIONS, Selection
from rpd_metric.distance.core import Ties
from rpd_metric.distance.registry import DISTANCES
from rpd_metric.errors import InputError
from rpd_metric.inference.chat import Sampling
from rpd_metric.steps.registry import asks_chat_model

DEFAULT_TEMPLATE = "summarize"
PAPER_NUM_PROBLEMS = 100
PAPER_NUM_SOLUTIONS = 3

# `ties` says which RPD is meant, and choosing at random needs no matrix.
METRICS = tuple(name for name in DISTANCES if name not in ("rpd_first", "random"))
PROBLEM_CHOICES = (*METRICS, "random", "llm")
SOLUTION_CHOICES = (*METRICS, "random", "llm", "all")


@dataclass(frozen=True)
class CurationConfig:
    """Every option that decides what is curated; the defaults need no server and no download.

    Args:
        summarizer (`str`): Who turns solutions into steps: `"extractive"` or a chat model's spec.
        embedder (`str`): Who encodes the steps, see [`load_embedder`].
        ties (`"mean"` or `"first"`): See [`~rpd_metric.rpd_distance`].
        problems (`str`): How problems are chosen: the name of a distance
            ([`load_distance`]), by which they are ranked (Algorithm 1);
            `"random"`; or `"llm"`: those that a judge calls diverse (App. D.2).
        num_problems (`int`): Problems in the curated dataset.
        solutions (`str`): How the solutions of a chosen problem are chosen: the name of a distance,
            which `selection` then works on (Algorithm 2); `"random"`; `"llm"`: the set that a
            judge names (App. D.2); or `"all"`: the first `num_solutions` there are.
        num_solutions (`int`): Solutions chosen for each, M in Algorithm 2. With `"all"`, at most
            so many.
        selection (`str`): How a distance chooses, see [`~rpd_datasets.select_solutions`].
        seed (`int`): For everything random.
        filters ([`~rpd_datasets.FilterConfig`]): What is left out before scoring.
        completeness (`"rules"` or `"llm"`): What decides whether a solution was finished: rules,
            or a judge that sees its end, as in App. C.1.
        judge (`str`, *optional*): The chat model that judges; the summarizer's if unset.
        tokenizer (`str`): Who counts tokens: `"estimate"`, or a tokenizer's id or path.
        device (`str`, *optional*): For an embedder that runs here.
        batch_size (`int`): For an embedder that runs here.
        dtype (`str`): For an embedder that runs here.
        truncate_dim (`int`, *optional*): Use the first so many dimensions of each embedding.
        template (`str`): For a chat model, the prompt: `"summarize"`, `"summarize_json"` or a file.
        guided (`bool`): For a chat model, guide decoding by a JSON schema; takes the template
            `"summarize_json"` unless another is named.
        solution_part (`"full"` or `"final"`): For a chat model, send the whole solution, or only
            what follows its think block.
        sampling ([`Sampling`]): For a chat model, how it samples summaries;
            judges are greedy.
        store (`str`, *optional*): The file that keeps every reply of a chat model;
            [`~rpd_datasets.curation.models.default_store`] if unset.
        problem_column (`str`): The column `rpd_curate` reads the problem from.
        solutions_column (`str`): The column `rpd_curate` reads the solutions from.
    """

    summarizer: str = "extractive"
    embedder: str = "minilm"
    ties: Ties = "mean"
    problems: str = "rpd"
    num_problems: int = PAPER_NUM_PROBLEMS
    solutions: str = "rpd"
    num_solutions: int = PAPER_NUM_SOLUTIONS
    selection: Selection = "maxmin"
    seed: int = 0
    filters: FilterConfig = field(default_factory=FilterConfig)
    completeness: Literal["rules", "llm"] = "rules"
    judge: str | None = None
    tokenizer: str = "estimate"
    device: str | None = None
    batch_size: int = 64
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    truncate_dim: int | None = None
    template: str = DEFAULT_TEMPLATE
    guided: bool = False
    solution_part: Literal["full", "final"] = "full"
    sampling: Sampling = field(default_factory=Sampling)
    store: str | None = None
    problem_column: str = "problem"
    solutions_column: str = "solutions"

    def __post_init__(self) -> None:
        if self.num_problems < 1 or self.num_solutions < 1:
            raise InputError(
                f"num_problems is {self.num_problems} and num_solutions {self.num_solutions}; "
                "both must be 1 or more"
            )
        if self.ties not in ("mean", "first"):
            raise InputError(f'ties is {self.ties!r}; use "mean" or "first"')
        for name, value, known in (
            ("selection", self.selection, SELECTIONS),
            ("choice of problems", self.problems, PROBLEM_CHOICES),
            ("choice of solutions", self.solutions, SOLUTION_CHOICES),
            ("completeness", self.completeness, ("rules", "llm")),
        ):
            if value not in known:
                raise InputError(f"unknown {name} {value!r}; use one of {', '.join(known)}")
        if self.solutions == "llm" and self.num_solutions < 2:
            raise InputError(
                "a judge chooses sets of two solutions or more; raise num_solutions, or choose "
                'single solutions with solutions="random"'
            )
        if self.asks_judge and self.judge is None and not asks_chat_model(self.summarizer):
            raise InputError(
                '"llm" asks a chat model, and none is named: name one with judge (--judge), e.g. '
                "tgi:http://host:port, or make one the summarizer"
            )

    @classmethod
    def paper(cls, chat: str, embeddings: str, **changes: Any) -> CurationConfig:
        """The paper's set-up: its filters, Algorithm 3's ties, 100 problems x 3 solutions.

        The paper's models are Qwen3-14B for summaries and Qwen3-Embedding-8B for embeddings
        (Sec. 3.1): serve them and pass their specs. The paper lets the chat model judge which
        solutions are complete, too: `completeness="llm"`.

        Args:
            chat (`str`): E.g. `"tgi:http://host:port"`.
            embeddings (`str`): E.g. `"tei:http://host:port"`.
            changes: Any field that should differ.
        """
        config = cls(
            summarizer=chat, embedder=embeddings, ties="first", filters=FilterConfig.paper()
        )
        return replace(config, **changes)

    @property
    def asks_judge(self) -> bool:
        """Whether a judge takes part."""
        checks = self.completeness == "llm" and self.filters.require_complete
        return checks or "llm" in (self.problems, self.solutions)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The distances that must be computed.

        RPD is among them whenever there are steps, so that sets chosen in other ways can be
        compared with those it chose.
        """
        named = {name for name in (self.problems, self.solutions) if name in METRICS}
        if self.reads_steps:
            named.add("rpd")
        return tuple(name for name in METRICS if name in named)

    def metric(self, name: str) -> str:
        """The name in `registry.py` of a distance chosen here: `ties` says which RPD is meant."""
        return "rpd_first" if name == "rpd" and self.ties == "first" else name

    @property
    def reads_steps(self) -> bool:
        """Whether any choice looks at steps; without, no summary is made."""
        return any(
            name == "llm" or (name in METRICS and DISTANCES[name].reads_steps)
            for name in (self.problems, self.solutions)
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types, for manifests and cards."""
        return asdict(self)
