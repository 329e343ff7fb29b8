"""Secrets and folders of this machine in text that is about to be published.

Patterns of tokens and of home, temporary and mounted folders; a wrong alarm costs a look, a token
on the Hub costs more. Parquet is not searched: solutions may speak of any path they like.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SECRETS = re.compile(
    r"hf_[A-Za-z0-9]{20,}"  # Hugging Face
    r"|sk-[A-Za-z0-9_-]{20,}"  # OpenAI and those who took its form over
    r"|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{30,}"
    r"|AKIA[0-9A-Z]{16}"  # AWS
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|://[^\s/:@\"']+:[^\s/:@\"']+@"  # a password in a URL
)
# Not after a letter or a slash, so that the path of a URL is none.
LOCAL_PATHS = re.compile(
    r"(?<![\w./:-])(?:/(?:home|Users|mnt|media|scratch|data|workspace)/[\w.-]+/|/(?:root|tmp)/)"
    r"|file:///|\b[A-Za-z]:\\{1,2}Users\\"
)
SHOWN = 24


@dataclass(frozen=True)
class Leak:
    """What should not be published, and where it stands.

    Args:
        kind (`str`): `"a secret"` or `"a path of this machine"`.
        line (`int`): From 1.
        excerpt (`str`): How it begins; of a secret only the first characters.
    """

    kind: str
    line: int
    excerpt: str


def find_leak(lines: Iterable[str], *, home: Path | None = None) -> Leak | None:
    """The first secret or local path in a text.

    Args:
        lines (`Iterable[str]`): The text, line by line.
        home (`Path`, *optional*): The user's home folder, wherever it lies; found too.

    Returns:
        [`Leak`] or `None`.

    Example:

    ```py
    >>> from rpd_datasets.publish.secrets import find_leak
    >>> find_leak(["input:", "/home/ada/solutions.jsonl"])
    Leak(kind='a path of this machine', line=2, excerpt='/home/ada/solutions.json')
    >>> find_leak(["https://example.org/home/ada/x"]) is None
    True

    ```
    """
    # A home directly under the root, as a container's user may have, would match half of all text.
    own = str(home) if home is not None and len(home.parts) > 2 else None
    for number, line in enumerate(lines, start=1):
        if found := SECRETS.search(line):
            return Leak("a secret", number, found[0][:6] + "…")
        if found := LOCAL_PATHS.search(line):
            start = found.start()
        elif own is not None and own in line:
            start = line.index(own)
        else:
            continue
        return Leak("a path of this machine", number, line[start : start + SHOWN].strip())
    return None
