"""The sandbox against programs that mean harm: each ends in a verdict, nothing outside changes.

Every attack is bounded by itself (a number of processes, of bytes, of seconds) and aims only
at files that the test made, so that a sandbox that does not hold fails the test and no more.
"""

import errno
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from rpd_metric.errors import RPDError
from rpd_metric.grading.isolation import Limits, SandboxError, system_call_filter
from rpd_metric.grading.sandbox import Sandbox

if shutil.which("bwrap") is None:
    pytest.skip("bubblewrap is not installed (package bubblewrap)", allow_module_level=True)

MEGABYTE = 1 << 20
LIMITS = Limits(seconds=4, memory=512 * MEGABYTE, output=100_000, disk=8 * MEGABYTE)


@pytest.fixture(scope="module")
def sandbox():
    return Sandbox(LIMITS)


@pytest.fixture
def mark():
    """A name for processes, at most 15 letters; those left over at the end are killed."""
    name = "m" + uuid.uuid4().hex[:12]
    yield name
    for pid in processes(name):
        os.kill(pid, 9)


def processes(name: str) -> list[int]:
    """Processes of the whole machine that carry a name, as command or as argument."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            said = (folder / "comm").read_text() + (folder / "cmdline").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        if name in said:
            found.append(int(folder.name))
    return found


def test_a_program_gets_its_input_and_its_output_comes_back(sandbox):
    program = "import sys; print(input()[::-1]); print('no', file=sys.stderr); sys.exit(3)"
    outcome = sandbox.run(program, "abc\n")
    assert (outcome.end, outcome.returncode) == ("exited", 3)
    assert (outcome.stdout, outcome.stderr) == ("cba\n", "no\n")
    assert sandbox.run("import os; os.abort()").returncode == 128 + 6
    text = "x" * MEGABYTE  # more than a pipe holds
    assert sandbox.run("import sys; print(len(sys.stdin.read()))", text).stdout == f"{MEGABYTE}\n"


@pytest.mark.parametrize(
    "program",
    [
        "import time; time.sleep(600)",
        "while True: pass",
        "import signal, time\nfor s in (1, 2, 13, 15): signal.signal(s, signal.SIG_IGN)\n"
        "time.sleep(600)",
        "import os, time; os.close(0); os.close(1); os.close(2); time.sleep(600)",
        "import os, signal, time; os.kill(os.getppid(), 9); os.kill(-1, 9); time.sleep(600)",
    ],
    ids=["sleeps", "spins", "ignores signals", "closes its streams", "kills all it can"],
)
def test_a_program_that_does_not_end_is_ended(program, mark):
    named = f"open('/proc/self/comm', 'w').write({mark!r})\n" + program
    outcome = Sandbox(Limits(seconds=1)).run(named, "one line\n")
    assert outcome.end == "timed_out" or outcome.returncode != 0
    assert processes(mark) == []


def test_this_python_may_be_reached_through_a_link(tmp_path, monkeypatch):
    (tmp_path / "env").symlink_to(sys.prefix)
    for name in ("executable", "prefix"):
        path = Path(getattr(sys, name)).relative_to(sys.prefix)
        monkeypatch.setattr(sys, name, str(tmp_path / "env" / path))
    assert Sandbox(LIMITS).run("import sys; print(sys.prefix)").returncode == 0


def test_endless_output_is_cut(sandbox):
    for stream in ("stdout", "stderr"):
        outcome = sandbox.run(f"import sys\nwhile True: sys.{stream}.write('spam' * 1000)")
        assert outcome.end == "output_limit"
        assert len(outcome.stdout) + len(outcome.stderr) <= LIMITS.output


def test_a_memory_hog_gets_a_memory_error(sandbox):
    outcome = sandbox.run(
        "kept = []\n"
        "for _ in range(100):\n"
        "    kept.append(bytearray(50_000_000))\n"
        "    print(len(kept), flush=True)\n"
    )
    assert outcome.end == "exited"
    assert "MemoryError" in outcome.stderr
    assert len(outcome.stdout.splitlines()) * 50_000_000 < LIMITS.memory


def test_the_private_tmp_fills_up_and_is_gone(sandbox, mark):
    outcome = sandbox.run(
        f"written = 0\n"
        f"try:\n"
        f"    for number in range(200):\n"
        f"        with open(f'/tmp/{mark}-{{number}}', 'wb') as file:\n"
        f"            written += file.write(bytes(1_000_000))\n"
        f"finally:\n"
        f"    print(written)\n"
    )
    assert "No space left" in outcome.stderr
    assert 0 < int(outcome.stdout) <= LIMITS.disk
    assert not list(Path("/tmp").glob(f"{mark}*"))


def test_there_is_no_place_to_write_but_tmp(sandbox, mark):
    # /dev and /sys of the host are not in the list: this must stay harmless if it succeeds.
    folders = ["/", "/usr", "/program", "/dev", "/proc/self", sys.prefix, sys.base_prefix]
    outcome = sandbox.run(
        f"for folder in {folders!r}:\n"
        f"    try:\n"
        f"        open(folder + '/{mark}', 'w').close()\n"
        f"        print(folder)\n"
        f"    except OSError:\n"
        f"        pass\n"
        f"open('/tmp/{mark}', 'w').close()\n"
        f"print('end')\n"
    )
    assert outcome.stdout == "end\n"
    assert not any(Path(folder, mark).exists() for folder in [*folders, "/tmp"])


def test_files_and_variables_of_the_host_are_neither_read_nor_deleted(
    sandbox, tmp_path, monkeypatch
):
    monkeypatch.setenv("RPD_TEST_TOKEN", "hunter2")
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret")
    outcome = sandbox.run(
        f"import os, pathlib, shutil, sys\n"
        f"print(dict(os.environ), file=sys.stderr)\n"
        f"print(os.system('unshare --user --map-root-user true') == 0)\n"
        f"secret = pathlib.Path({os.fspath(secret)!r})\n"
        f"for path in (secret, '/etc/passwd', '/proc/1/root/etc'):\n"
        f"    print(os.access(path, os.R_OK))\n"
        f"shutil.rmtree(secret.parent, ignore_errors=True)\n"
        f"os.remove(secret)\n"
    )
    assert outcome.stdout == "False\n" * 4
    assert "PATH" in outcome.stderr
    assert "hunter2" not in outcome.stderr
    assert "FileNotFoundError" in outcome.stderr
    assert secret.read_text() == "the secret"


def test_there_is_no_network(sandbox):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        host, port = server.getsockname()
        outcome = sandbox.run(
            f"import socket\nsocket.create_connection(({host!r}, {port}), timeout=2)\n"
        )
        assert "ConnectionRefusedError" in outcome.stderr or "OSError" in outcome.stderr
        with pytest.raises(TimeoutError):
            server.accept()


def test_orphans_do_not_outlive_the_program(sandbox, mark):
    outcome = sandbox.run(
        "import subprocess\n"
        f"for _ in range(2):\n"
        f"    subprocess.Popen(['setsid', 'sleep', '600', '{int(mark[1:], 16)}'],\n"
        "                     start_new_session=True)\n"
        "print('left')\n"
    )
    # They hold our pipes, and we do not wait for them.
    assert (outcome.end, outcome.stdout) == ("exited", "left\n")
    assert processes(str(int(mark[1:], 16))) == []


def test_a_fork_bomb_is_bounded(sandbox, mark):
    outcome = sandbox.run(
        f"import os, time\n"
        f"open('/proc/self/comm', 'w').write({mark!r})\n"
        f"for made in range(50):\n"
        f"    print(made, flush=True)\n"
        f"    if os.fork() == 0:\n"
        f"        time.sleep(600)\n"
    )
    assert "BlockingIOError" in outcome.stderr
    assert 1 < len(outcome.stdout.split()) <= LIMITS.processes
    assert processes(mark) == []


OUTSIDE_THE_LIMITS = """
import ctypes, errno, platform
libc = ctypes.CDLL(None, use_errno=True)
calls = {
    "x86_64": [("shmget", 29, 0, 1 << 20, 0o1600), ("semget", 64, 0, 1, 0o1600),
               ("msgget", 68, 0, 0o1600), ("mq_open", 240, b"q", 0o102, 0o600, None),
               ("memfd_create", 319, b"m", 0), ("keyctl", 250, 0, -3, 0), ("bpf", 321, 0, 0, 0),
               ("perf_event_open", 298, 0, 0, -1, -1, 0),
               ("io_uring_setup", 425, 4, ctypes.create_string_buffer(200))],
    "aarch64": [("shmget", 194, 0, 1 << 20, 0o1600), ("keyctl", 219, 0, -3, 0)],
}
for name, *call in calls[platform.machine()]:
    answer = libc.syscall(*call)
    if answer >= 0 or ctypes.get_errno() != errno.ENOSYS:
        print(name, "is answered")
