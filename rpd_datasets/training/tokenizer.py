"""A model's tokenizer, checked for what training needs: a template, an end and a padding token."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from rpd_metric.errors import InputError, ModelError, first_line

# What families of models pad with, the most telling first.
PADDING = ("<|finetune_right_pad_id|>", "<|endoftext|>", "<|pad|>", "<pad>", "[PAD]", "<unk>")


def load_tokenizer(
    model: str,
    *,
    revision: str | None = None,
    end_token: str | None = None,
    padding_token: str | None = None,
    template: str | None = None,
    padding_side: Literal["left", "right"] = "right",
) -> Any:
    """Load a model's tokenizer and make sure that the end of an answer can be learnt.

    Qwen's base models need an `end_token` that ends an answer; a `padding_token` is needed if the
    tokenizer's own is also its end token. `template` is a Jinja file.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            model, revision=revision, padding_side=padding_side
        )
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot load the tokenizer of {model}: {first_line(error)}") from error
    if template is not None:
        path = Path(template)
        if not path.is_file():
            raise InputError(f"chat_template_path {template} does not exist; name a Jinja file")
        tokenizer.chat_template = path.read_text(encoding="utf-8")
    if tokenizer.chat_template is None:
        raise InputError(
            f"the tokenizer of {model} has no chat template; name a Jinja file with "
            "--chat_template_path"
        )
    vocabulary = tokenizer.get_vocab()
    for option, token in (("eos_token", end_token), ("padding_token", padding_token)):
        if token is not None and token not in vocabulary:
            raise InputError(f"{option} {token!r} is not in the vocabulary of {model}")
    if end_token is not None:
        tokenizer.eos_token = end_token
    if padding_token is not None:
        tokenizer.pad_token = padding_token
    if tokenizer.pad_token is None or tokenizer.pad_token == tokenizer.eos_token:
        others = vocabulary.keys() - {tokenizer.eos_token}
        likely = next(filter(others.__contains__, PADDING), "TOKEN")
        raise InputError(
            f"{model} pads with {tokenizer.pad_token!r} and ends answers with "
            f"{tokenizer.eos_token!r}, so that its end would not be learnt; pad with another token "
            f"of its vocabulary: --padding_token '{likely}'"
        )
    return tokenizer


def keep_ends_only(model: Any, tokenizer: Any, stop: Sequence[str] = ()) -> None:
    """Keep only the begin, end and padding tokens of a model's generation config.

    Servers use the rest as caps: by Qwen3's `max_new_tokens: 2048` vLLM cuts every reply. `stop`
    are tokens that end an answer beside those that are known.
    """
    from transformers import GenerationConfig

    vocabulary = tokenizer.get_vocab()
    if unknown := [token for token in stop if token not in vocabulary]:
        raise InputError(f"the stop token {unknown[0]!r} is not in the vocabulary")
    known = model.generation_config.eos_token_id
    ends = [tokenizer.eos_token_id, *(known if isinstance(known, list) else [known])]
    ends += [vocabulary[token] for token in stop]
    distinct = [token for token in dict.fromkeys(ends) if token is not None]
    model.config.eos_token_id = tokenizer.eos_token_id
    model.config.pad_token_id = tokenizer.pad_token_id
    model.generation_config = GenerationConfig(
        bos_token_id=model.generation_config.bos_token_id,
        eos_token_id=distinct if len(distinct) > 1 else tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )


def assistant_template(tokenizer: Any) -> str:
    """The tokenizer's chat template, or TRL's own for its model, with generation marks.

    Raises:
        InputError: There is none.
    """
    from trl.chat_template_utils import get_training_chat_template, has_generation_markers

    template = str(tokenizer.chat_template)
    if has_generation_markers(template):
        return template
    try:
        return get_training_chat_template(tokenizer) or template
    except ValueError:
        raise InputError(
            "assistant_only_loss needs a chat template that marks the model's turns with "
            "{% generation %}, and this one has no such marks: pass --chat_template_path FILE "
            "with a template that has them, or leave assistant_only_loss out"
        ) from None
