"""Teach MiniLM's upper layers what a strategy is: makes `rpd_metric/models/taught.npz`.

    python -m benchmarks.teach [--output FOLDER] [--trial]

A problem's solutions are read as the distance `taught` reads them (pieces of 40 words; see
`rpd_metric/distance/strategy.py`), and its parts are taught in its own shares: the distance of a
pair, scaled and shifted, is the log odds of "another strategy" in a binary cross-entropy, and every
different pair of a problem is ranked above every same pair by a logistic loss. The lower layers
stay as they are; what they make of the texts is computed once.

Splits of the sets in `../shared/data/strategy_bench`, by position in the file:

- taught on: controlled_train but for every seventh problem, and half of train, drawn with seed 0;
- chosen on: dev and, in a `--trial`, which leaves them out, every seventh problem of
  controlled_train from the fourth on;
- reported on: controlled, every seventh problem of controlled_train, the other half of train.

Each epoch is a checkpoint in the folder; the same command continues a run.
"""

import argparse
import hashlib
import json
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch.nn import functional

from rpd_datasets.judging.auroc import count_wins, pooled_auroc, within_auroc
from rpd_datasets.judging.labels import Labels
from rpd_metric.distance.core import Evidence
from rpd_metric.distance.strategy import CENTRE, TAUGHT_SHARES, expression_distances, half_linked
from rpd_metric.measure import gather, pieces_read
from rpd_metric.models.minilm import EPSILON, LAYERS, WIDTH, MiniLM, attention, by_run, runs_of
from rpd_metric.models.sentence_transformer import minilm_path

PROBLEMS_A_STEP = 4
# Of the problems whose solutions have one strategy, the share that an epoch sees.
UNIFORM_SHARE = 1 / 3
DROPOUT = 0.1
WARM_UP = 20
Rows = list[dict[str, Any]]


