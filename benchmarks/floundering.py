"""How well do the rules of `--soundness rules` find failed arguments behind right answers?

    python benchmarks/floundering.py

Solutions with a right final answer that hold one of a wide list of words ("impossible", "mistake",
"however, this", "closest", ...) were drawn in random order from ../shared/data, and one reader
labelled each from the words around the last of them and its end: does the argument fail, and the
answer follow all the same? Unclear ones were passed over. The first part was read before the rules
were written and shaped them; the second was read afterwards and shaped nothing. Recall is among
solutions that hold such a word: what none of them betrays is not counted.

`floundering_labels.json` holds ids (problem/solution) and no texts. The output stands in
`docs/inputs.md`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from machine import markdown

from rpd_datasets.filters.soundness import signs_of_floundering

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / "shared/data"
CANDIDATES = "multi_solution/candidates.jsonl"


def main() -> None:
    """Print precision and recall, and how often the rules speak elsewhere."""
    rows = read(CANDIDATES)
    texts = {
        f"{row['problem_id']}/{index}": text
        for row in rows
        for index, text in enumerate(row["solutions"])
    }
    print(markdown([agreement(name, texts) for name in ("written_on", "held_out")]))
    print()
    print(markdown([rate(CANDIDATES, rows, right) for right in (True, False)] + others()))


def read(name: str) -> list[dict[str, object]]:
    """The rows of a file of ../shared/data."""
    return [json.loads(line) for line in (DATA / name).open(encoding="utf-8")]


def agreement(part: str, texts: dict[str, str]) -> dict[str, object]:
    """Precision and recall on one part of the labels."""
    labels = json.loads((HERE / "floundering_labels.json").read_text())[part]
    found = {
        label: sum(bool(signs_of_floundering(texts[name])) for name in names)
        for label, names in labels.items()
    }
    return {
        "labels": part.replace("_", " "),
        "solutions": sum(map(len, labels.values())),
        "precision": f"{found['floundering']} of {sum(found.values())}",
        "recall": f"{found['floundering']} of {len(labels['floundering'])}",
    }


def rate(name: str, rows: list[dict[str, object]], right: bool) -> dict[str, object]:
    """How many solutions of a file with right, or wrong, answers show a sign."""
    signs = [
        bool(signs_of_floundering(text))
        for row in rows
        for text, mark in zip(row["solutions"], row["correct"], strict=True)  # type: ignore[call-overload]
        if mark is right
    ]
    return _line(f"{name}, {'right' if right else 'wrong'} answers", signs)


def others() -> list[dict[str, object]]:
    """The same of files whose solutions are right throughout."""
    lines = []
    for name in ("strategy_bench/train.jsonl", "long_cot/candidates.jsonl"):
        texts = [text for row in read(name) for text in row["solutions"]]  # type: ignore[attr-defined]
        lines.append(_line(name, [bool(signs_of_floundering(text)) for text in texts]))
    return lines


def _line(name: str, signs: list[bool]) -> dict[str, object]:
    share = f"{sum(signs)} of {len(signs)} ({sum(signs) / len(signs):.1%})"
    return {"solutions": name, "with a sign": share}


if __name__ == "__main__":
    main()