print("end")
"""
# getpid of 32-bit x86: push rbx; mov eax, 20; int 0x80; pop rbx; ret
OTHER_ARCHITECTURE = """
import ctypes, mmap
memory = mmap.mmap(-1, 4096, prot=7)
memory.write(bytes.fromhex("53b814000000cd805bc3"))
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
print(ctypes.CFUNCTYPE(ctypes.c_int)(address)())
"""


def test_memory_that_no_limit_counts_and_rarely_used_parts_of_the_kernel_are_refused(sandbox):
    assert sandbox.run(OUTSIDE_THE_LIMITS).stdout == "end\n"
    if os.uname().machine == "x86_64":
        assert sandbox.run(OTHER_ARCHITECTURE).stdout == f"{-errno.ENOSYS}\n"


@pytest.mark.parametrize(("machine", "audit"), [("x86_64", 0xC000003E), ("aarch64", 0xC00000B7)])
def test_the_filter_of_each_machine_refuses_its_own_numbers_and_other_machines(machine, audit):
    refused = {"x86_64": {29, 71, 250, 425}, "aarch64": {186, 194, 219, 425}}[machine]

    def answer(number: int, architecture: int) -> int:
        program, data, at = system_call_filter(machine), {0: number, 4: architecture}, 0
        while True:
            code, if_true, if_false, value = struct.unpack_from("=HBBI", program, 8 * at)
            at += 1
            if code == 0x06:  # return
                return value
            if code == 0x20:  # load
                loaded = data[value]
            else:
                true = loaded == value if code == 0x15 else loaded >= value
                at += if_true if true else if_false

    enosys, allowed = 0x50000 + errno.ENOSYS, 0x7FFF0000
    assert {answer(number, audit) for number in refused} == {enosys}
    assert answer(0x40000000, audit) == answer(1, audit ^ 1) == enosys
    assert answer(1, audit) == answer(63, audit) == allowed


def test_no_more_programs_run_at_once_than_the_machine_has_processors():
    program = (
        "import time; start = time.monotonic(); time.sleep(0.3); print(start, time.monotonic())"
    )
    threads = f"""from concurrent.futures import ThreadPoolExecutor
