"""The store of model replies: nothing that was put is lost, whatever happens to the process."""

import dataclasses
import multiprocessing
import resource
import signal
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rpd_metric.errors import StoreError
from rpd_metric.models import store as store_module
from rpd_metric.models.chat import ChatReply, ChatRequest, Sampling
from rpd_metric.models.store import ReplyStore, RequestKeys, request_key

ROOT = Path(__file__).parents[3]


def ask(content: str, **changes) -> ChatRequest:
    return ChatRequest(messages=({"role": "user", "content": content},), **changes)


def get(store, model, request):
    return store.find(RequestKeys.of(model, request))


def put(store, model, request, reply):
    return store.keep(RequestKeys.of(model, request), reply)


HEADER = """
import sys
from rpd_metric.errors import StoreError
from rpd_metric.models.chat import ChatReply, ChatRequest
from rpd_metric.models.store import ReplyStore, RequestKeys

def put(store, model, request, reply):
    return store.keep(RequestKeys.of(model, request), reply)
"""


def run_python(code: str, *arguments: object, **options) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", HEADER + textwrap.dedent(code), *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "replies.sqlite"


@pytest.fixture
def store(path):
    with ReplyStore(path) as opened:
        yield opened


# Keeping and finding


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(), max_size=50))
def test_a_reply_comes_back_whole_nul_and_lone_surrogates_included(store, text):
    reply = ChatReply(text, "stop", prompt_tokens=7, completion_tokens=3, seconds=1.5)
    put(store, "m", ask(text), reply)
    assert get(store, "m", ask(text)) == dataclasses.replace(reply, cached=True)


def test_a_reply_keeps_who_answered_and_rows_of_before_that_was_kept_are_read(store):
    reply = ChatReply("r", "stop", model="m-2", system_fingerprint="fp_1", host="example.org")
    put(store, "m", ask("new"), reply)
    assert get(store, "m", ask("new")).served_by == ("m-2", "fp_1", "example.org")
    # As versions before that wrote it.
    text = b'{"text": "r", "finish_reason": "stop", "prompt_tokens": 7, "completion_tokens": 3, '
    text += b'"seconds": 1.5, "reasoning": null}'
    keys = RequestKeys.of("m", ask("old"))
    key, family = bytes.fromhex(keys.exact), bytes.fromhex(keys.family)
    values = (key, family, keys.max_tokens, b"m", 1.7e9, 1.5, text)
    digest = store_module._digest(values)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as file:
        file.execute(f"INSERT INTO raw_replies VALUES ({', '.join('?' * 8)})", (*values, digest))
    old = get(store, "m", ask("old"))
    assert (old, old.served_by) == (ChatReply("r", "stop", 7, 3, 1.5, cached=True), None)


def test_the_order_of_keys_and_the_kind_of_number_are_no_part_of_the_key():
    one = ChatRequest(
        ({"role": "user", "content": "q"},), Sampling(temperature=0), {"a": 1, "b": {"c": 2}}
    )
    two = ChatRequest(
        (MappingProxyType({"content": "q", "role": "user"}),),
        Sampling(temperature=0.0),
        MappingProxyType({"b": MappingProxyType({"c": 2}), "a": 1}),
    )
    assert request_key("m", one) == request_key("m", two)


def test_the_key_is_of_all_that_decides_a_reply_and_stays_what_it_was():
    # A change here makes every store in the world worthless: do not adapt the expected value.
    request = ask("What is 2 + 2?", schema={"type": "object"}, template="abc")
    canonical = (
        '{"messages":[{"content":"What is 2 + 2?","role":"user"}],"model":"Qwen/Qwen3-14B",'
        '"sampling":{"max_tokens":2048,"seed":null,"temperature":0.1,"thinking":false,'
        '"top_p":0.95},"schema":{"type":"object"},"template":"abc"}'
    )
    assert request_key("Qwen/Qwen3-14B", request) == sha256(canonical.encode()).hexdigest()


# Threads and processes


