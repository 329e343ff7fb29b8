"""The layouts that rows come in, one table, how a row of each is taken apart, and which one fits.

A bad solution costs only itself, a bad problem its row. Texts are never altered; `gathering.py`
joins the rows of a problem. Usual column names and some well-known datasets need no options
(docs/formats.md); options are never overruled. `filters/answer_checks.py` finds the columns with
marks and reference answers.
"""

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from textwrap import shorten
from typing import Any

from rpd_datasets.inputs.raw_rows import ID_NAMES, PROMPT_NAMES, Row
from rpd_datasets.messages import (
    FOLDER,
    TRAJECTORIES,
    Message,
    Trajectory,
    as_json,
    as_turns,
    conversation,
    identity_of,
    is_plain,
    make_trajectory,
    messages_of,
    prompt_text,
    role_of,
    solution_text,
)
from rpd_datasets.options import documented, option
from rpd_datasets.problem import Problem, Rejected
from rpd_metric.errors import InputError, PluginError
from rpd_metric.plugins import Registry, border
from rpd_metric.reasons import Reason

# Ids of problems; `id` and `custom_id` are nearly always those of a row.
PROBLEM_IDS = ("problem_id", "task_id", "question_id", "instance_id", "prompt_id")


@documented
@dataclass(frozen=True)
class Columns:
    """What the columns are called in the input."""

    problem: str = option(
        "problem", "column with the problem", name="problem_column", metavar="NAME"
    )
    solutions: str = option(
        "solutions", "column with a list of solutions", name="solutions_column", metavar="NAME"
    )
    solution: str = option(
        "solution", "column with one solution per row", name="solution_column", metavar="NAME"
    )
    conversations: str = option(
        "conversations", "column with messages", name="conversations_column", metavar="NAME"
    )


ReadRow = Callable[..., Iterable[Problem | Rejected]]  # of a Row and Columns


@dataclass(frozen=True)
class RowLayout:
    """How rows hold problems and solutions.

    Args:
        description (`str`): In words.
        read (`Callable`): From a row to its problem and rejects.
        needs (`tuple[str, ...]`): The fields of [`Columns`] whose columns must be there.
        one_each (`bool`): Whether a row holds one solution; such rows are gathered by problem.
        told_by (`tuple[str, ...]`): The columns that identify a well-known dataset.
    """

    description: str
    read: ReadRow
    needs: tuple[str, ...] = ()
    one_each: bool = False
    told_by: tuple[str, ...] = ()

    def items(self, row: Row, columns: Columns, **options: Any) -> list[Problem | Rejected]:
        """What a row holds. A row that another package's layout cannot read costs only itself."""
        what = f"the layout {self.description!r}"
        try:
            with border(what, self.read):
                items = list(self.read(row, columns, **options))
                for item in items:
                    texts = (item.problem, *item.solutions) if isinstance(item, Problem) else ()
                    if not isinstance(item, Problem | Rejected):
                        raise PluginError(f"{what} returned a {type(item).__name__}")
                    if not all(isinstance(text, str) for text in texts):
                        raise PluginError(f"{what} returned a Problem with other than texts")
        except _Unusable as bad:
            return [Rejected("read", bad.reason, row.place, str(bad), bad.problem)]
        except PluginError as error:
            return [Rejected("read", Reason.PLUGIN_FAILED, row.place, str(error))]
        return items


class _Unusable(InputError):
    """Why a row has no problem with solutions."""

    def __init__(self, reason: Reason, detail: str, problem: str | None = None) -> None:
        super().__init__(detail)
        self.reason, self.problem = reason, problem


def kept_names(extra: Mapping[str, Any]) -> dict[str, Any]:
    """The other columns; names that later stages use are prefixed with `original_`."""
    taken = ("problem", "solutions")
    return {f"original_{key}" if key in taken else key: value for key, value in extra.items()}


