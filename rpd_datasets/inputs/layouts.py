"""The layouts that rows come in, one table, how a row of each is taken apart, and which one fits.

In every layout a bad solution costs itself, and a row without a usable problem costs the row. Texts
are never altered; `gathering.py` brings together the rows of one problem. Some layouts are those of
well-known datasets, so that these need no option; docs/inputs.md shows them. What the options name
is never overruled. Which columns say what is right is decided for all inputs alike in
`filters/answer_checks.py`.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rpd_datasets.inputs.raw_rows import Row
from rpd_datasets.options import documented, option
from rpd_datasets.problem import Problem
from rpd_datasets.rejects import Rejected
from rpd_metric.errors import InputError
from rpd_metric.reasons import Reason
from rpd_metric.registry import Registry

HUMAN = ("human", "user")
MODEL = ("gpt", "assistant", "model")
Values = dict[str, Any]
# DeepMath numbers its solutions; others do so with the same words.
NUMBERED = re.compile(r"(?:r1_)?(?:solution|generation|response|completion)_(\d+)")
# In rows of s1K, and in those of s1K-1.1 for two models: a grade, thoughts, and the attempt.
S1K = [("", "thinking_trajectories", "attempt")] + [
    (f"{model}_grade", f"{model}_thinking_trajectory", f"{model}_attempt")
    for model in ("gemini", "deepseek")
]


@documented
@dataclass(frozen=True)
class Columns:
    """What the columns are called in the input."""

    problem: str = option("problem", "text", name="problem_column", metavar="NAME")
    solutions: str = option("solutions", "list of texts", name="solutions_column", metavar="NAME")
    solution: str = option("solution", "text, in flat rows", name="solution_column", metavar="NAME")
    conversations: str = option(
        "conversations", "list of messages", name="conversations_column", metavar="NAME"
    )


ReadRow = Callable[[Row, Columns], Iterable[Problem | Rejected]]


@dataclass(frozen=True)
class RowLayout:
    """How problems and solutions stand in rows.

    Args:
        description (`str`): What stands in a row, in words.
        read (`Callable`): From a row to its problem, and what of it cannot be used.
        needs (`tuple[str, ...]`): The fields of [`Columns`] whose columns must be there.
        one_each (`bool`): Whether a row holds one solution; such rows are gathered by problem.
        columns (`Mapping[str, str]`): What a well-known dataset calls these columns.
        told_by (`tuple[str, ...]`): Further columns of a well-known dataset, by their names.
    """

    description: str
    read: ReadRow
    needs: tuple[str, ...] = ()
    one_each: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    told_by: tuple[str, ...] = ()

    @property
    def well_known(self) -> bool:
        """Whether it is the layout of one dataset, which names its own columns."""
        return bool(self.columns or self.told_by)

    def named(self, columns: Columns) -> Columns:
        """The columns as this layout calls them."""
        return replace(columns, **self.columns)


def kept_names(extra: Mapping[str, Any]) -> dict[str, Any]:
    """The other columns, none of them under a name that later stages use for their own."""
    taken = ("problem", "solutions")
    return {f"original_{key}" if key in taken else key: value for key, value in extra.items()}


def grouped_items(row: Row, columns: Columns) -> Iterator[Problem | Rejected]:
    """Take apart a row with a problem and a list of solutions.

    Each solution that cannot be used is a [`Rejected`] with its index in the row; then comes the
    [`Problem`] with the others, or a `Rejected` for the row.
    """
    if columns.problem not in row.values:
        yield _rejected(row, _missing(columns.problem))
        return
    text, solutions = row.values[columns.problem], row.values.get(columns.solutions)
    extra = without(row.values, columns.problem, columns.solutions)
    if bad := _bad_text(text, "problem") or _bad_extra(extra):
        yield _rejected(row, bad)
        return
    if not isinstance(solutions, list) or not solutions:
        yield _rejected(row, _bad_list(row.values, columns.solutions), text)
        return
    # Solutions of other types are given up below; Problem only ever holds text.
    whole = Problem(text, tuple(solutions), kept_names(extra), row.place, row.group)
    bad_ones = {at: bad for at, one in enumerate(solutions) if (bad := _bad_text(one, "solution"))}
    for index, bad in bad_ones.items():
        yield whole.rejected("read", *bad, solution_index=index)
    usable = [index for index in range(len(solutions)) if index not in bad_ones]
    if usable:
        yield whole.take(usable) if bad_ones else whole
    else:
        detail = "None of its solutions can be used."
        yield whole.rejected("read", Reason.NO_USABLE_SOLUTION, detail)


def flat_row(row: Row, columns: Columns) -> Iterator[Problem | Rejected]:
    """Take apart a row with a problem and one solution."""
    if columns.problem not in row.values:
        yield _rejected(row, _missing(columns.problem))
    else:
        extra = without(row.values, columns.problem, columns.solution)
        solution = row.values.get(columns.solution)
        yield _one_solution(row, row.values[columns.problem], solution, extra)


def conversation_row(row: Row, columns: Columns) -> Iterator[Problem | Rejected]:
    """Take apart a row with one question and one answer as messages, as in OpenThoughts3.

    Turns are `{"from": "human" | "gpt", "value": ...}` or `{"role": ..., "content": ...}`; a
    system turn is passed over.
    """
    turns = row.values.get(columns.conversations)
    if isinstance(turns, dict) and all(isinstance(value, list) for value in turns.values()):
        # Older versions of `datasets` turn a list of objects into an object of lists.
        turns = [
            dict(zip(turns, values, strict=False)) for values in zip(*turns.values(), strict=False)
        ]
    if not isinstance(turns, list) or not turns:
        yield _rejected(row, _bad_list(row.values, columns.conversations))
        return
    asked, answered = said_by(HUMAN, turns), said_by(MODEL, turns)
    if len(asked) == len(answered) == 1:
        extra = without(row.values, columns.conversations)
        yield _one_solution(row, asked[0], answered[0], extra)
    else:
        detail = f"{len(asked)} human and {len(answered)} model turns; one of each is wanted."
        yield _rejected(row, (Reason.NOT_ONE_EXCHANGE, detail))


def said_by(roles: Sequence[str], turns: Iterable[Any]) -> list[Any]:
    """What some roles say in a conversation, a turn's `reasoning_content` before its content."""
    return [
        with_thoughts(turn.get("reasoning_content"), turn.get("value", turn.get("content")))
        for turn in turns
        if isinstance(turn, dict) and turn.get("from", turn.get("role")) in roles
    ]