def test_processes_may_create_and_write_one_store_at_once(path):
    code = """
    sys.stdin.readline()
    with ReplyStore(sys.argv[1]) as store:
        for number in range(150):
            own = ChatRequest(({"role": "user", "content": f"{sys.argv[2]}-{number}"},))
            common = ChatRequest(({"role": "user", "content": str(number)},))
            put(store, "m", own, ChatReply("own"))
            print(put(store, "m", common, ChatReply(sys.argv[2])).text)
    """
    writers = [run_python(code, path, name, stdin=subprocess.PIPE) for name in "abcd"]
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    seen = [writer.communicate()[0].split() for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * 4
    # Every process worked on the same reply to a request that all of them had made.
    assert seen[0] == seen[1] == seen[2] == seen[3]
    with ReplyStore(path) as store:
        assert store.count() == 4 * 150 + 150


def test_a_forked_process_opens_the_file_anew(store):
    put(store, "m", ask("before"), ChatReply("r"))

    def child() -> None:
        assert get(store, "m", ask("before")) is not None
        put(store, "m", ask("from the child"), ChatReply("r"))

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    assert process.exitcode == 0
    put(store, "m", ask("after"), ChatReply("r"))
    assert get(store, "m", ask("from the child")) is not None
    assert store.count() == 3


def test_kill_9_in_mid_write_leaves_every_reply_that_was_put(path):
    code = """
    store = ReplyStore(sys.argv[1])
    for number in range(10**9):
        request = ChatRequest(({"role": "user", "content": f"{sys.argv[2]}-{number}"},))
        put(store, "m", request, ChatReply("r" * 5000))
        print(number, flush=True)
    """
    for run, lines in enumerate((1, 300)):
        writer = run_python(code, path, run)
        for _ in range(lines):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        # A line may be cut by the kill; whole ones name replies that `put` had returned for.
        said = [line for line in writer.stdout.read().splitlines(keepends=True) if "\n" in line]
        writer.wait()
        last = int(said[-1]) if said else lines - 1
        with ReplyStore(path) as store:
            for number in range(last + 1):
                found = get(store, "m", ask(f"{run}-{number}"))
                assert found is not None
                assert found.text == "r" * 5000
    with closing(sqlite3.connect(path)) as check:
        assert check.execute("PRAGMA integrity_check").fetchone() == ("ok",)


# What can go wrong with the file


def test_a_store_that_another_process_holds_is_named_and_works_again_afterwards(path, monkeypatch):
    monkeypatch.setattr(store_module, "BUSY_SECONDS", 0.05)
    with ReplyStore(path) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        put(store, "m", ask("before"), ChatReply("r"))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"another process holds it.*stop that process"):
            put(store, "m", ask("q"), ChatReply("r"))
        assert get(store, "m", ask("before")) is not None
        other.execute("ROLLBACK")
        put(store, "m", ask("q"), ChatReply("r"))
        assert store.count() == 2
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="another process holds it"):
            ReplyStore(path)


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="needs file size limits")
def test_a_disk_that_takes_no_more_ends_in_one_line_and_keeps_what_was_written(path):
    code = """
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))
    store = ReplyStore(sys.argv[1])
    try:
        for number in range(10_000):
            request = ChatRequest(({"role": "user", "content": str(number)},))
            put(store, "m", request, ChatReply("r" * 20_000))
    except StoreError as error:
        print(number, error)
    """
    said = run_python(code, path).communicate()[0]
    written, message = said.split(" ", 1)
    assert "SQLite says: disk I/O error; check the file, its folder and its disk" in message
    with ReplyStore(path) as store:
        assert 0 < int(written) == store.count()


def database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE bookmarks (key BLOB, reply TEXT)")


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda path: path.write_bytes(b"notes, no database\n" * 100), "not a store of replies"),
        (database, "another program or version made it"),
    ],
)
def test_a_file_that_is_something_else_is_refused_and_left_alone(path, write, said):
    write(path)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=f"{said}.*give another path"):
        ReplyStore(path)
    assert path.read_bytes() == before


# Damage


def filled(path: Path) -> bytes:
    with ReplyStore(path) as store:
        for number in range(40):
            reply = ChatReply(f"{number} " + "r" * 700, "stop", number, 2 * number, 1.5)
            put(store, "m", ask(str(number)), reply)
    return path.read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "replies.sqlite"
    filled(path)
    return path


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_bits_flip_a_reply_is_right_or_absent(path, whole, data):
    for file in path.parent.iterdir():
        file.unlink()
    content = bytearray(whole.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    with suppress(StoreError), ReplyStore(path) as store:  # and nothing else
        for number in range(40):
            found = get(store, "m", ask(str(number)))
            right = ChatReply(f"{number} " + "r" * 700, "stop", number, 2 * number, 1.5, True)
            assert found in (None, right)
            if found is None:  # it can be put again
                again = ChatReply("again")
                assert put(store, "m", ask(str(number)), again).text == "again"
                kept = get(store, "m", ask(str(number)))
                assert kept in (None, dataclasses.replace(again, cached=True))
        store.count()


def test_a_malformed_file_is_moved_aside_and_said_in_one_line(path, caplog):
    content = filled(path)
    path.write_bytes(content[:4096] + b"\x55" * (len(content) - 4096))
    with ReplyStore(path) as store:
        assert get(store, "m", ask("1")) is None
        put(store, "m", ask("1"), ChatReply("again"))
        assert get(store, "m", ask("1")) == ChatReply("again", cached=True)
    (said,) = caplog.messages
    (aside,) = path.parent.glob(f"{path.name}.damaged-*[0-9]")
    assert "\n" not in said
    assert f"it is now {aside.name}, and its replies will be asked for again" in said


def test_a_path_where_no_store_can_be_is_named(path, tmp_path):
    with pytest.raises(StoreError, match="no such file"):
        ReplyStore(path, create=False)
    assert not path.exists()
    (tmp_path / "file").touch()
    for wrong in (tmp_path / "file" / "replies.sqlite", tmp_path):
        with pytest.raises(StoreError, match="unable to open database file"):
            ReplyStore(wrong)


# Replies to requests that differ in their limit only


@pytest.mark.parametrize(
    ("kept_at", "finish", "tokens", "asked_at", "found"),
    [
        (300, "stop", 120, 600, True),
        (300, "stop", None, 600, True),
        (300, "length", 300, 600, False),
        (600, "length", 600, 300, True),
        (600, "stop", 250, 300, True),
        (600, "stop", 450, 300, False),
        (600, "stop", None, 300, False),
    ],
)
def test_a_reply_answers_another_limit_where_it_would_have_been_the_same_or_cut(
    path, kept_at, finish, tokens, asked_at, found
):
    def at(limit):
        return ChatRequest(({"role": "user", "content": "q"},), Sampling(max_tokens=limit))

    with ReplyStore(path) as store:
        put(store, "m", at(kept_at), ChatReply("text", finish, 10, tokens))
        assert (get(store, "m", at(asked_at)) is not None) == found
        other = ChatRequest(({"role": "user", "content": "another"},), Sampling(max_tokens=kept_at))
        assert get(store, "m", other) is None
