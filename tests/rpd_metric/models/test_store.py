"""The store of model replies: nothing that was put is lost, whatever happens to the process."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rpd_metric.errors import InputError, OutputError, StoreError
from rpd_metric.models.chat import ChatReply, ChatRequest, Sampling
from rpd_metric.models.repair_store import salvage
from rpd_metric.models.store import ReplyStore, request_key

ROOT = Path(__file__).parents[3]


def ask(content: str, **changes) -> ChatRequest:
    return ChatRequest(messages=({"role": "user", "content": content},), **changes)


def run_python(code: str, *arguments: object, **options) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
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


def test_a_stored_reply_comes_back_whole_and_marked_as_cached(store):
    reply = ChatReply("text", "stop", prompt_tokens=7, completion_tokens=3, seconds=1.5)
    assert store.put("m", ask("q"), reply) is reply
    assert store.get("m", ask("q")) == dataclasses.replace(reply, cached=True)


def test_a_reply_survives_closing_and_opening(path):
    with ReplyStore(path) as store:
        store.put("m", ask("q"), ChatReply("text"))
    with ReplyStore(path) as store:
        found = store.get("m", ask("q"))
        assert found is not None
        assert found.text == "text"


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(), max_size=50))
def test_any_text_survives_nul_and_lone_surrogates_included(store, text):
    store.put("m", ask(text), ChatReply(text, "stop"))
    found = store.get("m", ask(text))
    assert found is not None
    assert found.text == text


def test_export_carries_nul_and_lone_surrogates(store, tmp_path):
    store.put("m", ask("q"), ChatReply("a\0b\ud800c é 数"))
    store.export(tmp_path / "out.jsonl")
    assert json.loads((tmp_path / "out.jsonl").read_text())["text"] == "a\0b\ud800c é 数"


def test_a_model_name_that_is_no_text_is_refused_clearly(store):
    with pytest.raises(StoreError, match="half a surrogate pair"):
        store.put("m\ud800", ask("q"), ChatReply("text"))


@pytest.mark.parametrize(
    "other",
    [
        ask("another question"),
        ask("q", template="t2"),
        ask("q", schema={"type": "object"}),
        ask("q", sampling=Sampling(temperature=0.2)),
        ask("q", sampling=Sampling(top_p=0.9)),
        ask("q", sampling=Sampling(max_tokens=4096)),
        ask("q", sampling=Sampling(seed=1)),
        ask("q", sampling=Sampling(thinking=True)),
        ChatRequest(messages=({"role": "system", "content": "q"},)),
        ChatRequest(messages=({"role": "user", "content": "q"},) * 2),
    ],
)
def test_whatever_decides_a_reply_is_part_of_its_key(store, other):
    store.put("m", ask("q"), ChatReply("text"))
    assert store.get("m", other) is None


def test_another_model_has_another_key(store):
    store.put("m", ask("q"), ChatReply("text"))
    assert store.get("m2", ask("q")) is None


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


def test_the_key_stays_what_it_was_when_stores_were_written_with_it():
    # A change here makes every store in the world worthless: do not adapt the expected value.
    request = ask("What is 2 + 2?", schema={"type": "object"}, template="abc")
    canonical = (
        '{"messages":[{"content":"What is 2 + 2?","role":"user"}],"model":"Qwen/Qwen3-14B",'
        '"sampling":{"max_tokens":2048,"seed":null,"temperature":0.1,"thinking":false,'
        '"top_p":0.95},"schema":{"type":"object"},"template":"abc"}'
    )
    assert request_key("Qwen/Qwen3-14B", request) == sha256(canonical.encode()).hexdigest()


@pytest.mark.parametrize("schema", [{"a": float("nan")}, {"a": object()}, {"a": {1, 2}}])
def test_a_request_that_is_no_json_is_refused(schema):
    with pytest.raises(InputError, match="plain JSON"):
        request_key("m", ask("q", schema=schema))


def test_the_first_reply_stands_and_the_second_writer_gets_it(store):
    store.put("m", ask("q"), ChatReply("first"))
    assert store.put("m", ask("q"), ChatReply("second")) == ChatReply("first", cached=True)
    assert store.count() == 1


# Planning, counting, pruning, exporting


def test_missing_gives_each_request_without_a_reply_once_and_in_order(store):
    for number in range(0, 2000, 2):
        store.put("m", ask(str(number)), ChatReply("r"))
    wanted = [ask(str(number % 1500)) for number in range(1700)]
    assert list(store.missing("m", wanted)) == [ask(str(number)) for number in range(1, 1500, 2)]


def test_missing_reads_its_input_lazily(store):
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield ask(str(taken))

    missing = store.missing("m", endless())
    assert next(missing) == ask("1")
    assert taken <= 1000


def test_info_sums_up_models_templates_and_dates(path):
    now = 1_700_000_000.0
    with ReplyStore(path, clock=lambda: now) as store:
        store.put("a", ask("1", template="t"), ChatReply("r"))
        now += 60
        store.put("a", ask("2", template="u"), ChatReply("r"))
        store.put("b", ask("2", template="u"), ChatReply("r"))
        info = store.info()
    assert (info.entries, info.models, info.templates) == (3, {"a": 2, "b": 1}, {"t": 1, "u": 2})
    assert info.oldest == datetime.fromtimestamp(1_700_000_000, tz=UTC)
    assert info.newest == info.oldest + timedelta(minutes=1)
    assert info.bytes > 0
    assert info.path == str(path)


def test_info_of_an_empty_store_has_no_dates(store):
    info = store.info()
    assert (info.entries, info.models, info.oldest, info.newest) == (0, {}, None, None)


def test_prune_deletes_what_meets_every_condition_and_shrinks_the_file(path):
    now = 1_700_000_000.0
    with ReplyStore(path, clock=lambda: now) as store:
        for number in range(1200):
            store.put("old", ask(str(number), template="t"), ChatReply("r" * 2000))
        now += 1000
        store.put("old", ask("new", template="t"), ChatReply("r"))
        store.put("other", ask("new", template="t"), ChatReply("r"))
        before = store.info().bytes
        deleted = store.prune(model="old", template="t", older_than=timedelta(seconds=500))
        assert deleted == 1200
        assert store.info().models == {"old": 1, "other": 1}
        assert store.info().bytes < before / 10
        assert store.prune(template="no such template") == 0


def test_prune_without_a_condition_is_refused(store):
    with pytest.raises(InputError, match="needs a condition"):
        store.prune()


def test_export_writes_one_json_line_per_reply_in_order(store, tmp_path):
    for number in range(700):
        reply = ChatReply(f"reply {number}", "stop", 10, 5, 0.5)
        store.put("m", ask(str(number), template="t"), reply)
    assert store.export(tmp_path / "out.jsonl") == 700
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["text"] for row in rows] == [f"reply {number}" for number in range(700)]
    assert rows[3]["key"] == request_key("m", ask("3", template="t"))
    del rows[3]["created"], rows[3]["key"]
    assert rows[3] == {
        "model": "m",
        "template": "t",
        "text": "reply 3",
        "finish_reason": "stop",
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "seconds": 0.5,
    }


def test_an_export_that_cannot_be_written_is_an_output_error_and_leaves_no_part(store, tmp_path):
    store.put("m", ask("q"), ChatReply("text"))
    (tmp_path / "taken").mkdir()
    with pytest.raises(OutputError, match="taken"):
        store.export(tmp_path / "taken")
    assert not list(tmp_path.glob("*.partial"))


# Threads and processes


def test_threads_may_share_one_store(store):
    def write(worker: int) -> None:
        for number in range(100):
            store.put("m", ask(f"{worker}-{number}"), ChatReply("r"))
            store.get("m", ask(f"{worker}-{number}"))

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.count() == 400


def test_processes_may_create_and_write_one_store_at_once(path):
    code = """
    import sys
    from rpd_metric.models.chat import ChatReply, ChatRequest
    from rpd_metric.models.store import ReplyStore
    sys.stdin.readline()
    with ReplyStore(sys.argv[1]) as store:
        for number in range(150):
            own = ChatRequest(({"role": "user", "content": f"{sys.argv[2]}-{number}"},))
            common = ChatRequest(({"role": "user", "content": str(number)},))
            store.put("m", own, ChatReply("own"))
            print(store.put("m", common, ChatReply(sys.argv[2])).text)
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
    store.put("m", ask("before"), ChatReply("r"))

    def child() -> None:
        assert store.get("m", ask("before")) is not None
        store.put("m", ask("from the child"), ChatReply("r"))

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    assert process.exitcode == 0
    store.put("m", ask("after"), ChatReply("r"))
    assert store.get("m", ask("from the child")) is not None
    assert store.count() == 3


