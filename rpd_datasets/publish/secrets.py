"""Secrets, e-mail addresses and local folders in files to publish.

Tokens are found by the prefixes and assignments of the table below and, with the extra `secrets`,
by the several hundred rules of kingfisher; not by entropy, since mathematics and programs are full
of strings that look random. Escapes of JSON, programs, LaTeX and URLs, characters without width,
breaks inside a token and base64 are undone before the search. Secrets, and local paths in text
files, stop a push; addresses and home folders in solutions are warnings.
"""

import base64
import json
import logging
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from importlib.util import find_spec
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

# A token begins where no word goes on; escapes such as \n were replaced before.
_START = r"(?<![A-Za-z0-9_-])"
# The value of an assignment: letters and digits, and no call, variable or placeholder.
_VALUE = r"(?=[^\s\"']{0,200}?\d)(?=[^\s\"']{0,200}?[A-Za-z])(?![^\s\"']{0,200}?[(<${*])[^\s\"',;]"
_NAME = (
    r"[\w.-]{0,40}(?:passw(?:or)?d|pwd|secret|api_?key|access_?key|(?:access|auth)_?token)\w{0,20}"
)
TOKENS = {
    name: re.compile(pattern)
    for name, pattern in {
        "Hugging Face Token": r"hf_[A-Za-z0-9]{20,}",
        # OpenAI, Anthropic, OpenRouter and others. A hyphenated phrase has no such run of letters
        # and digits.
        "API Key (sk-)": _START + r"sk-(?=[A-Za-z0-9_-]*\d)(?=[A-Za-z0-9_-]*[A-Za-z])"
        r"(?:[A-Za-z0-9]+-)*[A-Za-z0-9_]{20,}",
        "GitHub Token": _START + r"(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{30,})",
        "GitLab Token": _START + r"glpat-[\w-]{20,}",
        "AWS Access Key": _START + r"(?:AKIA|ASIA)[A-Z2-7]{16}(?![A-Za-z0-9])",
        "AWS Secret Key": r"(?i:aws_?secret(?:_?access)?_?key)[\"']?\s{0,9}[:=]\s{0,9}[\"']?"
        r"(?=[a-z/+]*[A-Z0-9])[\w/+]{40}(?![\w/+])",
        "Azure Storage Key": r"(?i:account_?key)[\"']?\s{0,9}[:=]\s{0,9}[\"']?[\w/+]{86}==",
        "Azure Signature": r"[?&]sig=[\w/+-]{43}=",
        "Google API Key": _START + r"(?:AIza[\w-]{35}|GOCSPX-[\w-]{28}|ya29\.[\w-]{20,})",
        "Slack Token": _START + r"xox[abeoprs]-[\w-]{10,}",
        "Webhook": r"(?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks)/[\w/-]{20,}"
        r"|\bwhsec_[\w/+-]{24,}",
        "Telegram Token": _START + r"\d{8,10}:AA[\w-]{33}(?![\w-])",
        "Discord Token": _START + r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,38}(?![\w-])",
        "Mailgun Key": _START
        + r"(?:key-[0-9a-f]{32}|[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8})(?![\w-])",
        "Notion Token": _START + r"(?:ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43}(?!\w))",
        "Tavily Key": _START + r"tvly-(?=[\w-]*\d)[\w-]{20,}",
        "Kaggle Key": r"\bKGAT_[0-9a-f]{32}|[\"']key[\"']\s{0,9}:\s{0,9}[\"'][0-9a-f]{32}[\"']",
        "Docker Login": r"[\"']auth[\"']\s{0,9}:\s{0,9}[\"'](?=[^\"']{0,99}[A-Z])"
        r"(?:[A-Za-z0-9+/]{4}){2,}[A-Za-z0-9+/]{2}(?:==|[A-Za-z0-9+/][A-Za-z0-9+/=])[\"']",
        "Login of npm": r":_(?:auth(?:Token)?|password)\s{0,9}=\s{0,9}[\"']?[\w+/=-]{8,}",
        "Login of netrc": r"\bmachine\s{1,9}\S{1,99}\s{1,9}login\s{1,9}\S{1,99}\s{1,9}password\s",
        "Stripe Key": _START + r"[rs]k_live_[A-Za-z0-9]{20,}",
        "npm Token": _START + r"npm_[A-Za-z0-9]{36}",
        "PyPI Token": _START + r"pypi-AgE[\w-]{50,}",
        "W&B Key": r"(?:wandb_v1_\w{40,}|(?i:wandb|weights.and.biases)[^\n]{0,30}\b[0-9a-f]{40}\b)",
        "Databricks Token": _START + r"dapi[0-9a-f]{32}",
        "Groq Key": _START + r"gsk_[A-Za-z0-9]{40,}",
        "Replicate Token": _START + r"r8_[A-Za-z0-9]{30,}",
        "xAI Key": _START + r"xai-[A-Za-z0-9]{40,}",
        # NVIDIA, Perplexity, Docker, DigitalOcean, Linear, Figma, Vault, Shopify and others.
        "Service Token": _START + r"(?:nvapi-|pplx-|dckr_pat_|dop_v1_|lin_api_|figd_|hvs\.|shpat_"
        r"|lsv2_[ps][tk]_|sbp_)(?=[\w-]{0,99}\d)[\w-]{24,}",
        "JSON Web Token": _START + r"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}",
        "Private Key": r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----|PuTTY-User-Key-File-\d"
        r"|AGE-SECRET-KEY-1[0-9A-Z]{50,}",
        "Authorization Header": r"(?i:authorization[\"']?\s*[:=]\s*[\"']?)?\b(?i:bearer|basic)\s+"
        r"(?=[\w.~+/=-]*\d)(?=[\w.~+/=-]*[A-Za-z])[\w.~+/=-]{20,}",
        "Password in a URL": r"\b[a-z][a-z0-9+]{0,20}://[^\s:/@\"'<>{}$]+:[^\s:/@\"'<>{}$]{3,}@[\w.-]+",
        # In quotes, or as in a file of the environment: NAME=value.
        "Password": rf"\b(?:(?i:{_NAME})[\"']?\s*[:=]\s*[\"']{_VALUE}{{8,}}[\"']"
        rf"|[A-Z0-9_]{{0,40}}(?:PASSWORD|PASSWD|SECRET|API_?KEY|TOKEN)[A-Z_]{{0,20}}={_VALUE}{{8,}})",
    }.items()
}
# Escapes in strings of programs and of JSON, of any depth, in LaTeX, Markdown and URLs.
ESCAPE = re.compile(
    r"(?<!\\)\\++(?:(?P<line>[nr])|[tbf]|u(?P<code>[0-9a-fA-F]{4})|(?P<sign>[\"'/_&#$%{}.+-]))"
    r"|\{\\(?P<underscore>_)\}|%(?:25)*(?P<byte>[2-7][0-9a-fA-F])"
)
INVISIBLE = re.compile(r"[\u00ad\u034f\u180e\u200b-\u200f\u2060-\u2064\ufe0f\ufeff]")
# A word that may be the beginning of a token, at the end of a line, before one that may go on.
WRAPPED = re.compile(
    r"(?<!\S)(?=\S+[\dA-Z_-])(\S{4,}+)[ \t]*+\r?\n[ \t>#*|]*+(?=[\w+/=.-]{0,99}?[\dA-Z_=])"
)
BASE64 = re.compile(r"[A-Za-z0-9_+/-]{16,}")
READABLE = re.compile(rb"[\t\n\r -~]{12,}")
EMAIL = re.compile(
    r"(?<![\w.+-])[A-Za-z0-9][\w.+-]*@(?:[A-Za-z0-9-]+\.)+(?:[A-Za-z]{2,24})(?![\w-])"
)
# Addresses of examples.
NOBODY = re.compile(r"@(?:[\w-]+\.)*(?:example\.(?:com|org|net)|example|test|invalid)$")
# Not after a letter or a slash, so that the path of a URL is none.
LOCAL_PATHS = re.compile(
    r"(?<![\w./:-])(?:/(?:home|Users|mnt|media|scratch|data|workspace)/[\w.-]+/|/(?:root|tmp)/)"
    r"|file:///|\b[A-Za-z]:\\{1,2}Users\\"
)
HOME_PATHS = re.compile(r"(?<![\w./:-])/(?:home|Users)/[\w.-]+/|\b[A-Za-z]:\\{1,2}Users\\")
WITH_TEXT = (".md", ".json", ".jsonl", ".txt", ".py", ".svg", ".yaml", ".yml")
# The problems of a report: JSON, compressed, in base 64.
PIECE = re.compile(rb'<script type="text/plain"[^>]*>([\w+/=]+)<')
# Vocabularies hold every scrap of text there is.
VOCABULARIES = ("tokenizer*.json", "vocab*", "merges.txt")
SHOWN = 24
BLOCK = 1 << 20  # characters of a text file at a time


