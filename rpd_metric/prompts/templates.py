"""Prompt templates: text files with placeholders, named by the hash of their content.

A template is a text with up to two sections, each opened by a line of its own:

    [system]
    fixed instructions; the same for every request of a run, so that prefix caches hit
    [user]
    {{problem}}
    {{solution}}

Without section lines the whole text is one user message, for models that know no system role.
Placeholders inside a value are left as they are. Texts that are not ours go through [`fence`].
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path

from rpd_metric.errors import InputError

_PLACEHOLDER = re.compile(r"\{\{([a-z_]\w*)\}\}")
_SECTION = re.compile(r"^\[(system|user)\][ \t]*\n", re.MULTILINE)


@dataclass(frozen=True)
class PromptTemplate:
    """A prompt with placeholders."""

    name: str
    text: str

    @cached_property
    def sha(self) -> str:
        """SHA-256 of the text in UTF-8, in hex: what `sha256sum` says of the file."""
        return hashlib.sha256(self.text.encode("utf-8")).hexdigest()

    @cached_property
    def placeholders(self) -> frozenset[str]:
        """The names that [`render`] needs values for."""
        return frozenset(_PLACEHOLDER.findall(self.text))

    def render(self, **values: object) -> tuple[Mapping[str, str], ...]:
        """The messages with values in place of the placeholders; other values are ignored."""
        # The template is split before anything is filled in: a value cannot open a section.
        return tuple(
            {"role": role, "content": _PLACEHOLDER.sub(lambda match: str(values[match[1]]), body)}
            for role, body in self._sections
        )

    @cached_property
    def _sections(self) -> list[tuple[str, str]]:
        before, *rest = _SECTION.split(self.text)
        if not rest:
            return [("user", self.text.strip())]
        sections = [(rest[i], rest[i + 1].strip()) for i in range(0, len(rest), 2)]
        roles = [role for role, _ in sections]
        if before.strip() or roles not in (["user"], ["system", "user"]):
            raise InputError(
                f"the prompt template {self.name!r} must be an optional [system] section followed "
                f"by one [user] section, with nothing before them; found: "
                f"{', '.join((['text'] if before.strip() else []) + roles)}"
            )
        return sections


def load_template(
    name_or_path: str | Path,
    *,
    required: Sequence[str] = ("problem", "solution"),
    optional: Sequence[str] = ("min_steps", "max_steps"),
) -> PromptTemplate:
    """Load a packaged template by its name, or a file of the user's own.

    Args:
        name_or_path (`str` or `Path`): A packaged name (`"summarize"`, ...), which wins over a
            file of that name (`"./summarize"`), or the path of a UTF-8 text file.
        required, optional (sequence of `str`): Placeholders that must, and that may, occur.
    """
    folder = resources.files("rpd_metric").joinpath("prompts")
    packaged = sorted(file.name[:-3] for file in folder.iterdir() if file.name.endswith(".md"))
    if str(name_or_path) in packaged:
        file = folder.joinpath(f"{name_or_path}.md")
        template = PromptTemplate(str(name_or_path), file.read_text(encoding="utf-8"))
    else:
        path = Path(name_or_path)
        try:
            template = PromptTemplate(path.name, path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"the prompt template {str(name_or_path)!r} cannot be read as UTF-8 text: {error}; "
                f"packaged are {', '.join(packaged)}"
            ) from error

    missing = set(required) - template.placeholders
    if missing:
        raise InputError(
            f"the prompt template {str(name_or_path)!r} lacks {_in_braces(missing)}; "
            "put it where that text belongs"
        )
    unknown = template.placeholders - {*required, *optional}
    if unknown:
        raise InputError(
            f"the prompt template {str(name_or_path)!r} has {_in_braces(unknown)}, which nothing "
            f"fills in; it may use {_in_braces([*required, *optional])}"
        )
    template.render(**dict.fromkeys(template.placeholders, ""))  # raises if sections are wrong
    return template


def sendable(text: str) -> str:
    """A text as servers take it: UTF-8 has no lone surrogates, and many refuse NUL.

    >>> sendable("x\\0 + \\ud800")
    'x + ?'
    """
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "")


def fence(label: str, text: str) -> str:
    """Put a text that is not ours between two tags that it cannot contain: they carry its hash.

    The same text always gets the same tags, so that caches of prompts and replies keep working.

    >>> print(fence("solution", "Add both sides."))
    <solution-cae42bd9>
    Add both sides.
    </solution-cae42bd9>
    """
    code = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"<{label}-{code}>\n{text}\n</{label}-{code}>"


def _in_braces(names: Sequence[str] | set[str] | frozenset[str]) -> str:
    return ", ".join("{{" + name + "}}" for name in sorted(names))
