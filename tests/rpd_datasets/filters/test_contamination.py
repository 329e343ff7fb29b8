"""Problems that stand in benchmarks, beside datatrove's filter as the oracle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parts.rows import write_rows
from rpd_datasets.evaluation.decontamination import load_contamination
from rpd_datasets.filters.contamination import Contamination
from rpd_metric.errors import InputError

REAL = Path(__file__).resolve().parents[4] / "shared/data/benchmarks"

AYA = (
    "Every morning Aya walks nine kilometres to a coffee shop near the harbour and reads there. "
    "When she walks at $s$ kilometres per hour, the walk takes her 4 hours."
)
SHORT = "Find the largest prime factor of $9951$."
FORM = (
    " The answer can be written as $\\frac{m}{n}$, where $m$ and $n$ are relatively prime positive "
    "integers. Find $m+n$."
)
STORY = "In the kingdom of Or every city is joined to every other city by one road. "
DRAWING = "[asy]draw((0,0)--(1,1)); label($B$, B, SW); label($C$, C, SE); dot(north);[/asy]"
INDEX = {
    "one": [SHORT, AYA + FORM + DRAWING],
    "two": [STORY + "Count the roads.", STORY + "Count the cities."],
}


@pytest.mark.parametrize(
    ("problem", "found"),
    [
        (AYA.upper().replace("$", ""), True),
        (f"Read this first. {AYA} And then?", True),
        (AYA.replace("nine", "ten"), True),  # the runs after the number are whole
        (" ".join(AYA.split()[:12]), False),
        ("Find the largest prime factor of 9951", True),
        ("Find the largest prime factor of 9953", False),  # another number, another problem
        (SHORT + " Then double it.", False),  # too short for a run, and not the same text
        ("A coin is thrown until it shows heads twice." + FORM, False),
        (STORY + "Who built them?", False),  # what several problems of a benchmark share
        (STORY + "Count the roads!", True),
        ("A square. " + DRAWING, False),
    ],
)
def test_equal_words_and_thirteen_words_in_a_row_match(problem: str, found: bool) -> None:
    match = Contamination(INDEX).find(problem)
    assert (match is not None) == found


def test_a_match_says_where_and_with_which_words() -> None:
    match = Contamination({"one": ["x"], "two": [SHORT, AYA]}).find(f"Listen. {AYA}")
    assert match is not None
    assert match.detail == (
        "Problem 2 of two has the same words: 'every morning aya walks nine kilometres to a "
        "coffee shop near the harbour'."
    )


def dropped_by_datatrove(folder: Path, texts: list[str], mine: str) -> bool:
    """What datatrove's filter says, over an index written as its indexer writes it."""
    from datatrove.data import Document
    from datatrove.pipeline.decont.n_grams import NGramsDecontConfig, NGramsDecontFilter
    from datatrove.utils.hashing import HashConfig
    from datatrove.utils.text import TextNormConfig, ngrams, simplify_text
    from datatrove.utils.word_tokenizers import WordTokenizer

    class AtSpaces(WordTokenizer):
        """The packaged one for English needs spaCy; texts are simplified before."""

        def word_tokenize(self, text: str) -> list[str]:
            return text.split()

        def sent_tokenize(self, text: str) -> list[str]:
            raise NotImplementedError

        def span_tokenize(self, text: str) -> list[tuple[int, int]]:
            raise NotImplementedError

    config = NGramsDecontConfig(
        n_grams=13,
        norm_config=TextNormConfig(norm_numbers=False),
        hash_config=HashConfig(hash_fc="sha1"),  # its other one wants an older xxhash
    )
    oracle = NGramsDecontFilter(str(folder), config, language=AtSpaces())
    hashes = [
        oracle.hash_func(" ".join(run))
        for text in texts
        for run in ngrams(simplify_text(text, config.norm_config).split(), 13)
    ]
    np.array(hashes, dtype=config.hash_config.np_descr).tofile(folder / "bench.index.hashes")
    return oracle.filter(Document(text=mine, id="0")) is not True


VOCABULARY = ["apple", "Pear,", "fig.", "$x^2$", "the", "12", "of"]
WORDS = st.lists(st.sampled_from(VOCABULARY), max_size=30)


@given(st.lists(WORDS, min_size=1, max_size=3), WORDS, st.integers(0, 20), st.integers(10, 16))
def test_runs_match_where_datatroves_do(
    tmp_path_factory: Any, bench: list[list[str]], around: list[str], start: int, length: int
) -> None:
    texts = [" ".join(words) for words in bench]
    # Nearly thirteen words of the benchmark, between others.
    mine = " ".join([*around[:5], *bench[0][start : start + length], *around[5:]])
    found = Contamination({"bench": texts}, every_run=True).find(mine)
    # Equal text counts here, too, however short it is.
    by_run = found is not None and len(found.words.split()) == 13
    assert by_run == dropped_by_datatrove(tmp_path_factory.mktemp("index"), texts, mine)


@pytest.mark.skipif(not REAL.is_dir(), reason="../shared/data is not here")
def test_ten_problems_of_the_aime_stand_in_math500_and_none_in_later_ones() -> None:
    names = [str(REAL / f"{name}.jsonl") for name in ("aime24", "aime25", "amc23", "math500")]
    index = load_contamination(names)
    assert index is not None
    rows = json.loads((REAL / "aime_1983_2023.json").read_text())
    column = next(name for name in ("problem", "question", "Question") if name in rows[0])
    matches = [match.benchmark for row in rows if (match := index.find(row[column]))]
    assert matches == ["math500.jsonl"] * 10


def test_what_cannot_be_compared_with_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither a file nor one of aime24"):
        load_contamination(["aime42"])
    other = str(write_rows(tmp_path / "rows.jsonl", [{"text": "x"}]))
    with pytest.raises(InputError, match="its columns are: text"):
        load_contamination([other])
    with pytest.raises(InputError, match="none alone"):
        load_contamination(["none", other])
    said: list[str] = []
    assert load_contamination(["known"], say=said.append) is None  # the Hub is out of reach here
    assert "aime24" in said[0]


def test_training_rows_and_problems_of_reinforcement_learning_are_compared_too(
    tmp_path: Path,
) -> None:
    from datasets import Dataset

    from rpd_datasets.training.recipe import ReinforcementOptions
    from rpd_datasets.training.reinforcement import load_prompts
    from rpd_datasets.training.training_rows import without_contaminated

    class Tokenizer:
        """Counts words: the chat template is not what is tested."""

        def apply_chat_template(self, messages: list[dict[str, str]], **_: Any) -> dict[str, Any]:
            return {"input_ids": messages[0]["content"].split()}

    index, said = Contamination({"bench": [AYA]}), []
    prompts = [[{"role": "user", "content": text}] for text in (AYA, "What is 2 + 2?")]
    rows = Dataset.from_dict({"prompt": prompts, "completion": [[], []]})
    kept, left_out = without_contaminated(rows, index, said.append)
    assert (len(kept), left_out) == (1, 1)
    assert "row 0" in said[0]
    with pytest.raises(InputError, match="all 1 rows"):
        without_contaminated(rows.select([0]), index, said.append)

    problems = [{"problem": text, "answer": "4"} for text in (AYA, "What is 2 + 2?")]
    file = write_rows(tmp_path / "own.jsonl", problems)
    options = ReinforcementOptions(problems=str(file))
    rows, counts = load_prompts(options, Tokenizer(), index, said.append)
    assert (len(rows), counts["problems left out as contaminated"]) == (1, 1)