@dataclass(frozen=True)
class Finding:
    """A secret, address or path in a file."""

    file: str
    where: str  # "line 3", or "column solutions, row 2"
    kind: str
    excerpt: str  # of a secret only its beginning
    refused: bool  # whether it stops a push

    def __str__(self) -> str:
        return f"{self.file}, {self.where}: {self.kind} ({self.excerpt})"


def look_through(
    files: Mapping[str, Path | bytes], *, allowed: Sequence[str] = (), home: Path | None = None
) -> list[Finding]:
    """The findings in files, or contents, by name; those that stop a push first.

    Texts are read line by line, Parquet files and reports row by row, with strings inside lists and
    records. An `allowed` kind that is not found is warned of. The path `home` is searched for, too.
    """
    findings: list[Finding] = []
    for name, path in files.items():
        if name.endswith((".parquet", ".html")) and isinstance(path, Path):
            rows = _table(path) if name.endswith(".parquet") else _problems(path)
            findings += _in_rows(name, _texts(rows))
        elif name.endswith(WITH_TEXT) and not any(fnmatch(name, p) for p in VOCABULARIES):
            findings += _in_lines(name, path, home)
    for kind in sorted({*allowed} - {finding.kind for finding in findings}):
        logging.getLogger(__name__).warning("--allow-secret %r matches no finding", kind)
    remaining = (finding for finding in findings if finding.kind not in allowed)
    return sorted(remaining, key=lambda finding: not finding.refused)


