"""A small Hub on this machine: repositories with branches and commits, LFS, and faults on demand.

It speaks what huggingface_hub, datasets and evaluate ask when they create, upload, commit, list
and read: behind `HF_ENDPOINT`, or as the endpoint of an `HfApi`. Everything is in memory. Xet is
left out, as on a Hub that does not offer it: clients need `HF_HUB_DISABLE_XET=1`.
"""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import yaml
from aiohttp import web

from parts.http_server import LocalServer

ROOT = Path(__file__).resolve().parents[2]

TOKEN = "hf_local"
USER = "ada"
Files = dict[str, bytes]


@dataclass
class Fault:
    """Answers requests that match with a status, or cuts the connection."""

    pattern: str  # searched in "METHOD path"
    status: int  # 0 cuts the connection while the body is on its way
    times: int = 1  # before requests go through again
    late: bool = False  # first do what was asked for, so that only the answer is lost


@dataclass
class Repo:
    private: bool = False
    commits: dict[str, Files] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    branches: dict[str, str] = field(default_factory=dict)

    def commit(self, branch: str, files: Files, message: str) -> str:
        oid = hashlib.sha1(f"{len(self.messages)} {message}".encode()).hexdigest()
        self.messages.append(message)
        self.commits[oid] = files
        self.branches[branch] = oid
        return oid

    def at(self, revision: str) -> tuple[str, Files]:
        oid = self.branches.get(revision, revision)
        if oid not in self.commits:
            raise refusal(404, "RevisionNotFound", f"no revision {revision}")
        return oid, self.commits[oid]


