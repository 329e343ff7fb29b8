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
# Reads a dataset per line of options and prints what came of it, one JSON object a line.
CLIENT = """
import json, sys
from rpd_datasets.inputs.hub_rows import HubRows
from rpd_datasets.inputs.source import InputSpec, open_rows
from rpd_metric.errors import InputError

for line in sys.stdin:
    options = json.loads(line)
    repo = options.pop("repo")
    try:
        rows = HubRows(repo, **options) if options else open_rows(repo, InputSpec())
        found = [[row.place, row.values["problem"], row.values["solutions"]] for row in rows]
        answer = {"rows": found, "commit": rows.fingerprint()}
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
    "rows": [
        [f"org/rows:{n}", row["problem"], row["solutions"]] for n, row in enumerate(ROWS, start=1)
    ],
    "commit": COMMIT,
}


@pytest.mark.slow
def test_a_hub_dataset_is_read_by_id_and_pinned_to_its_commit(small_hub: str, home: Path) -> None:
    download = {"repo": "org/rows", "streaming": False}
    assert ask(small_hub, home, {"repo": "org/rows"}, download) == [EXPECTED] * 2
    # Offline afterwards: the download serves, a stream cannot.
    cached, stream = ask(small_hub, home, download, {"repo": "org/rows"}, HF_HUB_OFFLINE="1")
    assert cached == EXPECTED
    assert "offline mode is enabled" in stream["error"]


@pytest.mark.slow
def test_what_the_hub_does_not_have_is_one_clear_line(small_hub: str, home: Path) -> None:
    cases = [
        ({"repo": "org/elsewhere"}, "neither a file or folder here nor a dataset on the Hub"),
        ({"repo": "org/rows", "split": "test"}, "Available splits: ['train']"),
        ({"repo": "org/rows", "config": "hard"}, "'hard' not found. Available: ['default']"),
        ({"repo": "org/rows", "revision": "v9"}, "'org/rows' has no revision 'v9'"),
        ({"repo": "org/broken"}, "Reading 'org/broken' stopped after"),
    ]
    answers = ask(small_hub, home, *(question for question, _ in cases))
    answers += ask("http://127.0.0.1:9", home, {"repo": "org/rows"})
    says = [*(text for _, text in cases), "the Hub cannot be asked for a dataset of that name"]
    for answer, text in zip(answers, says, strict=True):
        assert text in answer["error"]
        assert "\n" not in answer["error"]
