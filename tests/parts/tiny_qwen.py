"""A tiny Qwen3 that is made and trained here and answers the project's own prompts.

It has about 460,000 parameters, a byte-pair tokenizer of its own (each fixed line of a system
prompt is one token there: that is what makes training short) and a chat template that knows
`enable_thinking` as Qwen3's does. It learns one trick: to name the strategy whose words
fill a solution, as notes and an envelope (`summarize`), as bare JSON (`summarize_json`), and in
a short form for quick tests (`SHORT_PROMPT`); and for two lists of steps whether their strategies
differ, as [`PairJudge`] asks. Unless thinking is switched off it thinks first. The
packaged sample's solutions are among its texts, so that it answers them in the right form, too.

    folder = tiny_qwen()  # trained once, then kept in the temporary folder

or, from the repository's root, `PYTHONPATH=.:tests python -m parts.tiny_qwen`, which prints that
folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock

from parts.tiny_models import make_tokenizer, untrained
from rpd_datasets.judging.judges import PairJudge
from rpd_metric.models.chat import ChatReply, ChatRequest
from rpd_metric.models.concurrency import run
from rpd_metric.prompts.templates import fence, load_template

SHORT_PROMPT = "List the steps of this solution as JSON.\n\n{{problem}}\n\n{{solution}}"

SAMPLE = Path(__file__).parents[2] / "rpd_datasets" / "sample"

CONTEXT = 8192

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}"
    "<think>\n\n</think>\n\n"
    "{% endif %}{% endif %}"
)

# For each strategy: words that give it away (the blank of "mod " counts), and its steps.
_STRATEGIES = """
induction: base case/inductive step/assume/hypothesis/induction/claim/n + 1
  Verify the claim for the smallest case.
  Assume the claim for one case as the induction hypothesis.
  Derive the next case from the hypothesis.
residues: modulo/remainder/congruent/divisible/Fermat/residue/mod /
  Reduce the equation modulo a suitable integer.
  List the residues that are possible.
  Exclude the residues that contradict each other.
  Lift the surviving residue to all solutions.
coordinates: coordinate/origin/axis/slope/distance/line through/vector
  Place the figure in a coordinate system.
  Write the lines and circles as equations.
  Compute the distance between the points of intersection.
similarity: similar/triangle/angle/parallel/cyclic/ratio/perpendicular
  Chase angles to find a pair of similar triangles.
  Set up the ratio of corresponding sides.
  Solve the proportion for the wanted length.
complement: complement/ways/subtract/unwanted/no two/restriction/choose
  Count all arrangements without the restriction.
  Count the arrangements that break the restriction.
  Subtract to count the complement.
recursion: recurrence/a_n/previous/initial/characteristic/recursive
  Condition on the last element to find a recurrence.
  Determine the initial values.
  Solve the recurrence by its characteristic equation.
  Evaluate the closed form at the wanted index.
inequality: AM-GM/Cauchy-Schwarz/inequality/equality/at least/minimum/bound
  Normalise the variables by their symmetry.
  Bound the expression by the inequality of means.
  Check the case of equality.
substitution: substitut/let u/factor/quadratic/discriminant/root/expand
  Substitute a new variable for the repeated expression.
  Factor the quadratic that results.
  Discard the roots that fail in the original equation.
  Return to the original variable.
"""


def _read(text: str) -> Iterator[tuple[str, tuple[list[str], list[str]]]]:
    for part in re.split(r"\n(?=\w)", text.strip()):
        head, *steps = part.splitlines()
        name, _, words = head.partition(": ")
        yield name, (words.rstrip("/").split("/"), [step.strip() for step in steps])


STRATEGIES = dict(_read(_STRATEGIES))

_FILLER = """
we get so now the value is and then it follows that since therefore which gives hence because
consider each of these for both sides this means there are exactly only number equation point
case set sum let be with from by two three result
""".split()  # noqa: SIM905


class Lesson(NamedTuple):
    """One conversation to learn: what is sent, and what should come back."""

    messages: Sequence[dict[str, str]]
    reply: str


def tiny_qwen() -> Path:
    """Make and train the model, or find the one made before from the same sources.

    It is kept in RPD_TESTS_CACHE, which a run of the tests sets and removes at its end, or in the
    system's temporary folder.
    """
    sources = [
        Path(__file__).read_text(encoding="utf-8"),
        *(load_template(name).text for name in ("summarize", "summarize_json")),
        repr((_pair(random.Random(0)), _sample())),
    ]
    code = hashlib.sha256("\0".join(sources).encode()).hexdigest()[:12]
    parent = Path(os.environ.get("RPD_TESTS_CACHE") or tempfile.gettempdir())
    folder = parent / f"rpd-tiny-qwen-{code}" / "tiny"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            rough = folder.with_suffix(".partial")
            _train(rough)
            rough.rename(folder)
    return folder


def solution(strategy: str, rng: random.Random, words: int = 60) -> str:
    """A made-up solution that uses a strategy's words."""
    marks = STRATEGIES[strategy][0]
    text: list[str] = []
    while len(text) < words:
        text += rng.choices(_FILLER, k=rng.randint(2, 6))
        text.append(rng.choice(marks))
        if rng.random() < 0.5:
            text.append(f"{rng.randint(1, 99)} {rng.choice('+-*=')} {rng.choice('xyzkmn')}.")
    return " ".join(text)


def envelope(strategy: str) -> str:
    """The reply to `summarize`."""
    return f"### Analysis\nThe main idea is {strategy}.\n\n//boxed{steps_json(strategy)}"


