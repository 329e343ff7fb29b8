"""Secrets, e-mail addresses and folders of this machine in text that is about to be published.

Tokens are found by detect-secrets' detectors of known providers, which are kept up to date there,
and by two patterns it lacks. Its guesses by entropy and by words such as "password" are left out:
mathematics is full of both. A token is a reason not to publish, an address or a home folder in a
solution one to look: solutions may speak of any path they like.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

# Module and class of each detector; imported when something is published.
DETECTORS = (
    ("aws", "AWSKeyDetector"),
    ("azure_storage_key", "AzureStorageKeyDetector"),
    ("basic_auth", "BasicAuthDetector"),
    ("discord", "DiscordBotTokenDetector"),
    ("github_token", "GitHubTokenDetector"),
    ("gitlab_token", "GitLabTokenDetector"),
    ("jwt", "JwtTokenDetector"),
    ("mailchimp", "MailchimpDetector"),
    ("npm", "NpmDetector"),
    ("openai", "OpenAIDetector"),
    ("private_key", "PrivateKeyDetector"),
    ("pypi_token", "PypiTokenDetector"),
    ("sendgrid", "SendGridDetector"),
    ("slack", "SlackDetector"),
    ("square_oauth", "SquareOAuthDetector"),
    ("stripe", "StripeDetector"),
    ("telegram_token", "TelegramBotTokenDetector"),
    ("twilio", "TwilioKeyDetector"),
)
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
SHOWN = 24


@dataclass(frozen=True)
class Leak:
    """What should not be published, and where it stands.

    Args:
        kind (`str`): `"a secret"` or `"a path of this machine"`.
        line (`int`): From 1.
        excerpt (`str`): How it begins; of a secret only the first characters.
        name (`str`): Whose secret it is, e.g. `"Hugging Face Token"`.
    """

    kind: str
    line: int
    excerpt: str
    name: str = ""


@cache
def _detectors() -> tuple[Any, ...]:
    from importlib import import_module

    return tuple(
        getattr(import_module(f"detect_secrets.plugins.{module}"), name)()
        for module, name in DETECTORS
    )


def secrets_in(text: str) -> Iterator[tuple[str, str]]:
    """Tokens of known providers in a text, of any length.

    Args:
        text (`str`): The text; nothing of it is sent anywhere.

    Returns:
        Iterator of `(provider, first characters)`.

    Example:

    ```py
    >>> from rpd_datasets.publish.secrets import secrets_in
    >>> list(secrets_in("export HF_TOKEN=hf_" + "aB3" * 10))
    [('Hugging Face Token', 'hf_aB3…')]
    >>> list(secrets_in("a risk-assessment-of-the-something-long"))
    []

    ```
    """
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


def find_leak(
    lines: Iterable[str], *, home: Path | None = None, allowed: Iterable[str] = ()
) -> Leak | None:
    """The first secret or local path in a text.

    Args:
        lines (`Iterable[str]`): The text, line by line.
        home (`Path`, *optional*): The user's home folder, wherever it lies; found too.
        allowed (`Iterable[str]`): Providers whose tokens are let through.

    Returns:
        [`Leak`] or `None`.

    Example:

    ```py
    >>> from rpd_datasets.publish.secrets import find_leak
    >>> find_leak(["input:", "/home/ada/solutions.jsonl"])
    Leak(kind='a path of this machine', line=2, excerpt='/home/ada/solutions.json', name='')
    >>> find_leak(["https://example.org/home/ada/x"]) is None
    True

    ```
    """
    # A home directly under the root, as a container's user may have, would match half of all text.
    own = str(home) if home is not None and len(home.parts) > 2 else None
    let_through = set(allowed)
    for number, line in enumerate(lines, start=1):
        for name, excerpt in secrets_in(line):
            if name not in let_through:
                return Leak("a secret", number, excerpt, name)
        if found := LOCAL_PATHS.search(line):
            start = found.start()
        elif own is not None and own in line:
            start = line.index(own)
        else:
            continue
        return Leak("a path of this machine", number, line[start : start + SHOWN].strip())
    return None
