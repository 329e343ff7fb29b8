"""The errors this project raises for its users.

    RPDError
    ├── InputError             rows, arrays or arguments that cannot be used as given
    │   └── SpecError          a model spec string that names nothing we can load
    ├── PluginError            a part of another package that failed or broke its contract
    ├── MissingExtraError      an optional dependency that is not installed
    ├── ModelError             a model or server failed, or its files are not what they claim
    │   ├── ReplyError         a model's reply that cannot be turned into steps or a verdict
    │   └── ServerError        one request failed                        (models/failures.py)
    ├── Interrupted            the run was asked to stop                 (models/failures.py)
    ├── BudgetSpent            requests, tokens or money are used up     (models/failures.py)
    ├── ServerUnavailable      request after request fails               (models/failures.py)
    ├── StoreError             the store of model replies cannot be read or written
    ├── SandboxError           untrusted programs cannot be contained    (grading/isolation.py)
    └── OutputError            a result that cannot be written where it was asked for

Every message says what is wrong and how to fix it: the command line prints it as
one line and exits with a non-zero status. Anything that is not an `RPDError` is a bug
and keeps its traceback.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PLACEHOLDER = re.compile(r"\{([a-z_]+)(?:=([^{}]*))?\}")


def first_line(error: BaseException) -> str:
    """The first line of what another library's exception says, or its type where it says nothing.

    >>> first_line(OSError("no such model\\nHere are twenty lines of advice."))
    'no such model'
    >>> first_line(ValueError())
    'ValueError'
    """
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def parameter(name: str, value: str | None) -> str:
    """An option as Python names it: `seed`, or `soundness="rules"` with a value."""
    if value is None:
        return name
    plain = value in ("True", "False", "None") or value.isdigit()
    return f"{name}={value}" if plain else f'{name}="{value}"'


class RPDError(Exception):
    """Base class of every error this project raises on purpose.

    The command line and Python each name an option in their own way.

    Args:
        message (`str`): What is wrong and how to mend it, in one line. `{name}` and `{name=value}`
            stand for an option.
        option (`str` or `tuple[str, ...]`): The options that the message names.

    >>> error = RPDError("{num_proc} must be >= 1, got 0", option="num_proc")
    >>> str(error), error.worded(lambda name, _: "--" + name.replace("_", "-"))
    ('num_proc must be >= 1, got 0', '--num-proc must be >= 1, got 0')
    """

    def __init__(self, message: str = "", *, option: str | tuple[str, ...] = ()) -> None:
        self.template = message
        self.options = (option,) if isinstance(option, str) else option
        super().__init__(self.worded(parameter))

    def worded(self, name_of: Callable[[str, str | None], str]) -> str:
        """The message, with every option as `name_of` writes its name and its value."""

        def written(match: re.Match[str]) -> str:
            return name_of(match[1], match[2]) if match[1] in self.options else match[0]

        return _PLACEHOLDER.sub(written, self.template)


class InputError(RPDError, ValueError):
    """Rows, arrays or arguments that cannot be used as given."""


class PluginError(RPDError):
    """A part of another package failed, or what it returned breaks its contract."""


class SpecError(InputError):
    """A model spec such as `"tgi:http://host:port"` that names nothing we can load."""


def check_least(least: int, owner: object, *names: str) -> None:
    """Refuse attributes of `owner` that are set and below `least`. Raises [`InputError`]."""
    for name in names:
        value = getattr(owner, name)
        if value is not None and value < least:
            raise InputError(f"{{{name}}} must be >= {least}, got {value}", option=name)


def install_line(extra: str) -> str:
    """How to install an extra of this project."""
    command = f"pip install -c constraints.txt -e '.[{extra}]'"
    return f"{command} in the checkout, or install the wheel with [{extra}]"


class MissingExtraError(RPDError, ImportError):
    """An optional dependency is not installed; the message says how to install it.

    Args:
        what (`str`): The feature that was asked for, e.g. `'embedder="minilm"'`.
        extra (`str`): The extra of this project that installs it, e.g. `"offline"`.
        module (`str`): The module whose import failed.
    """

    def __init__(self, what: str, *, extra: str, module: str) -> None:
        message = f"{what} needs the package {module!r}, which is not installed"
        super().__init__(f"{message}: run {install_line(extra)}")


@contextmanager
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """Turn an import that fails within into a [`MissingExtraError`]."""
    try:
        yield
    except ImportError as error:
        module = error.name or first_line(error)
        raise MissingExtraError(what, extra=extra, module=module) from error


class ModelError(RPDError):
    """A model or a server failed, or its files are not what they claim to be."""


class ReplyError(ModelError):
    """A model's reply cannot be turned into steps or a verdict.

    Args:
        reason (`str`): What failures are counted by, see [`~rpd_metric.reasons.Reason`].
        detail (`str`): One line for a person.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class StoreError(RPDError):
    """The store of model replies cannot be read or written."""


class OutputError(RPDError, OSError):
    """A result cannot be written where it was asked for."""
