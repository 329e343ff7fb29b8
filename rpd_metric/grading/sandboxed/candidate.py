"""Runs a model's code and answers calls of its function. Joined to `wire.py` as text.

Reads one call a line from standard input, writes one reply a line to standard output. The
model's code can change anything here; all it gains is a say over its own replies.
"""

from __future__ import annotations

import json
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rpd_metric.grading.sandboxed.wire import decode, encode, to_line


def main(code: str, name: str, prelude: str) -> None:
    """Load the code, say whether it is Python, then answer calls until there are no more."""
    calls = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silent, stream)
    module = ModuleType("candidate")
    module.__file__ = __file__
    sys.modules["candidate"] = module  # dataclasses look their module up
    names = module.__dict__
    try:
        compiled = compile(code, "candidate.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        replies.write(to_line({"broken": str(error)}))
        return
    exec(prelude, names)
    exec(compiled, names)
    function: Any = names.get(name)
    if function is None:
        function = getattr(names["Solution"](), name)
    replies.write(to_line({"ready": True}))
    for line in calls:
        try:
            reply = {"value": encode(function(*decode(json.loads(line))))}
        except BaseException as error:  # noqa: BLE001 whatever it raises goes to the checker
            reply = {"raised": type(error).__name__}
        replies.write(to_line(reply))
