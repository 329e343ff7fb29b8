"""The card of a trained model says how to use it, on which terms, and what it was made of."""

from pathlib import Path

from huggingface_hub import ModelCard

from rpd_datasets.publish.model_card import CardFacts, model_card
from rpd_datasets.training.record import base_license


def facts(**changes: object) -> CardFacts:
    known = {
        "name": "tuned",
        "base_model": "ada/tiny",
        "method": "supervised fine-tuning",
        "library": "peft",
        "data": ["ada/set@abc"],
        "counts": {"samples": 12},
        "settings": {},
    }
    return CardFacts(**{**known, **changes})  # type: ignore[arg-type]


def test_the_prompt_is_shown_whole_whatever_is_in_it() -> None:
    prompt = "<|im_start|>user\n```python\n{problem}\n```<|im_end|>\n<|im_start|>assistant\n"
    assert f"\n````text\n{prompt}\n````\n" in model_card(facts(prompt=prompt))
    assert "prompts of this form" not in model_card(facts())


def test_the_licence_is_that_of_the_bases_card_or_not_known(tmp_path: Path) -> None:
    assert ModelCard(model_card(facts(license="apache-2.0"))).data.license == "apache-2.0"
    unknown = model_card(facts())
    assert ModelCard(unknown).data.license is None
    assert "## Licence\n\nNot known here" in unknown
    assert base_license(str(tmp_path)) is None
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\nA base.\n")
    assert base_license(str(tmp_path)) == "mit"
    (tmp_path / "README.md").write_text("no metadata")
    assert base_license(str(tmp_path)) is None
