"""Secrets, e-mail addresses and folders of this machine in what is about to be published.

Tokens are found by detect-secrets' detectors of known providers and by the patterns it lacks. Its
guesses by entropy and by words such as "password" are left out: mathematics is full of both. A
token is a reason not to publish, an address or a home folder in a solution one to look.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import cache
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

from rpd_metric.errors import InputError

# Detectors that go by entropy, or by a word beside a string.
GUESSES = {
    *("Secret Keyword", "Hex High Entropy String", "Base64 High Entropy String"),
    *("Public IP (ipv4)", "Artifactory Credentials", "Cloudant Credentials"),
    *("IBM Cloud IAM Key", "IBM COS HMAC Credentials", "SoftLayer Credentials"),
}
# What detect-secrets 1.5 does not know. A key of the form that OpenAI began has digits and letters
# of both cases: "risk-assessment-of-the-something-long" is none, nor is a hyphenated word.
OWN = {
    "Hugging Face Token": re.compile(r"hf_[A-Za-z0-9]{20,}"),
    "API Key (sk-)": re.compile(
        r"(?<![A-Za-z0-9_-])sk-(?=[A-Za-z0-9_-]*\d)(?=[A-Za-z0-9_-]*[A-Za-z])"
        r"(?:[A-Za-z0-9]+-)*[A-Za-z0-9_]{20,}"
    ),
    "GitHub Token": re.compile(r"(?<![A-Za-z0-9_])github_pat_\w{30,}"),
}
EMAIL = re.compile(
    r"(?<![\w.+-])[A-Za-z0-9][\w.+-]*@(?:[A-Za-z0-9-]+\.)+(?:[A-Za-z]{2,24})(?![\w-])"
)
# Addresses that are made for examples belong to nobody.
NOBODY = re.compile(r"@(?:[\w-]+\.)*(?:example\.(?:com|org|net)|example|test|invalid)$")
# Not after a letter or a slash, so that the path of a URL is none.
LOCAL_PATHS = re.compile(
    r"(?<![\w./:-])(?:/(?:home|Users|mnt|media|scratch|data|workspace)/[\w.-]+/|/(?:root|tmp)/)"
    r"|file:///|\b[A-Za-z]:\\{1,2}Users\\"
)
HOME_PATHS = re.compile(r"(?<![\w./:-])/(?:home|Users)/[\w.-]+/|\b[A-Za-z]:\\{1,2}Users\\")
WITH_TEXT = (".md", ".json", ".jsonl", ".txt", ".py", ".svg", ".yaml", ".yml")
# Vocabularies hold every scrap of text there is.
VOCABULARIES = ("tokenizer*.json", "vocab*", "merges.txt")
SHOWN = 24


def check_text(files: Mapping[str, Path | bytes], *, allowed: Sequence[str] = ()) -> None:
    """Refuse files, or contents, with a secret or a path of this machine in their text.

    Tokens of `allowed` providers are let through.
    """
    for name, path in files.items():
        if not name.endswith(WITH_TEXT) or any(fnmatch(name, one) for one in VOCABULARIES):
            continue
        with path.open("rb") if isinstance(path, Path) else BytesIO(path) as raw:
            lines = TextIOWrapper(raw, encoding="utf-8", errors="replace")
            if leak := find_leak(lines, home=Path.home(), allowed=allowed):
                raise InputError(
                    f"{name}, {leak}, so nothing was sent. Take it out, or leave the file out "
                    f"(--exclude {name})"
                )


def find_leak(
    lines: Iterable[str], *, home: Path | None = None, allowed: Sequence[str] = ()
) -> str | None:
    """The first secret or local path in the lines of a text; `home` is found wherever it lies."""
    # A home directly under the root, as a container's user may have, would match half of all text.
    own = str(home) if home is not None and len(home.parts) > 2 else None
    for number, line in enumerate(lines, start=1):
        for name, excerpt in secrets_in(line):
            if name not in allowed:
                override = f"if it is none, let it through with --allow-secret {name!r}"
                return f"line {number}, holds a secret ({name}, {excerpt}; {override})"
        found = LOCAL_PATHS.search(line)
        start = found.start() if found else line.find(own) if own else -1
        if start >= 0:
            excerpt = line[start : start + SHOWN].strip()
            return f"line {number}, holds a path of this machine ({excerpt})"
    return None


def check_rows(files: Mapping[str, Path | bytes], *, allowed: Sequence[str] = ()) -> list[str]:
    """Refuse Parquet files with a token in any of their texts, naming the rows.

    Returns:
        `list[str]`: Warnings, a line each: e-mail addresses and home folders, with their rows.
    """
    tokens: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    doubts: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    for name, path in files.items():
        if not name.endswith(".parquet") or not isinstance(path, Path):
            continue
        for row, column, text in _texts(path):
            for provider, _ in secrets_in(text):
                if provider not in allowed:
                    tokens[name, column, provider].add(row)
            if emails_in(text):
                doubts[name, column, "e-mail addresses"].add(row)
            if HOME_PATHS.search(text):
                doubts[name, column, "home folders"].add(row)
    for (name, column, provider), rows in tokens.items():
        raise InputError(
            f"{name} holds a secret ({provider}) in column {column}, {_rows(rows)}, so nothing was "
            "sent. Take it out of the input and curate again, or if it is none, --allow-secret "
            f"{provider!r}"
        )
    return [
        f"{name}, column {column}: {what} in {_rows(rows)}"
        for (name, column, what), rows in doubts.items()
    ]


@cache
def _detectors() -> tuple[Any, ...]:
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    found: dict[str, Any] = get_mapping_from_secret_type_to_class()
    return tuple(detector() for name, detector in found.items() if name not in GUESSES)


def secrets_in(text: str) -> Iterator[tuple[str, str]]:
    """Tokens of known providers in a text, as `(provider, first characters)`."""
    for name, pattern in OWN.items():
        for match in pattern.finditer(text):
            yield name, match[0][:6] + "…"
    for detector in _detectors():
        for secret in detector.analyze_string(text):
            at = text.find(secret)
            # Inside a longer word it is a part of something else.
            if at > 0 and (text[at - 1].isalnum() or text[at - 1] == "_"):
                continue
            yield detector.secret_type, secret[:4] + "…"


def emails_in(text: str) -> list[str]:
    """E-mail addresses in a text, without those that are made for examples."""
    return [found for found in EMAIL.findall(text) if not NOBODY.search(found)]


def _rows(numbers: Iterable[int]) -> str:
    once = sorted(numbers)
    named = ", ".join(map(str, once[:5])) + (", ..." if len(once) > 5 else "")
    return f"row {named}" if len(once) == 1 else f"{len(once):,} rows ({named})"


def _texts(path: Path) -> Iterator[tuple[int, str, str]]:
    """Row (from 0), column and text, for every string however deep it lies."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        batches = file.iter_batches(batch_size=64)
        for number, row in enumerate(row for batch in batches for row in batch.to_pylist()):
            for column, value in row.items():
                if text := "\n".join(_strings(value)):
                    yield number, column, text


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        inside = value if isinstance(value, list) else (*value.keys(), *value.values())
        for inner in inside:
            yield from _strings(inner)
