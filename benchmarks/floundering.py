"""How well do the rules, or a judge, find failed arguments behind right answers?

    python benchmarks/floundering.py
    python benchmarks/floundering.py --judge openai:http://localhost:8000/v1#MODEL

The first prints what `--soundness rules` finds, the second what `--soundness llm` finds beside it,
on the same labels; its replies go to a store, so that it can be stopped and started again.

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

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from machine import markdown

from rpd_datasets.commands import run_command
from rpd_datasets.curation.models import load_flow
from rpd_datasets.filters.soundness import argument_of, signs_of_floundering
from rpd_datasets.judging.judges import Judgement, SoundnessJudge
from rpd_metric.models.concurrency import run_bounded
from rpd_metric.models.flow import draining

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / "shared/data"
CANDIDATES = "multi_solution/candidates.jsonl"
PARTS = ("written_on", "held_out")
AT_ONCE = 64

# A solution with its problem, by the name that the labels have for it.
Texts = Mapping[str, tuple[str, str]]


def main(arguments: Sequence[str] = ()) -> None:
    """Print precision and recall, and how often the rules speak elsewhere."""
    args = _parser().parse_args(arguments)
    rows = read(CANDIDATES)
    texts = {
        f"{row['problem_id']}/{index}": (str(row["problem"]), text)
        for row in rows
        for index, text in enumerate(row["solutions"])  # type: ignore[arg-type]
    }
    parts = args.parts or PARTS
    found = [agreement(name, texts) for name in parts]
    if args.judge:
        found += judge_agreement(parts, texts, args.judge, args.store)
    print(markdown(found))
    if args.judge:
        return
    print()
    print(markdown([rate(CANDIDATES, rows, right) for right in (True, False)] + others()))


def read(name: str) -> list[dict[str, object]]:
    """The rows of a file of ../shared/data."""
    return [json.loads(line) for line in (DATA / name).open(encoding="utf-8")]


def labels_of(part: str) -> dict[str, list[str]]:
    """One part of the labels: `"floundering"` and `"sound"`, each with the solutions' names."""
    labels: dict[str, list[str]] = json.loads((HERE / "floundering_labels.json").read_text())[part]
    return labels


def agreement(part: str, texts: Texts) -> dict[str, object]:
    """Precision and recall of the rules on one part of the labels."""
    labels = labels_of(part)
    found = {
        name: bool(signs_of_floundering(texts[name][1]))
        for names in labels.values()
        for name in names
    }
    return _agreement("rules", part, labels, found)


def judge_agreement(
    parts: Sequence[str], texts: Texts, spec: str, store: str | None
) -> list[dict[str, object]]:
    """The same of a judge; a solution without a verdict is neither found nor an alarm."""
    flow = load_flow(spec, store)
    judge = SoundnessJudge(flow)
    names = [name for part in parts for some in labels_of(part).values() for name in some]

    async def ask(name: str) -> Judgement[bool]:
        problem, solution = texts[name]
        return await judge.judge(problem, argument_of(solution))

    async def ask_all() -> list[Judgement[bool]]:
        async with aclosing(run_bounded(names, ask, max_in_flight=AT_ONCE)) as results:
            return [verdict async for verdict in results]

    with draining(flow, notify=lambda line: print(line, file=sys.stderr)):
        verdicts = dict(zip(names, asyncio.run(ask_all()), strict=True))
    failed = {name: None if one.value is None else not one.value for name, one in verdicts.items()}
    return [_agreement(flow.model, part, labels_of(part), failed) for part in parts]


def _agreement(
    who: str, part: str, labels: Mapping[str, Sequence[str]], found: Mapping[str, bool | None]
) -> dict[str, object]:
    hits, alarms = (
        sum(found[name] is True for name in labels[label]) for label in ("floundering", "sound")
    )
    names = [name for some in labels.values() for name in some]
    return {
        "by": who,
        "labels": part.replace("_", " "),
        "solutions": len(names),
        "precision": f"{hits} of {hits + alarms}",
        "recall": f"{hits} of {len(labels['floundering'])}",
        "no verdict": sum(found[name] is None for name in names),
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--judge", metavar="SPEC", help="tgi:URL, openai:URL#MODEL, hf:MODEL or vllm:MODEL"
    )
    parser.add_argument("--store", metavar="FILE", help="where its replies are kept")
    parser.add_argument("--parts", nargs="+", choices=PARTS, help="of the labels (default: both)")
    return parser


if __name__ == "__main__":
    sys.exit(run_command("benchmarks/floundering.py", lambda: main(sys.argv[1:])))
