"""Publishing on the Hub: a curated folder, a model, or any set of files, in one commit.

One commit never shows a partial push; `HfApi.upload_folder` would split large folders into several.
Run an interrupted push again to complete it: the Hub recognizes files by their hashes. Uploads use
Xet if `hf_xet` is installed, or Git LFS with `HF_HUB_DISABLE_XET=1`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rpd_datasets.publish.eval_results import FOLDER, results_text
from rpd_datasets.publish.model_card import NOT_EVALUATED, PLACE
from rpd_datasets.publish.publishable import RECORD, REPLACED, RepoType, public_record, publishable
from rpd_datasets.publish.secrets import Finding, look_through
from rpd_metric.errors import InputError, OutputError, RPDError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

logger = logging.getLogger(__name__)

# What the Hub's refusals mean here; `{repo}` is the repository.
REFUSALS = {
    401: "the Hub does not accept the token: log in with `hf auth login`, or set HF_TOKEN to a "
    "token that may write",
    403: "the token may not write to {repo}: take one with write permission there, or another "
    "namespace",
    412: "{repo} was changed by somebody else in the meantime: look at it first",
}


@dataclass(frozen=True)
class Pushed:
    """The result of a push."""

    repo_id: str  # with its namespace
    url: str
    commit: str  # what its main branch now names
    changed: bool  # false if everything was there already
    private: bool
    files: int  # how many the commit holds of this push
    deleted: tuple[str, ...]  # files of an earlier push that this one replaced
    notes: tuple[str, ...] = ()


def push_folder(
    folder: str | Path,
    repo_id: str,
    *,
    private: bool = True,
    commit_message: str | None = None,
    exclude: Sequence[str] = (),
    allowed_secrets: Sequence[str] = (),
    api: HfApi | None = None,
) -> Pushed:
    """Publish what `rpd curate` made (shards, card, manifest, lists, figures), or a trained model.

    Args:
        folder (`str` or `Path`): The folder. It is checked before anything is sent.
        repo_id (`str`): The id there; without a namespace, the user's own is taken.
        private (`bool`, defaults to `True`): For a repository that does not exist yet. An
            existing public one is refused unless this is `False`.
        commit_message (`str`, *optional*): The first line of the commit.
        exclude (`Sequence[str]`): Files to leave out, as `"rejects.jsonl"` or `"*.png"`.
        allowed_secrets (`Sequence[str]`): Allowed kinds of secrets, e.g. `"Hugging Face Token"`.
        api ([`~huggingface_hub.HfApi`], *optional*): A client of your own, with its token.

    Raises:
        InputError: The folder is incomplete, or has secrets or local paths; or no token is set.
        OutputError: The Hub cannot be reached or refuses; it has all of the push or nothing.
    """
    folder = Path(folder)
    repo_type, files, findings = to_publish(folder, exclude=exclude, allowed=allowed_secrets)
    if refused := [finding for finding in findings if finding.refused]:
        raise InputError(
            "nothing was sent. Remove this and make the folder again, exclude a file (--exclude "
            "FILE), or allow a kind of finding (--allow-secret KIND):\n"
            + "\n".join(map(str, refused))
        )
    for finding in findings:
        logger.warning("%s", finding)
    card = (folder / "README.md").read_text(encoding="utf-8")
    if results := results_text(folder / name for name in files if name.startswith(FOLDER)):
        card = card.replace(NOT_EVALUATED, results)
    texts = {"README.md": card}
    if isinstance(path := files.get("croissant.json"), Path):
        texts[path.name] = path.read_text(encoding="utf-8")
    return publish(
        lambda full_id: {
            **files,
            **{name: text.replace(PLACE, full_id).encode() for name, text in texts.items()},
        },
        repo_id,
        repo_type=repo_type,
        private=private,
        commit_message=commit_message,
        replaced=REPLACED[repo_type],
        api=api,
    )


def to_publish(
    folder: Path, *, exclude: Sequence[str] = (), allowed: Sequence[str] = ()
) -> tuple[RepoType, dict[str, Path | bytes], list[Finding]]:
    """The files of a folder to publish, by name, and the findings in them; nothing is sent.

    Arguments and errors are those of [`push_folder`].
    """
    repo_type, paths = publishable(folder)
    left_out = {name for pattern in exclude for name in paths if fnmatch(name, pattern)}
    files: dict[str, Path | bytes] = {n: path for n, path in paths.items() if n not in left_out}
    if RECORD in files:
        files[RECORD] = public_record(paths[RECORD])
    return repo_type, files, look_through(files, allowed=allowed, home=Path.home())


def publish(
    files: Callable[[str], Mapping[str, Path | bytes]],
    repo_id: str,
    *,
    repo_type: RepoType,
    private: bool = True,
    commit_message: str | None = None,
    replaced: Sequence[str] = (),
    api: HfApi | None = None,
) -> Pushed:
    """Put files into a repository in one commit, and make the repository where it is missing.

    `files` makes contents by name of the repository's full id. Files there that match `replaced`
    and are not among them are deleted. Otherwise as [`push_folder`].
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    api = api or HfApi()
    repo_id, known = check_access(repo_id, repo_type=repo_type, private=private, api=api)
    contents = files(repo_id)
    again = (
        f"{repo_id} holds either all of this push or nothing of it; push again to finish, what "
        "has arrived is not sent twice"
    )
    with _one_line_errors(repo_id, again):
        if known is None:
            sdk = "gradio" if repo_type == "space" else None
            api.create_repo(repo_id, repo_type=repo_type, private=private, space_sdk=sdk)
        info: Any = api.repo_info(repo_id, repo_type=repo_type)
        names = api.list_repo_files(repo_id, repo_type=repo_type, revision=info.sha)
        outdated = {name for pattern in replaced for name in names if fnmatch(name, pattern)}
        deleted = sorted(outdated - contents.keys())
        adds = [CommitOperationAdd(name, content) for name, content in contents.items()]
        commit = api.create_commit(
            repo_id,
            [*adds, *map(CommitOperationDelete, deleted)],
            commit_message=commit_message or "Made with Reasoning Path Divergence",
            repo_type=repo_type,
            # Somebody else's commit in the meantime is then refused, not overwritten.
            parent_commit=info.sha,
        ).oid
    notes = []
    replacing = [name for name in contents if name in names]
    if commit != info.sha and "README.md" in replacing:
        notes.append(
            f"It replaced an earlier {repo_type}: {len(replacing)} of its files were written over, "
            f"{len(deleted)} deleted; that one stays readable with revision={info.sha[:8]!r}"
        )
    prefix = "" if repo_type == "model" else f"{repo_type}s/"
    return Pushed(
        repo_id=repo_id,
        url=f"{api.endpoint}/{prefix}{repo_id}",
        commit=commit,
        changed=commit != info.sha,
        private=bool(info.private),
        files=len(contents),
        deleted=tuple(deleted),
        notes=tuple(notes),
    )


