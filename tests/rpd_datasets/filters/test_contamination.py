"""Problems that stand in benchmarks, beside datatrove's filter as the oracle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpd_datasets.cli import main
from rpd_datasets.evaluation.decontamination import load_contamination
from rpd_datasets.filters.contamination import Contamination
from rpd_metric.errors import InputError

REAL = Path(__file__).resolve().parents[4] / "shared/data/benchmarks"
needs_data = pytest.mark.skipif(not REAL.is_dir(), reason="../shared/data is not here")

AYA = (
    "Every morning Aya walks nine kilometres to a coffee shop near the harbour and reads there. "
    "When she walks at $s$ kilometres per hour, the walk takes her 4 hours."
)
SHORT = "Find the largest prime factor of $9951$."
FORM = (
    " The answer can be written as $\\frac{m}{n}$, where $m$ and $n$ are relatively prime positive "
    "integers. Find $m+n$."
)


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
    ],
)
def test_equal_words_and_thirteen_words_in_a_row_match(problem, found):
    match = Contamination({"bench": [AYA, SHORT]}).find(problem)
    assert (match is not None) == found


def test_a_match_says_where_and_with_which_words():
    match = Contamination({"one": ["x"], "two": [SHORT, AYA]}).find(f"Listen. {AYA}")
    assert match is not None
    assert (match.benchmark, match.number) == ("two", 2)
    assert (
        match.words == "every morning aya walks nine kilometres to a coffee shop near the harbour"
    )
    assert "Problem 2 of two" in match.detail


def test_the_form_of_an_answer_is_no_match():
    mine = "A coin is thrown until it shows heads twice." + FORM
    index = Contamination({"bench": [AYA + FORM]})
    assert index.find(mine) is None
    assert Contamination({"bench": [AYA + FORM]}, every_run=True).find(mine) is not None


def test_what_several_problems_of_one_benchmark_share_is_no_match():
    story = "In the kingdom of Or every city is joined to every other city by one road. "
    index = Contamination({"bench": [story + "Count the roads.", story + "Count the cities."]})
    assert index.find(story + "Who built them?") is None
    assert index.find(story + "Count the roads!") is not None


def test_drawings_are_not_compared():
    drawing = "[asy]draw((0,0)--(1,1)); label($B$, B, SW); label($C$, C, SE); dot(north);[/asy]"
    assert Contamination({"bench": [AYA + drawing]}).find("A square. " + drawing) is None


def datatrove_filter(folder: Path, texts: list[str]) -> Any:
    """datatrove's filter over an index of these texts, written as its indexer writes it."""
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
    return oracle


def dropped_by(oracle: Any, text: str) -> bool:
    from datatrove.data import Document

    return oracle.filter(Document(text=text, id="0")) is not True


VOCABULARY = ["apple", "Pear,", "fig.", "$x^2$", "the", "12", "of"]
WORDS = st.lists(st.sampled_from(VOCABULARY), max_size=30)


@given(st.lists(WORDS, min_size=1, max_size=3), WORDS, st.integers(0, 20), st.integers(10, 16))
def test_runs_match_where_datatroves_do(tmp_path_factory, bench, around, start, length):
    texts = [" ".join(words) for words in bench]
    # Nearly thirteen words of the benchmark, between others.
    mine = " ".join([*around[:5], *bench[0][start : start + length], *around[5:]])
    oracle = datatrove_filter(tmp_path_factory.mktemp("index"), texts)
    found = Contamination({"bench": texts}, every_run=True).find(mine)
    # Equal text counts here, too, however short it is.
    by_run = found is not None and len(found.words.split()) == 13
    assert by_run == dropped_by(oracle, mine)


@needs_data
def test_on_real_problems_every_run_gives_datatroves_figures(tmp_path):
    bench = [json.loads(line)["problem"] for line in (REAL / "math500.jsonl").open()]
    index = Contamination({"math500": bench}, every_run=True)
    oracle = datatrove_filter(tmp_path, bench)
    train = json.loads((REAL / "aime_1983_2023.json").read_text())
    texts = [str(next(row[key] for key in ("problem", "question", "Question") if key in row))
             for row in train]  # fmt: skip
    plain = [text for text in texts if text.isascii() and "[asy]" not in text]
    assert len(plain) > 700
    disagree = [t for t in plain if (index.find(t) is not None) != dropped_by(oracle, t)]
    assert disagree == []