def grouped_items(row: Row, columns: Columns) -> Iterator[Problem | Rejected]:
    """Take apart a row with a problem and a list of solutions: first rejects, then the problem."""
    prompt = _messages(_column(row, columns.problem), "user")
    text, extra = (
        _text(prompt, prompt_text),
        without(row.values, columns.problem, columns.solutions),
    )
    _check_text(text, "problem")
    _check_columns(extra)
    replies = _column(row, columns.solutions, text)
    if not isinstance(replies, list) or not replies:
        raise _no_list(columns.solutions, replies, text)
    ends = [reply.get("finish_reason") if isinstance(reply, dict) else None for reply in replies]
    if any(ends):
        extra.setdefault("finish_reason", ends)
    wholes = [make_trajectory(prompt, _answers(reply), extra.get("tools")) for reply in replies]
    solutions = tuple(_text(whole["completion"], solution_text) for whole in wholes)
    identity = ""
    if not all(map(is_plain, wholes)):
        extra = without(extra, "tools")
        extra[TRAJECTORIES] = [None if is_plain(whole) else as_json(whole) for whole in wholes]
        identity = identity_of(prompt)
    # Solutions of other types are given up below; Problem only ever holds text.
    problem = Problem(text, solutions, kept_names(extra), row.place, row.group, identity)
    usable = []
    for index, solution in enumerate(solutions):
        try:
            _check_text(solution, "solution")
            _check_unicode("conversation", wholes[index])
            usable.append(index)
        except _Unusable as bad:
            yield problem.rejected("read", bad.reason, str(bad), solution_index=index)
    if usable:
        yield problem.take(usable) if len(usable) < len(solutions) else problem
    else:
        detail = "None of its solutions can be used."
        yield problem.rejected("read", Reason.NO_USABLE_SOLUTION, detail)


def flat_row(row: Row, columns: Columns) -> Iterator[Problem]:
    """Take apart a row with a problem and one solution."""
    extra = without(row.values, columns.problem, columns.solution)
    prompt, reply = _column(row, columns.problem), row.values.get(columns.solution)
    whole = make_trajectory(_messages(prompt, "user"), _answers(reply), extra.get("tools"))
    yield _one_solution(row, whole, extra)


def conversation_row(row: Row, columns: Columns, turn: int | None = None) -> Iterator[Problem]:
    """Take apart a row with messages, `{"from", "value"}` or `{"role", "content"}` each.

    The prompt ends before the model's first answer, and the solution is all up to its last one; or
    the solution is answer number `turn`, and the prompt everything before it.
    """
    value = _column(row, columns.conversations)
    if not (messages := conversation(value)):
        if not isinstance(value, list) or not value:
            raise _no_list(columns.conversations, value)
        odd = next((turn for turn in value if role_of(turn) is None), None)
        detail = shorten(f"A turn has no role that is known: {odd}", 200)
        raise _Unusable(Reason.NOT_ONE_EXCHANGE, detail)
    extra = without(row.values, columns.conversations)
    (system, *_) = _messages(extra.get("system") or extra.get("system_prompt"), "system")
    if str(system["content"] or "").strip() and messages[0]["role"] != "system":
        messages.insert(0, system)
    roles = [message["role"] for message in messages]
    answers = [at for at, role in enumerate(roles) if role == "assistant"]
    usable = [at for at in answers if "user" in roles[:at]]
    if turn is not None:
        usable = [at for at in answers[turn - 1 : turn] if at in usable]
    if not usable:
        models = f"Of {len(messages)} messages {len(answers)} are a model's"
        raise _Unusable(Reason.NOT_ONE_EXCHANGE, f"{models}; none is the answer wanted.")
    metadata = extra.get("metadata")
    if isinstance(metadata, dict) and FOLDER in metadata:  # as in the traces of `datasets`
        extra.setdefault(FOLDER, metadata[FOLDER])
    prompt, completion = messages[: usable[0]], messages[usable[0] : usable[-1] + 1]
    whole = make_trajectory(prompt, completion, extra.get("tools") or extra.get("functions"))
    ids = (str(extra[name]) for name in PROBLEM_IDS if extra.get(name) is not None)
    yield _one_solution(row, whole, extra, next(ids, ""))


