"""A model's tokenizer, checked for what training needs: a template, an end and a padding token."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from rpd_metric.errors import InputError, ModelError, first_line


def hub_answers(model: str) -> bool:
    """Whether the Hub can be asked for a model: one request, where loading would try six times.

    Without a network, `transformers` waits 45 seconds for each file that it does not find. For a
    folder of this machine nothing is asked.
    """
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import HfHubHTTPError

    # The HTTP library differs between versions of the hub client; this name stays.
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    if Path(model).is_dir() or constants.HF_HUB_OFFLINE:
        return True
    try:
        HfApi().model_info(model, timeout=10)
    except (OSError, httpx.HTTPError) as error:
        # An answer about this model is for loading to report.
        return isinstance(error, HfHubHTTPError)
    return True


def load_tokenizer(
    model: str,
    *,
    revision: str | None = None,
    end_token: str | None = None,
    padding_token: str | None = None,
    template: str | None = None,
    padding_side: Literal["left", "right"] = "right",
    cached_only: bool = False,
) -> Any:
    """Load a model's tokenizer and make sure that the end of an answer can be learnt.

    Args:
        end_token (`str`, *optional*): The token that ends an answer, where it is not the
            tokenizer's: base models of Qwen end texts, not turns.
        padding_token (`str`, *optional*): Where the tokenizer's own is also its end token.
        template (`str`, *optional*): A Jinja file to use as the chat template.
        cached_only (`bool`): Do not ask the Hub, only its cache.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            model, revision=revision, padding_side=padding_side, local_files_only=cached_only
        )
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot load the tokenizer of {model}: {first_line(error)}") from error
    if template is not None:
        path = Path(template)
        if not path.is_file():
            raise InputError(f"chat_template_path {template} is no file; name a Jinja file")
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
        raise InputError(
            f"{model} pads with {tokenizer.pad_token!r} and ends answers with "
            f"{tokenizer.eos_token!r}; name another token with --padding_token"
        )
    return tokenizer