@needs_data
def test_ten_problems_of_the_aime_stand_in_math500_and_none_in_later_ones():
    names = [str(REAL / f"{name}.jsonl") for name in ("aime24", "aime25", "amc23", "math500")]
    index = load_contamination(names)
    assert index is not None
    train = load_contamination([str(REAL / "aime_1983_2023.json")])
    assert index.sizes["aime24.jsonl"] == 30
    assert train is not None
    rows = json.loads((REAL / "aime_1983_2023.json").read_text())
    column = next(name for name in ("problem", "question", "Question") if name in rows[0])
    matches = [match for row in rows if (match := index.find(row[column]))]
    assert {match.benchmark for match in matches} == {"math500.jsonl"}
    assert len(matches) == 10


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.slow
def test_curate_leaves_them_out_with_the_match_and_says_so(tmp_path, capsys):
    rows = [
        {"problem": problem, "solutions": [f"We try {n} things. It is ${n}$." for n in (1, 2, 3)]}
        for problem in (AYA, "How many sides has a cube?", "What is 2 + 2?")
    ]
    file = write(tmp_path / "rows.jsonl", rows)
    bench = write(tmp_path / "bench.jsonl", [{"question": AYA}, {"question": SHORT}])
    out = tmp_path / "out"
    command = ["curate", str(file), "--num-problems", "2", "--num-solutions", "2"]
    assert main([*command, "--output", str(out), "--decontaminate", str(bench)]) == 0
    (reject,) = (json.loads(line) for line in (out / "rejects.jsonl").open())
    assert (reject["reason"], reject["problem"]) == ("contaminated", AYA)
    assert "Problem 1 of bench.jsonl" in reject["detail"]
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["decontaminated"]["by"] == [{"name": "bench.jsonl", "problems": 2}]
    assert "bench.jsonl (2 problems)" in (out / "README.md").read_text()
    assert "1 contaminated" in " ".join(capsys.readouterr().out.split())


def test_what_cannot_be_compared_with_is_named(tmp_path):
    with pytest.raises(InputError, match="neither a file nor one of aime24"):
        load_contamination(["aime42"])
    empty = write(tmp_path / "rows.jsonl", [{"text": "x"}])
    with pytest.raises(InputError, match="its columns are: text"):
        load_contamination([str(empty)])
    said: list[str] = []
    assert load_contamination(["known"], say=said.append) is None  # the Hub is out of reach here
    assert "aime24" in said[0]
    assert load_contamination(["none"]) is None
    with pytest.raises(InputError, match="none alone"):
        load_contamination(["none", str(empty)])


def test_training_rows_and_problems_of_reinforcement_learning_are_compared_too(tmp_path):
    from datasets import Dataset

    from rpd_datasets.training.recipe import ReinforcementOptions
    from rpd_datasets.training.reinforcement import load_prompts
    from rpd_datasets.training.training_rows import without_contaminated

    class Tokenizer:
        """Counts words: the chat template is not what is tested."""

        def apply_chat_template(self, messages: list[dict[str, str]], **_: Any) -> dict[str, Any]:
            return {"input_ids": messages[0]["content"].split()}

    index = Contamination({"bench": [AYA]})
    said: list[str] = []
    prompts = [[{"role": "user", "content": text}] for text in (AYA, "What is 2 + 2?")]
    rows = Dataset.from_dict({"prompt": prompts, "completion": [[], []]})
    kept, left_out = without_contaminated(rows, index, said.append)
    assert (len(kept), left_out) == (1, 1)
    assert "row 0" in said[0]
    with pytest.raises(InputError, match="all 1 rows"):
        without_contaminated(rows.select([0]), index, said.append)

    problems = [{"problem": text, "answer": "4"} for text in (AYA, "What is 2 + 2?")]
    options = ReinforcementOptions(problems=str(write(tmp_path / "own.jsonl", problems)))
    rows, counts = load_prompts(options, Tokenizer(), index, said.append)
    assert (len(rows), counts["problems left out as contaminated"]) == (1, 1)
    assert "Problem 1 of bench" in said[1]
