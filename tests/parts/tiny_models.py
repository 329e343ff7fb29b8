"""Untrained Qwen3, Qwen2.5 and Llama models of some 100,000 weights, and data to train them on.

Each is a real architecture with a real tokenizer and the chat template's markers of its family,
saved as a folder. They are made in a fraction of a second, and they learn to add digits.

`PYTHONPATH=tests python -m parts.tiny_models FOLDER [FAMILY]`, from the repository's root, makes
one.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from parts.rows import write_rows

END = {"qwen3": "<|im_end|>", "qwen2": "<|im_end|>", "llama": "<|eot_id|>"}
PAD = {"qwen3": "<|endoftext|>", "qwen2": "<|endoftext|>", "llama": "<|finetune_right_pad_id|>"}
START = {"qwen3": "<|im_start|>", "qwen2": "<|im_start|>", "llama": "<|start_header_id|>"}
FAMILIES = tuple(END)


def tiny_model(folder: Path, family: str) -> Path:
    """Write an untrained model and its tokenizer; returns the folder."""
    tokenizer = _tokenizer(family)
    # Sharper than usual from the start: adapters alone then learn in a dozen steps.
    untrained(family, tokenizer, initializer_range=0.2).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def untrained(family: str, tokenizer: Any, **options: Any) -> Any:
    """A model of two layers for a tokenizer of [`make_tokenizer`]."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.for_model(
        family,
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=tokenizer.model_max_length,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **({"head_dim": 16} if family != "qwen2" else {}),
        **{"intermediate_size": 128} | options,
    )
    return AutoModelForCausalLM.from_config(config)


def sums(file: Path, rows: int = 48) -> Path:
    """Write prompt-completion rows about one-digit sums; returns the file."""
    pairs = [(n % 8, n // 8) for n in range(rows)]
    return dialogues(file, ((f"{a} + {b}", f"The sum is \\boxed{{{a + b}}}") for a, b in pairs))


def dialogues(file: Path, texts: Iterable[tuple[str, str]]) -> Path:
    """Write prompts and completions as TRL's conversational rows; returns the file."""
    rows = (
        {
            "prompt": [{"role": "user", "content": prompt}],
            "completion": [{"role": "assistant", "content": completion}],
        }
        for prompt, completion in texts
    )
    return write_rows(file, rows)


def _tokenizer(family: str) -> Any:
    start, end, pad = START[family], END[family], PAD[family]
    template = (
        "{% for m in messages %}"
        f"{start}{{{{ m.role }}}}\n{{{{ m.content }}}}{end}\n"
        "{% endfor %}"
        f"{{% if add_generation_prompt %}}{start}assistant\n{{% endif %}}"
    )
    texts = ["user assistant The sum is \\boxed{"] * 5
    return make_tokenizer(texts, (pad, start, end), template, vocab_size=320, length=4096)


def make_tokenizer(
    texts: Iterable[str],
    special: tuple[str, str, str],
    template: str,
    *,
    vocab_size: int,
    length: int,
) -> Any:
    """Train a byte-pair tokenizer; `special` are the tokens of padding, start and end."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bare = Tokenizer(models.BPE())
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bare.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bare.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bare,
        eos_token=special[2],
        pad_token=special[0],
        chat_template=template,
        model_max_length=length,
    )


if __name__ == "__main__":
    print(tiny_model(Path(sys.argv[1]), *(sys.argv[2:] or ["qwen3"])))
