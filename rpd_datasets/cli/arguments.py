"""Options that several commands share, their help, and `--config FILE`.

A YAML file has the names of the command line; an unknown name is an error. A `manifest.json`
repeats the run that wrote it. Options on the command line win.
"""

import argparse
import difflib
import re
import tempfile
from argparse import SUPPRESS
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NoReturn

from rpd_datasets.config import METRICS, CurationConfig
from rpd_datasets.curation.curated import check_input, check_models
from rpd_datasets.curation.run import RunOptions
from rpd_datasets.filters.candidates import FilterConfig
from rpd_datasets.inputs.layouts import Columns
from rpd_datasets.inputs.source import InputSpec, Source, open_source
from rpd_datasets.options import MANIFEST_FORMAT, add_options, options_from, read_options
from rpd_datasets.problem import Problem, Rejected
from rpd_metric.errors import InputError, RPDError, parameter
from rpd_metric.models.chat import Sampling
from rpd_metric.models.requests import RequestOptions

# The default of curate without a chat model.
DISTANCE = CurationConfig().solutions
JUDGE = "the chat model: tgi:URL, openai:URL#MODEL or hf:MODEL"


# What `--help` shows of commands with many options, beside what they require.
MANY = 20
EVERYDAY = {
    *("help", "help_all", "config", "json", "output", "overwrite", "push_to_hub", "seed"),
    *("num_problems", "num_solutions", "problems", "solutions", "preset", "distance", "methods"),
    *("problem_column", "solutions_column", "solution_column", "split", "only", "limit"),
    *("answers", "decontaminate"),
    *("summarizer", "embedder", "task", "labels", "num_rows", "max_problems", "all"),
}


class _FullHelp(argparse.ArgumentDefaultsHelpFormatter):
    """Help as sentences, with those defaults that say something."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        help = (action.help or "").removesuffix(".")
        default = action.default not in (None, False, 0, [], SUPPRESS) and "(default" not in help
        return f"{help[:1].upper()}{help[1:]}." + " (default: %(default)s)" * default


class _Help(_FullHelp):
    """The same for the options that most people need."""

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: Any = None) -> None:
        required = [action for action in actions if action.required]
        super().add_usage(usage, required, groups, prefix)

    def add_argument(self, action: argparse.Action) -> None:
        if action.required or action.dest in EVERYDAY:
            super().add_argument(action)


class _HelpAll(argparse.Action):
    """Prints the help of every option."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        parser.formatter_class = _FullHelp
        parser.print_help()
        parser.exit()


class Parser(argparse.ArgumentParser):
    """A parser whose errors are two lines: what is wrong, and where the options are explained."""

    commands: Mapping[str, argparse.ArgumentParser] = {}

    def format_help(self) -> str:
        """The help, of every option where there are not many."""
        if self.formatter_class is _Help and len(self._actions) <= MANY:
            self.formatter_class = _FullHelp
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Say it, with the nearest to what does not exist, and exit with 2."""
        flags = [word for word in message.split() if word.startswith("--")]
        names: Iterable[str] = self._option_string_actions
        typed = flags[0] if message.startswith("unrecognized") and flags else ""
        if choice := re.search(r"invalid choice: '(.+?)' \(choose from (.+)\)", message):
            typed, names = choice[1], re.findall(r"[\w-]+", choice[2])
        if near := difflib.get_close_matches(typed, names, n=1):
            message += f"; did you mean {near[0]}?"
        self.exit(2, f"{self.prog}: {message}\nSee {self.prog} --help\n")


def add_command(
    commands: Any,
    run: Callable[[argparse.Namespace], None],
    documentation: str,
    after_interrupt: str = "nothing was written",
) -> argparse.ArgumentParser:
    """A subparser with help, an example, `--json` and `--config`.

    `documentation` is the docstring of the command's module: a title line, a description and an
    example. `after_interrupt` is printed after Ctrl-C.
    """
    title, description, example = documentation.strip().split("\n\n")
    name, _, help = title.removeprefix("`rpd ").partition("`: ")
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help.rstrip("."),
        description=description,
        epilog=example,
        formatter_class=_Help,
        allow_abbrev=False,
    )
    parser.set_defaults(command=run, parser=parser, after_interrupt=after_interrupt)
    add = parser.add_argument
    add("--help-all", action=_HelpAll, nargs=0, default=SUPPRESS, help="show every option and exit")
    add("--json", action="store_true", help="print the result as one JSON object")
    help = "read options from a YAML file or a manifest.json; options on the command line win"
    add("--config", metavar="FILE", help=help)
    return parser


def add_push(parser: argparse.ArgumentParser) -> None:
    """Options about what is published."""
    parser.add_argument("--public", action="store_true", help="make the repository public")
    parser.add_argument("--message", metavar="TEXT", help="the commit message on the Hub")


def add_input(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """Options about the input."""
    parser.add_argument(
        "input",
        metavar="INPUT",
        nargs="?" if optional else None,
        help="a file (JSONL, JSON, CSV, TSV, Parquet, Arrow, or an evaluation log of Inspect, "
        "lm-eval or lighteval), a folder of files, a dataset on the Hub, or sample",
    )
    add_reading(parser)


def add_correctness(parser: Any) -> None:
    """The columns that say which solutions are right."""
    help = "column that marks solutions as right or wrong, e.g. correct_SCORER"
    parser.add_argument("--correct-column", metavar="NAME", help=help)
    help = "column with a problem's reference answer (default: answer or the like)"
    parser.add_argument("--answer-column", metavar="NAME", help=help)


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Options about how an input is read."""
    group = parser.add_argument_group("input")
    add_options(group, InputSpec)
    add_options(group, Columns)
    add_options(group, InputSpec, "place")
    help = "read only these rows, e.g. domain=math (repeatable)"
    group.add_argument("--only", action="append", default=[], metavar="COLUMN=VALUE", help=help)