def test_kill_9_in_mid_write_leaves_every_reply_that_was_put(path):
    code = """
    import sys
    from rpd_metric.models.chat import ChatReply, ChatRequest
    from rpd_metric.models.store import ReplyStore
    store = ReplyStore(sys.argv[1])
    for number in range(10**9):
        request = ChatRequest(({"role": "user", "content": f"{sys.argv[2]}-{number}"},))
        store.put("m", request, ChatReply("r" * 5000))
        print(number, flush=True)
    """
    for run, lines in enumerate((1, 40, 300)):
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
                found = store.get("m", ask(f"{run}-{number}"))
                assert found is not None
                assert found.text == "r" * 5000
    check = sqlite3.connect(path)
    assert check.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    check.close()


# What can go wrong with the file


def test_a_locked_store_is_named_after_the_wait_and_works_again_afterwards(path):
    with ReplyStore(path, busy_timeout=0.05) as store:
        store.put("m", ask("before"), ChatReply("r"))
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"another process holds it.*stop that process"):
            store.put("m", ask("q"), ChatReply("r"))
        assert store.get("m", ask("before")) is not None
        other.execute("ROLLBACK")
        other.close()
        store.put("m", ask("q"), ChatReply("r"))
        assert store.count() == 2


def test_a_store_locked_while_opening_is_named(path):
    ReplyStore(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match="another process holds it"):
        ReplyStore(path, busy_timeout=0.05)
    other.close()


