"""Options that several commands share, and what they are turned into."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rpd_datasets.curation.score import CurationConfig
from rpd_datasets.curation.shards import SHARD_SIZE, Engine
from rpd_datasets.filters.pipeline import FilterConfig
from rpd_datasets.inputs.layouts import Columns
from rpd_datasets.inputs.source import Source
from rpd_datasets.inputs.spec import Reading
from rpd_datasets.rejects import Rejected
from rpd_metric.errors import InputError
from rpd_metric.inference.chat import Sampling

DEFAULTS = CurationConfig()

INPUT_HELP = (
    "a .jsonl, .json, .parquet or .arrow file, a folder of these, a dataset id on the Hub, or "
    '"sample" for the packaged sample'
)


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Shows defaults, but only those that say something."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default in (None, False) or action.default == []:
            return action.help
        return super()._get_help_string(action)


def add_command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], None],
    help: str,
    description: str,
    example: str,
    after_interrupt: str = "nothing was written",
) -> argparse.ArgumentParser:
    """A subparser with what all commands have: help, an example, `--json`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=f"Example: {example}",
        formatter_class=_Help,
    )
    parser.set_defaults(command=run, name=name, parser=parser, after_interrupt=after_interrupt)
    parser.add_argument(
        "--json", action="store_true", help="print the result as one JSON object on stdout"
    )
    return parser


def add_input(parser: argparse.ArgumentParser) -> None:
    """Options about the input."""
    parser.add_argument("input", metavar="INPUT", help=INPUT_HELP)
    group = parser.add_argument_group("how the input is read")
    group.add_argument(
        "--layout",
        choices=("auto", "grouped", "flat", "openthoughts"),
        default="auto",
        help="grouped: a problem and its list of solutions per row; flat: one solution per row; "
        "openthoughts: conversations",
    )
    columns = Columns()
    group.add_argument("--problem-column", default=columns.problem, metavar="NAME", help="text")
    group.add_argument(
        "--solutions-column", default=columns.solutions, metavar="NAME", help="list of texts"
    )
    group.add_argument(
        "--solution-column", default=columns.solution, metavar="NAME", help="text, in flat rows"
    )
    group.add_argument(
        "--conversations-column",
        default=columns.conversations,
        metavar="NAME",
        help="list of messages",
    )
    group.add_argument(
        "--split", default="train", help="the split to read, where there are several"
    )
    group.add_argument("--config-name", metavar="NAME", help="the configuration of a Hub dataset")
    group.add_argument("--revision", help="the branch, tag or commit of a Hub dataset")
    group.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="COLUMN=VALUE",
        help="read only rows with this value, e.g. domain=math; may be repeated",
    )
    group.add_argument(
        "--exactly",
        type=int,
        metavar="N",
        help="leave out problems with another number of solutions (16 for OpenThoughts3)",
    )
    group.add_argument("--limit", type=int, metavar="N", help="stop after N problems")


