"""Options that several commands share, and what they are turned into."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.engines import EngineOptions
from rpd_datasets.filters.pipeline import FilterConfig
from rpd_datasets.inputs.layouts import Columns
from rpd_datasets.inputs.source import Source, open_source
from rpd_datasets.inputs.spec import InputSpec
from rpd_datasets.options import add_options, options_from
from rpd_datasets.rejects import Rejected
from rpd_metric.errors import InputError
from rpd_metric.models.chat import Sampling
from rpd_metric.models.requests import RequestOptions

DEFAULTS = CurationConfig()

INPUT_HELP = (
    "a .jsonl, .json, .csv, .parquet or .arrow file, the log of an evaluation (Inspect's .eval, "
    "samples of lm-eval, details of lighteval), a folder of these, a dataset id on the Hub, or "
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
        allow_abbrev=False,
    )
    parser.set_defaults(command=run, name=name, parser=parser, after_interrupt=after_interrupt)
    parser.add_argument(
        "--json", action="store_true", help="print the result as one JSON object on stdout"
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="take options from a YAML file, one a line as in num_problems: 100, or from the "
        "manifest.json of a run, which repeats it; options given beside it win",
    )
    return parser


def add_input(parser: argparse.ArgumentParser) -> None:
    """Options about the input."""
    parser.add_argument("input", metavar="INPUT", help=INPUT_HELP)
    group = parser.add_argument_group("how the input is read")
    add_options(group, InputSpec)
    add_options(group, Columns)
    add_options(group, InputSpec, "place")
    group.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="COLUMN=VALUE",
        help="read only rows with this value, e.g. domain=math; may be repeated",
    )


def add_models(parser: argparse.ArgumentParser) -> None:
    """Options about summarizer and embedder."""
    group = parser.add_argument_group("models")
    add_options(group, CurationConfig, "models")
    add_options(group, Sampling)
    add_requests(parser)


def add_requests(parser: argparse.ArgumentParser) -> None:
    """Options about requests to a chat model."""
    add_options(parser.add_argument_group("requests to a chat model"), RequestOptions)


def request_options(args: argparse.Namespace) -> RequestOptions:
    """How requests are sent according to the options."""
    return options_from(RequestOptions, args)


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Options about who scores."""
    group = parser.add_argument_group("where problems are scored (the result is the same)")
    add_options(group, EngineOptions)


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Options about what is left out before scoring."""
    group = parser.add_argument_group("what is left out before scoring")
    add_options(group, FilterConfig, defaults={"min_solutions": None})
    add_options(group, CurationConfig, "tokens")


def filter_config(args: argparse.Namespace, num_solutions: int) -> FilterConfig:
    """The filters that the options make."""
    # Eq. 3 needs two solutions, whatever is chosen from them; a budget ranks no problems.
    spent = getattr(args, "num_samples", None) is not None
    least = args.min_solutions or (1 if spent else max(2, num_solutions))
    return options_from(FilterConfig, args, min_solutions=least)


def curation_config(
    args: argparse.Namespace, groups: Sequence[str], filters: FilterConfig | None = None
) -> CurationConfig:
    """The configuration that the options make.

    Args:
        args (`argparse.Namespace`): The command line.
        groups (`Sequence[str]`): Which options of [`CurationConfig`] the command has.
        filters ([`FilterConfig`], *optional*): What is left out; the defaults if unset.
    """
    if args.summarizer is None or args.embedder is None:
        raise InputError(
            "the paper's summaries come from Qwen3-14B and its embeddings from Qwen3-Embedding-8B: "
            "serve them and name them with --summarizer (e.g. tgi:http://host:port) and --embedder "
            "(e.g. tei:http://host:port)"
        )
    return options_from(
        CurationConfig,
        args,
        groups,
        sampling=options_from(Sampling, args),
        requests=request_options(args),
        filters=filters or FilterConfig(),
    ).resolved()


def open_input(
    args: argparse.Namespace, scratch: Path, on_reject: Callable[[Rejected], None]
) -> Source:
    """Open the input that the options name."""
    return open_source(args.input, input_spec(args), scratch=scratch, on_reject=on_reject)


def input_spec(args: argparse.Namespace) -> InputSpec:
    """How the options want an input read."""
    columns = options_from(Columns, args)
    return options_from(
        InputSpec, args, ("", "place"), columns=columns, only=only_values("--only", args.only)
    )


def only_values(flag: str, pairs: Sequence[str]) -> dict[str, str]:
    """The columns and values of `COLUMN=VALUE` options."""
    wanted = {}
    for pair in pairs:
        column, separator, value = pair.partition("=")
        if not separator or not column:
            raise InputError(f"{flag} {pair!r} is not of the form COLUMN=VALUE")
        wanted[column] = value
    return wanted
