"""Which model wrote the replies of a run, in its servers' words, beside the one that was asked."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Mapping

# Who answered: the model that was asked, the one that answered, its version and its host.
Source = tuple[str, str, str, str]
# Ends of names that only a network of one's own knows.
PRIVATE = (".local", ".localdomain", ".internal", ".intranet", ".lan", ".home", ".corp")


def sources_line(served: Mapping[Source, int]) -> str:
    """The models, versions and hosts that answered, with the number of replies of each.

    >>> sources_line({("m", "m-2", "fp_1", "10.0.0.7"): 24})
    'm-2, version fp_1, at a private host (24)'
    """
    shown: Counter[str] = Counter()
    for (_, model, version, host), times in served.items():
        words = _bare(model), version and f"version {version}", host and f"at {_public(host)}"
        shown[", ".join(filter(None, words))] += times
    return "; ".join(f"{words} ({times:,})" for words, times in sorted(shown.items()))


def other_sources(served: Mapping[Source, int]) -> str | None:
    """A warning if another model answered than was asked, or several did."""
    warnings = []
    for named in sorted({source[0] for source in served}):
        models = {model for name, model, *_ in served if name == named and model}
        versions = {version for name, _, version, _ in served if name == named and version}
        same = re.compile(rf"{re.escape(named)}(@[\w.-]+|:latest|[-:]\d[\d.-]*)?", re.IGNORECASE)
        if others := sorted(_bare(model) for model in models if not same.fullmatch(model)):
            warnings.append(f"{_bare(named)} was asked, and {', '.join(others)} answered")
        elif max(len(models), len(versions)) > 1:
            names = ", ".join(sorted(map(_bare, models)) + sorted(versions))
            warnings.append(f"{_bare(named)} answered in several versions: {names}")
    if not warnings:
        return None
    return f"{'; '.join(warnings)}. Check the server; its replies are in the store"


def _bare(name: str) -> str:
    """A model's name without the folders that it lies in on its server."""
    return name.rsplit("/", 1)[-1] if name.startswith("/") else name


def _public(host: str) -> str:
    """A host of the Internet by its name; nobody else's business is which others there are."""
    try:
        public = ipaddress.ip_address(host).is_global
    except ValueError:
        public = "." in host and not host.endswith(PRIVATE)
    return host if public else "a private host"
