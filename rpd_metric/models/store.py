"""A store of every reply a model ever gave, so that no reply is paid for twice.

One SQLite file in WAL mode, on a local disk, safe for threads, processes and forks. A reply is kept
as raw text under the hash of everything that decided it, and is on file when `put` returns: killing
the process loses nothing, a power cut perhaps the last moments. A row that cannot be read, or fails
its checksum, is as good as none. A file that SQLite calls malformed is moved aside.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rpd_metric.errors import InputError, StoreError
from rpd_metric.models.chat import ChatReply, ChatRequest

logger = logging.getLogger(__name__)

# Seconds to wait for another process that holds the file.
BUSY_SECONDS = 30.0

# Blobs throughout: text may hold NUL or half a surrogate pair, which SQLite's own does not carry.
_TABLE = (
    "raw_replies (key BLOB PRIMARY KEY, family BLOB, max_tokens INTEGER, model BLOB,"
    " created REAL, seconds REAL, reply BLOB, digest BLOB)"
)
_NAMES = "key, family, max_tokens, model, created, seconds, reply, digest"
_READ = f"SELECT {_NAMES} FROM raw_replies"
_INSERT = f"INTO raw_replies ({_NAMES}) VALUES ({', '.join('?' * 8)}) RETURNING 1"

_ERRORS = (sqlite3.Error, UnicodeDecodeError)  # names of tables may be damaged, too
_DAMAGED = re.compile("malformed|can't decode")
# What SQLite says, and what a person can do about it.
_FIXES = {
    "locked": "another process holds it; stop that process or let it finish",
    "disk is full": "the disk is full; free some space or move the file to a larger disk",
    "not a database": "it is not a store of replies; give another path or move that file away",
}


@dataclass(frozen=True)
class RequestKeys:
    """How a request is found: by its [`request_key`], or that of all but `max_tokens`."""

    exact: str
    family: str
    max_tokens: int
    model: str

    @classmethod
    def of(cls, model: str, request: ChatRequest) -> RequestKeys:
        """The keys of a request."""
        family = request_key(model, request, max_tokens=None)
        return cls(request_key(model, request), family, request.sampling.max_tokens, model)


def request_key(model: str, request: ChatRequest, **changes: object) -> str:
    """Hash everything that decides a reply, to 64 hexadecimal digits.

    `0` and `0.0` make the same key. `changes` are of the sampling. Raises [`InputError`].
    """
    sampling = request.sampling
    numbers = {"temperature": float(sampling.temperature), "top_p": float(sampling.top_p)}
    content: dict[str, Any] = {
        "model": model,
        "template": request.template,
        "messages": request.messages,
        "sampling": {**vars(sampling), **numbers, **changes},  # asdict copies deeply
        "schema": request.schema,
    }
    if request.stop:  # replies that were kept before there was such a thing are found
        content["stop"] = request.stop
    try:
        canonical = json.dumps(
            content, sort_keys=True, separators=(",", ":"), allow_nan=False, default=dict
        )
    except (TypeError, ValueError) as error:
        raise InputError(f"a chat request must be plain JSON throughout: {error}") from error
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


class Replies(Protocol):
    """Where replies are looked up and kept: a [`ReplyStore`], or the way to one elsewhere."""

    def find(self, keys: RequestKeys) -> ChatReply | None:
        """See [`ReplyStore`]."""

    def keep(self, keys: RequestKeys, reply: ChatReply) -> ChatReply:
        """See [`ReplyStore`]."""


class ReplyStore:
    """Raw model replies on disk, found again by the request that they answer.

    The first reply to a request is kept, so that every process works on the same text. The file and
    its folder are made when missing, unless `create` is false. Methods raise [`StoreError`].
    """

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True) -> None:
        self.path = Path(path).absolute()
        self._lock = threading.Lock()
        self._inherited: list[sqlite3.Connection | None] = []
        if create:
            with suppress(OSError):  # SQLite says what is wrong
                self.path.parent.mkdir(parents=True, exist_ok=True)
        elif not self.path.exists():
            raise self._failure("there is no such file; check the path, or start a run first")
        self._pid = os.getpid()
        self._connection: sqlite3.Connection | None = self._open()

    def find(self, keys: RequestKeys) -> ChatReply | None:
        """The stored reply, with `cached=True`; `None` where none can be read.

        The reply to the same request with another `max_tokens` will do: one that ended by itself
        within this limit, or one that was cut at a larger one.
        """
        replies = self._family(keys)
        if keys.max_tokens in replies:
            return replies[keys.max_tokens]
        cut = None
        for limit, reply in sorted(replies.items()):
            length = min(limit, reply.completion_tokens or limit)
            if reply.finish_reason == "stop" and length <= keys.max_tokens:
                return reply
            if reply.finish_reason == "length" and limit > keys.max_tokens:
                cut = cut or reply
        return cut

    def keep(self, keys: RequestKeys, reply: ChatReply) -> ChatReply:
        """Keep a reply; returns it, or the earlier one (`cached=True`) if another was first."""
        fields = {name: value for name, value in vars(reply).items() if name != "cached"}
        text = json.dumps(fields, ensure_ascii=False)
        key, family = bytes.fromhex(keys.exact), bytes.fromhex(keys.family)
        created, model = time.time(), _blob(keys.model)
        values = (key, family, keys.max_tokens, model, created, reply.seconds, _blob(text))
        row = (*values, _digest(values))
        if self._run(f"INSERT OR IGNORE {_INSERT}", row):
            return reply
        earlier = self._family(keys).get(keys.max_tokens)
        if earlier is None:  # it cannot be read any more
            self._run(f"INSERT OR REPLACE {_INSERT}", row)
        return earlier or reply

    def count(self) -> int:
        """Count the stored replies."""
        return int(self._run("SELECT count(*) FROM raw_replies")[0][0])

    def close(self) -> None:
        """Close the file; closing twice does no harm."""
        with self._lock:
            if self._connection is not None and self._pid == os.getpid():
                self._connection.close()
            self._connection = None

    # Not from AbstractContextManager: Ray makes an actor of this class, and fails at its
    # `__class_getitem__`.
    def __enter__(self) -> ReplyStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _family(self, keys: RequestKeys) -> dict[int, ChatReply]:
        family = bytes.fromhex(keys.family)
        rows = self._run(f"{_READ} WHERE family = ?", (family,))
        return {row[2]: reply for row in rows if row[1] == family and (reply := _reply(row))}

    def _run(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        if self._pid != os.getpid():
            # After a fork the parent's connection must not be used, nor closed by being dropped.
            self._lock = threading.Lock()
            self._inherited.append(self._connection)
            self._connection = self._connection and self._open()
            self._pid = os.getpid()
        with self._lock:
            if self._connection is None:
                raise self._failure("it has been closed; open it again")
            try:
                return self._connection.execute(statement, values).fetchall()
            except _ERRORS as error:
                if not _DAMAGED.search(str(error)):
                    raise self._failure(error) from error
                self._connection.close()
                self._move_aside()
                self._connection = self._open()
        return self._run(statement, values)

    def _open(self) -> sqlite3.Connection:
        give_up = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return self._connect()
            except _ERRORS as error:
                if _DAMAGED.search(str(error)):
                    self._move_aside()
                # No busy timeout holds while another process switches a new file to WAL.
                elif "locked" not in str(error) or time.monotonic() > give_up:
                    raise self._failure(error) from error
                time.sleep(0.02)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        connection.text_factory = bytes  # what is damaged may be no text
        try:
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
            if tables and b"raw_replies" not in tables:
                raise self._failure("another program or version made it; give another path")
            if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != b"wal":
                raise self._failure("its disk does not support WAL; put it on a local disk")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"CREATE TABLE IF NOT EXISTS {_TABLE}")
            connection.execute("CREATE INDEX IF NOT EXISTS by_family ON raw_replies (family)")
            return connection
        except BaseException:
            connection.close()
            raise

    def _move_aside(self) -> None:
        """Move the damaged file aside, so that a new one takes its place."""
        aside = self.path.with_name(f"{self.path.name}.damaged-{time.time_ns()}")
        try:
            for end in ("-wal", "-shm", ""):
                with suppress(FileNotFoundError):
                    Path(f"{self.path}{end}").rename(f"{aside}{end}")
        except OSError as error:
            raise self._failure(f"it is damaged, and cannot be moved aside: {error}") from error
        message = "the store %s was damaged: it is now %s, and its replies will be asked for again"
        logger.warning(message, self.path, aside.name)

    def _failure(self, what: str | Exception) -> StoreError:
        if isinstance(what, Exception):
            other = f"SQLite says: {what}; check the file, its folder and its disk"
            what = next((fix for sign, fix in _FIXES.items() if sign in str(what)), other)
        return StoreError(f"the store {self.path} cannot be used: {what}. Stored replies are kept.")


def _blob(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _digest(values: Sequence[Any]) -> bytes:
    return hashlib.blake2b(repr(tuple(values)).encode(), digest_size=16).digest()


def _reply(row: Sequence[Any]) -> ChatReply | None:
    """The reply in a row; `None` where it is not what was written."""
    *values, digest = row
    if digest != _digest(values):
        return None
    return ChatReply(**json.loads(values[-1].decode("utf-8", "surrogatepass")), cached=True)
