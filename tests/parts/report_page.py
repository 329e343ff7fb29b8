"""Reads the problems back out of a page that `rpd report` made."""

from __future__ import annotations

import base64
import json
import re
import zlib


def embedded(page: str) -> tuple[list, list]:
    """The list of problems, and the problems, that a page holds."""

    def unpack(name: str) -> list:
        (packed,) = re.findall(rf'<script type="text/plain" id="{name}">([^<]*)</script>', page)
        return json.loads(zlib.decompress(base64.b64decode(packed)))

    pieces = len(re.findall(r'id="piece\d+"', page))
    return unpack("index"), [one for n in range(pieces) for one in unpack(f"piece{n}")]
