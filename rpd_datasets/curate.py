"""Curation of one problem: filters, steps, distances, score, and the chosen solutions.

`rpd_curate` is the function for `datasets.Dataset.map`; `score_problem` is what it shares with
the command line. Choosing among problems is `select.py`; reading, resuming and writing a whole
dataset is `folder.py`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from rpd_datasets.filters import FilterConfig, filter_problem
from rpd_datasets.problem import Problem
from rpd_datasets.rejects import Rejected
from rpd_datasets.select import SELECTIONS, Selection, select_solutions
from rpd_datasets.tokens import TokenCounter, token_counter
from rpd_metric.chat import Sampling
from rpd_metric.distance import Ties, problem_score
from rpd_metric.embedding import Embedder, load_embedder
from rpd_metric.errors import InputError
from rpd_metric.flow import Flow
from rpd_metric.scoring import step_matrices
from rpd_metric.steps import StepExtractor, load_extractor
from rpd_metric.summarizer import steps_schema

DEFAULT_TEMPLATE = "summarize"
PAPER_NUM_PROBLEMS = 100
PAPER_NUM_SOLUTIONS = 3


@dataclass(frozen=True)
class CurationConfig:
    """Every option that decides what is curated; the defaults need no server and no download.

    Args:
        summarizer (`str`): Who turns solutions into steps: `"extractive"` or a chat model's spec.
        embedder (`str`): Who encodes the steps, see [`~rpd_metric.embedding.load_embedder`].
        ties (`"mean"` or `"first"`): See [`~rpd_metric.rpd_distance`].
        num_problems (`int`): Problems in the curated dataset.
        num_solutions (`int`): Solutions chosen for each, M in Algorithm 2.
        selection (`str`): How they are chosen, see [`~rpd_datasets.select_solutions`].
        seed (`int`): For everything random.
        filters ([`~rpd_datasets.FilterConfig`]): What is left out before scoring.
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
        sampling ([`~rpd_metric.chat.Sampling`]): For a chat model, how it samples.
        store (`str`, *optional*): The file that keeps every reply of a chat model;
            [`default_store`] if unset.
        problem_column (`str`): The column `rpd_curate` reads the problem from.
        solutions_column (`str`): The column `rpd_curate` reads the solutions from.
    """

    summarizer: str = "extractive"
    embedder: str = "minilm"
    ties: Ties = "mean"
    num_problems: int = PAPER_NUM_PROBLEMS
    num_solutions: int = PAPER_NUM_SOLUTIONS
    selection: Selection = "maxmin"
    seed: int = 0
    filters: FilterConfig = field(default_factory=FilterConfig)
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
        if self.selection not in SELECTIONS:
            raise InputError(
                f"unknown selection {self.selection!r}; use one of {', '.join(SELECTIONS)}"
            )

    @classmethod
    def paper(cls, chat: str, embeddings: str, **changes: Any) -> CurationConfig:
        """The paper's set-up: its filters, Algorithm 3's ties, 100 problems x 3 solutions.

        The paper's models are Qwen3-14B for summaries and Qwen3-Embedding-8B for embeddings
        (Sec. 3.1): serve them and pass their specs.

        Args:
            chat (`str`): E.g. `"tgi:http://host:port"`.
            embeddings (`str`): E.g. `"tei:http://host:port"`.
            changes: Any field that should differ.
        """
        config = cls(
            summarizer=chat, embedder=embeddings, ties="first", filters=FilterConfig.paper()
        )
        return replace(config, **changes)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types, for manifests and cards."""
        return asdict(self)


@dataclass(frozen=True)
class Models:
    """What a configuration names, loaded: it can be passed in ready-made instead."""

    extractor: StepExtractor
    embedder: Embedder
    count_tokens: TokenCounter

    @property
    def flow(self) -> Flow | None:
        """The requests to a chat model, where there is one."""
        chat = getattr(self.extractor, "chat", None)
        return chat if isinstance(chat, Flow) else None


def default_store() -> Path:
    """Where replies are kept unless told otherwise: `$RPD_STORE`, or the user's cache folder."""
    if named := os.environ.get("RPD_STORE"):
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "rpd" / "replies.sqlite"


def load_summarizer(config: CurationConfig, *, keep_replies: bool = True) -> StepExtractor:
    """Load the summarizer that a configuration names.

    Args:
        config ([`CurationConfig`]): The options.
        keep_replies (`bool`): Whether a chat model's replies go to the store.
    """
    if config.summarizer == "extractive":
        return load_extractor(config.summarizer)
    guided = config.guided and config.template == DEFAULT_TEMPLATE
    store = Path(config.store) if config.store else default_store()
    return load_extractor(
        config.summarizer,
        store=store if keep_replies else None,
        template="summarize_json" if guided else config.template,
        schema=steps_schema() if config.guided else None,
        solution_part=config.solution_part,
        sampling=config.sampling,
    )