def _one_solution(row: Row, whole: Trajectory, extra: dict[str, Any], group: str = "") -> Problem:
    prompt, completion = whole["prompt"], whole["completion"]
    text, solution = _text(prompt, prompt_text), _text(completion, solution_text)
    _check_text(text, "problem")
    _check_columns({**extra, "messages": whole})
    _check_text(solution, "solution", text)
    identity = ""
    if group or not is_plain(whole):
        extra = {**without(extra, "tools"), TRAJECTORIES: as_json(whole)}
        identity = group or identity_of(prompt)
    return Problem(text, (solution,), kept_names(extra), row.place, identity=identity)


def _messages(value: Any, role: str) -> list[Message]:
    """A prompt or a reply as messages: of a text, its parts, turns, or a server's choice."""
    value = value.get("message", value) if isinstance(value, dict) else value
    if messages := conversation(value) or conversation([value]):
        return messages
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    choice = isinstance(value, dict) and not {"role", "from"} & value.keys()
    return messages_of({**(value if choice else {"content": value}), "role": role})


def _answers(reply: Any) -> list[Message]:
    """The messages of a reply, from the model's first one to its last."""
    messages = _messages(reply, "assistant")
    places = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    return messages[places[0] : places[-1] + 1] if places else []


def _text(messages: Sequence[Message], text: Callable[..., str]) -> Any:
    """The text of messages, or in its place the first content that is not text."""
    odd = [turn["content"] for turn in messages if not isinstance(turn["content"], str)]
    return odd[0] if odd else text(messages)


def batch_items(row: Row, columns: Columns) -> Iterator[Problem | Rejected]:
    """Take apart a result of OpenAI's batch API with the prompt of its request."""
    response, error = row.values.get("response"), row.values.get("error")
    body = response.get("body") if isinstance(response, dict) else None
    reply = body if isinstance(body, dict) else {}
    # The items of /v1/responses are one reply.
    texts = reply.get("choices") or ([reply["output"]] if reply.get("output") else [])
    if not texts:
        why = shorten(str(error or reply.get("error") or response), 200)
        raise _Unusable(Reason.MODEL_ERROR, f"The batch has no reply: {why}")
    values = {**without(row.values, "id", "response", "error"), columns.solutions: texts}
    yield from grouped_items(replace(row, values=values), columns)


