"""`transformers serve` as a child process: a real server for a real, if tiny, model."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def transformers_serve(model: Path, *, port: int | None = None) -> Iterator[str]:
    """Serve a model folder on the CPU; yields the URL that ends in `/v1`.

    The server answers to the folder's bare name, because it is started beside it.
    """
    port = port or _free_port()
    log = model.parent / f"serve-{port}.log"
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", model.name]
    command += ["--device", "cpu", "--dtype", "float32", "--host", "127.0.0.1"]
    # Left to itself it takes most of the machine's memory for its cache, and how much that is
    # differs from machine to machine: with too little it answers 503 to everything.
    command += ["--port", str(port), "--continuous-batching"]
    command += ["--cb-block-size", "32", "--cb-num-blocks", "512", "--cb-max-batch-tokens", "1024"]
    with log.open("wb") as out:
        server = subprocess.Popen(
            command,
            cwd=model.parent,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"},
        )
    try:
        _await(f"http://127.0.0.1:{port}/health", server, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _await(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"transformers serve did not start:\n{log.read_text()[-3000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