from rpd_metric.grading.sandbox import Sandbox
sandbox = Sandbox()
with ThreadPoolExecutor(8) as pool:
    for outcome in pool.map(lambda _: sandbox.run({program!r}), range({os.cpu_count()} + 1)):
        print(outcome.stdout, end="")
"""
    processes = [
        subprocess.Popen([sys.executable, "-c", threads], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    lines = "".join(process.communicate(timeout=300)[0] for process in processes).splitlines()
    times = [tuple(map(float, line.split())) for line in lines]
    assert len(times) == 2 * (os.cpu_count() + 1)
    at_once = [sum(start <= moment < end for start, end in times) for moment, _ in times]
    assert max(at_once) <= os.cpu_count()


def test_missing_bubblewrap_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    with pytest.raises(SandboxError, match=r"package bubblewrap\) was not found.*unsafe=True"):
        Sandbox()
    assert issubclass(SandboxError, RPDError)


def test_unsafe_runs_without_bubblewrap_and_keeps_the_limits(monkeypatch, tmp_path):
    found = shutil.which("prlimit")
    assert found is not None
    (tmp_path / "prlimit").symlink_to(found)
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    monkeypatch.setenv("RPD_TEST_TOKEN", "hunter2")
    limits = Limits(seconds=60, memory=512 * MEGABYTE, output=1_000)
    sandbox, short = (Sandbox(each, unsafe=True) for each in (limits, replace(limits, seconds=1)))
    assert sandbox.run("print(input())", "hi").stdout == "hi\n"
    assert short.run("import time; time.sleep(600)").end == "timed_out"
    assert sandbox.run("while True: print('spam')").end == "output_limit"
    assert "MemoryError" in sandbox.run("bytearray(2_000_000_000)").stderr
    assert "hunter2" not in sandbox.run("import os; print(os.environ)").stdout


@pytest.mark.parametrize("unsafe", [False, True])
def test_a_killed_grade_leaves_nothing_in_the_temporary_folder(unsafe, tmp_path):
    program = f"""from rpd_metric.grading.sandbox import Sandbox
sandbox = Sandbox(unsafe={unsafe})
print("ready", flush=True)
sandbox.run("import time; time.sleep(3)")
"""
    command, environment = [sys.executable, "-c", program], {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        process.kill()
    assert list(tmp_path.iterdir()) == []