def add_models(parser: argparse.ArgumentParser) -> None:
    """Options about summarizer and embedder."""
    group = parser.add_argument_group("models")
    group.add_argument(
        "--summarizer",
        default=DEFAULTS.summarizer,
        metavar="SPEC",
        help="who turns solutions into steps: extractive (no language model), tgi:URL, "
        "openai:URL#MODEL, hf:MODEL or auto:URL",
    )
    group.add_argument(
        "--embedder",
        default=DEFAULTS.embedder,
        metavar="SPEC",
        help="who encodes steps: minilm (packaged, no download), st:MODEL, tei:URL or "
        "openai:URL#MODEL",
    )
    defaults = DEFAULTS.sampling
    group.add_argument(
        "--template",
        default=DEFAULTS.template,
        metavar="NAME",
        help="for a chat model, the prompt: summarize, summarize_json or a file of yours",
    )
    group.add_argument(
        "--guided",
        action="store_true",
        help="for a chat model, guide decoding by a JSON schema where the server can",
    )
    group.add_argument(
        "--solution-part",
        choices=("full", "final"),
        default=DEFAULTS.solution_part,
        help="for a chat model, send the whole solution or only what follows its think block",
    )
    group.add_argument("--temperature", type=float, default=defaults.temperature, help="sampling")
    group.add_argument("--top-p", type=float, default=defaults.top_p, help="sampling")
    group.add_argument(
        "--max-tokens", type=int, default=defaults.max_tokens, metavar="N", help="of a summary"
    )
    group.add_argument(
        "--thinking",
        action="store_true",
        help="let a chat model think aloud first, where it can",
    )
    group.add_argument(
        "--store",
        metavar="FILE",
        help="where every reply of a chat model is kept (default: $RPD_STORE, or the user's cache "
        "folder); the same request is never paid for twice",
    )
    group.add_argument("--device", help="where an embedder of this machine runs, e.g. cuda")
    group.add_argument(
        "--batch-size", type=int, default=DEFAULTS.batch_size, help="texts per forward pass"
    )
    group.add_argument(
        "--dtype",
        choices=("float32", "bfloat16", "float16"),
        default=DEFAULTS.dtype,
        help="weights of an embedder of this machine",
    )
    group.add_argument(
        "--truncate-dim", type=int, metavar="N", help="use the first N dimensions of embeddings"
    )
    group.add_argument(
        "--ties",
        choices=("mean", "first"),
        default=DEFAULTS.ties,
        help="equally long step lists: average both directions, or the first asks (Algorithm 3)",
    )


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Options about who scores."""
    group = parser.add_argument_group("where problems are scored (the result is the same)")
    group.add_argument(
        "--num-proc",
        type=int,
        default=1,
        metavar="N",
        help="processes of this machine, each with its own copy of the models that run here. Where "
        "servers do the work it does not help: one process keeps them busy",
    )
    group.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="ray: actors on a Ray cluster of any number of machines, which all see the output "
        "folder",
    )
    group.add_argument(
        "--ray-address",
        metavar="ADDR",
        help="host:port of a running cluster, or auto for this machine's (default: $RAY_ADDRESS, "
        "or a cluster of this machine alone, for this run)",
    )
    group.add_argument(
        "--ray-actors",
        type=int,
        metavar="N",
        help="processes that score (default: one per GPU for models that run there, one per "
        "machine where servers do all the work, else one per core)",
    )
    group.add_argument(
        "--gpus-per-actor",
        type=float,
        metavar="SHARE",
        help="GPUs of each, e.g. 0.5 (default: 1 where there are any and st: or hf: runs on them)",
    )
    group.add_argument(
        "--shard-size",
        type=int,
        default=SHARD_SIZE,
        metavar="N",
        help="problems that a process is handed at a time",
    )


def engine(args: argparse.Namespace, config: CurationConfig) -> Engine | None:
    """Who scores according to the options; `None` is this process."""
    if args.engine == "ray":
        from rpd_datasets.curation.engines.ray_cluster import RayOptions, on_ray

        if args.num_proc != 1:
            raise InputError("--num-proc is for one machine; with --engine ray use --ray-actors")
        return on_ray(config, RayOptions(args.ray_address, args.ray_actors, args.gpus_per_actor))
    for name in ("ray_address", "ray_actors", "gpus_per_actor"):
        if getattr(args, name) is not None:
            raise InputError(f"--{name.replace('_', '-')} goes with --engine ray")
    if args.num_proc == 1:
        return None
    from rpd_datasets.curation.engines.processes import local_processes

    return local_processes(config, args.num_proc)


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Options about what is left out before scoring."""
    defaults = FilterConfig()
    group = parser.add_argument_group("what is left out before scoring")
    group.add_argument(
        "--min-solutions",
        type=int,
        metavar="N",
        help="problems with fewer usable solutions (default: as many as are chosen; the paper: 10)",
    )
    group.add_argument(
        "--max-mean-tokens",
        type=int,
        default=defaults.max_mean_tokens,
        metavar="N",
        help="problems whose solutions are longer on average (the paper: 14000)",
    )
    group.add_argument(
        "--tokenizer",
        default=DEFAULTS.tokenizer,
        metavar="ID",
        help="who counts tokens: a tokenizer's id or folder, or estimate (offline)",
    )
    group.add_argument(
        "--require-complete",
        action=argparse.BooleanOptionalAction,
        default=defaults.require_complete,
        help="leave out solutions that were cut off, loop, or give no final answer",
    )
    group.add_argument(
        "--drop-duplicates",
        action=argparse.BooleanOptionalAction,
        default=defaults.drop_duplicates,
        help="leave out copies of an earlier solution",
    )
    group.add_argument(
        "--near-duplicate",
        type=float,
        default=defaults.near_duplicate,
        metavar="SHARE",
        help="leave out solutions that share this much of their 5-word shingles with an earlier "
        "one, e.g. 0.9",
    )
    group.add_argument(
        "--only-correct",
        action="store_true",
        help="leave out solutions that the input does not mark as correct",
    )
    group.add_argument(
        "--correct-column",
        default=defaults.correct_column,
        metavar="NAME",
        help="the column with these marks, one boolean per solution",
    )


