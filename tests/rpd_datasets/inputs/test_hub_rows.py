"""Datasets on the Hub, read through the real client from a small Hub on this machine."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

COMMIT = "c0ffee" + "0" * 34
ROWS = [
    {"problem": "What is 1 + 1?", "solutions": ["2", "It is two."]},
    {"problem": "What is 2 + 2?", "solutions": ["4"]},
]
README = b"---\nlicense: apache-2.0\n---\n"
TRAIN = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)
REPOS = {
    "org/rows": {"README.md": README, "data/train.jsonl": TRAIN},
    "org/broken": {"README.md": README, "data/train.jsonl": TRAIN + b"{broken\n"},
}
# Opens a source per line of options and prints what came of it, one JSON object a line.
CLIENT = """
import json, sys
from pathlib import Path
from rpd_datasets.inputs.source import open_source
from rpd_datasets.inputs.source import InputSpec
from rpd_metric.errors import InputError

for line in sys.stdin:
    options = json.loads(line)
    try:
        source = open_source(
            options.pop("spec"), InputSpec(**options), scratch=Path("scratch"), on_reject=print
        )
        problems = [[problem.problem, list(problem.solutions)] for problem in source]
        where = [problem.where for problem in source]
        answer = {"problems": problems, "where": where, "commit": source.fingerprint()}
    except InputError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer))
"""


class SmallHub(BaseHTTPRequestHandler):
    """As much of the Hub's HTTP interface as reading one dataset needs."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        found = re.fullmatch(r"(?:/api)?/datasets/(org/\w+)(/.*)?", path)
        if not found or found[1] not in REPOS:
            self.answer(404, {"error": "not found"}, {"X-Error-Code": "RepoNotFound"})
            return
        files, rest = REPOS[found[1]], found[2] or ""
        name = rest.removeprefix(f"/resolve/{COMMIT}/")
        if rest in ("", f"/revision/{COMMIT}"):
            self.answer(200, {"id": found[1], "sha": COMMIT, "tags": [], "siblings": []})
        elif rest.startswith("/revision/"):
            self.answer(404, {"error": "no revision"}, {"X-Error-Code": "RevisionNotFound"})
        elif rest.startswith(f"/tree/{COMMIT}"):
            self.answer(200, listing(files, rest.removeprefix(f"/tree/{COMMIT}").strip("/")))
        elif name in files:
            etag = hashlib.sha1(files[name]).hexdigest()
            self.answer(200, files[name], {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT})
        else:
            self.answer(404, {"error": "not found"}, {"X-Error-Code": "EntryNotFound"})

    do_HEAD = do_GET

    def answer(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def listing(files: dict[str, bytes], folder: str) -> list[dict[str, Any]]:
    entries = [
        {"type": "file", "path": name, "size": len(data), "oid": "0" * 40}
        for name, data in files.items()
        if str(Path(name).parent) == (folder or ".")
    ]
    return entries if folder else [*entries, {"type": "directory", "path": "data", "oid": "0" * 40}]


@pytest.fixture(scope="module")
def small_hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), SmallHub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hub")


def ask(endpoint: str, home: Path, *questions: dict[str, Any], **env: str) -> list[dict[str, Any]]:
    # The hub client reads its settings when it is imported, so each setting needs a process.
    settings = {
        **os.environ,
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(home / "cache"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_OFFLINE": "0",
        "NO_PROXY": "127.0.0.1",
        "PYTHONPATH": str(Path(__file__).parents[3]),
        **env,
    }
    done = subprocess.run(
        [sys.executable, "-c", CLIENT],
        input="\n".join(map(json.dumps, questions)),
        capture_output=True,
        text=True,
        cwd=home,
        env=settings,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


EXPECTED = {
    "problems": [["What is 1 + 1?", ["2", "It is two."]], ["What is 2 + 2?", ["4"]]],
    "where": ["org/rows:1", "org/rows:2"],
    "commit": COMMIT,
}


def test_a_hub_dataset_is_read_by_id_and_pinned_to_its_commit(small_hub: str, home: Path) -> None:
    streamed, downloaded = ask(
        small_hub, home, {"spec": "org/rows"}, {"spec": "org/rows", "streaming": False}
    )

    assert streamed == EXPECTED
    assert downloaded == EXPECTED

    # Offline afterwards: the download serves, a stream cannot.
    cached, stream = ask(
        small_hub,
        home,
        {"spec": "org/rows", "streaming": False},
        {"spec": "org/rows"},
        HF_HUB_OFFLINE="1",
    )
    assert cached == EXPECTED
    assert "offline mode is enabled" in stream["error"]
    assert "\n" not in stream["error"]


def test_what_the_hub_does_not_have_is_one_clear_line(small_hub: str, home: Path) -> None:
    errors = ask(
        small_hub,
        home,
        {"spec": "org/elsewhere"},
        {"spec": "org/rows", "split": "test"},
        {"spec": "org/rows", "config_name": "hard"},
        {"spec": "org/rows", "revision": "v9"},
    )

    lines = [answer["error"] for answer in errors]
    assert not any("\n" in line for line in lines)
    assert "neither a file or folder here nor a dataset on the Hub" in lines[0]
    assert "Available splits: ['train']" in lines[1]
    assert "'hard' not found. Available: ['default']" in lines[2]
    assert "'org/rows' has no revision 'v9'" in lines[3]


def test_a_bad_row_on_the_hub_ends_the_reading_with_one_line(small_hub: str, home: Path) -> None:
    (answer,) = ask(small_hub, home, {"spec": "org/broken"})

    assert "Reading 'org/broken' stopped" in answer["error"]
    assert "download the dataset and name its files" in answer["error"]
    assert "\n" not in answer["error"]


def test_a_hub_that_cannot_be_reached_is_one_clear_line(home: Path) -> None:
    (answer,) = ask("http://127.0.0.1:9", home, {"spec": "org/rows"})

    assert "No file or folder is called 'org/rows', and the Hub cannot be asked" in answer["error"]
    assert "\n" not in answer["error"]
