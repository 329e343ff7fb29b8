"""Actions of an agent's run: what it did, read from its calls of tools, without their results.

An action is a kind (look, search, edit, run, test, ask) and an object: a file, a query or a
command. Paths are relative to the folder that the run worked in, where it is known, and numbers
that a machine drew are removed. A tool that is not in the tables is an action of its own name.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

VERSION = "1"

Call = tuple[str, Any]  # the tool's name, and its arguments
# An object is cut after so many characters: programs are passed as arguments, too.
_LONGEST = 240


def _by_word(kinds: Mapping[str, str]) -> dict[str, str]:
    return {word: kind for kind, words in kinds.items() for word in words.split()}


# The tools of Claude Code, Codex, SWE-agent, OpenHands and Inspect, by the end of their names.
_TOOLS = _by_word(
    {
        "look": "read read_file view view_image open goto ls list_dir list_directory list_files "
        "notebookread webfetch fetch",
        "search": "grep glob grep_search file_search find_file search_dir search_file "
        "codebase_search websearch web_search toolsearch",
        "edit": "edit write multiedit notebookedit write_file create create_file edit_file "
        "str_replace insert replace delete_file",
        "ask": "askuserquestion request_user_input ask_user",
        "run": "python ipython execute_ipython_cell code_interpreter",
        "shell": "bash shell sh exec_command shell_command local_shell execute_bash exec "
        "bash_session run_command cmd_run terminal",
    }
)
# One tool that views and edits files, by its argument `command`.
_EDITORS = ("str_replace_editor", "str_replace_based_edit_tool", "text_editor")
_OBJECTS = (
    *("pattern", "query", "search_term", "queries", "file_path", "path", "notebook_path"),
    *("filename", "file_name", "file", "target_file", "dir", "url"),
    *("question", "questions", "code", "input", "command"),
)
_PLACES = ("path", "dir", "file_path", "file")

# "" are commands that only prepare others; a wrapper starts the command that follows it.
_COMMANDS = _by_word(
    {
        "look": "cat head tail less more bat ls tree pwd wc stat file nl diff",
        "search": "grep egrep fgrep rg ag ack find fd locate which",
        "edit": "tee touch mkdir rm mv cp patch chmod ln",
        "": "cd export set source . echo printf true sleep apply_patch for done fi esac { }",
        "wrapper": "sudo time timeout env nohup command exec npx uv uvx poetry pipenv hatch bundle "
        "do then else if while !",
    }
)
_GIT = {
    **dict.fromkeys(("status", "diff", "show", "log", "blame", "ls-files"), "look"),
    **dict.fromkeys(("apply", "checkout", "restore", "stash", "mv", "rm"), "edit"),
    "grep": "search",
}
_WRITES = ("cat", "echo", "printf")
_OF_WRAPPER = re.compile(r"run|exec|-.*|[\d.]+[smh]?")
_ASSIGNMENT = re.compile(r"\w+=")
_TEST = re.compile(
    r"(?:\S*/)?(?:runtests\S*|py\.?test|tox|nox|jest|vitest|ctest|rspec|phpunit|bats)(?= |$)"
    r"|python\S* (?:-\w+ )*?(?:-m (?:pytest|unittest)|\S*manage\.py test"
    r"|(?:\S*/)?(?:test_\w+|\w+_test|runtests)\.py)(?= |$)"
    r"|(?:npm|yarn|pnpm|bun|go|cargo|make|mvn|gradle|\S*gradlew|dotnet|mix|swift) "
    r"(?:run )?(?:test|check)\S*"
)
_MODULE = re.compile(r"^(?:\S*/)?python[\d.]* -m (?=pytest|unittest)")
_COMMENT = re.compile(r"^\s*#.*$", re.M)
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*)\n(.*?)(?:\n?\s*\2(?=\s|$)|\Z)", re.S)
_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+?)\s*$", re.M)
_PATCH = re.compile(r"\*\*\* Begin Patch.*?(?:\*\*\* End Patch|\Z)", re.S)
_CHANGES_FOLDER = re.compile(r"(?:^|[;&\n]\s*)cd\s+(/[^\s;&|]+)")
# Names of temporary files, hashes, process numbers and times.
_DRAWN = re.compile(
    r"(?<=/tmp)[._]?\w{6,10}(?=[/.\s'\"]|$)|\b(?=[a-f]*\d)[0-9a-f]{8,}\b|\b\d{5,}\b"
)
_DRAWN_IN_TMP = re.compile(r"(?<=/tmp/)[^\s'\"]+")
_DIGITS = re.compile(r"[-_.]?\d+")


def actions(calls: Iterable[Call], folder: str = "") -> list[str]:
    """The actions of a run in their order; equal ones that follow each other are one.

    Args:
        calls: The name and the arguments of each call of a tool.
        folder (`str`): The absolute path that the run worked in. If it is empty, the first one
            that a call names.

    >>> shell = {"command": "cd /repo/app && cat src/add.py; python -m pytest -q tests | tail -5"}
    >>> actions([("Bash", shell), ("Edit", {"file_path": "/repo/app/src/add.py"})])
    ['look src/add.py', 'test pytest tests', 'edit src/add.py']
    """
    calls = list(calls)
    folder = folder or next(filter(None, map(_folder_of, calls)), "")
    done = (action for name, arguments in calls for action in _actions(name, arguments))
    texts = (_normalised(f"{kind} {what}", folder) for kind, what in done)
    return [text for text, _ in groupby(texts)]


def _actions(name: str, arguments: Any) -> Iterator[tuple[str, str]]:
    # Servers of tools put their own name first: mcp__files__read_file, functions.shell.
    short = re.split(r"__|[.:/]", name)[-1].lower()
    values = arguments if isinstance(arguments, Mapping) else {"input": arguments or ""}
    command = _command_of(values)
    patched = _PATCHED.findall(command)
    if patched:
        yield from (("edit", file) for file in patched)
        command = _PATCH.sub("", command)
    if _TOOLS.get(short) == "shell":
        yield from _shell(command)
    elif short in _EDITORS:
        yield "look" if values.get("command") == "view" else "edit", _object(values, _PLACES)
    elif short in _TOOLS:
        kind = _TOOLS[short]
        places = _object(values, _PLACES) if kind == "search" else ""
        what = _object(values, _PLACES + _OBJECTS if kind == "edit" else _OBJECTS)
        yield kind, what if places in ("", what) else f"{what} in {places}"
    elif not patched:
        listed = " ".join(f"{key}={_text(value)}" for key, value in values.items() if value != "")
        yield name, listed


def _object(values: Mapping[str, Any], names: Iterable[str]) -> str:
    return next((_text(values[name]) for name in names if values.get(name)), "")


def _text(value: Any) -> str:
    """An argument as text; of a list its parts, of an object its question or its values."""
    if isinstance(value, Mapping):
        return _text(value.get("question") or value.get("path") or [*value.values()])
    return " ".join(map(_text, value)) if isinstance(value, list) else str(value)


def _command_of(values: Mapping[str, Any]) -> str:
    """The command of a shell's call; of `["bash", "-lc", COMMAND]` the last part."""
    value = values.get("command") or values.get("cmd") or values.get("input") or ""
    if not isinstance(value, list):
        return str(value)
    parts = [str(part) for part in value]
    inner = len(parts) == 3 and parts[1] in ("-c", "-lc")
    return parts[2] if inner else shlex.join(parts)


