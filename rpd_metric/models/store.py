"""A store of every reply a model ever gave, so that no reply is paid for twice.

One SQLite file (`reply_file.py`), safe for several threads and processes at once. A reply is kept
under the hash of everything that decided it (model, prompt template, messages, sampling,
schema) and as raw text, so that a better parser needs no new call. A reply is on file when
`put` returns: killing the process afterwards loses nothing. A power cut may take the last
moments with it (the file stays sound), which is the price of not waiting for the disk on each
reply.

What it leaves out: the requests themselves (they can be made again and would be far larger
than the replies), parsing, and the choice of where the file lives. The file must be on a local
disk, because WAL does not work over a network file system.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from rpd_metric.errors import InputError, OutputError
from rpd_metric.models.chat import ChatReply, ChatRequest
from rpd_metric.models.reply_file import COLUMNS, ReplyFile

_READ = f"SELECT {', '.join(COLUMNS)}, crc, key FROM replies"
# A reply that ended by itself within the limit would have been the same; one that was cut at a
# larger limit would have been cut at this one, too.
_OF_ANOTHER_LENGTH = f"""
{_READ} WHERE family = ? AND (
    (finish_reason = 'stop' AND (max_tokens < ? OR completion_tokens <= ?))
    OR (finish_reason = 'length' AND max_tokens > ?)
) ORDER BY finish_reason = 'length', max_tokens, id LIMIT 1
"""
_PAGE = 500


def request_key(model: str, request: ChatRequest) -> str:
    """Hash everything that decides a reply.

    Two requests share a key exactly when a stored reply to one may stand for the other: order
    of dictionary keys and `0` against `0.0` do not matter, everything else does.

    Args:
        model (`str`): The model's name, as the chat client reports it.
        request ([`ChatRequest`]): The request.

    Returns:
        `str`: 64 hexadecimal digits.

    Raises:
        InputError: When the request holds something that JSON cannot express.

    Example:

    ```python
    >>> from rpd_metric.models.chat import ChatRequest
    >>> request = ChatRequest(messages=({"role": "user", "content": "2 + 2?"},))
    >>> request_key("tiny", request)[:12]
    '4a76b0284554'

    ```
    """
    return _hash(model, request, dict(vars(request.sampling)))  # asdict copies deeply


@dataclass(frozen=True)
class RequestKeys:
    """How a request is found in a store.

    Args:
        exact (`str`): See [`request_key`].
        family (`str`): The same, of everything but the limit on the reply's length.
        max_tokens (`int`): That limit.
        model, template (`str`): What a store counts replies by, see [`ChatRequest`].

    Example:

    >>> from rpd_metric.models.chat import ChatRequest, Sampling
    >>> short, long = (
    ...     RequestKeys.of("tiny", ChatRequest((), Sampling(max_tokens=n))) for n in (10, 20)
    ... )
    >>> short.exact == long.exact, short.family == long.family
    (False, True)
    """

    exact: str
    family: str
    max_tokens: int
    model: str
    template: str

    @classmethod
    def of(cls, model: str, request: ChatRequest) -> RequestKeys:
        """The keys of a request."""
        any_length = {**vars(request.sampling), "max_tokens": None}
        return cls(
            request_key(model, request),
            _hash(model, request, any_length),
            request.sampling.max_tokens,
            model,
            request.template,
        )


def _hash(model: str, request: ChatRequest, sampling: dict[str, object]) -> str:
    for name in ("temperature", "top_p"):
        sampling[name] = float(getattr(request.sampling, name))
    content = {
        "model": model,
        "template": request.template,
        "messages": request.messages,
        "sampling": sampling,
        "schema": request.schema,
    }
    try:
        canonical = json.dumps(
            content, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain
        )
    except (TypeError, ValueError) as error:
        raise InputError(f"a chat request must be plain JSON throughout: {error}") from error
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a JSON type")


@dataclass(frozen=True)
class StoreInfo:
    """What a store holds.

    Args:
        path (`str`): The file.
        entries (`int`): Replies in it.
        bytes (`int`): Size on disk, write-ahead log included.
        models (`dict[str, int]`): Replies per model.
        templates (`dict[str, int]`): Replies per prompt template hash.
        oldest (`datetime`, *optional*): When the oldest reply came, in UTC.
        newest (`datetime`, *optional*): When the newest reply came, in UTC.
    """

    path: str
    entries: int
    bytes: int
    models: dict[str, int]
    templates: dict[str, int]
    oldest: datetime | None
    newest: datetime | None


class Replies(Protocol):
    """Where replies are looked up and kept: a [`ReplyStore`], or the way to one elsewhere."""

    def find(self, keys: RequestKeys, *, other_lengths: bool = True) -> ChatReply | None:
        """The stored reply to the request with these keys, or `None`."""
        ...

    def keep(self, keys: RequestKeys, reply: ChatReply) -> ChatReply:
        """Keep a reply, and return the one that is now on file for the request."""
        ...


class ReplyStore:
    """Raw model replies on disk, found again by the request that they answer.

    The first reply to a request stands: a later `put` for the same request changes nothing and
    returns the reply that is on file, so every process works on the same text.

    Args:
        path (`str` or `os.PathLike`): The SQLite file. It and its folder are made when missing.
        create (`bool`): With `False`, a missing file is an error rather than a new store.
        busy_timeout (`float`): Seconds to wait for another process that holds the file.
        clock (`Callable`): Gives the time, in seconds since 1970, that a reply is dated with.

    Raises:
        StoreError: When the file cannot be opened or is something else.

    Example:

    ```python
    >>> import tempfile
    >>> from rpd_metric.models.chat import ChatReply, ChatRequest
    >>> request = ChatRequest(messages=({"role": "user", "content": "2 + 2?"},))
    >>> with tempfile.TemporaryDirectory() as folder, ReplyStore(f"{folder}/r.sqlite") as store:
    ...     _ = store.put("tiny", request, ChatReply(text="4", finish_reason="stop"))
    ...     store.get("tiny", request).text, store.count()
    ('4', 1)

    ```
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        busy_timeout: float = 30.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.file = ReplyFile(path, create=create, busy_timeout=busy_timeout)
        self._clock = clock

    @property
    def path(self) -> Path:
        """The file, absolute."""
        return self.file.path

    def get(
        self, model: str, request: ChatRequest, *, other_lengths: bool = True
    ) -> ChatReply | None:
        """Look up the stored reply to a request.

        Args:
            model (`str`): The model's name.
            request ([`ChatRequest`]): The request.
            other_lengths (`bool`): Whether the reply to the same request with another `max_tokens`
                will do: one that ended by itself within this limit, or one that was cut at a
                larger one.

        Returns:
            [`ChatReply`] with `cached=True`, or `None` when there is none.

        Raises:
            StoreError: When the store cannot be read or the reply in it is damaged.
        """
        return self.find(RequestKeys.of(model, request), other_lengths=other_lengths)

    def put(self, model: str, request: ChatRequest, reply: ChatReply) -> ChatReply:
        """Keep a reply, and return the reply that is now on file for the request.

        Args:
            model (`str`): The model's name.
            request ([`ChatRequest`]): The request.
            reply ([`ChatReply`]): Its raw reply.

        Returns:
            [`ChatReply`]: `reply` itself, or the earlier one when another process was first.

        Raises:
            StoreError: When the reply cannot be written; what was on file stays.
        """
        return self.keep(RequestKeys.of(model, request), reply)

    def find(self, keys: RequestKeys, *, other_lengths: bool = True) -> ChatReply | None:
        """Like `get`, for who has the keys of a request already."""
        rows = self.file.run(f"{_READ} WHERE key = ?", (bytes.fromhex(keys.exact),))
        if not rows and other_lengths:
            limit = keys.max_tokens
            family = bytes.fromhex(keys.family)
            rows = self.file.run(_OF_ANOTHER_LENGTH, (family, limit, limit, limit))
        return self._reply(rows[0]) if rows else None

    def keep(self, keys: RequestKeys, reply: ChatReply) -> ChatReply:
        """Like `put`, for who has the keys of a request already."""
        text = reply.text.encode("utf-8", "surrogatepass")
        row = (
            *(bytes.fromhex(keys.exact), keys.model, keys.template, text, zlib.crc32(text)),
            *(reply.finish_reason, reply.prompt_tokens, reply.completion_tokens),
            *(reply.seconds, self._clock()),
            *(bytes.fromhex(keys.family), keys.max_tokens),
        )
        names = (
            "key, model, template, text, crc, finish_reason, prompt_tokens, completion_tokens,"
            " seconds, created, family, max_tokens"
        )
        try:
            written = self.file.change(
                f"INSERT INTO replies ({names}) VALUES ({', '.join('?' * len(row))})"
                " ON CONFLICT (key) DO NOTHING",
                row,
            )
        except UnicodeEncodeError as error:
            raise self.file.failure(
                "a model or template name holds half a surrogate pair"
            ) from error
        if written:
            return reply
        # Another process may have pruned the earlier reply since; then this one stands.
        return self.find(keys, other_lengths=False) or reply

    def missing(self, model: str, requests: Iterable[ChatRequest]) -> Iterator[ChatRequest]:
        """Go through the requests that the store has no reply to, each once and in order.

        Args:
            model (`str`): The model's name.
            requests (`Iterable` of [`ChatRequest`]): What a run would send; read lazily.

        Yields:
            [`ChatRequest`]: Those that a run would have to send.

        Raises:
            StoreError: When the store cannot be read.
        """
        seen: set[bytes] = set()
        stream = iter(requests)
        while page := list(islice(stream, _PAGE)):
            wanted: dict[bytes, ChatRequest] = {}
            for request in page:
                key = bytes.fromhex(request_key(model, request))
                if key not in seen:
                    wanted[key] = request
            seen.update(wanted)
            marks = ", ".join("?" * len(wanted))
            rows = self.file.run(f"SELECT key FROM replies WHERE key IN ({marks})", tuple(wanted))
            found = {row[0] for row in rows}
            yield from (
                request
                for key, request in wanted.items()
                if key not in found and self.get(model, request) is None
            )

    def seconds_per_reply(self, model: str) -> float | None:
        """How fast a model's server was: seconds in which it was at work, per reply.

        Replies that overlapped in time count their common time once, and so does the time in
        which nothing was asked not at all. The latest 1,000 replies are looked at.

        Args:
            model (`str`): The model's name.

        Returns:
            `float`, *optional*: `None` where no reply says how long it took.
        """
        rows = self.file.run(
            "SELECT created - seconds, created FROM replies"
            " WHERE model = ? AND seconds IS NOT NULL ORDER BY created DESC LIMIT 1000",
            (model,),
        )
        busy, until = 0.0, -math.inf
        for began, ended in sorted(rows):
            busy += max(0.0, ended - max(began, until))
            until = max(until, ended)
        return busy / len(rows) if rows else None

    def count(self) -> int:
        """Count the stored replies."""
        return int(self.file.run("SELECT count(*) FROM replies")[0][0])

    def size(self) -> int:
        """The size on disk, write-ahead log included."""
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def info(self) -> StoreInfo:
        """Sum up what the store holds."""
        groups = self.file.run(
            "SELECT model, template, count(*), min(created), max(created) FROM replies"
            " GROUP BY model, template"
        )
        models: dict[str, int] = {}
        templates: dict[str, int] = {}
        for model, template, count, _, _ in groups:
            models[model] = models.get(model, 0) + count
            templates[template] = templates.get(template, 0) + count
        return StoreInfo(
            path=str(self.path),
            entries=sum(models.values()),
            bytes=self.size(),
            models=models,
            templates=templates,
            oldest=_moment(min((group[3] for group in groups), default=None)),
            newest=_moment(max((group[4] for group in groups), default=None)),
        )

    def prune(
        self,
        *,
        model: str | None = None,
        template: str | None = None,
        older_than: timedelta | None = None,
    ) -> int:
        """Delete the replies that meet every condition given, and give the space back.

        Args:
            model (`str`, *optional*): Replies of this model.
            template (`str`, *optional*): Replies to prompts of this template hash.
            older_than (`timedelta`, *optional*): Replies that came longer ago than this.

        Returns:
            `int`: How many replies were deleted.

        Raises:
            InputError: When no condition is given.
            StoreError: When the store cannot be written.
        """
        conditions: list[str] = []
        values: list[Any] = []
        if model is not None:
            conditions.append("model = ?")
            values.append(model)
        if template is not None:
            conditions.append("template = ?")
            values.append(template)
        if older_than is not None:
            conditions.append("created < ?")
            values.append(self._clock() - older_than.total_seconds())
        if not conditions:
            raise InputError(
                "prune needs a condition (model, template or older_than); "
                "to drop everything, delete the file"
            )
        where = " AND ".join(conditions)
        deleted = 0
        # In pages, so that other processes wait for moments only.
        while gone := self.file.change(
            f"DELETE FROM replies WHERE id IN (SELECT id FROM replies WHERE {where} LIMIT {_PAGE})",
            values,
        ):
            deleted += gone
        for _ in range(self.file.run("PRAGMA freelist_count")[0][0]):
            # From Python it frees one page per call, however many are asked for.
            self.file.run("PRAGMA incremental_vacuum")
        self.file.run("PRAGMA wal_checkpoint(TRUNCATE)")
        return deleted

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write every reply as one JSON line, oldest entry first.

        The file appears under its name only when it is complete.

        Args:
            path (`str` or `os.PathLike`): The JSONL file to write; replaced when it exists.

        Returns:
            `int`: How many lines were written.

        Raises:
            OutputError: When the file cannot be written.
            StoreError: When the store cannot be read.
        """
        target = Path(path)
        partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
        count = 0
        try:
            try:
                with partial.open("w", encoding="ascii") as lines:
                    for row in self._rows():
                        # ASCII escapes carry a lone surrogate, which UTF-8 refuses.
                        lines.write(json.dumps(row) + "\n")
                        count += 1
                partial.replace(target)
            finally:
                partial.unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(f"cannot write {target}: {error.strerror}") from error
        return count

    def copy(self, path: str | os.PathLike[str]) -> None:
        """Write a copy of the whole store to another file, also while others write to this one.

        Args:
            path (`str` or `os.PathLike`): The file, on a local disk; replaced when it exists.

        Raises:
            OutputError: When the file cannot be written.
            StoreError: When the store cannot be read.
        """
        target = Path(path)
        try:
            target.unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(f"cannot replace {target}: {error.strerror}") from error
        self.file.run("VACUUM INTO ?", (str(target),))

    def close(self) -> None:
        """Close the file; closing twice does no harm."""
        self.file.close()

    def __enter__(self) -> ReplyStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _rows(self) -> Iterator[dict[str, Any]]:
        # By id rather than in one long read, which would keep the log from being folded in.
        last = 0
        while rows := self.file.run(
            f"{_READ.replace('SELECT', 'SELECT id,', 1)} WHERE id > ? ORDER BY id LIMIT {_PAGE}",
            (last,),
        ):
            last = rows[-1][0]
            for _, *row in rows:
                values = dict(zip(COLUMNS, row, strict=False))
                yield {"key": row[-1].hex(), **values, "text": self._reply(row).text}

    def _reply(self, row: Sequence[Any]) -> ChatReply:
        _, _, text, finish_reason, prompt_tokens, completion_tokens, seconds, _, crc, key = row
        if zlib.crc32(text) != crc:
            raise self.file.explained(sqlite3.DatabaseError(f"malformed: reply {key.hex()}"))
        return ChatReply(
            text=text.decode("utf-8", "surrogatepass"),
            finish_reason=finish_reason,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            seconds=seconds,
            cached=True,
        )


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, tz=UTC)
