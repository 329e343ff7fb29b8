"""Which mode asks for which solution of a problem, by matching: set supervised fine-tuning (SSFT).

With modes (`rpd_datasets/instructions.py`) the solutions of a problem are told apart by a number in the
prompt. In the simple form the number is the order in which curation chose them. Here, before each
epoch, every solution is tried under every mode, and each problem's solutions get the modes under
which the model finds them likeliest together (SSFT, arXiv 2510.05132, matches at every step). A way
of solving can so gather under one mode, whatever its place among a problem's choices.

Trying costs one forward pass per sample and mode before each epoch, over the first
`MATCHED_TOKENS` tokens of a completion at most. Not here: sampling with modes (`evaluation/`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rpd_datasets.instructions import with_mode
from rpd_datasets.training.data import TokenizedRows, encode_row

# Ways of solving part early, and a whole trace would cost as much as training on it.
MATCHED_TOKENS = 512
PLACE = "place"
RECORD = "modes.json"

Example = dict[str, Any]


def match_modes(losses: npt.NDArray[np.floating[Any]]) -> list[int]:
    """One mode for each solution, all different, so that the sum of losses is smallest.

    Args:
        losses (`np.ndarray`): (solutions, modes), at least as many modes as solutions.

    Returns:
        `list[int]`: For each solution its mode, from 1.

    Example:

    ```py
    >>> import numpy as np
    >>> from rpd_datasets.training.modes import match_modes
    >>> match_modes(np.array([[0.2, 0.1, 0.9], [0.3, 0.1, 0.8]]))
    [1, 2]

    ```
    """
    from scipy.optimize import linear_sum_assignment

    _, columns = linear_sum_assignment(losses)
    return [int(column) + 1 for column in columns]


class ModeMatching:
    """The samples under every mode, and which mode each has in the current epoch.

    It is the trainer's collator: a batch is made of the samples under their current modes.

    Args:
        variants (`Sequence[Sequence[dict]]`): For each sample its `input_ids` and `labels` under
            each mode.
        problems (`Sequence[Sequence[int]]`): The samples of each problem, by place.
        collate (`Callable`): From examples to padded tensors.
        record (`Path`): A file that keeps each epoch's modes, so that a run which goes on in the
            middle of an epoch goes on with them.
    """

    def __init__(
        self,
        variants: Sequence[Sequence[Example]],
        problems: Sequence[Sequence[int]],
        collate: Callable[[list[Example]], dict[str, Any]],
        record: Path,
    ) -> None:
        self._variants = variants
        self._problems = problems
        self._collate = collate
        self._record = record
        self.modes = [1] * len(variants)

    def __call__(self, examples: Sequence[Example]) -> dict[str, Any]:
        """A batch; examples without a place, such as held-out ones, stay as they are."""
        return self._collate(
            [
                self._variants[example[PLACE]][self.modes[example[PLACE]] - 1]
                if PLACE in example
                else example
                for example in examples
            ]
        )

    def match(self, model: Any, epoch: int, *, batch_size: int) -> None:
        """Choose the modes of an epoch, or read them where they have been chosen before.

        Args:
            model (`torch.nn.Module`): As it is before the epoch.
            epoch (`int`): From 0.
            batch_size (`int`): Sequences in a forward pass.
        """
        text = self._record.read_text(encoding="utf-8") if self._record.is_file() else "{}"
        recorded: dict[str, list[int]] = json.loads(text)
        if str(epoch) not in recorded:
            losses = self._losses(model, batch_size)
            for places in self._problems:
                for place, mode in zip(places, match_modes(losses[list(places)]), strict=True):
                    self.modes[place] = mode
            recorded[str(epoch)] = list(self.modes)
            self._record.parent.mkdir(parents=True, exist_ok=True)
            self._record.write_text(json.dumps(recorded) + "\n", encoding="utf-8")
        self.modes = recorded[str(epoch)]

    def _losses(self, model: Any, batch_size: int) -> npt.NDArray[np.float64]:
        """(samples, modes): the mean loss of a completion's first tokens under each mode."""
        import torch

        flat = [beginning(variant) for variants in self._variants for variant in variants]
        found = np.zeros(len(flat))
        # Long ones together, so that little is padding.
        order = sorted(range(len(flat)), key=lambda place: -len(flat[place]["input_ids"]))
        training = model.training
        model.eval()
        with torch.no_grad():
            for start in range(0, len(order), batch_size):
                places = order[start : start + batch_size]
                batch = self._collate([flat[place] for place in places])
                batch = {name: value.to(model.device) for name, value in batch.items()}
                labels = batch.pop("labels")[:, 1:]
                logits = model(**batch).logits[:, :-1].float()
                losses = torch.nn.functional.cross_entropy(
                    logits.transpose(1, 2), labels, ignore_index=-100, reduction="none"
                )
                learnt = (labels != -100).sum(1)
                found[places] = (losses.sum(1) / learnt).double().cpu().numpy()
        model.train(training)
        return found.reshape(len(self._variants), -1)