def _folder_of(call: Call) -> str:
    values = call[1] if isinstance(call[1], Mapping) else {}
    if str(values.get("workdir") or "").startswith("/"):
        return str(values["workdir"])
    match = _CHANGES_FOLDER.search(_command_of(values))
    return match[1] if match else ""


def _shell(command: str) -> Iterator[tuple[str, str]]:
    """The actions of a shell's command: one for each pipeline, by its first program."""
    # What a program is fed becomes its last argument.
    text = _HEREDOC.sub(lambda match: f"{shlex.quote(match[4])} {match[3]}", command)
    text = _COMMENT.sub("", text).strip().replace("\\\n", " ")
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";|&<>\n")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    try:
        tokens = list(lexer)
    except ValueError:  # a quote is not closed
        tokens = text.split()
    words: list[str] = []
    written, piped, seen = "", False, False
    after = ""
    for token in [*tokens, ";"]:
        if after:
            written = token if after in (">", ">>") and not token.startswith("/dev/") else written
            after = ""
        elif set(token) <= set("<>&") and set(token) & set("<>"):
            after = token
            if words and words[-1] in ("1", "2"):
                words.pop()
        elif token == "|":
            piped = True
        elif set(token) <= set(";|&\n"):
            if (action := _program(words, written)) is not None:
                yield action
                seen = True
            words, written, piped = [], "", False
        elif not piped:
            words.append(token)
    if not seen and text and _COMMANDS.get(text.split()[0]) != "":
        yield "run", text


def _program(words: list[str], written: str) -> tuple[str, str] | None:
    """The action of a program with its arguments; `None` if it only prepares others."""
    words = _unwrapped(words)
    if not words:
        return None
    line = " ".join(words)
    program, rest = words[0].rpartition("/")[2], words[1:]
    plain = [word for word in rest if not word.startswith("-")]
    if written and program in _WRITES:
        return "edit", written
    if _TEST.match(line):
        line = _MODULE.sub("", line)
        return "test", " ".join(word for word in line.split(" ") if not word.startswith("-"))
    if _COMMANDS.get(program) == "":
        return None
    if program == "sed":
        in_place = any(word.startswith("-i") for word in rest)
        return ("edit" if in_place else "look"), " ".join(plain[1:])
    if program == "git" and plain:
        kind, what = _GIT.get(plain[0], "run"), " ".join(plain[1:])
        return (kind, what) if kind == "search" else (kind, f"git {' '.join(plain)}")
    if program == "find":
        named = [word for word in rest[1:] if not word.startswith("-") and word not in "fd"]
        return "search", " in ".join(filter(None, (" ".join(named), *rest[:1])))
    if program in _COMMANDS:
        kind = _COMMANDS[program]
        if kind == "search":
            where = " ".join(plain[1:])
            return kind, " in ".join(filter(None, (*plain[:1], where))) or line
        files = [word for word in plain if not word.isdigit()]
        return kind, " ".join(files) or program
    return "run", line


def _unwrapped(words: list[str]) -> list[str]:
    wrapped = False
    for place, word in enumerate(words):
        starts = _COMMANDS.get(word) == "wrapper" or (wrapped and _OF_WRAPPER.fullmatch(word))
        if not starts and not _ASSIGNMENT.match(word):
            return words[place:]
        wrapped = wrapped or bool(starts)
    return []


def _normalised(text: str, folder: str) -> str:
    """An action without what differs between equal runs: the folder, and numbers drawn."""
    if folder.strip("/"):
        inside = rf"(?<![\w/.-]){re.escape(folder.rstrip('/'))}"
        text = re.sub(rf"{inside}/?(?=[\s'\"]|$)", ".", text)
        text = re.sub(rf"{inside}/", "", text)
    text = _DRAWN_IN_TMP.sub(lambda match: _DIGITS.sub("", match[0]), _DRAWN.sub("", text))
    text = " ".join(re.sub(r"(?<=\s)\./", "", text).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