def add_models(parser: argparse.ArgumentParser) -> None:
    """Options about summarizer and embedder."""
    group = parser.add_argument_group("models")
    add_options(group, CurationConfig, "models")
    add_options(group, Sampling)
    add_requests(parser)


def add_evidence(parser: Any) -> None:
    """The option that names figures of one's own."""
    add_options(parser, RunOptions, "evidence")


def add_distance(parser: Any, default: str | None = DISTANCE, help: str = "") -> None:
    """The option that names a distance."""
    help = f"the distance between two solutions, one of %(choices)s (rpd is the paper's){help}"
    parser.add_argument("--distance", choices=METRICS, metavar="NAME", default=default, help=help)


def add_min_strategies(parser: Any) -> None:
    """The option that leaves problems out that admit too few strategies."""
    help = "leave out problems whose solutions show fewer strategies, by labels or groups"
    parser.add_argument("--min-strategies", type=int, metavar="N", default=0, help=help)


def add_requests(parser: argparse.ArgumentParser) -> None:
    """Options about requests to a chat model."""
    add_options(parser.add_argument_group("requests to a chat model"), RequestOptions)


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Options about what is left out before scoring."""
    group = parser.add_argument_group("filters")
    add_options(group, FilterConfig)
    parser.set_defaults(min_solutions=None)
    add_options(group, CurationConfig, "tokens")


def filter_config(args: argparse.Namespace) -> FilterConfig:
    """The filters that the options make."""
    # Eq. 3 needs two solutions, whatever is chosen from them; a budget ranks no problems.
    least = 1 if args.num_samples is not None else max(2, args.num_solutions)
    return options_from(FilterConfig, args, min_solutions=args.min_solutions or least)


def checked_config(
    args: argparse.Namespace,
    groups: Sequence[str],
    filters: FilterConfig | None = None,
    *,
    judge: str | None = None,
) -> CurationConfig:
    """The configuration of these groups of options, with its models and input checked."""
    if args.summarizer is None or args.embedder is None:
        raise InputError(
            "the paper uses Qwen3-14B and Qwen3-Embedding-8B: serve them and name them with "
            "{summarizer} (e.g. tgi:http://host:port) and {embedder} (e.g. "
            "openai:http://host:port/v1)",
            option=("summarizer", "embedder"),
        )
    config = curation_config(args, groups, filters=filters or FilterConfig())
    check_models(config, judge=judge)
    check_input(args.input, input_spec(args), None if filters is None else config)
    return config


def curation_config(args: argparse.Namespace, groups: Sequence[str], **more: Any) -> CurationConfig:
    """The configuration of these groups of options, and of fields that the command decides."""
    sampling, requests = options_from(Sampling, args), options_from(RequestOptions, args)
    return options_from(CurationConfig, args, groups, sampling=sampling, requests=requests, **more)


def open_input(
    args: argparse.Namespace, scratch: Path, on_reject: Callable[[Rejected], None]
) -> Source:
    """Open the input that the options name."""
    return open_source(args.input, input_spec(args), scratch=scratch, on_reject=on_reject)


def read_problems(args: argparse.Namespace, rejects: list[Rejected]) -> Iterator[Problem]:
    """The problems of the input that the options name; `rejects` collects what is left out."""
    with tempfile.TemporaryDirectory() as scratch:
        yield from open_input(args, Path(scratch), rejects.append)


def input_spec(args: argparse.Namespace) -> InputSpec:
    """How the options want an input read."""
    for pair in args.only:
        if not pair.partition("=")[0] or "=" not in pair:
            raise InputError(f"{{only}} {pair!r} is not of the form COLUMN=VALUE", option="only")
    columns, only = options_from(Columns, args), dict(pair.split("=", 1) for pair in args.only)
    return options_from(InputSpec, args, ("", "place"), columns=columns, only=only)


def worded_for(parser: argparse.ArgumentParser, error: RPDError) -> str:
    """An error's message with its options as they are typed, followed by the command's help."""
    actions = {action.dest: action for action in parser._actions if action.option_strings}

    def typed(name: str, value: str | None) -> str:
        if name not in actions:
            return parameter(name, value)
        flags = actions[name].option_strings
        if value in ("True", "False"):
            return next(flag for flag in flags if flag.startswith("--no-") == (value == "False"))
        return flags[0] if value is None else f"{flags[0]} {value}"

    message = error.worded(typed)
    advises = not actions.keys().isdisjoint(error.options)
    return f"{message}\nSee {parser.prog} --help" if advises else message


def with_config(parser: argparse.ArgumentParser, typed_line: Sequence[str]) -> list[str]:
    """The command line, followed by the options of the file that `--config` names.

    Raises:
        [`InputError`]: The file cannot be read, or has options that the command lacks.
    """
    config_parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    config_parser.add_argument("--config", nargs="?")  # without a file it is the parser's own error
    if (path := config_parser.parse_known_args(typed_line)[0].config) is None:
        return list(typed_line)
    values, line = read_options(path), list(typed_line)
    typed = {word.partition("=")[0] for word in typed_line if word.startswith("-")}
    excluded = ("help", "help_all", "config")
    actions = {action.dest: action for action in parser._actions if action.dest not in excluded}
    if {"format", "options"} <= values.keys():
        if values["format"] != MANIFEST_FORMAT:
            raise InputError(f"{path} was written by another version; type its options instead")
        # Other commands have fewer options than the one that wrote the manifest.
        values = {name: value for name, value in values["options"].items() if name in actions}
    for key, value in values.items():
        action = actions.get(key.replace("-", "_"))
        if action is None:
            (near,) = difflib.get_close_matches(key, sorted(actions), n=1, cutoff=0)
            raise InputError(f"unknown key {key!r} in {path}; did you mean {near!r}?")
        if not action.option_strings:
            if not isinstance(value, str):
                raise InputError(f"{key} in {path} is {value!r}; it must be text")
            action.default, action.nargs, action.required = value, "?", False
        elif value is not None and typed.isdisjoint(action.option_strings):  # what is typed wins
            line += _as_typed(action, key, value, path)
    return line


def _as_typed(action: argparse.Action, key: str, value: Any, where: str) -> list[str]:
    """An option of a file as it would be typed."""
    flag, several = action.option_strings[0], action.nargs == "+"
    if isinstance(value, Mapping):
        value = [f"{name}={entry}" for name, entry in value.items()]
    repeated = several or isinstance(action, argparse._AppendAction)
    values = value if repeated and isinstance(value, list) else [value]
    kinds: Iterable[type] = (bool,) if action.nargs == 0 else (str, int, float, date)
    if any(type(entry) not in kinds for entry in values):
        raise InputError(f"{key} in {where} is {value!r}, which the option {flag} does not take")
    if action.nargs == 0:  # a switch, of which some have an opposite
        return [flag] if value else [name for name in action.option_strings if name[:5] == "--no-"]
    return [flag, *map(str, values)] if several else [f"{flag}={entry}" for entry in values]