def splits(folder: Path, trial: bool) -> dict[str, Rows]:
    """The labelled rows by what they are for: `"taught"`, or the name of a set that measures."""

    def read(name: str) -> Rows:
        text = (folder / "strategy_bench" / f"{name}.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    controlled, natural = read("controlled_train"), read("train")
    random.Random(0).shuffle(natural)
    half = len(natural) // 2
    sevenths = [controlled[start::7] for start in range(7)]
    taught = [sevenths[part] for part in range(1, 7) if not (trial and part == 3)]
    rows = {"taught": [row for part in taught for row in part] + natural[:half]}
    rows["dev"] = read("dev")
    if trial:
        return rows | {"chosen on": sevenths[3]}
    return rows | {
        "held-back seventh": sevenths[0],
        "natural": natural[half:],
        "controlled": read("controlled"),
    }


class Problem:
    """A labelled problem: what the lower layers make of its texts, and its labelled pairs."""

    def __init__(self, row: dict[str, Any], model: MiniLM, frozen: int) -> None:
        labels = Labels.of(row)
        assert labels is not None, "every row needs strategy labels"
        pairs = labels.pairs()
        self.first, self.second = (torch.tensor([pair[at] for pair in pairs]) for at in (0, 1))
        self.different = torch.tensor([pair[2] for pair in pairs])
        self.uniform = not self.different.any()
        problem, solutions = row["problem"], row["solutions"]
        self.count = len(solutions)
        read = map(pieces_read, solutions)
        # The statement belongs to no solution; shorter texts first.
        texts = [(self.count, problem)]
        texts += [(place, text) for place, pieces in enumerate(read) for text in pieces]
        owned = sorted(((owner, model.pieces(text)) for owner, text in texts), key=_length)
        self.owner = torch.tensor([owner for owner, _ in owned])
        self.lengths = [len(pieces) for _, pieces in owned]
        with torch.inference_mode():
            self.rows = torch.cat([model.hidden([pieces], frozen) for _, pieces in owned])
        evidence: Evidence = gather(("expressions",), problem, solutions, None, model)
        table = np.concatenate(evidence.vectors["expressions"])
        self.expressions = torch.tensor(expression_distances(table)).float()


def _length(text: tuple[int, Sequence[int]]) -> int:
    return len(text[1])


class Upper(torch.nn.Module):
    """MiniLM's upper layers with gradients, and the curve from distance to "another strategy"."""

    def __init__(self, weights: dict[str, torch.Tensor], frozen: int) -> None:
        super().__init__()
        self.numbers = range(frozen, LAYERS)
        names = tuple(f"encoder.layer.{number}." for number in self.numbers)
        self.weights = torch.nn.ParameterDict(
            {
                name.replace(".", "/"): torch.nn.Parameter(weight.clone())
                for name, weight in weights.items()
                if name.startswith(names)
            }
        )
        self.curve = torch.nn.Parameter(torch.tensor([7.0, -3.4]))

    def _part(self, name: str) -> tuple[torch.Tensor, torch.Tensor]:
        return self.weights[f"{name}/weight"], self.weights[f"{name}/bias"]

    def _norm(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(rows.float(), (WIDTH,), *self._part(name), EPSILON)

    def _drop(self, rows: torch.Tensor) -> torch.Tensor:
        return functional.dropout(rows, DROPOUT, self.training)

    def vectors(self, problems: Sequence[Problem]) -> list[torch.Tensor]:
        """Per problem the vectors of its texts, of unit length."""
        lengths = [length for problem in problems for length in problem.lengths]
        rows = torch.cat([problem.rows for problem in problems]).split(lengths)
        # Texts of equal length side by side: attention takes them together.
        order = sorted(range(len(lengths)), key=lambda place: lengths[place])
        hidden = torch.cat([rows[place] for place in order]).to(self.curve.device).float()
        runs = runs_of([range(lengths[place]) for place in order])
        for number in self.numbers:
            name = f"encoder/layer/{number}"
            parts = (
                by_run(
                    functional.linear(hidden, *self._part(f"{name}/attention/self/{part}")), runs
                )
                for part in ("query", "key", "value")
            )
            seen = torch.cat([attention(*run) for run in zip(*parts, strict=True)])
            joined = functional.linear(seen, *self._part(f"{name}/attention/output/dense"))
            hidden = self._norm(f"{name}/attention/output/LayerNorm", self._drop(joined) + hidden)
            wide = functional.linear(hidden, *self._part(f"{name}/intermediate/dense"))
            narrow = functional.linear(functional.gelu(wide), *self._part(f"{name}/output/dense"))
            hidden = self._norm(f"{name}/output/LayerNorm", self._drop(narrow) + hidden)
        means = torch.cat([run.float().mean(1) for run in by_run(hidden, runs)])
        back = torch.tensor(np.argsort(order, kind="stable"), device=means.device)
        vectors = functional.normalize(means, dim=1)[back]
        return list(vectors.split([len(problem.lengths) for problem in problems]))

    def distances(self, problem: Problem, vectors: torch.Tensor) -> torch.Tensor:
        """`(k, k)`: the distance `taught` before linkage, with gradients."""
        owner = problem.owner.to(vectors.device)
        statement = vectors[owner == problem.count][0]
        vectors, owner = vectors[owner < problem.count], owner[owner < problem.count]
        belongs = functional.one_hot(owner, problem.count).float()
        belongs = belongs / belongs.sum(0).clamp(min=1)
        rest = vectors - torch.outer(vectors @ statement, statement)
        rest = functional.normalize(rest, dim=1)
        cosines = rest @ rest.T
        nearest = torch.stack(
            [cosines[:, owner == other].amax(1) for other in range(problem.count)], dim=1
        )
        directed = belongs.T @ (1 - nearest)
        means = belongs.T @ vectors
        centred = functional.normalize(means - CENTRE * means.mean(0), dim=1)
        parts = (
            (directed + directed.T) / 2,
            1 - centred @ centred.T,
            problem.expressions.to(vectors.device),
        )
        return torch.stack([a * part for a, part in zip(TAUGHT_SHARES, parts, strict=True)]).sum(0)

    def loss(self, problems: Sequence[Problem]) -> torch.Tensor:
        """Cross-entropy of the pairs, and the ranking of the different above the same."""
        losses = []
        with torch.autocast(self.curve.device.type, torch.bfloat16):
            encoded = self.vectors(problems)
        for problem, vectors in zip(problems, encoded, strict=True):
            distances = self.distances(problem, vectors)[problem.first, problem.second]
            odds = self.curve[0] * distances + self.curve[1]
            different = problem.different.to(odds.device)
            loss = functional.binary_cross_entropy_with_logits(odds, different.float())
            if different.any() and not different.all():
                gaps = odds[different][:, None] - odds[~different][None]
                loss = loss + functional.softplus(-gaps).mean()
            losses.append(loss)
        return torch.stack(losses).mean()


def epoch_of(problems: Sequence[Problem], seed: int) -> Iterator[list[Problem]]:
    """The steps of an epoch: all problems with several strategies, a share of the others."""
    draw = random.Random(seed)
    uniform = [problem for problem in problems if problem.uniform]
    chosen = [problem for problem in problems if not problem.uniform]
    chosen += draw.sample(uniform, round(UNIFORM_SHARE * len(uniform)))
    draw.shuffle(chosen)
    for start in range(0, len(chosen), PROBLEMS_A_STEP):
        yield chosen[start : start + PROBLEMS_A_STEP]


def figures(model: Upper, problems: Sequence[Problem]) -> str:
    """Pooled and within AUROC."""
    distances = []
    model.eval()
    for problem in problems:
        with torch.inference_mode():
            with torch.autocast(model.curve.device.type, torch.bfloat16):
                (vectors,) = model.vectors([problem])
            matrix = model.distances(problem, vectors).double().cpu().numpy().clip(0)
        np.fill_diagonal(matrix, 0)
        distances.append(half_linked(matrix)[problem.first.numpy(), problem.second.numpy()])
    wins = count_wins(distances, [problem.different.numpy() for problem in problems])
    ones = np.ones((1, len(problems)))
    return f"{pooled_auroc(wins, ones)[0]:.3f} / {within_auroc(wins, ones)[0]:.3f}"


def reported(model: Upper, sets: dict[str, list[Problem]]) -> str:
    """The figures of some sets, in a line."""
    return "; ".join(f"{name} {figures(model, problems)}" for name, problems in sets.items())


def write_changes(model: Upper, official: dict[str, torch.Tensor], path: Path) -> str:
    """Write what was changed in each weight, a matrix in eight bits by row; returns the sha256."""
    arrays: dict[str, Any] = {}
    for key, weight in model.weights.items():
        name = key.replace("/", ".")
        change = weight.detach().cpu().numpy() - official[name].numpy()
        if change.ndim == 1:
            arrays[name], arrays[f"{name}/scale"] = change, np.ones(1, np.float32)
        else:
            scale = np.maximum(np.abs(change).max(1, keepdims=True) / 127, 1e-12)
            arrays[name], arrays[f"{name}/scale"] = np.rint(change / scale).astype(np.int8), scale
    np.savez_compressed(path, **arrays)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> None:
    """Teach, and print the figures after each epoch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--output", type=Path, default=Path("build/teach"))
    parser.add_argument("--trial", action="store_true", help="leave a seventh out to choose on")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--frozen", type=int, default=3, help="lower layers that stay")
    parser.add_argument("--rate", type=float, default=6e-5)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)

    def log(text: str) -> None:
        print(text, flush=True)
        with (args.output / "log.txt").open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    device = "cuda" if torch.cuda.is_available() else "cpu"
    settings = ("trial", "epochs", "frozen", "rate", "seed")
    shown = ", ".join(f"{name} {getattr(args, name)}" for name in settings)
    log(f"{shown}, {device}, torch {torch.__version__}")
    folder = minilm_path()
    encoder, official = MiniLM(folder, "bfloat16"), load_file(folder / "model.safetensors")

    def loaded(rows: Rows) -> list[Problem]:
        return [Problem(row, encoder, args.frozen) for row in rows]

    rows = splits(args.data, args.trial)
    taught = loaded(rows.pop("taught"))
    chosen_on = {name: loaded(rows.pop(name)) for name in ("dev", "chosen on") if name in rows}
    log(f"{len(taught)} problems, {sum(len(problem.rows) for problem in taught)} word pieces")
    model = Upper(official, args.frozen).to(device)
    groups = [
        {"params": list(model.weights.parameters())},
        {"params": [model.curve], "lr": 2e-2, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, args.rate)
    steps = args.epochs * len(list(epoch_of(taught, 0)))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / WARM_UP) * (1 - step / steps)
    )
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    start = 0
    for checkpoint in sorted(args.output.glob("epoch-*.pt")):
        states = torch.load(checkpoint, map_location=device)
        for name, part in parts.items():
            part.load_state_dict(states[name])
        start = states["epoch"]
    if start == 0:
        log(f"untaught: {reported(model, chosen_on)}")
    for epoch in range(start + 1, args.epochs + 1):
        # Where a run continues, it draws what it would have drawn.
        torch.manual_seed(args.seed * 1000 + epoch)
        model.train()
        losses, began = [], time.monotonic()
        for problems in epoch_of(taught, args.seed * 1000 + epoch):
            loss = model.loss(problems)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        minutes = (time.monotonic() - began) / 60
        states = {name: part.state_dict() for name, part in parts.items()}
        torch.save(states | {"epoch": epoch}, args.output / f"epoch-{epoch}.pt")
        log(
            f"epoch {epoch}: loss {np.mean(losses):.4f}, {len(losses)} steps, {minutes:.1f} minutes"
        )
        log(reported(model, chosen_on))
    # What is reported is measured once, at the end.
    log(reported(model, {name: loaded(held) for name, held in rows.items()}))
    path = args.output / "taught.npz"
    log(f"{path.name}: sha256 {write_changes(model, official, path)}")


if __name__ == "__main__":
    main()