def load_models(config: CurationConfig) -> Models:
    """Load the summarizer, the embedder and the tokenizer that a configuration names.

    Raises:
        [`SpecError`], [`MissingExtraError`], [`ModelError`]: As the loaders do.
    """
    return Models(
        extractor=load_summarizer(config),
        embedder=load_embedder(
            config.embedder,
            device=config.device,
            batch_size=config.batch_size,
            dtype=config.dtype,
            truncate_dim=config.truncate_dim,
        ),
        count_tokens=token_counter(config.tokenizer),
    )


_models_of = lru_cache(maxsize=4)(load_models)


@dataclass(frozen=True)
class Scored:
    """What is known about a problem before anything is chosen.

    Args:
        steps (`list[list[str]]`): Per solution; empty where it was left out.
        matrix (`list[list[float | None]]`): k x k; `None` in rows and columns of left-out ones.
        score (`float`, *optional*): Eq. 3; `None` under two usable solutions.
        drop_reasons (`list[str]`): Per solution, why it was left out; `""` where it was not.
        num_tokens (`list[int]`): Per solution, by the configured tokenizer.
        rejects (`list[Rejected]`): The same as records for the rejects file.
    """

    steps: list[list[str]]
    matrix: list[list[float | None]]
    score: float | None
    drop_reasons: list[str]
    num_tokens: list[int]
    rejects: list[Rejected]

    @property
    def usable(self) -> list[int]:
        """Indices of the solutions that take part in scoring and selection."""
        return [index for index, reason in enumerate(self.drop_reasons) if not reason]

    def as_record(self) -> dict[str, Any]:
        """Plain JSON types, for the journal."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Scored:
        """The inverse of `as_record`."""
        rejects = [Rejected(**reject) for reject in record["rejects"]]
        return cls(**{**record, "rejects": rejects})


async def score_problem(problem: Problem, config: CurationConfig, models: Models) -> Scored:
    """Filter a problem's solutions, extract their steps, and compare them.

    A solution that a filter refuses or that cannot be summarised is left out of scoring with
    its reason; it never counts as far away.

    Args:
        problem ([`~rpd_datasets.Problem`]): The problem.
        config ([`CurationConfig`]): The options.
        models ([`Models`]): What the options name, loaded.

    Returns:
        [`Scored`]: Lists as long as the problem's solutions.
    """
    filtered = filter_problem(problem, config.filters, models.count_tokens)
    count = len(problem.solutions)
    reasons = list(filtered.reasons)
    rejects = list(filtered.rejects(problem))
    steps: list[list[str]] = [[] for _ in range(count)]
    kept = list(filtered.kept)
    if kept:
        extractions = await models.extractor.extract(
            problem.problem, [problem.solutions[index] for index in kept]
        )
        for index, extraction in zip(kept, extractions, strict=True):
            if extraction.ok:
                steps[index] = list(extraction.steps)
            else:
                reason = extraction.reason or "no_steps"
                reasons[index] = reason
                detail = extraction.detail or "no step could be extracted"
                rejects.append(problem.rejected("steps", reason, detail, index))
    # Encoding in a thread lets other problems' requests go on meanwhile.
    matrices = await asyncio.to_thread(step_matrices, [steps], models.embedder, config.ties)
    matrix = matrices[0]
    return Scored(
        steps=steps,
        matrix=[[None if value != value else value for value in row] for row in matrix.tolist()],
        score=problem_score(matrix),
        drop_reasons=reasons,
        num_tokens=list(filtered.num_tokens),
        rejects=rejects,
    )


def scoring_fingerprint(config: CurationConfig, models: Models) -> str:
    """A hash of all that decides a problem's scores, and of nothing else."""
    parts = {
        "summarizer": models.extractor.fingerprint,
        "embedder": [models.embedder.name, config.dtype, config.truncate_dim],
        "ties": config.ties,
        "filters": asdict(config.filters),
        "tokenizer": models.count_tokens.name,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def choose(problem: Problem, scored: Scored, config: CurationConfig) -> list[int]:
    """The chosen solutions of a problem: indices into its solutions, in order of choice."""
    # A seed of its own for every problem, whatever its position: random picks must not be the
    # same indices everywhere.
    digest = hashlib.sha256(f"{config.seed}:{problem.key}".encode()).digest()
    return select_solutions(
        [[float("nan") if value is None else value for value in row] for row in scored.matrix],
        config.num_solutions,
        config.selection,
        seed=int.from_bytes(digest[:8], "big"),
    )


async def rpd_curate(
    row: Mapping[str, Any], config: CurationConfig | None = None
) -> dict[str, Any]:
    """Score one row's solutions and choose among them: the function for `ds.map`.

    It is a coroutine function, which `datasets.Dataset.map` runs for many rows at once: that
    keeps a server busy. Outside `map`, `asyncio.run(rpd_curate(row))` gives one result.

    Args:
        row (`Mapping`): With the columns `problem` (`str`) and `solutions` (`list[str]`); other
            columns are carried along by `map`.
        config ([`CurationConfig`], *optional*): The options; pass them as
            `fn_kwargs={"config": CurationConfig(...)}`.

    Returns:
        `dict`: The new columns.

        - `steps` (`list[list[str]]`): per solution;
        - `rpd_matrix` (`list[list[float]]`): pairwise distances, null for solutions left out;
        - `rpd_score` (`float`): Eq. 3, null under two usable solutions;
        - `selected` (`list[int]`): indices into `solutions`, in order of choice;
        - `drop_reasons` (`list[str]`): why a solution was left out, `""` where it was not.

    Raises:
        [`InputError`]: A column is missing. A bad value in a row raises nothing: the row gets a
        null score and its solutions the reason `"bad_row"` or `"not_text"`.

    Example:

    ```py
    >>> from datasets import Dataset
    >>> from rpd_datasets import rpd_curate
    >>> ds = Dataset.from_list([{"problem": "What is 2 + 3?", "solutions": [
    ...     "We count on from two. After two come three, four, five. The sum is 5.",
    ...     "Put two coins and three coins on a table. Counting all of them gives 5."]}])
    >>> ds = ds.map(rpd_curate)
    >>> sorted(ds["selected"][0])
    [0, 1]

    ```
    """
    config = config or CurationConfig()
    for column in (config.problem_column, config.solutions_column):
        if column not in row:
            raise InputError(
                f"the rows have no column {column!r}, only {', '.join(row)}; rename one, or set "
                "problem_column and solutions_column in CurationConfig"
            )
    text, solutions = row[config.problem_column], row[config.solutions_column]
    if not isinstance(text, str) or not isinstance(solutions, (list, tuple)):
        count = len(solutions) if isinstance(solutions, (list, tuple)) else 0
        return _left_out(["bad_row"] * count)
    good = [index for index, solution in enumerate(solutions) if isinstance(solution, str)]
    reasons = ["" if isinstance(solution, str) else "not_text" for solution in solutions]
    if not good:
        return _left_out(reasons)
    extra = {
        name: value
        for name, value in row.items()
        if name not in (config.problem_column, config.solutions_column)
    }
    problem = Problem(text, tuple(solution or "" for solution in solutions), extra).take(good)
    scored = await score_problem(problem, config, _models_of(config))
    result = _left_out(reasons)
    for position, index in enumerate(good):
        result["steps"][index] = scored.steps[position]
        result["drop_reasons"][index] = scored.drop_reasons[position]
        for other_position, other in enumerate(good):
            result["rpd_matrix"][index][other] = scored.matrix[position][other_position]
    result["rpd_score"] = scored.score
    result["selected"] = [good[position] for position in choose(problem, scored, config)]
    return result


def _left_out(reasons: list[str]) -> dict[str, Any]:
    """The new columns of a row of which nothing can be used."""
    k = len(reasons)
    return {
        "steps": [[] for _ in range(k)],
        "rpd_matrix": [[None] * k for _ in range(k)],
        "rpd_score": None,
        "selected": [],
        "drop_reasons": reasons,
    }


def to_sft(ds: Any, *, problem_column: str = "problem", solutions_column: str = "solutions") -> Any:
    """One training row per chosen solution, in TRL's conversational prompt-completion format.

    With prompt and completion apart, TRL computes the loss on the completion only.

    Args:
        ds (`datasets.Dataset`): Rows with `selected`, as `ds.map(rpd_curate)` makes them.
        problem_column (`str`): The column with the problem.
        solutions_column (`str`): The column with the solutions.

    Returns:
        `datasets.Dataset`: Columns `prompt` and `completion`, each a list with one message. A
        problem's solutions stand next to each other, in order of choice.

    Raises:
        [`InputError`]: A column is missing.
    """
    import datasets

    for column in (problem_column, solutions_column, "selected"):
        if column not in ds.column_names:
            raise InputError(
                f"the dataset has no column {column!r}, only {', '.join(ds.column_names)}; "
                "run ds.map(rpd_curate) first"
            )

    def explode(batch: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        rows: dict[str, list[Any]] = {"prompt": [], "completion": []}
        for problem, solutions, selected in zip(
            batch[problem_column], batch[solutions_column], batch["selected"], strict=True
        ):
            for index in selected:
                prompt, completion = sft_messages(problem, solutions[index])
                rows["prompt"].append(prompt)
                rows["completion"].append(completion)
        return rows

    message = {"role": datasets.Value("string"), "content": datasets.Value("string")}
    return ds.map(
        explode,
        batched=True,
        remove_columns=ds.column_names,
        features=datasets.Features(
            {"prompt": datasets.List(message), "completion": datasets.List(message)}
        ),
    )


def sft_messages(problem: str, solution: str) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """The prompt and the completion of one training row."""
    return (
        [{"role": "user", "content": problem}],
        [{"role": "assistant", "content": solution}],
    )