def fill(store: ReplyStore) -> tuple[int, str]:
    """Put replies until one is refused; returns how many went in, and what was said."""
    for number in range(10_000):
        try:
            store.put("m", ask(str(number)), ChatReply("r" * 20_000))
        except StoreError as error:
            return number, str(error)
    pytest.fail("the disk never filled")


def test_a_full_disk_ends_in_one_line_and_keeps_what_was_written(path):
    with ReplyStore(path) as store:
        # SQLite reports this limit in the way it reports a full disk.
        store.file.execute("PRAGMA max_page_count = 200", ())
        written, said = fill(store)
        assert "the disk is full; free some space" in said
        assert 0 < written == store.count()
        assert store.get("m", ask("0")) is not None
        store.file.execute("PRAGMA max_page_count = 100000", ())
        store.put("m", ask("when there is space again"), ChatReply("r"))


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="needs file size limits")
def test_a_disk_that_refuses_to_write_more_keeps_what_was_written(path):
    code = """
    import resource, sys
    from rpd_metric.models.chat import ChatReply, ChatRequest
    from rpd_metric.errors import StoreError
    from rpd_metric.models.store import ReplyStore
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))
    store = ReplyStore(sys.argv[1])
    try:
        for number in range(10_000):
            request = ChatRequest(({"role": "user", "content": str(number)},))
            store.put("m", request, ChatReply("r" * 20_000))
    except StoreError as error:
        print(number, error)
    """
    said = run_python(code, path).communicate()[0]
    written, message = said.split(" ", 1)
    assert "the disk refused; check its free space" in message
    with ReplyStore(path) as store:
        assert 0 < int(written) == store.count()


def test_a_file_that_is_no_database_is_refused_and_left_alone(path):
    path.write_bytes(b"these are notes, not a database\n" * 100)
    with pytest.raises(StoreError, match="not a store of replies; give another path"):
        ReplyStore(path)
    assert path.read_bytes() == b"these are notes, not a database\n" * 100


def test_the_database_of_another_program_is_refused_and_left_alone(path):
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE bookmarks (url TEXT)")
    other.commit()
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="database of another program"):
        ReplyStore(path)
    assert path.read_bytes() == before


def test_a_store_of_another_version_is_refused(path):
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE replies (key BLOB, reply TEXT)")
    other.execute("CREATE INDEX replies_by_origin ON replies (reply)")
    other.commit()
    other.close()
    with pytest.raises(StoreError, match="another version of this package"):
        ReplyStore(path)


def test_an_empty_file_becomes_a_store(path):
    path.touch()
    with ReplyStore(path) as store:
        assert store.count() == 0


def damage(path: Path, *, start: int, length: int) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(b"\x55" * length)


def filled(path: Path) -> None:
    with ReplyStore(path) as store:
        for number in range(200):
            store.put("m", ask(str(number)), ChatReply(f"{number} " + "r" * 3000))


def test_a_damaged_store_says_how_to_save_what_can_be_read(path):
    filled(path)
    damage(path, start=4096, length=path.stat().st_size - 3 * 4096)

    def read_all() -> None:
        with ReplyStore(path) as store:
            for number in range(200):
                store.get("m", ask(str(number)))

    with pytest.raises(StoreError, match=r"it is damaged; save what can be read") as caught:
        read_all()
    assert f"python -m rpd_metric.models.repair_store {path} NEW_FILE" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_advice_for_a_damaged_store_works(path, tmp_path):
    filled(path)
    middle = path.stat().st_size // 2
    damage(path, start=middle - middle % 4096, length=4096)
    new = tmp_path / "new.sqlite"
    command = [sys.executable, "-m", "rpd_metric.models.repair_store", str(path), str(new)]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    with ReplyStore(new) as store:
        found = [store.get("m", ask(str(number))) for number in range(200)]
        saved = sum(reply is not None for reply in found)
        assert 190 < saved < 200
        assert said == f"{saved} replies saved to {new}\n"
        store.put("m", ask("and it goes on"), ChatReply("r"))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(page=st.integers(0, 205), length=st.integers(1, 3 * 4096), data=st.data())