def with_thoughts(thoughts: Any, said: Any) -> Any:
    """What a model said, behind what it thought where that stands apart.

    >>> with_thoughts("2 + 3", "It is 5.")
    '<think>\\n2 + 3\\n</think>\\n\\nIt is 5.'
    """
    if not isinstance(thoughts, str) or not thoughts.strip() or not isinstance(said, str):
        return said
    return f"<think>\n{thoughts}\n</think>\n\n{said}"


def without(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """A row's values but for some columns."""
    return {name: value for name, value in values.items() if name not in names}


def _one_solution(
    row: Row, problem: Any, solution: Any, extra: dict[str, Any]
) -> Problem | Rejected:
    if bad := _bad_text(problem, "problem") or _bad_extra(extra):
        return _rejected(row, bad)
    if bad := _bad_text(solution, "solution"):
        return _rejected(row, bad, problem)
    return Problem(problem, (solution,), kept_names(extra), row.place)


def _rejected(row: Row, bad: tuple[Reason, str], problem: str | None = None) -> Rejected:
    return Rejected("read", bad[0], row.place, bad[1], problem)


def _missing(column: str) -> tuple[Reason, str]:
    return Reason.MISSING_COLUMN, f"The row has no column {column!r}."


def _bad_list(values: Mapping[str, Any], column: str) -> tuple[Reason, str]:
    """Why there is no list with something in it."""
    if column not in values:
        return _missing(column)
    value = values[column]
    if value is None:
        return Reason.NULL_GROUP, f"The column {column!r} is null."
    if value == []:
        return Reason.EMPTY_GROUP, f"The list {column!r} is empty."
    return Reason.NOT_A_LIST, f"The column {column!r} is {type(value).__name__}, not a list."


def _bad_text(value: Any, role: str) -> tuple[Reason, str] | None:
    """Why a value cannot serve as a `"problem"` or a `"solution"`, and a line about it."""
    if value is None:
        return Reason(f"null_{role}"), f"The {role} is null."
    if not isinstance(value, str):
        return Reason(f"{role}_not_text"), f"The {role} is {type(value).__name__}, not text."
    if not value.strip():
        return Reason(f"empty_{role}"), f"The {role} is empty or blank."
    return _not_unicode(role, value)


def _bad_extra(extra: Mapping[str, Any]) -> tuple[Reason, str] | None:
    found = (_not_unicode(f"column {name!a}", [name, extra[name]]) for name in extra)
    return next(filter(None, found), None)


def _not_unicode(what: str, value: Any) -> tuple[Reason, str] | None:
    """Whether text in a value cannot be written as UTF-8, which Parquet and JSON need."""
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        said = f"The {what} holds half of a surrogate pair and cannot be written."
        return Reason.NOT_UNICODE, said
    return None


def numbered_solutions(values: Values) -> Values:
    """A row with a solution in each of several numbered columns, as DeepMath's.

    >>> row = {"question": "2 + 2?", "r1_solution_1": "4.", "r1_solution_2": "Four.", "topic": "a"}
    >>> numbered_solutions(row)
    {'topic': 'a', 'problem': '2 + 2?', 'solutions': ['4.', 'Four.']}
    """
    numbers = {name: int(match[1]) for name in values if (match := NUMBERED.fullmatch(name))}
    order = sorted(numbers, key=numbers.__getitem__)
    return {
        **without(values, "question", *order),
        "problem": values.get("question"),
        "solutions": [values[name] for name in order if values[name] is not None],
    }


def s1k_solutions(values: Values) -> Values:
    """A row of s1K or s1K-1.1: each trace of thoughts with the answer that was given after it.

    s1K-1.1 has a grade for both models, "Yes" or "No", which becomes the mark.
    """
    solutions, marks = [], []
    for grade, *pair in S1K:
        thoughts, attempt = (values.get(name) for name in pair)
        if isinstance(thoughts, list):
            thoughts = thoughts[0] if thoughts else None
        if thoughts and attempt:
            solutions.append(f"<think>\n{thoughts}\n</think>\n\n{attempt}")
            graded = str(values.get(grade)).strip().lower()
            marks.append({"yes": True, "no": False}.get(graded))
    turned = without(values, "question", *(name for _, *pair in S1K for name in pair))
    turned |= {"problem": values.get("question"), "solutions": solutions}
    return turned if set(marks) <= {None} else {**turned, "correct": marks}


def prompt_and_completion(values: Values) -> Values:
    """A row of TRL's prompt-completion type, whose two sides may be lists of messages.

    >>> prompt_and_completion({"prompt": "2 + 2?", "completion": [{"from": "gpt", "value": "4"}]})
    {'conversations': [{'from': 'user', 'value': '2 + 2?'}, {'from': 'gpt', 'value': '4'}]}
    """
    turns: list[Any] = []
    for side, role in (("prompt", "user"), ("completion", "assistant")):
        said = values.get(side)
        turns += said if isinstance(said, list) else [{"from": role, "value": said}]
    return {**without(values, "prompt", "completion"), "conversations": turns}


def _turned(turn: Callable[[Values], Values], read: ReadRow = grouped_items) -> ReadRow:
    """Read a row after it was turned into one whose columns are called as by default."""
    return lambda row, _: read(replace(row, values=turn(row.values)), Columns())


# How rows are read, what they need, and whether each holds one solution.
GROUPED = (grouped_items, ("problem", "solutions"), False)
PAIRS = (flat_row, ("problem", "solution"), True)
MESSAGES = (conversation_row, ("conversations",), True)

LAYOUTS = Registry(
    "layout",
    RowLayout,
    {
        "grouped": RowLayout("a problem and its solutions in each row", *GROUPED),
        # Its `solution` is a reference text; the sampled solutions are the list.
        "openr1-math": RowLayout(
            "a problem and its generations, as OpenR1-Math", *GROUPED, {"solutions": "generations"}
        ),
        "openmathreasoning": RowLayout(
            "one solution a row, as OpenMathReasoning", *PAIRS, {"solution": "generated_solution"}
        ),
        "flat": RowLayout("a problem and one solution in each row", *PAIRS),
        "openthoughts": RowLayout("a question and an answer as messages in each row", *MESSAGES),
        "deepmath": RowLayout(
            "a question and numbered solutions in each row, as DeepMath",
            _turned(numbered_solutions),
            told_by=("question", "r1_solution_1"),
        ),
        "s1k": RowLayout(
            "thoughts and an attempt in each row, as s1K: one solution with a think block",
            _turned(s1k_solutions),
            told_by=("question", "thinking_trajectories", "attempt"),
        ),
        "s1k-1.1": RowLayout(
            "thoughts, attempts and grades of two models in each row, as s1K-1.1",
            _turned(s1k_solutions),
            told_by=("question", "deepseek_thinking_trajectory", "deepseek_attempt"),
        ),
        "limo": RowLayout("one solution a row, as LIMO", *PAIRS, {"problem": "question"}),
        "acereason": RowLayout(
            "one solution a row, as AceReason", *PAIRS, {"problem": "input", "solution": "output"}
        ),
        "prompt-completion": RowLayout(
            "a prompt and a completion in each row, texts or messages, as TRL has them",
            _turned(prompt_and_completion, conversation_row),
            one_each=True,
            told_by=("prompt", "completion"),
        ),
        "messages": RowLayout(
            "a question and an answer as messages, as TRL", *MESSAGES, {"conversations": "messages"}
        ),
    },
    group="rpd.layouts",
)

# Names that other datasets give to the columns; only used to suggest one.
USUAL_NAMES = {
    "problem": ("question", "prompt", "query", "instruction", "input", "task"),
    "solutions": ("responses", "generations", "completions", "answers", "samples", "outputs"),
    "solution": ("response", "generation", "completion", "output", "answer"),
    "conversations": ("conversation", "messages", "dialogue", "turns"),
}


def columns_there(samples: Sequence[Mapping[str, Any]]) -> list[str]:
    """The columns that some rows have together."""
    return list(dict.fromkeys(column for sample in samples for column in sample))


def find_layout(
    samples: Sequence[Mapping[str, Any]],
    name: str,
    columns: Columns,
    layout: str = "auto",
    only: Iterable[str] = (),
) -> str:
    """Tell the layout from the first rows, and see that the columns that it needs are there.

    `only` names further columns that must be.

    Raises:
        InputError: If a column is missing; it lists those there are, and suggests one.

    >>> row = {"problem": "2 + 2?", "solution": "4", "generations": ["It is 4.", "Four."]}
    >>> find_layout([row], "rows.jsonl", Columns())
    'openr1-math'
    """
    there = columns_there(samples)
    if absent := [column for column in only if column not in there]:
        raise _no_column(name, absent, there, " The option only asks for it.")
    if layout == "auto":
        layout = _guess(there, columns)
    one = LAYOUTS.find(layout)
    columns = one.named(columns)
    if missing := [role for role in one.needs if getattr(columns, role) not in there]:
        wanted = {role: getattr(columns, role) for role in missing}
        likely = {role: _likely(role, name, there) for role, name in wanted.items()}
        options = ", ".join(f'{role}="{guess}"' for role, guess in likely.items())
        flags = " ".join(f"--{role}-column {guess}" for role, guess in likely.items())
        how = f" Name it with Columns({options}), on the command line {flags}."
        raise _no_column(name, wanted.values(), there, how)
    if absent := [column for column in one.told_by if column not in there]:
        raise _no_column(name, absent, there, f" The layout {layout} has it.")
    kinds = {type(sample.get(columns.solutions)) for sample in samples}
    if "solutions" in one.needs and str in kinds and list not in kinds:
        raise InputError(
            f"The column {columns.solutions!r} of {name} holds one text a row, not a list. "
            f"Read it as flat rows: --layout flat --solution-column {columns.solutions}."
        )
    return layout


def _guess(there: Sequence[str], columns: Columns) -> str:
    named = asdict(columns).items() - asdict(Columns()).items()
    for name, layout in LAYOUTS.items():
        if layout.well_known and (
            {"solutions", "conversations"} & set(there) or not named <= layout.columns.items()
        ):
            continue
        its = layout.named(columns)
        needed = {*(getattr(its, role) for role in layout.needs), *layout.told_by}
        if needed and needed <= set(there):
            return name
    # Nothing fits: name the layout that needs the fewest columns put right.
    return "flat" if columns.solution in there else "grouped"


def _no_column(name: str, absent: Iterable[str], there: Sequence[str], how: str) -> InputError:
    columns = f"Its columns are: {', '.join(there) or 'none'}."
    return InputError(f"{name} has no column {' and '.join(map(repr, absent))}. {columns}{how}")


def _likely(role: str, wanted: str, there: Sequence[str]) -> str:
    by_lower = {column.lower(): column for column in there}
    close = difflib.get_close_matches(wanted.lower(), by_lower, n=1, cutoff=0.75)
    usual = [name for name in (*close, role, *USUAL_NAMES[role]) if name in by_lower]
    return by_lower[usual[0]] if usual else "..."