def _in_lines(name: str, path: Path | bytes, home: Path | None) -> Iterator[Finding]:
    # A home directly under the root, as a container's user may have, would match half of all text.
    own = str(home) if home is not None and len(home.parts) > 2 else None
    with path.open("rb") if isinstance(path, Path) else BytesIO(path) as raw:
        lines, first = TextIOWrapper(raw, "utf-8", errors="replace"), 1
        while block := lines.readlines(BLOCK):
            secrets = set(secrets_in("".join(block)))
            for number, line in enumerate(block, first):
                for kind, excerpt in secrets_in(line) if secrets else ():
                    secrets.discard((kind, excerpt))
                    yield Finding(name, f"line {number}", kind, excerpt, refused=True)
                local = LOCAL_PATHS.search(line)
                start = local.start() if local else line.find(own) if own else -1
                if start >= 0:
                    text = line[start : start + SHOWN].strip()
                    yield Finding(name, f"line {number}", "path of this machine", text, True)
            where = f"over lines, from line {first} on"
            yield from (Finding(name, where, *secret, refused=True) for secret in sorted(secrets))
            first += len(block)


def _in_rows(name: str, texts: Iterable[tuple[int, str, str]]) -> Iterator[Finding]:
    rows: dict[tuple[str, str, bool], dict[int, str]] = defaultdict(dict)
    for row, column, text in texts:
        for kind, excerpt in secrets_in(text):
            rows[column, kind, True].setdefault(row, excerpt)
        for address in emails_in(text):
            rows[column, "e-mail address", False].setdefault(row, address)
        for folder in HOME_PATHS.findall(text):
            rows[column, "home folder", False].setdefault(row, folder)
    for (column, kind, refused), places in rows.items():
        where = f"column {column}, {_rows(places)}"
        yield Finding(name, where, kind, next(iter(places.values()))[:SHOWN], refused)