def check_access(
    repo_id: str, *, repo_type: RepoType, private: bool = True, api: HfApi | None = None
) -> tuple[str, Any]:
    """The full id of a repository that can be written, and the Hub's info of it, if it exists."""
    from huggingface_hub import HfApi, get_token
    from huggingface_hub.errors import RepositoryNotFoundError

    api = api or HfApi()
    if not (api.token or get_token()):
        raise InputError("a token for the Hub is missing: run `hf auth login`, or set HF_TOKEN")
    with _one_line_errors(repo_id, "Nothing was sent"):
        if "/" not in repo_id:
            repo_id = f"{api.whoami()['name']}/{repo_id}"
        try:
            info = api.repo_info(repo_id, repo_type=repo_type)
        except RepositoryNotFoundError:
            # The Hub says so to those whom it does not know, too.
            api.whoami()
            return repo_id, None
    if private and not info.private:
        raise InputError(
            f"{repo_id} exists and is public: pass {{public=True}} (private=False in Python) to "
            "write to it, or choose another name",
            option="public",
        )
    return repo_id, info


@contextmanager
def _one_line_errors(repo_id: str, state: str) -> Iterator[None]:
    """Turn errors of the hub client into one line: the error, the state, and what to do."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

    from rpd_metric.models.http_library import httpx

    # The hub client raises RuntimeError around a failed upload of a file and out of Xet, and
    # ValueError for an id or card that the Hub would refuse.
    try:
        yield
    except RPDError:
        raise
    except (OSError, RuntimeError, ValueError, httpx.HTTPError) as error:
        cause: BaseException = error
        while cause.__cause__ is not None and not isinstance(cause, httpx.HTTPError):
            cause = cause.__cause__
        last = _one_line(cause)
        if isinstance(cause, OfflineModeIsEnabled):
            message = "the hub client is in offline mode: unset HF_HUB_OFFLINE to publish"
        elif isinstance(error, HFValidationError):
            message = f"{repo_id!r} is not a repository id: {last}"
        elif isinstance(error, ValueError):
            message = f"the Hub refuses {repo_id}: {_one_line(error)}"
        elif isinstance(cause, HfHubHTTPError):
            status = cause.response.status_code
            why = REFUSALS.get(status, "the Hub refuses {repo}").format(repo=repo_id)
            message = f"{why} (HTTP {status}: {_one_line(cause.server_message or cause)}). {state}"
        elif isinstance(cause, httpx.HTTPError):
            message = f"the connection to the Hub broke: {last}. {state}"
        else:
            message = f"the upload broke: {last}. If it is Xet, set HF_HUB_DISABLE_XET=1. {state}"
        raise OutputError(message) from error


def _one_line(message: BaseException | str) -> str:
    return " ".join(str(message).split())[:300].rstrip(".") or type(message).__name__
