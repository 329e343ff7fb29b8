"""A server for the length of an evaluation: started, waited for, and ended.

    with served("vllm serve FOLDER --port 8000", "http://127.0.0.1:8000/v1/models"):
        ...

Its output goes to our standard error. It is ended with everything that it started, however the
evaluation ends.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import httpx2

from rpd_metric.errors import InputError, ModelError
from rpd_metric.models.kinds import chat_spec

# Between two looks at whether it answers.
_PAUSE = 0.5
# What a server may take to end by itself before it is killed.
_END_SECONDS = 20.0


def address(model: str) -> str:
    """Where a server answers once it is ready: the first one of a model's spec.

    Raises:
        [`InputError`]: The spec names no server.

    >>> address("openai:http://127.0.0.1:8000/v1#model"), address("tgi:http://127.0.0.1:80")
    ('http://127.0.0.1:8000/v1/models', 'http://127.0.0.1:80/health')
    """
    spec = chat_spec(model)
    if not spec.urls:
        raise InputError(
            f"--serve starts a server, and --model {model} names none; name it, e.g. "
            "openai:http://127.0.0.1:8000/v1#MODEL"
        )
    return spec.urls[0].rstrip("/") + ("/models" if spec.kind == "openai" else "/health")


@contextlib.contextmanager
def served(command: str, url: str, *, seconds: float = 1800.0) -> Iterator[None]:
    """Run a server while the context lasts.

    Args:
        command (`str`): As in a shell, but run without one.
        url (`str`): It is ready when this answers with a status below 400.
        seconds (`float`, defaults to 1800): How long to wait for that; a large model takes
            minutes to load.

    Raises:
        [`InputError`]: There is no such program, or something answers at the address already.
        [`ModelError`]: The server ended, or did not answer in time.
    """
    if _answers(url):
        raise InputError(f"{url} answers already; leave --serve out, or choose another port")
    try:
        process = subprocess.Popen(
            shlex.split(command), stdout=sys.stderr.fileno(), start_new_session=True
        )
    except (OSError, ValueError) as error:
        raise InputError(f"cannot run {command!r}: {error}") from error
    try:
        deadline = time.monotonic() + seconds
        while not _answers(url):
            if process.poll() is not None:
                raise ModelError(
                    f"{command!r} ended with status {process.returncode} before {url} answered; "
                    "its own message stands above"
                )
            if time.monotonic() > deadline:
                raise ModelError(f"{url} did not answer within {seconds:.0f} s of {command!r}")
            time.sleep(_PAUSE)
        yield
    finally:
        _end(process)


def _answers(url: str) -> bool:
    try:
        return int(httpx2.get(url, timeout=5.0).status_code) < 400
    except httpx2.HTTPError:
        return False


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