def filter_config(args: argparse.Namespace, min_solutions: int) -> FilterConfig:
    """The filters that the options make."""
    return FilterConfig(
        max_mean_tokens=args.max_mean_tokens,
        min_solutions=min_solutions,
        require_complete=args.require_complete,
        drop_duplicates=args.drop_duplicates,
        near_duplicate=args.near_duplicate,
        only_correct=args.only_correct,
        correct_column=args.correct_column,
    )


def model_options(args: argparse.Namespace) -> dict[str, Any]:
    """The fields of [`CurationConfig`] that the model options make."""
    if args.summarizer is None or args.embedder is None:
        raise InputError(
            "the paper's summaries come from Qwen3-14B and its embeddings from Qwen3-Embedding-8B: "
            "serve them and name them with --summarizer (e.g. tgi:http://host:port) and --embedder "
            "(e.g. tei:http://host:port), or name others"
        )
    return {
        "summarizer": args.summarizer,
        "embedder": args.embedder,
        "ties": args.ties,
        "device": args.device,
        "batch_size": args.batch_size,
        "dtype": args.dtype,
        "truncate_dim": args.truncate_dim,
        "template": args.template,
        "guided": args.guided,
        "solution_part": args.solution_part,
        "store": args.store,
        "sampling": Sampling(
            temperature=args.temperature,
            top_p=args.top_p,
            max_tokens=args.max_tokens,
            thinking=args.thinking,
        ),
    }


def open_input(
    args: argparse.Namespace, scratch: Path, on_reject: Callable[[Rejected], None]
) -> Source:
    """Open the input that the options name."""
    return reading(args).open(args.input, scratch, on_reject)


def reading(args: argparse.Namespace) -> Reading:
    """How the options want an input read."""
    return Reading(
        columns=Columns(
            problem=args.problem_column,
            solutions=args.solutions_column,
            solution=args.solution_column,
            conversations=args.conversations_column,
        ),
        layout=args.layout,
        split=args.split,
        config_name=args.config_name,
        revision=args.revision,
        exactly=args.exactly,
        limit=args.limit,
        only=only(args.only),
    )


def only(pairs: Sequence[str]) -> dict[str, str]:
    """The columns and values of `COLUMN=VALUE` options."""
    wanted = {}
    for pair in pairs:
        column, separator, value = pair.partition("=")
        if not separator or not column:
            raise InputError(f"--only {pair!r} is not of the form COLUMN=VALUE")
        wanted[column] = value
    return wanted
