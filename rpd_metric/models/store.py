"""A store of every reply a model ever gave, so that no reply is paid for twice.

One SQLite file in WAL mode, on a local disk, safe for several threads and processes at once, a
process that forks included. A reply is kept under the hash of everything that decided it, and as
raw text, so that a better parser needs no new call. It is on file when `put` returns: killing the
process afterwards loses nothing. A power cut may take the last moments with it, which is the price
of not waiting for the disk on each reply.

A row that cannot be read, or fails its checksum, is as good as none: its request is sent again. A
file that SQLite calls malformed is moved aside, and what can be read of it is copied.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

from rpd_metric.errors import InputError, StoreError
from rpd_metric.models.chat import ChatReply, ChatRequest

logger = logging.getLogger(__name__)

# Blobs throughout: text may hold NUL or half a surrogate pair, which SQLite's own does not carry.
_TABLE = (
    "raw_replies (id INTEGER PRIMARY KEY, key BLOB UNIQUE, family BLOB, max_tokens INTEGER,"
    " model BLOB, template BLOB, created REAL, seconds REAL, reply BLOB, digest BLOB)"
)
_NAMES = "key, family, max_tokens, model, template, created, seconds, reply, digest"
_READ = f"SELECT {_NAMES} FROM raw_replies"
_INSERT = f"INTO raw_replies ({_NAMES}) VALUES ({', '.join('?' * 9)}) RETURNING id"

# SQLite's errors may quote what is damaged and is no text any more.
_ERRORS = (sqlite3.Error, UnicodeDecodeError)
# What SQLite says, and what a person can do about it.
_FIXES = {
    "locked": "another process holds it; stop that process or let it finish",
    "disk is full": "the disk is full; free some space or move the file to a larger disk",
    "not a database": "it is not a store of replies; give another path or move that file away",
    "readonly": "it is read-only; check the permissions of the file and of its folder",
    "unable to open": "it cannot be opened; check that its folder exists and may be written to",
    "disk I/O error": "the disk refused; check its free space, quota and health",
}


@dataclass(frozen=True)
class RequestKeys:
    """How a request is found in a store.

    Args:
        exact (`str`): See [`request_key`].
        family (`str`): The same, of everything but the limit on the reply's length.
        max_tokens (`int`): That limit.
        model, template (`str`): What a store counts replies by, see [`ChatRequest`].
    """

    exact: str
    family: str
    max_tokens: int
    model: str
    template: str

    @classmethod
    def of(cls, model: str, request: ChatRequest) -> RequestKeys:
        """The keys of a request."""
        family = _hash(model, request, max_tokens=None)
        limit = request.sampling.max_tokens
        return cls(request_key(model, request), family, limit, model, request.template)


def request_key(model: str, request: ChatRequest) -> str:
    """Hash everything that decides a reply, to 64 hexadecimal digits.

    Two requests share a key exactly when a stored reply to one may stand for the other: order
    of dictionary keys and `0` against `0.0` do not matter, everything else does.

    Raises:
        InputError: When the request holds something that JSON cannot express.

    >>> request_key("tiny", ChatRequest(({"role": "user", "content": "2 + 2?"},)))[:12]
    '4a76b0284554'
    """
    return _hash(model, request)


def _hash(model: str, request: ChatRequest, **changes: object) -> str:
    sampling = request.sampling
    numbers = {"temperature": float(sampling.temperature), "top_p": float(sampling.top_p)}
    content = {
        "model": model,
        "template": request.template,
        "messages": request.messages,
        "sampling": {**vars(sampling), **numbers, **changes},  # asdict copies deeply
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
    """What a store holds: replies in all, per model and per template's hash; dates in UTC."""

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
        path (`str` or `os.PathLike`): The file. It and its folder are made when missing.
        create (`bool`): With `False`, a missing file is an error rather than a new store.
        busy_timeout (`float`): Seconds to wait for another process that holds the file.

    Raises:
        StoreError: When the file cannot be opened or is something else; so do all methods when
            it cannot be used.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, create: bool = True, busy_timeout: float = 30.0
    ) -> None:
        self.path = Path(path).absolute()
        self._busy_timeout = busy_timeout
        self._lock = threading.Lock()
        self._inherited: list[sqlite3.Connection | None] = []
        if create:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise self._failure(f"its folder cannot be made ({error.strerror})") from error
        elif not self.path.exists():
            raise self._failure("there is no such file; check the path, or start a run first")
        self._pid = os.getpid()
        self._connection: sqlite3.Connection | None = self._opened()

    def get(
        self, model: str, request: ChatRequest, *, other_lengths: bool = True
    ) -> ChatReply | None:
        """The stored reply to a request, with `cached=True`; `None` where none can be read.

        With `other_lengths`, the reply to the same request with another `max_tokens` will do: one
        that ended by itself within this limit, or one that was cut at a larger one.
        """
        return self.find(RequestKeys.of(model, request), other_lengths=other_lengths)

    def put(self, model: str, request: ChatRequest, reply: ChatReply) -> ChatReply:
        """Keep a reply; returns it, or the earlier one (`cached=True`) if another was first."""
        return self.keep(RequestKeys.of(model, request), reply)

    def find(self, keys: RequestKeys, *, other_lengths: bool = True) -> ChatReply | None:
        """Like `get`, for who has the keys of a request already."""
        key, family = bytes.fromhex(keys.exact), bytes.fromhex(keys.family)
        for row in self._run(f"{_READ} WHERE key = ?", (key,)):
            if row[0] == key and (reply := _reply(row)):
                return reply
        rows = self._run(f"{_READ} WHERE family = ?", (family,)) if other_lengths else []
        found = [(row[2], reply) for row in rows if row[1] == family and (reply := _reply(row))]
        limit = keys.max_tokens
        # A reply that was cut at a larger limit would have been cut at this one, too; one that
        # ended by itself within the limit would have been the same.
        cut = None
        for kept_at, reply in sorted(found, key=itemgetter(0)):
            tokens = reply.completion_tokens
            if reply.finish_reason == "length" and kept_at > limit:
                cut = cut or reply
            elif reply.finish_reason == "stop" and (
                kept_at < limit or (tokens is not None and tokens <= limit)
            ):
                return reply
        return cut

    def keep(self, keys: RequestKeys, reply: ChatReply) -> ChatReply:
        """Like `put`, for who has the keys of a request already."""
        said = {name: value for name, value in vars(reply).items() if name != "cached"}
        model, template, text = (
            one.encode("utf-8", "surrogatepass")
            for one in (keys.model, keys.template, json.dumps(said, ensure_ascii=False))
        )
        key, family = bytes.fromhex(keys.exact), bytes.fromhex(keys.family)
        values = (key, family, keys.max_tokens, model, template, time.time(), reply.seconds, text)
        row = (*values, _digest(values))
        if self._run(f"INSERT OR IGNORE {_INSERT}", row):
            return reply
        earlier = self.find(keys, other_lengths=False)
        if earlier is None:  # it cannot be read any more
            self._run(f"INSERT OR REPLACE {_INSERT}", row)
        return earlier or reply

    def missing(self, model: str, requests: Iterable[ChatRequest]) -> Iterator[ChatRequest]:
        """Go through the requests that the store has no reply to, each once and in order."""
        seen: set[str] = set()
        for request in requests:
            keys = RequestKeys.of(model, request)
            if keys.exact not in seen and self.find(keys) is None:
                seen.add(keys.exact)
                yield request

    def seconds_per_reply(self, model: str) -> float | None:
        """Seconds in which a model's server was at work, per reply; `None`: no reply says.

        Replies that overlapped in time count their common time once, and time in which nothing
        was asked does not count. The latest 1,000 replies are looked at.
        """
        rows = self._run(
            "SELECT created - seconds, created FROM raw_replies WHERE model = ? AND"
            " typeof(created) = 'real' AND typeof(seconds) = 'real'"
            " ORDER BY created DESC LIMIT 1000",
            (model.encode("utf-8", "surrogatepass"),),
        )
        busy, until = 0.0, -math.inf
        for began, ended in sorted(rows):
            busy += max(0.0, ended - max(began, until))
            until = max(until, ended)
        return busy / len(rows) if rows else None

    def count(self) -> int:
        """Count the stored replies."""
        return int(self._run("SELECT count(*) FROM raw_replies")[0][0])

    def info(self) -> StoreInfo:
        """Sum up what the store holds."""

        def counts(name: str) -> dict[str, int]:
            query = f"SELECT CAST({name} AS BLOB), count(*) FROM raw_replies GROUP BY 1 ORDER BY 1"
            return {(key or b"").decode("utf-8", "replace"): n for key, n in self._run(query)}

        dates = "SELECT min(created), max(created) FROM raw_replies WHERE typeof(created) = 'real'"
        oldest, newest = self._run(dates)[0]
        files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return StoreInfo(
            path=str(self.path),
            entries=self.count(),
            bytes=sum(file.stat().st_size for file in files if file.exists()),
            models=counts("model"),
            templates=counts("template"),
            oldest=oldest and datetime.fromtimestamp(oldest, tz=UTC),
            newest=newest and datetime.fromtimestamp(newest, tz=UTC),
        )

    def close(self) -> None:
        """Close the file; closing twice does no harm."""
        with self._lock:
            if self._connection is not None and self._pid == os.getpid():
                self._connection.close()
            self._connection = None

    def __enter__(self) -> ReplyStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """Run a statement, which commits by itself, and return its rows."""
        if self._pid != os.getpid():
            # After a fork. The parent's connection must be neither used nor closed here, and a
            # thread of the parent may have held the lock.
            self._lock = threading.Lock()
            self._inherited.append(self._connection)
            self._connection = self._connection and self._opened()
            self._pid = os.getpid()
        with self._lock:
            if self._connection is None:
                raise self._failure("it has been closed; open it again")
            try:
                return self._connection.execute(statement, values).fetchall()
            except _ERRORS as error:
                if not _malformed(error):
                    raise self._explained(error) from error
                self._connection.close()
                self._connection = self._moved_aside()
        return self._run(statement, values)

    def _opened(self) -> sqlite3.Connection:
        give_up = time.monotonic() + self._busy_timeout
        while True:
            try:
                return self._open()
            except _ERRORS as error:
                if _malformed(error):
                    return self._moved_aside()
                # Switching a new file to WAL fails at once, without the busy timeout, while
                # another process is doing the same.
                if "locked" not in str(error) or time.monotonic() > give_up:
                    raise self._explained(error) from error
                time.sleep(0.02)

    def _open(self) -> sqlite3.Connection:
        # One connection, used by one thread at a time (`_lock`).
        connection = sqlite3.connect(
            self.path, timeout=self._busy_timeout, isolation_level=None, check_same_thread=False
        )
        connection.text_factory = bytes  # what is damaged may be no text
        try:
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
            if tables and b"raw_replies" not in tables:
                whose = "an earlier version" if b"replies" in tables else "another program"
                raise self._failure(f"{whose} made it; give another path or move that file away")
            if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != b"wal":
                raise self._failure("its disk does not support WAL; put it on a local disk")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"CREATE TABLE IF NOT EXISTS {_TABLE}")
            connection.execute("CREATE INDEX IF NOT EXISTS by_family ON raw_replies (family)")
            return connection
        except BaseException:
            connection.close()
            raise

    def _moved_aside(self) -> sqlite3.Connection:
        """Move the damaged file aside, and open a new one with what can be read of it."""
        aside = self.path.with_name(f"{self.path.name}.damaged-{time.time_ns()}")
        try:
            for end in ("-wal", "-shm", ""):
                with suppress(FileNotFoundError):
                    Path(f"{self.path}{end}").rename(f"{aside}{end}")
            connection = self._open()
        except (OSError, *_ERRORS) as error:
            raise self._failure(f"it is damaged, and cannot be moved aside: {error}") from error
        for order in ("ASC", "DESC"):  # what comes before the damage, and behind it
            with suppress(*_ERRORS), closing(sqlite3.connect(aside)) as damaged:
                damaged.text_factory = bytes
                for row in damaged.execute(f"{_READ} ORDER BY id {order}"):
                    if _reply(row):
                        connection.execute(f"INSERT OR IGNORE {_INSERT}", row).fetchall()
        saved = connection.execute("SELECT count(*) FROM raw_replies").fetchone()[0]
        logger.warning(
            "the store %s was damaged: it is now %s; %s replies could be read and are kept, the "
            "others will be asked for again",
            *(self.path, aside.name, f"{saved:,}"),
        )
        return connection

    def _explained(self, error: Exception) -> StoreError:
        fixes = [fix for sign, fix in _FIXES.items() if sign in str(error)]
        return self._failure(*fixes or [f"SQLite says: {error}; check the file, then run again"])

    def _failure(self, what: str) -> StoreError:
        return StoreError(f"the store {self.path} cannot be used: {what}. Stored replies are kept.")


def _malformed(error: Exception) -> bool:
    return isinstance(error, UnicodeDecodeError) or "malformed" in str(error)


def _digest(values: Sequence[Any]) -> bytes:
    return hashlib.blake2b(repr(tuple(values)).encode(), digest_size=16).digest()


def _reply(row: Sequence[Any]) -> ChatReply | None:
    """The reply in a row; `None` where it is not what was written."""
    *values, digest = row
    if digest != _digest(values):
        return None
    return ChatReply(**json.loads(values[-1].decode("utf-8", "surrogatepass")), cached=True)
