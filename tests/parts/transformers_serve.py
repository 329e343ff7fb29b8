"""Real servers as child processes; `transformers serve` for a real, if tiny, model."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def served(
    command: Sequence[str | Path],
    log: Path,
    *,
    cwd: Path | None = None,
    seconds: float = 300,
    **environment: str,
) -> Iterator[str]:
    """Run a server that takes `--port`; yields its root URL once `/health` answers."""
    # The port stays taken, without being listened to: the server can share it, and no other one is
    # given it meanwhile.
    with socket.socket() as place, log.open("wb") as out:
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
        server = subprocess.Popen(
            [*map(str, command), "--port", str(port)],
            cwd=cwd,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=os.environ | {"HF_HUB_OFFLINE": "1"} | environment,
            start_new_session=True,  # its workers end with it
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _await(f"{url}/health", server, log, seconds)
            yield url
        finally:
            for number in (signal.SIGTERM, signal.SIGKILL):
                if server.poll() is None:
                    os.killpg(server.pid, number)
                with suppress(subprocess.TimeoutExpired):
                    server.wait(30)
                    break


@contextmanager
def transformers_serve(model: Path) -> Iterator[str]:
    """Serve a model folder on the CPU; yields the URL that ends in `/v1`.

    The server answers to the folder's bare name, because it is started beside it.
    """
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", model.name]
    command += ["--device", "cpu", "--dtype", "float32", "--host", "127.0.0.1"]
    # Left to itself it takes most of the machine's memory for its cache, and how much that is
    # differs from machine to machine: with too little it answers 503 to everything.
    command += ["--continuous-batching", "--cb-block-size", "32"]
    command += ["--cb-num-blocks", "512", "--cb-max-batch-tokens", "1024"]
    log = model.parent / f"serve-{os.getpid()}.log"
    with served(command, log, cwd=model.parent, HF_HUB_DISABLE_TELEMETRY="1") as url:
        yield f"{url}/v1"


def _await(url: str, server: subprocess.Popen[bytes], log: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"the server did not start:\n{log.read_text()[-3000:]}")