def secrets_in(text: str) -> Iterator[tuple[str, str]]:
    """Secrets in a text, as `(kind, first characters)`.

    >>> list(secrets_in('print("key:\\\\nhf_' + "aB3x" * 8 + '")'))
    [('Hugging Face Token', 'hf_aB3…')]
    """
    plain = INVISIBLE.sub("", ESCAPE.sub(_unescaped, text))
    unwrapped = WRAPPED.sub(r"\1", plain)
    decoded = ESCAPE.sub(_unescaped, "\n".join(_decoded(unwrapped)))
    forms = dict.fromkeys((plain, unwrapped, decoded))
    tokens = {
        (kind, match[0][:6] + "…"): match[0]
        for form in forms
        for kind, rule in TOKENS.items()
        for match in rule.finditer(form)
    }
    yield from tokens
    known = "\n".join(tokens.values())
    for kind, secret in dict.fromkeys(pair for form in forms for pair in _by_kingfisher(form)):
        if secret not in known and not any(token in secret for token in tokens.values()):
            yield kind, secret[:4] + "…"


def _unescaped(escape: re.Match[str]) -> str:
    code = int(escape["code"] or escape["byte"] or "20", 16)
    if escape["line"]:
        return "\n"
    # A half of a surrogate pair is no character.
    return escape["sign"] or escape["underscore"] or (" " if 0xD800 <= code < 0xE000 else chr(code))


def _decoded(text: str) -> Iterator[str]:
    """What can be read of base64, wherever in a word it begins."""
    for word in BASE64.findall(text):
        for start in range(4):
            length = len(word) - start
            block = word[start : len(word) - (length % 4 == 1)] + "=" * 2
            yield from map(bytes.decode, READABLE.findall(base64.b64decode(block, b"-_")))


def _by_kingfisher(text: str) -> list[tuple[str, str]]:
    """Rule and secret of what kingfisher finds, where it is installed; it scans offline."""
    if find_spec("kingfisher_sdk") is None:
        return []
    return [(hit.rule_id, hit.secret) for hit in _scanner().scan(text) if hit.visible]


@cache
def _scanner() -> Any:
    from kingfisher_sdk import Rules, Scanner

    return Scanner(Rules(confidence="medium"), base64=False)


def emails_in(text: str) -> list[str]:
    """E-mail addresses in a text, without those that are made for examples."""
    return [address for address in EMAIL.findall(text) if not NOBODY.search(address)]


def _rows(numbers: Iterable[int]) -> str:
    once = sorted(numbers)
    named = ", ".join(map(str, once[:5])) + (", ..." if len(once) > 5 else "")
    return f"row {named}" if len(once) == 1 else f"{len(once):,} rows ({named})"


def _texts(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, str, str]]:
    """Row (from 0), column and text, for every string however deep it lies."""
    for number, row in enumerate(rows):
        for column, value in row.items():
            if text := "\n".join(_strings(value)):
                yield number, column, text


def _table(path: Path) -> Iterator[Mapping[str, Any]]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=64):
            yield from batch.to_pylist()


def _problems(page: Path) -> Iterator[Mapping[str, Any]]:
    """The problems of a report as it lists them, and what else its list says."""
    listed, *pieces = PIECE.findall(page.read_bytes()) or [b""]
    for piece in filter(None, (*pieces, listed)):
        yield from json.loads(zlib.decompress(base64.b64decode(piece)))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, bytes):
        yield value.decode("utf-8", "replace")
    elif isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        inside = value if isinstance(value, list) else (*value.keys(), *value.values())
        for inner in inside:
            yield from _strings(inner)