class LocalHub(LocalServer):
    """A Hub with one user, `ada`, whose token is `TOKEN`; a context manager."""

    def __init__(self) -> None:
        super().__init__()
        self.repos: dict[str, Repo] = {}
        self.objects: dict[str, bytes] = {}
        self.faults: list[Fault] = []
        self.requests: list[str] = []

    def add(self, name: str, files: Mapping[str, str]) -> None:
        """Make a public repository, `"datasets/ada/set"`, of text files."""
        self.repos[name] = Repo()
        self.repos[name].commit("main", {n: text.encode() for n, text in files.items()}, "made")

    def files(self, repo: str, revision: str = "main") -> Files:
        """The files of `"datasets/ada/set"` at a revision."""
        return self.repos[repo].at(revision)[1]

    def uploads(self) -> int:
        """How many large files were sent to the end so far."""
        return sum(request.startswith("PUT /lfs/") for request in self.requests)

    def run(self, cwd: Path, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run Python as `ada` would; the hub client reads its settings when it is imported."""
        settings = os.environ | {
            **{"HF_ENDPOINT": self.url, "HF_HOME": str(cwd / "home"), "HF_TOKEN": TOKEN},
            **{"HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"},
            **{"NO_PROXY": "127.0.0.1", "OMP_NUM_THREADS": "1"},
            **{"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"},
        }
        given: dict[str, Any] = {"cwd": cwd, "env": settings | env, "timeout": 300}
        return subprocess.run([sys.executable, *command], capture_output=True, text=True, **given)

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._watch], client_max_size=1 << 30)
        repo = r"/api/{kind:datasets|models|spaces}/{id:[^/]+/[^/]+}"
        plain = r"/{kind:datasets/|spaces/|}{id:[^/]+/[^/]+}"
        for method, path, handler in (
            ("GET", "/api/whoami-v2", self._whoami),
            ("POST", "/api/repos/create", self._create),
            ("POST", "/api/validate-yaml", self._validate),
            ("GET", repo, self._info),
            ("GET", f"{repo}/revision/{{revision}}", self._info),
            ("POST", f"{repo}/branch/{{revision}}", self._branch),
            ("POST", f"{repo}/preupload/{{revision}}", self._preupload),
            ("POST", f"{repo}/commit/{{revision}}", self._commit),
            ("GET", f"{repo}/tree/{{revision}}{{folder:.*}}", self._tree),
            ("POST", f"{plain}.git/info/lfs/objects/batch", self._batch),
            ("PUT", "/lfs/{oid}", self._put),
            ("*", f"{plain}/resolve/{{revision}}/{{file:.*}}", self._resolve),
        ):
            app.router.add_route(method, path, handler)
        return app

    @web.middleware
    async def _watch(self, request: web.Request, handler: Any) -> web.StreamResponse:
        line = f"{request.method} {request.path}"
        for fault in self.faults:
            if fault.times and re.search(fault.pattern, line):
                fault.times -= 1
                if fault.late:
                    await handler(request)
                if fault.status:
                    raise refusal(fault.status, None, "a fault on demand")
                await request.content.read(100)
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
        answer: web.StreamResponse = await handler(request)
        self.requests.append(line)
        return answer

    def _repo(self, request: web.Request, *, write: bool = False) -> Repo:
        kind = request.match_info["kind"].strip("/") or "models"
        repo = self.repos.get(f"{kind}/{request.match_info['id']}")
        trusted = request.headers.get("Authorization") == f"Bearer {TOKEN}"
        if repo is None or (repo.private and not trusted):
            raise refusal(404 if trusted else 401, "RepoNotFound", "Repository not found")
        if write:
            known(request)
        return repo

    async def _whoami(self, request: web.Request) -> web.Response:
        known(request)
        return web.json_response({"name": USER, "type": "user", "orgs": []})

    async def _create(self, request: web.Request) -> web.Response:
        known(request)
        body = await request.json()
        kind = f"{body.get('type') or 'model'}s"
        owner = body.get("organization") or USER
        if owner != USER:
            raise refusal(403, None, f"no rights under {owner!r}")
        name = f"{kind}/{owner}/{body['name']}"
        url = f"{self.url}/{name.removeprefix('models/')}"
        repo = self.repos[name] = Repo(private=body.get("visibility") == "private")
        repo.commit("main", {".gitattributes": b"*.parquet filter=lfs\n"}, "initial commit")
        return web.json_response({"url": url, "name": name})

    async def _validate(self, request: web.Request) -> web.Response:
        return web.json_response({"errors": [], "warnings": []})

    async def _info(self, request: web.Request) -> web.Response:
        repo = self._repo(request)
        oid, files = repo.at(request.match_info.get("revision", "main"))
        about = {"id": request.match_info["id"], "sha": oid, "private": repo.private, "tags": []}
        about["cardData"] = metadata(files.get("README.md", b""))
        return web.json_response(about | {"siblings": [{"rfilename": name} for name in files]})

    async def _branch(self, request: web.Request) -> web.Response:
        repo = self._repo(request, write=True)
        repo.branches.setdefault(request.match_info["revision"], repo.branches["main"])
        return web.json_response({})

    async def _preupload(self, request: web.Request) -> web.Response:
        _, files = self._repo(request, write=True).at(request.match_info["revision"])
        answer = []
        for file in (await request.json())["files"]:
            path = file["path"]
            mode = "lfs" if path.endswith((".parquet", ".png", ".safetensors")) else "regular"
            entry = {"path": path, "uploadMode": mode, "shouldIgnore": False}
            if path in files:
                entry["oid"] = object_id(files[path], mode)
            answer.append(entry)
        return web.json_response({"files": answer})

    async def _batch(self, request: web.Request) -> web.Response:
        self._repo(request, write=True)
        answer = (await request.json())["objects"]
        for wanted in answer:
            if wanted["oid"] not in self.objects:
                wanted["actions"] = {"upload": {"href": f"{self.url}/lfs/{wanted['oid']}"}}
        return web.json_response({"transfer": "basic", "objects": answer})

    async def _put(self, request: web.Request) -> web.Response:
        data = await request.read()
        oid = request.match_info["oid"]
        if hashlib.sha256(data).hexdigest() != oid:
            raise refusal(400, None, "the content is not what its hash says")
        self.objects[oid] = data
        return web.Response()

    async def _commit(self, request: web.Request) -> web.Response:
        repo = self._repo(request, write=True)
        branch = request.match_info["revision"]
        head, before = repo.at(branch)
        files, message = dict(before), ""
        for line in (await request.text()).splitlines():
            item = json.loads(line)
            value = item["value"]
            if item["key"] == "header":
                message = value["summary"]
                if value.get("parentCommit", head) != head:
                    raise refusal(412, None, "the branch has moved on")
            elif item["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif item["key"] == "lfsFile":
                files[value["path"]] = self.objects[value["oid"]]
            elif item["key"] == "deletedFile":
                del files[value["path"]]
        oid = repo.commit(branch, files, message)
        kind = request.match_info["kind"]
        url = f"{self.url}/{kind}/{request.match_info['id']}/commit/{oid}"
        return web.json_response({"commitUrl": url, "commitOid": oid})

    async def _tree(self, request: web.Request) -> web.Response:
        _, files = self._repo(request).at(request.match_info["revision"])
        folder = request.match_info["folder"].strip("/")
        depth = None if request.query.get("recursive", "").lower() == "true" else 1
        entries: dict[str, dict[str, Any]] = {}
        for name in files:
            if PurePosixPath(name).is_relative_to(folder):
                parts = PurePosixPath(name).relative_to(folder).parts
                for end in range(len(parts))[:depth]:
                    path = str(PurePosixPath(folder, *parts[: end + 1]))
                    entries[path] = entry_of(path, files.get(path))
        if folder and not entries:
            raise refusal(404, "EntryNotFound", f"no folder {folder}")
        return web.json_response(list(entries.values()))

    async def _resolve(self, request: web.Request) -> web.Response:
        oid, files = self._repo(request).at(request.match_info["revision"])
        name = request.match_info["file"]
        if name not in files:
            raise refusal(404, "EntryNotFound", f"no file {name}")
        data = files[name]
        headers = {"ETag": f'"{object_id(data, "lfs")}"', "X-Repo-Commit": oid}
        part = request.http_range
        if part.start is None:
            return web.Response(body=data, headers=headers)
        end = min(part.stop or len(data), len(data))
        headers["Content-Range"] = f"bytes {part.start}-{end - 1}/{len(data)}"
        return web.Response(status=206, body=data[part.start : end], headers=headers)


def known(request: web.Request) -> None:
    """Refuse everybody but `ada`."""
    if request.headers.get("Authorization") != f"Bearer {TOKEN}":
        raise refusal(401, None, "Invalid username or password.")


def refusal(status: int, code: str | None, message: str) -> web.HTTPException:
    """An answer as the Hub words its refusals."""

    class Refusal(web.HTTPException):
        status_code = status

    headers = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {})
    text = json.dumps({"error": message})
    return Refusal(headers=headers, text=text, content_type="application/json")


def object_id(data: bytes, mode: str) -> str:
    """A file's hash as the Hub counts it: git's for small files, sha256 for large ones."""
    if mode == "lfs":
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def entry_of(path: str, data: bytes | None) -> dict[str, Any]:
    """A file as the Hub lists it, or a folder, which has no data."""
    if data is None:
        return {"type": "directory", "path": path, "oid": "0" * 40}
    return {"type": "file", "path": path, "size": len(data), "oid": object_id(data, "regular")}


def metadata(card: bytes) -> Any:
    """The YAML header of a card, if it has one."""
    header = re.match(rb"---\n(.*?)\n---\n", card, re.DOTALL)
    return yaml.safe_load(header[1]) if header else None
