"""The rows of a dataset on the Hub, streamed and pinned to one commit."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rpd_datasets.inputs.raw_rows import Row, Terms
from rpd_metric.errors import InputError, first_line

COMMIT = re.compile(r"[0-9a-f]{40}")


class HubRows:
    """The rows of a dataset on the Hub, pinned to the commit that its revision names now.

    `streaming` reads row by row; otherwise they are downloaded, or come from the cache.
    """

    def __init__(
        self,
        repo: str,
        *,
        config: str | None = None,
        split: str = "train",
        revision: str | None = None,
        streaming: bool = True,
    ) -> None:
        from datasets import load_dataset
        from datasets.exceptions import DatasetsError
        from huggingface_hub import HfApi
        from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

        from rpd_metric.models.http_library import httpx

        self.name = repo
        self.part = f"{config or ''}/{split}"
        self.terms = Terms(datasets=(repo,))  # what the cache holds comes without its card
        # ValueError: the readers of `datasets` raise it for rows they cannot parse.
        self._errors = (DatasetsError, OSError, ValueError, httpx.HTTPError)
        unreachable = f"{repo!r} is not a local file or folder, and the Hub cannot be reached: "
        commit: str | None = None
        try:
            info = HfApi().dataset_info(repo, revision=revision, timeout=20)
            commit, self.terms = info.sha, _terms(repo, info.card_data)
        except RepositoryNotFoundError as error:
            raise InputError(
                f"{repo!r} is neither a local file or folder nor a dataset on the Hub that you can "
                "read. Check the spelling; private and gated datasets need `hf auth login`."
            ) from error
        except RevisionNotFoundError as error:
            raise InputError(f"{repo!r} has no revision {revision!r} on the Hub.") from error
        except (OSError, httpx.HTTPError) as error:
            if streaming:
                raise InputError(unreachable + first_line(error)) from error
        try:
            self.dataset = load_dataset(
                repo, config, split=split, revision=commit or revision, streaming=streaming
            )
        except self._errors as error:
            what = f"{repo!r} cannot be read: " if commit else unreachable
            raise InputError(what + first_line(error)) from error
        self._fingerprint = commit or _cached_commit(self.dataset)

    def __iter__(self) -> Iterator[Row]:
        number = 0
        try:
            for number, values in enumerate(self.dataset, start=1):
                yield Row(f"{self.name}:{number}", dict(values))
        except self._errors as error:
            raise InputError(
                f"Reading {self.name!r} stopped after {number} rows: {first_line(error)}. Try "
                "again; if it stops there again, download the dataset and name its files, where a "
                "bad row costs only itself."
            ) from error

    def fingerprint(self) -> str:
        """The commit that is read."""
        return self._fingerprint


def _terms(repo: str, card: Any) -> Terms:
    def names(value: Any) -> tuple[str, ...]:
        listed = value if isinstance(value, list) else [value]
        return tuple(name for name in listed if isinstance(name, str) and name != "unknown")

    licences = (names(card.license), names(card.language)) if card else ((), ())
    return Terms(*licences, (repo,))


def _cached_commit(rows: Any) -> str:
    """The commit of a dataset out of the cache, which names the folder of its files."""
    folders = (Path(file["filename"]).parent.name for file in rows.cache_files)
    return next(filter(COMMIT.fullmatch, folders), f"cached-{rows._fingerprint}")
