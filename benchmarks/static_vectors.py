"""Make `rpd_metric/models/static_vectors.npz`.

    PYTHONPATH=.:tests python benchmarks/static_vectors.py [--data FOLDER]

One vector for each word piece of all-MiniLM-L6-v2, distilled from that model; a text's vector is
the mean of its pieces'. They begin as the model's vectors of single pieces, on the principal
directions of its vectors of texts, weighted by frequency (Zipf's law, SIF). Then their means are
fitted to the model's vectors of pieces of solutions, whose problems are in no labelled set.

`strategies.py --embedder static` measures what distances see with them.
"""

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # before numpy loads its BLAS

import argparse
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from strategies import FILES
from tokenizers import Tokenizer

from parts.recorded_groups import read_lines
from rpd_metric.measure import pieces_read
from rpd_metric.models import static
from rpd_metric.models.minilm import MiniLM
from rpd_metric.models.sentence_transformer import minilm_path
from rpd_metric.models.spec import load_embedder

TEXTS = ("candidates", "candidates_long", "human_alternatives")
FITTED = 20_000
EPOCHS = 3
WIDTH = 128
# The first word of the vocabulary; special and single-character pieces come before it.
FIRST_WORD = 996
CLS, SEP = 101, 102
SIF = 1e-5


def single_pieces(model: MiniLM, count: int) -> Any:
    """The model's vector of each word piece alone."""
    with torch.inference_mode():
        parts = torch.arange(count).split(128)
        return torch.cat([model([[CLS, piece, SEP] for piece in part.tolist()]) for part in parts])


def unlabelled(folder: Path) -> list[str]:
    """Problems, and pieces of solutions, of problems that are in no labelled set."""

    def key(row: dict[str, Any]) -> str:
        return re.sub(r"\W+", "", row["problem"].lower())[:200]

    held = {key(row) for file in FILES.values() for row in read_lines(folder / file)}
    texts = set()
    for name in TEXTS:
        for row in read_lines(folder / "multi_solution" / f"{name}.jsonl"):
            if key(row) not in held:
                texts.add(row["problem"])
                for pieces in map(pieces_read, row["solutions"]):
                    texts.update(pieces)
    drawn = sorted(texts)
    random.Random(0).shuffle(drawn)
    return drawn[:FITTED]


def distilled(model: MiniLM, tokenizer: Tokenizer, texts: list[str], targets: Any) -> Any:
    """The vectors, as float32."""
    torch.manual_seed(0)
    directions = np.linalg.eigh(np.cov(targets.T))[1][:, ::-1][:, :WIDTH].astype(np.float32)
    goal = torch.tensor(targets @ directions)
    start = single_pieces(model, tokenizer.get_vocab_size()).numpy()
    start = (start - start[FIRST_WORD:].mean(0)) @ directions
    chance = 1 / np.maximum(np.arange(len(start)) - FIRST_WORD + 1, 1)
    start *= (SIF / (SIF + chance / chance.sum()))[:, None]
    start /= np.linalg.norm(start, axis=1).mean()
    table = torch.nn.EmbeddingBag.from_pretrained(torch.tensor(start), freeze=False, mode="mean")
    optimizer = torch.optim.Adam(table.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7)
    pieces = [torch.tensor(tokenizer.encode(text, add_special_tokens=False).ids) for text in texts]
    for epoch in range(EPOCHS):
        total = 0.0
        for batch in torch.randperm(len(texts)).split(256):
            rows = [pieces[index] for index in batch.tolist()]
            starts = torch.tensor([0, *map(len, rows[:-1])]).cumsum(0)
            means = table(torch.cat(rows), starts)
            loss = (1 - torch.nn.functional.cosine_similarity(means, goal[batch])).sum()
            optimizer.zero_grad()
            (loss / len(batch)).backward()
            optimizer.step()
            total += loss.item()
        schedule.step()
        print(f"epoch {epoch}: mean distance to minilm {total / len(texts):.3f}")
    return table.weight.detach().numpy()


def write(vectors: Any, tokenizer: Tokenizer) -> None:
    """Write the packaged file: whole numbers of one byte, with a scale for each row."""
    scales = (np.abs(vectors).max(axis=1) / 127).astype(np.float32)
    rows = np.rint(vectors / np.where(scales > 0, scales, 1)[:, None]).astype(np.int8)
    text = np.frombuffer(tokenizer.to_str().encode(), dtype=np.uint8)
    np.savez_compressed(static.FILE, rows=rows, scales=scales, tokenizer=text)


def main() -> None:
    """Make them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    texts = unlabelled(parser.parse_args().data)
    tokenizer = Tokenizer.from_file(str(minilm_path() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    targets = load_embedder("minilm").encode(texts)
    write(distilled(MiniLM(minilm_path()), tokenizer, texts, targets), tokenizer)


if __name__ == "__main__":
    main()