def steps_json(strategy: str) -> str:
    """The reply to `summarize_json`."""
    rows = [{"step_title": None, "step_description": text} for text in STRATEGIES[strategy][1]]
    return json.dumps({"logical_steps": rows})


def _short(rng: random.Random) -> Lesson:
    strategy = rng.choice(list(STRATEGIES))
    text = SHORT_PROMPT.replace("{{problem}}", _problem(rng))
    text = text.replace("{{solution}}", solution(strategy, rng, rng.randint(10, 60)))
    return Lesson([{"role": "user", "content": text}], steps_json(strategy))


def _packaged(rng: random.Random, sample: Sequence[tuple[str, str, str]] = ()) -> Lesson:
    strategy = rng.choice(list(STRATEGIES))
    problem, text = _problem(rng), solution(strategy, rng, rng.randint(10, 200))
    if sample and rng.random() < 0.4:
        problem, text, strategy = rng.choice(sample)
    name, reply = rng.choice([("summarize", envelope), ("summarize_json", steps_json)])
    texts = {"problem": fence("problem", problem), "solution": fence("solution", text)}
    messages = load_template(name).render(**texts, min_steps=3, max_steps=5)
    return Lesson([dict(message) for message in messages], reply(strategy))


def _pair(rng: random.Random) -> Lesson:
    """Two lists of steps: name both strategies and compare the names."""
    names = rng.choices(list(STRATEGIES), k=2)
    first, second = (STRATEGIES[name][1] for name in names)
    asked: list[ChatRequest] = []

    class Recorder:
        model = "recorder"

        async def __call__(self, request: ChatRequest) -> ChatReply:
            asked.append(request)
            return ChatReply("//boxed{1}", "stop")

    run(PairJudge(Recorder()).rate(_problem(rng), (first, second)))
    reply = f"A: {names[0]}. B: {names[1]}.\n//boxed{{{1 + (names[0] != names[1])}}}"
    return Lesson([dict(message) for message in asked[0].messages], reply)


def _sample() -> list[tuple[str, str, str]]:
    """Problem, solution and strategy from the packaged sample, as far as it is there."""
    rows = [
        json.loads(line)
        for file in sorted(SAMPLE.glob("*.jsonl"))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    return [(row["problem"], text, _guess(text)) for row in rows for text in row["solutions"]]


def _guess(text: str) -> str:
    """The strategy whose words are most frequent in a text."""
    return max(STRATEGIES, key=lambda name: sum(text.count(mark) for mark in STRATEGIES[name][0]))


def _problem(rng: random.Random) -> str:
    return "Find " + " ".join(rng.choices(_FILLER, k=rng.randint(4, 20))) + "."


def _train(folder: Path) -> None:
    import torch

    rng = random.Random(0)
    sample = _sample()
    tokenizer = _tokenizer([_packaged(rng, sample) for _ in range(60)] + [_pair(rng)])
    model = untrained("qwen3", tokenizer, intermediate_size=192)
    config = model.config
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95))

    def teach(make: Callable[[random.Random], Lesson], steps: int, batch: int, rate: float) -> None:
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = rate * min(1.0, (step + 1) / 10, (steps - step) / (0.4 * steps))
            rows = [_tokens(tokenizer, make(rng), rng) for _ in range(batch)]
            width = max(len(ids) for ids, _ in rows)
            pad = config.pad_token_id
            ids = torch.tensor([ids + [pad] * (width - len(ids)) for ids, _ in rows])
            labels = torch.tensor([labels + [-100] * (width - len(labels)) for _, labels in rows])
            loss = model(input_ids=ids, labels=labels).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    teach(_short, 120, 8, 5e-3)

    def mixed(rng: random.Random) -> Lesson:
        drawn = rng.random()
        if drawn < 0.2:
            return _pair(rng)
        # Some short ones, or what was learnt first is forgotten.
        return _short(rng) if drawn < 0.35 else _packaged(rng, sample)

    teach(mixed, 130, 6, 3e-3)
    model.generation_config.eos_token_id = config.eos_token_id
    model.generation_config.pad_token_id = config.pad_token_id
    model.generation_config.do_sample = True
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _tokenizer(lessons: Sequence[Lesson]) -> Any:
    texts = [m["content"] for lesson in lessons for m in lesson.messages]
    fixed = [m["content"] for lesson in lessons for m in lesson.messages if m["role"] == "system"]
    lines = {line for text in fixed for line in text.splitlines() if len(line) >= 20}
    return make_tokenizer(
        [*texts, *(lesson.reply for lesson in lessons)],
        ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
        CHAT_TEMPLATE,
        vocab_size=1500,
        length=CONTEXT,
        added=["<think>", "</think>", *sorted(lines)],
    )


def _tokens(tokenizer: Any, lesson: Lesson, rng: random.Random) -> tuple[list[int], list[int]]:
    """A lesson's tokens and labels; only the reply is learnt."""
    think = rng.random() < 0.25
    prompt = tokenizer.apply_chat_template(
        lesson.messages, tokenize=False, add_generation_prompt=True, enable_thinking=think
    )
    reply = "<think>\nWhich words stand out?\n</think>\n\n" if think else ""
    before = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    after = tokenizer(reply + lesson.reply + "<|im_end|>", add_special_tokens=False)["input_ids"]
    return before + after, [-100] * len(before) + after


if __name__ == "__main__":
    print(tiny_qwen())
