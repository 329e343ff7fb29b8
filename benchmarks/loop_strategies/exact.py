"""The exact chance of every listed text of a problem, by teacher forcing.

The texts of a strategy make a tree of tokens. One forward pass over the prompt and the tree, in
which a token attends to its ancestors alone, gives the chance of every text: no sampling, for every
number of attempts at once.
"""

from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.loop_strategies.task import OPENINGS, factors, fitting, story, strategy_of, texts
from benchmarks.loop_strategies.training import prompt_tokens, solution_tokens

# As in training. In float32 chances take twice as long.
PRODUCTS = torch.bfloat16
# Chances are of sampling at these temperatures, without top-p.
TEMPERATURES = (1.0, 0.6)
# Of each temperature the chance to begin by a strategy's opening, and that of its right texts.
Chances = dict[str, list[list[float]]]


@torch.inference_mode()
def chances(network: Any, tokenizer: Any, task: str, id_: str) -> Chances:
    """How likely each strategy of a problem is begun, and ends right, at each temperature."""
    prompt, by_strategy = prompt_tokens(tokenizer, story(id_)), {}
    for name in fitting(task, *factors(id_)):
        listed = [solution_tokens(tokenizer, text) for text in texts(task, id_, name)]
        openings = [tokenizer(f"{line}\n")["input_ids"] for line in OPENINGS[name]]
        tokens, parents, paths = tree([*listed, *openings])
        logs = _log_chances(network, prompt, tokens, parents)
        of_texts = torch.stack([logs[:, path].sum(-1).exp() for path in paths], dim=1)
        right, begun = of_texts[:, : len(listed)].sum(1), of_texts[:, len(listed) :].sum(1)
        pairs = torch.stack([begun, right], dim=1).tolist()
        by_strategy[name] = [[float(f"{value:.4g}") for value in pair] for pair in pairs]
    return by_strategy


def tree(lists: Sequence[Sequence[int]]) -> tuple[list[int], list[int], list[list[int]]]:
    """The tokens of a tree with their parents (-1: the root), and each list's path in it.

    >>> tree([[5, 6], [5, 7]])
    ([5, 6, 7], [-1, 0, 0], [[0, 1], [0, 2]])
    """
    tokens: list[int] = []
    parents: list[int] = []
    paths = []
    children: dict[tuple[int, int], int] = {}
    for numbers in lists:
        path, at = [], -1
        for token in numbers:
            child = children.setdefault((at, token), len(tokens))
            if child == len(tokens):
                tokens.append(token)
                parents.append(at)
            path.append(at := child)
        paths.append(path)
    return tokens, parents, paths


def _log_chances(network: Any, prompt: list[int], tokens: list[int], parents: list[int]) -> Any:
    """The log chance of each token after its ancestors, a row for each temperature."""
    first, size = len(prompt), len(prompt) + len(tokens)
    attends = torch.ones(size, size, dtype=torch.bool).tril()
    attends[first:, first:] = False
    places = list(range(first))
    for node, parent in enumerate(parents, start=first):
        if parent >= 0:
            attends[node] |= attends[first + parent]
        attends[node, node] = True
        places.append(places[first + parent] + 1)
    device = network.device
    with torch.autocast(device.type, PRODUCTS):
        hidden = network.model(
            input_ids=torch.tensor([prompt + tokens], device=device),
            attention_mask=attends[None, None].to(device),
            position_ids=torch.tensor([places], device=device),
        ).last_hidden_state[0, first - 1 :]
        inner, rows = torch.unique(torch.tensor(parents) + 1, return_inverse=True)
        logits = network.lm_head(hidden[inner.to(device)]).float()
    chosen = torch.tensor(tokens, device=device)
    rows = rows.to(device)
    logs = []
    for temperature in TEMPERATURES:
        scaled = logits / temperature
        logs.append(scaled[rows, chosen] - scaled.logsumexp(-1)[rows])
    return torch.stack(logs).double()


@torch.inference_mode()
def sampled(
    network: Any, tokenizer: Any, task: str, ids: Sequence[str], number: int
) -> dict[str, list[int]]:
    """Of so many samples of each problem at temperature 1: listed texts, other right answers."""
    counts = {}
    torch.manual_seed(0)
    end = tokenizer.eos_token_id
    for id_ in ids:
        prompt = torch.tensor([prompt_tokens(tokenizer, story(id_))], device=network.device)
        with torch.autocast(network.device.type, PRODUCTS):
            written = network.generate(
                input_ids=prompt.expand(number, -1),
                attention_mask=torch.ones_like(prompt).expand(number, -1),
                do_sample=True,
                top_k=0,
                top_p=1.0,
                temperature=1.0,
                max_new_tokens=110,
                eos_token_id=end,
                pad_token_id=tokenizer.pad_token_id,
            )
        replies = [
            tokenizer.decode(row[prompt.shape[1] :], skip_special_tokens=True) for row in written
        ]
        a, b = factors(id_)
        listed = sum(strategy_of(task, id_, reply) is not None for reply in replies)
        right = sum(reply.endswith(f"\\boxed{{{a * b}}}") for reply in replies)
        counts[id_] = [listed, right - listed]
    return counts