def without(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """A row's values but for some columns."""
    return {name: value for name, value in values.items() if name not in names}


def _column(row: Row, name: str, problem: str | None = None) -> Any:
    if name not in row.values:
        raise _Unusable(Reason.MISSING_COLUMN, f"The row has no column {name!r}.", problem)
    return row.values[name]


def _no_list(column: str, value: Any, problem: str | None = None) -> _Unusable:
    """Why a column is not a list with entries."""
    reason, what = Reason.NOT_A_LIST, f"{type(value).__name__}, not a list"
    if value is None:
        reason, what = Reason.NULL_GROUP, "null"
    elif value == []:
        reason, what = Reason.EMPTY_GROUP, "empty"
    return _Unusable(reason, f"The column {column!r} is {what}.", problem)


def _check_text(value: Any, role: str, problem: str | None = None) -> None:
    """Refuse what cannot serve as a `"problem"` or a `"solution"`."""
    reason, what = f"{role}_not_text", f"is {type(value).__name__}, not text"
    if value is None:
        reason, what = f"null_{role}", "is null"
    elif isinstance(value, list):
        what = "has parts that are not text, such as an image or a call without a name"
    elif isinstance(value, str):
        reason, what = f"empty_{role}", "is empty or blank"
        if value.strip():
            return _check_unicode(role, value, problem)
    raise _Unusable(Reason(reason), f"The {role} {what}.", problem)


def _check_columns(extra: Mapping[str, Any]) -> None:
    for name, value in extra.items():
        _check_unicode(f"column {name!a}", [name, value])


def _check_unicode(what: str, value: Any, problem: str | None = None) -> None:
    """Refuse text that cannot be written as UTF-8, which Parquet and JSON need."""
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError as error:
        detail = f"The {what} holds half of a surrogate pair and cannot be written."
        raise _Unusable(Reason.NOT_UNICODE, detail, problem) from error


def numbered_items(row: Row, _: Columns) -> Iterator[Problem | Rejected]:
    """Take apart a row with a solution in each of several numbered columns, as DeepMath's.

    >>> row = {"question": "2 + 2?", "r1_solution_1": "4.", "r1_solution_2": "Four.", "topic": "a"}
    >>> [problem] = numbered_items(Row("rows:1", row), Columns())
    >>> problem.problem, problem.solutions, problem.extra
    ('2 + 2?', ('4.', 'Four.'), {'topic': 'a'})
    """
    names = sorted(name for name in row.values if name.startswith("r1_solution_"))
    solutions = [row.values[name] for name in names if row.values[name] is not None]
    values = without(row.values, "question", *names)
    values |= {"problem": row.values.get("question"), "solutions": solutions}
    yield from grouped_items(replace(row, values=values), Columns())


LAYOUTS = Registry(
    "layout",
    RowLayout,
    {
        "grouped": RowLayout(
            "a problem and its solutions", grouped_items, ("problem", "solutions")
        ),
        "flat": RowLayout("a problem and one solution", flat_row, ("problem", "solution"), True),
        "openthoughts": RowLayout(
            "messages, all answers or one (--turn)", conversation_row, ("conversations",), True
        ),
        "deepmath": RowLayout(
            "a question and numbered solutions in each row, as DeepMath",
            numbered_items,
            told_by=("question", "r1_solution_1"),
        ),
        "openai-batch": RowLayout(
            "results of OpenAI's batch API, each with the prompt of its request",
            batch_items,
            ("problem",),
            told_by=("custom_id", "response"),
        ),
    },
    group="rpd.layouts",
)

# What columns are usually called, the first first. `solution` may be a reference text where there
# is a list of solutions, too; names in the singular may hold such a list.
_REPLY = ("response", "completion", "generation", "output")
USUAL_NAMES = {
    "problem": PROMPT_NAMES,
    "solutions": ("solutions", *(f"{name}s" for name in _REPLY), "samples", "choices", *_REPLY),
    "solution": ("generated_solution", "solution", *_REPLY, "solutions"),
    "conversations": ("conversations", "messages"),
}
# Names that may mean something else: only suggested.
LIKELY_NAMES = {"problem": ("instruction", "task"), "solutions": ("answers",)}
LIKELY_NAMES |= {"solution": ("answer",), "conversations": ("conversation", "dialogue", "turns")}


def columns_there(samples: Sequence[Mapping[str, Any]]) -> list[str]:
    """The columns that some rows have together."""
    return list(dict.fromkeys(column for sample in samples for column in sample))


def find_layout(
    samples: Sequence[Mapping[str, Any]],
    name: str,
    columns: Columns,
    layout: str = "auto",
    only: Iterable[str] = (),
) -> tuple[str, Columns]:
    """Find the layout and its columns by the first rows; `only` names further columns they need.

    Raises:
        InputError: A column is missing; lists those that exist, and suggests one.

    >>> row = {"question": "2 + 2?", "solution": "4", "generations": ["It is 4.", "Four."]}
    >>> layout, columns = find_layout([row], "rows.jsonl", Columns())
    >>> layout, columns.problem, columns.solutions
    ('grouped', 'question', 'generations')
    """
    there = columns_there(samples)
    if absent := [column for column in only if column not in there]:
        raise _no_column(name, absent, there, " The option only asks for it.")
    given = layout != "auto"
    layout = layout if given else _guess(samples, columns)
    row_layout = LAYOUTS.find(layout)
    called = {role: _called(role, samples, columns, given) for role in row_layout.needs}
    if missing := {role: column for role, column in called.items() if column not in there}:
        raise _no_column(name, missing.values(), there, _advice(missing, there))
    if absent := [column for column in row_layout.told_by if column not in there]:
        raise _no_column(name, absent, there, f" The layout {layout} has it.")
    column = called.get("solutions", "")
    # A single row may just be a bad one.
    if len(samples) > 1 and all(isinstance(row.get(column), str) for row in samples):
        raise InputError(
            f"{column!r} holds one text per row: use {{solution_column={column}}}",
            option="solution_column",
        )
    return layout, replace(columns, **called)


def _guess(samples: Sequence[Mapping[str, Any]], columns: Columns) -> str:
    there = set(columns_there(samples))
    named = {role for role, name in asdict(columns).items() if name != getattr(Columns, role)}
    if not named and not {"solutions", "conversations"} & there:
        for name, layout in LAYOUTS.items():
            if layout.told_by and there.issuperset(layout.told_by):
                return name
    order = ["grouped", "flat", "openthoughts"]
    if "conversations" in there and columns.problem not in there:
        order.reverse()
    if needed := named - {"problem"}:
        order = [name for name in order if needed.intersection(LAYOUTS[name].needs)]
    for name in order:
        needs = {role: _called(role, samples, columns) for role in LAYOUTS[name].needs}
        if all(_fits(role, column, samples) for role, column in needs.items()):
            return name
    flat = "flat" in order and _called("solution", samples, columns) in there
    return "flat" if flat else order[0]


def _called(
    role: str, samples: Sequence[Mapping[str, Any]], columns: Columns, exactly: bool = False
) -> str:
    """What a column is called: as the options say, else the first usual name that fits."""
    column: str = getattr(columns, role)
    if column != getattr(Columns, role) or (exactly and column in columns_there(samples)):
        return column
    return next((name for name in USUAL_NAMES[role] if _fits(role, name, samples)), column)


def _fits(role: str, name: str, samples: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a column is there and holds what it is read for, by its first value."""
    if name not in columns_there(samples):
        return False
    value = next((row[name] for row in samples if row.get(name) not in (None, [])), None)
    listed = isinstance(value, list) and not as_turns(value)
    if role == "solutions":
        return listed or (value is None and name.endswith("s"))
    if role == "problem" and isinstance(value, list):
        return role_of((as_turns(value) or [None])[-1]) in ("user", "tool")
    return role == "conversations" or not listed


def _no_column(name: str, absent: Iterable[str], there: Sequence[str], advice: str) -> InputError:
    columns = f"Its columns are: {', '.join(there) or 'none'}."
    lacking = list(map(repr, absent))
    lacking_columns = f"column{'s' * (len(lacking) > 1)} {' and '.join(lacking)}"
    return InputError(f"{name} has no {lacking_columns}. {columns}{advice}")


def _advice(missing: Mapping[str, str], there: Sequence[str]) -> str:
    """What to type where columns are missing."""
    by_lower, likely = {column.lower(): column for column in there}, {}
    for role, names in missing.items():
        close = difflib.get_close_matches(names.lower(), by_lower, n=1, cutoff=0.75)
        usual = (*close, role, *USUAL_NAMES[role], *LIKELY_NAMES[role])
        likely[role] = next((by_lower[name] for name in usual if name in by_lower), "...")
    ids = [name for name in ID_NAMES if name in there]
    if likely == {"problem": "..."} and ids:
        advice = (
            f" If another file has the problems by the same {ids[0]}, name it: --prompts FILE, "
        )
        return advice + 'in Python InputSpec(prompts="FILE").'
    options = ", ".join(f'{role}="{guess}"' for role, guess in likely.items())
    flags = " ".join(f"--{role}-column {guess}" for role, guess in likely.items())
    if guess := likely.get("solutions"):
        flags += f" (a list of solutions per row) or --solution-column {guess} (one per row)"
    return f" Name {'it' if len(likely) == 1 else 'them'}: {flags}, in Python Columns({options})."
