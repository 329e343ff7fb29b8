"""A small Hub on this machine: repositories with branches and commits, LFS, and faults on demand.

It speaks what huggingface_hub, datasets and evaluate ask when they create, upload, commit, list
and read: behind `HF_ENDPOINT`, or as the endpoint of an `HfApi`. Everything is in memory. Xet is
left out, as on a Hub that does not offer it: clients need `HF_HUB_DISABLE_XET=1`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
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
    """Answers requests whose "METHOD path" matches with a status, or cuts the connection.

    Args:
        pattern (`str`): A regular expression, searched.
        status (`int`): What is answered; 0 cuts the connection while the body is on its way.
        times (`int`): How often, before requests go through again.
        late (`bool`): First do what was asked for, so that only the answer is lost.
    """

    pattern: str
    status: int
    times: int = 1
    late: bool = False


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

    def files(self, repo: str, revision: str = "main") -> Files:
        """The files of `"datasets/ada/set"` at a revision."""
        return self.repos[repo].at(revision)[1]

    def uploads(self) -> int:
        """How many large files were sent to the end so far."""
        return sum(request.startswith("PUT /lfs/") for request in self.requests)

    def run(
        self, cwd: Path, *command: str, stderr: int = subprocess.PIPE, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run Python as `ada` would, with this as the Hub and `cwd` as the place to work in.

        The hub client reads its settings when it is imported, so each setting needs a process.
        """
        settings = {
            **{name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"},
            "HF_ENDPOINT": self.url,
            "HF_HOME": str(cwd / "home"),
            "HF_TOKEN": TOKEN,
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "NO_PROXY": "127.0.0.1",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "ignore",
            **env,
        }
        return subprocess.run(
            [sys.executable, *command],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=cwd,
            env=settings,
            timeout=300,
            check=False,
        )

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._watch], client_max_size=1 << 30)
        repo = r"/{kind:datasets|models|spaces}/{id:[^/]+/[^/]+}"
        app.router.add_routes(
            [
                web.get("/api/whoami-v2", self._whoami),
                web.post("/api/repos/create", self._create),
                web.post("/api/validate-yaml", self._validate),
                web.get(f"/api{repo}", self._info),
                web.get(f"/api{repo}/revision/{{revision}}", self._info),
                web.post(f"/api{repo}/branch/{{revision}}", self._branch),
                web.post(f"/api{repo}/preupload/{{revision}}", self._preupload),
                web.post(f"/api{repo}/commit/{{revision}}", self._commit),
                web.get(f"/api{repo}/tree/{{revision}}{{folder:.*}}", self._tree),
                web.post(f"/api{repo}/paths-info/{{revision}}", self._paths),
                web.post(
                    "/{kind:datasets/|spaces/|}{id:[^/]+/[^/]+}.git/info/lfs/objects/batch",
                    self._batch,
                ),
                web.put("/lfs/{oid}", self._put),
                web.post("/lfs/verify", self._verify),
                web.get(
                    "/{kind:datasets/|spaces/|}{id:[^/]+/[^/]+}/resolve/{revision}/{file:.*}",
                    self._resolve,
                ),
            ]
        )
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
            raise refusal(403, None, f"You don't have the rights to create under {owner!r}")
        if kind == "spaces" and body.get("sdk") != "gradio":
            raise refusal(400, None, "a Space needs an sdk")
        name = f"{kind}/{owner}/{body['name']}"
        url = f"{self.url}/{name.removeprefix('models/')}"
        if name in self.repos:
            return web.json_response({"error": "exists", "url": url}, status=409)
        repo = self.repos[name] = Repo(private=body.get("visibility") == "private")
        repo.commit("main", {".gitattributes": b"*.parquet filter=lfs\n"}, "initial commit")
        return web.json_response({"url": url, "name": name})

    async def _validate(self, request: web.Request) -> web.Response:
        body = await request.json()
        header = re.match(r"---\n(.*?)\n---\n", body["content"], re.DOTALL)
        try:
            data = yaml.safe_load(header[1]) if header else None
        except yaml.YAMLError as error:
            return web.json_response({"errors": [{"message": str(error)}]}, status=400)
        wanted = {"title", "sdk", "sdk_version", "app_file"} if body["repoType"] == "space" else {}
        missing = sorted(set(wanted) - set(data or ()))
        errors = [{"message": f"the metadata lacks {name}"} for name in missing]
        if not isinstance(data, dict):
            errors.append({"message": "there is no metadata"})
        return web.json_response({"errors": errors, "warnings": []}, status=400 if errors else 200)

    async def _info(self, request: web.Request) -> web.Response:
        repo = self._repo(request)
        oid, files = repo.at(request.match_info.get("revision", "main"))
        header = re.match(rb"---\n(.*?)\n---\n", files.get("README.md", b""), re.DOTALL)
        return web.json_response(
            {
                "cardData": yaml.safe_load(header[1]) if header else None,
                "id": request.match_info["id"],
                "sha": oid,
                "private": repo.private,
                "tags": [],
                "siblings": [{"rfilename": name} for name in files],
            }
        )

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
        answer = []
        for wanted in (await request.json())["objects"]:
            entry = dict(wanted)
            if wanted["oid"] not in self.objects:
                entry["actions"] = {
                    "upload": {"href": f"{self.url}/lfs/{wanted['oid']}"},
                    "verify": {"href": f"{self.url}/lfs/verify"},
                }
            answer.append(entry)
        return web.json_response({"transfer": "basic", "objects": answer})

    async def _put(self, request: web.Request) -> web.Response:
        data = await request.read()
        oid = request.match_info["oid"]
        if hashlib.sha256(data).hexdigest() != oid:
            raise refusal(400, None, "the content is not what its hash says")
        self.objects[oid] = data
        return web.Response()

    async def _verify(self, request: web.Request) -> web.Response:
        body = await request.json()
        if len(self.objects.get(body["oid"], b"")) != body["size"]:
            raise refusal(404, None, "the object did not arrive")
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
                if value["oid"] not in self.objects:
                    raise refusal(400, None, "an LFS object is missing")
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
        inside = f"{folder}/" if folder else ""
        recursive = request.query.get("recursive", "").lower() == "true"
        entries: dict[str, dict[str, Any]] = {}
        for name, data in files.items():
            if not name.startswith(inside):
                continue
            parts = name.removeprefix(inside).split("/")
            for depth in range(1, len(parts)):
                path = inside + "/".join(parts[:depth])
                if recursive or depth == 1:
                    entries[path] = folder_entry(path)
            if recursive or len(parts) == 1:
                entries[name] = entry_of(name, data)
        if folder and not entries:
            raise refusal(404, "EntryNotFound", f"no folder {folder}")
        return web.json_response(list(entries.values()))

    async def _paths(self, request: web.Request) -> web.Response:
        _, files = self._repo(request).at(request.match_info["revision"])
        body = await request.post() if "form" in request.content_type else await request.json()
        paths = body.getall("paths") if hasattr(body, "getall") else body["paths"]
        folders = {name.rpartition("/")[0] for name in files} - {""}
        return web.json_response(
            [entry_of(path, files[path]) for path in paths if path in files]
            + [folder_entry(path) for path in paths if path in folders]
        )

    async def _resolve(self, request: web.Request) -> web.Response:
        oid, files = self._repo(request).at(request.match_info["revision"])
        name = request.match_info["file"]
        if name not in files:
            raise refusal(404, "EntryNotFound", f"no file {name}")
        data = files[name]
        headers = {
            "ETag": f'"{object_id(data, "lfs")}"',
            "X-Repo-Commit": oid,
            "Accept-Ranges": "bytes",
        }
        part = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("Range", ""))
        if not part:
            return web.Response(body=data, headers=headers)
        start, end = int(part[1]), min(int(part[2] or len(data)), len(data) - 1)
        headers["Content-Range"] = f"bytes {start}-{end}/{len(data)}"
        return web.Response(status=206, body=data[start : end + 1], headers=headers)


def known(request: web.Request) -> None:
    """Refuse everybody but `ada`."""
    if request.headers.get("Authorization") != f"Bearer {TOKEN}":
        raise refusal(401, None, "Invalid username or password.")


def refusal(status: int, code: str | None, message: str) -> web.HTTPException:
    """An answer as the Hub words its refusals."""

    class Refusal(web.HTTPException):
        status_code = status

    headers = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {})
    return Refusal(
        headers=headers, text=json.dumps({"error": message}), content_type="application/json"
    )


def object_id(data: bytes, mode: str) -> str:
    """A file's hash as the Hub counts it: git's for small files, sha256 for large ones."""
    if mode == "lfs":
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def entry_of(name: str, data: bytes) -> dict[str, Any]:
    """A file as the Hub lists it."""
    return {"type": "file", "path": name, "size": len(data), "oid": object_id(data, "regular")}


def folder_entry(path: str) -> dict[str, Any]:
    """A folder as the Hub lists it."""
    return {"type": "directory", "path": path, "oid": "0" * 40}