def test_damage_anywhere_gives_right_replies_or_an_error(tmp_path, page, length, data):
    path = tmp_path / "any.sqlite"
    for file in tmp_path.glob("any.sqlite*"):
        file.unlink()
    filled(path)
    start = page * 4096 + data.draw(st.integers(0, 4095))
    damage(path, start=start, length=length)
    try:
        store = ReplyStore(path)
    except StoreError:
        return
    with store:
        for number in range(200):
            try:
                found = store.get("m", ask(str(number)))
            except StoreError:
                continue
            # `None`: the key itself was hit, so the reply is asked for again.
            assert found is None or found.text == f"{number} " + "r" * 3000


def test_a_reply_with_flipped_bits_is_never_handed_out_nor_saved(path, tmp_path):
    filled(path)
    content = path.read_bytes()
    damage(path, start=content.index(b"137 rrr") + 10, length=1)
    with ReplyStore(path) as store, pytest.raises(StoreError, match="it is damaged"):
        store.get("m", ask("137"))
    assert salvage(path, tmp_path / "new.sqlite") == 199
    with ReplyStore(tmp_path / "new.sqlite") as store:
        assert store.get("m", ask("137")) is None
        assert store.get("m", ask("138")) is not None


def test_a_missing_store_is_an_error_where_none_is_to_be_made(path):
    with pytest.raises(StoreError, match="no such file"):
        ReplyStore(path, create=False)
    assert not path.exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="folder cannot be made"):
        ReplyStore(tmp_path / "file" / "replies.sqlite")


def test_a_path_that_is_a_folder_is_named(tmp_path):
    with pytest.raises(StoreError, match="cannot be opened"):
        ReplyStore(tmp_path)


def test_a_read_only_store_is_named(path):
    filled(path)
    path.chmod(0o444)
    path.parent.chmod(0o555)
    code = """
    import os, sys
    from rpd_metric.models.chat import ChatReply, ChatRequest
    from rpd_metric.errors import StoreError
    from rpd_metric.models.store import ReplyStore
    try:
        if os.getuid() == 0:  # root may write anything
            os.setuid(65534)
        store = ReplyStore(sys.argv[1])
        store.put("m", ChatRequest(({"role": "user", "content": "q"},)), ChatReply("r"))
    except StoreError as error:
        print(error)
    """
    try:
        # Another user has to get there, through folders that pytest makes for us alone.
        for folder in path.parents:
            if not folder.stat().st_mode & 0o001:
                folder.chmod(folder.stat().st_mode | 0o111)
        said = run_python(code, path).communicate()[0]
    finally:
        path.parent.chmod(0o755)
    assert "read-only" in said or "cannot be opened" in said
    assert "check" in said
    with ReplyStore(path) as store:
        assert store.count() == 200


def test_a_closed_store_says_so_and_closing_twice_is_harmless(path):
    store = ReplyStore(path)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.count()


def test_importing_the_module_makes_no_file(tmp_path):
    code = f"import os, sys; sys.path.insert(0, {str(ROOT)!r}); import rpd_metric.models.store"
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
    assert list(tmp_path.iterdir()) == []


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
        store.put("m", at(kept_at), ChatReply("text", finish, 10, tokens))
        assert (store.get("m", at(asked_at)) is not None) == found
        assert store.get("m", at(asked_at), other_lengths=False) is None
        assert len(list(store.missing("m", [at(asked_at)]))) == (not found)
        other = ChatRequest(({"role": "user", "content": "another"},), Sampling(max_tokens=kept_at))
        assert store.get("m", other) is None


def test_a_store_of_an_earlier_version_is_read_and_written(path):
    with ReplyStore(path) as store:
        store.put("m", ask("old"), ChatReply("old", "stop"))
        store.file.change("DROP INDEX replies_by_family", ())
        for column in ("family", "max_tokens"):
            store.file.change(f"ALTER TABLE replies DROP COLUMN {column}", ())
    with ReplyStore(path) as store:
        assert store.get("m", ask("old")).text == "old"
        store.put("m", ask("new"), ChatReply("new", "stop"))
        assert store.get("m", ask("new")).text == "new"
