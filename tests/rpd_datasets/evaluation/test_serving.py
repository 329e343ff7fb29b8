"""Servers that an evaluation starts, waits for and ends."""

from __future__ import annotations

import os
import shlex
import socket
import sys
from pathlib import Path

import httpx2
import pytest

from rpd_datasets.evaluation.serving import address, served
from rpd_metric.errors import InputError, ModelError

# Answers after a while, and has a child of its own, as inference servers do.
SERVER = """\
import http.server, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[2], "w").write(str(child.pid))
time.sleep(1)
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "2"); self.end_headers()
        self.wfile.write(b"{}")
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at processes through /proc")
@pytest.mark.parametrize("fails", [False, True])
def test_it_is_there_inside_and_gone_afterwards(fails: bool, tmp_path: Path) -> None:
    port, noted = free_port(), tmp_path / "child"
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    command = shlex.join([sys.executable, str(script), str(port), str(noted)])
    url = f"http://127.0.0.1:{port}/v1/models"
    try:
        with served(command, url, seconds=60):
            assert httpx2.get(url).status_code == 200
            with pytest.raises(InputError, match="answers already"), served(command, url):
                pass
            if fails:
                raise KeyError
    except KeyError:
        assert fails
    with pytest.raises(httpx2.HTTPError):
        httpx2.get(url, timeout=2)
    assert not alive(int(noted.read_text()))


def test_a_server_that_ends_or_is_no_program_is_said() -> None:
    with pytest.raises(InputError, match="names none"):
        address("hf:model")  # of this machine
    url = f"http://127.0.0.1:{free_port()}/health"
    command = shlex.join([sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(ModelError, match="ended with status 3"), served(command, url):
        pass
    with pytest.raises(InputError, match="cannot run"), served("/no/such/program", url):
        pass
    command = shlex.join([sys.executable, "-c", "import time; time.sleep(600)"])
    with pytest.raises(ModelError, match="did not answer"), served(command, url, seconds=0.2):
        pass
