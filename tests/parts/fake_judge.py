"""Replies of a judge that decides by a hash of what it is shown: for the fake servers beside this.

`judge_reply` answers each of the project's judge prompts in the form it asks for, and summaries
as `kill_loop.summary` does. Equal requests get equal answers, swapped pairs the same rating.
"""

import hashlib
import re
from typing import Any

from parts.kill_loop import summary

KINDS = {
    "judge_complete": "check whether written solutions",
    "judge_problem": "decide whether there is more than one method",
    "judge_pair": "rate how far apart their methods are",
    "judge_select_set": "each one from every other one",
}


def kind_of(body: dict[str, Any]) -> str:
    """Which prompt a request was made from."""
    system = body["messages"][0]["content"]
    return next((name for name, phrase in KINDS.items() if phrase in system), "summarize")


def judge_reply(body: dict[str, Any]) -> str:
    """An answer that can be read, whatever is asked."""
    kind, user = kind_of(body), body["messages"][-1]["content"]
    if kind == "summarize":
        return summary(body)
    shown = sorted(re.findall(r"<\w+-(\w{8})>", user))  # codes of contents, whatever their order
    digest = hashlib.sha256(" ".join(shown).encode()).digest()
    if kind == "judge_complete":
        return f"It ends in an answer.\n//boxed{{{1 if digest[0] < 16 else 2}}}"
    if kind in ("judge_problem", "judge_pair"):
        return f"A word on both.\n//boxed{{{1 + digest[0] % 2}}}"
    count = len(re.findall(r"^Solution \d+:$", user, re.MULTILINE))
    ranked = sorted(range(1, count + 1), key=lambda n: hashlib.sha256(digest + bytes([n])).digest())
    wanted = int(re.search(r"exactly (\d+) different", body["messages"][0]["content"])[1])
    return f"Three groups.\n//boxed_json{{{{{ranked[:wanted]}}}}}"