def beginning(example: Example) -> Example:
    """A sample up to the first `MATCHED_TOKENS` tokens that are learnt."""
    start = next(place for place, label in enumerate(example["labels"]) if label != -100)
    end = start + MATCHED_TOKENS
    return {name: example[name][:end] for name in ("input_ids", "labels")}


def problems_of(prompts: Sequence[Any]) -> list[list[int]]:
    """The places of each problem's samples, by their prompts without modes."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, prompt in enumerate(prompts):
        places[json.dumps(prompt, sort_keys=True)].append(place)
    return list(places.values())


def match_each_epoch(
    rows: Any, samples: TokenizedRows, tokenizer: Any, training: Any, *, modes: int, folder: Path
) -> dict[str, Any]:
    """What a trainer takes to train on samples whose modes are matched before each epoch.

    Args:
        rows (`datasets.Dataset`): What the samples are made of, without modes.
        samples ([`~rpd_datasets.training.data.TokenizedRows`]): To train on.
        tokenizer: Of the model.
        training (`trl.SFTConfig`): Of the run; it is made to keep the places of the samples.
        modes (`int`): How many there are.
        folder (`Path`): Of the run; the modes of every epoch are kept in it.

    Returns:
        `dict`: `train_dataset`, `data_collator` and `callbacks`.
    """
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    rows = rows.select(samples.places)
    matching = ModeMatching(
        [variants_of(row, tokenizer, modes) for row in rows],
        problems_of(rows["prompt"]),
        DataCollatorForLanguageModeling(
            tokenizer.pad_token_id, pad_to_multiple_of=training.pad_to_multiple_of
        ),
        folder / RECORD,
    )
    training.remove_unused_columns = False
    return {
        "train_dataset": samples.dataset.add_column(PLACE, list(range(len(rows)))),
        "data_collator": matching,
        "callbacks": [before_each_epoch(matching)],
    }


def variants_of(row: Example, tokenizer: Any, modes: int) -> list[Example]:
    """A row's token ids and labels under each mode."""
    *before, last = row["prompt"]
    asked = (
        [*before, {**last, "content": with_mode(last["content"], mode)}]
        for mode in range(1, modes + 1)
    )
    encoded = (encode_row({**row, "prompt": prompt}, tokenizer) for prompt in asked)
    return [{name: found[name] for name in ("input_ids", "labels")} for found in encoded]


def before_each_epoch(matching: ModeMatching) -> Any:
    """A `transformers.TrainerCallback` that matches before each epoch."""
    from transformers import TrainerCallback

    class Match(TrainerCallback):  # type: ignore[misc]
        def on_epoch_begin(self, args: Any, state: Any, *_control: Any, **kwargs: Any) -> None:
            matching.match(
                kwargs["model"], int(state.epoch), batch_size=args.per_device_train_batch_size
            )

    return Match()
