"""Problems of benchmarks, beside datatrove's filter as the oracle."""

from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from parts.local_hub import LocalHub
from parts.rows import as_lines, write_rows
from rpd_datasets import CurationConfig, FilterConfig, curate_dataset
from rpd_datasets.evaluation.decontamination import load_contamination
from rpd_datasets.filters.contamination import Contamination
from rpd_datasets.training.training_rows import without_contaminated
from rpd_metric.errors import InputError

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
def test_equal_words_and_thirteen_words_in_a_row_match(problem, found):
    assert (Contamination(INDEX).find(problem) is not None) == found


def dropped_by_datatrove(folder: Path, texts: list[str], mine: str) -> bool:
    """What datatrove's filter says, over an index written as its indexer writes it."""
    from datatrove.data import Document
    from datatrove.pipeline.decont.n_grams import NGramsDecontConfig, NGramsDecontFilter
    from datatrove.utils.hashing import HashConfig
    from datatrove.utils.text import TextNormConfig, ngrams, simplify_text
    from datatrove.utils.word_tokenizers import WordTokenizer

    class AtSpaces(WordTokenizer):
        """The packaged one for English needs spaCy; texts are simplified before."""

        word_tokenize = staticmethod(str.split)
        sent_tokenize = span_tokenize = NotImplemented

    # Its other hash wants an older xxhash.
    norm, hashing = TextNormConfig(norm_numbers=False), HashConfig(hash_fc="sha1")
    config = NGramsDecontConfig(n_grams=13, norm_config=norm, hash_config=hashing)
    oracle = NGramsDecontFilter(str(folder), config, language=AtSpaces())
    hashes = [
        oracle.hash_func(" ".join(run))
        for text in texts
        for run in ngrams(simplify_text(text, config.norm_config).split(), 13)
    ]
    np.array(hashes, dtype=config.hash_config.np_descr).tofile(folder / "bench.index.hashes")
    return oracle.filter(Document(text=mine, id="0")) is not True


# Every run of theirs tells something.
VOCABULARY = [
    f"{a}{b}{c}" for a in ("App", "pea", "$plu") for b in ("le", "r", "m") for c in " ,.$"
]
WORDS = st.lists(st.sampled_from(VOCABULARY), max_size=30, unique=True)


@given(WORDS, WORDS, st.integers(0, 20), st.integers(10, 16))
def test_runs_match_where_datatroves_do(tmp_path_factory, bench, around, start, length):
    text = " ".join(bench)
    # Nearly thirteen words of the benchmark, between others.
    mine = " ".join([*around[:5], *bench[start : start + length], *around[5:]])
    found = Contamination({"bench": [text]}).find(mine)
    # Equal text counts here, too, however short it is.
    by_run = found is not None and len(found.words.split()) == 13
    assert by_run == dropped_by_datatrove(tmp_path_factory.mktemp("index"), [text], mine)


def test_what_cannot_be_compared_with_is_named(tmp_path):
    with pytest.raises(InputError, match="neither a file nor one of aime24"):
        load_contamination(["aime42"])
    other = str(write_rows(tmp_path / "rows.jsonl", [{"text": "x"}]))
    with pytest.raises(InputError, match="its columns are: text"):
        load_contamination([other])
    with pytest.raises(InputError, match="none alone"):
        load_contamination(["none", other])


@pytest.mark.slow
def test_a_hub_that_cannot_be_reached_is_not_asked_again_but_its_cache_is(tmp_path):
    code = (
        "import sys; from rpd_datasets.evaluation.decontamination import load_contamination\n"
        "found = load_contamination(sys.argv[1:]); print(found.sizes, found.not_compared)"
    )
    rows = [{"ID": f"a{n}", "Problem": f"p{n}", "Answer": n} for n in range(30)]
    with LocalHub() as hub:
        hub.add("datasets/Maxwell-Jia/AIME_2024", {"train.jsonl": as_lines(rows)})
        assert "'aime24': 30" in hub.run(tmp_path, "-c", code, "aime24").stdout
    done = hub.run(tmp_path, "-c", code, "known")
    assert done.stdout.startswith("{'aime24': 30} not compared with aime25, "), done.stderr
    assert "Retry" not in done.stderr
    said = hub.run(tmp_path, "-c", code, "aime26").stderr.splitlines()[-1]
    assert "decontaminate aime26 cannot be loaded" in said
    assert said.endswith("Name a file of its problems instead")


def test_benchmarks_that_were_not_compared_are_a_warning_of_the_run_and_on_its_card(tmp_path):
    rows = [{"problem": f"{n} + 1?", "solutions": ["We add. So 2.", "We count: 2."]} for n in "12"]
    config = CurationConfig(num_solutions=2, filters=FilterConfig(require_complete=False))
    index = Contamination({}, "not compared with aime24, which cannot be had here")
    made = curate_dataset(Dataset.from_list(rows), tmp_path / "out", config, contamination=index)
    (said,) = [one for one in made.manifest["outcome"]["warnings"] if "compared" in one]
    assert f"> **{said}**" in made.card.text
    assert "| Benchmarks | not compared with any |" in made.card.text


def test_training_rows_are_compared_too():
    said: list[str] = []
    index = Contamination({"other": ["x"], "bench": [SHORT, AYA]})
    prompts = [[{"role": "user", "content": text}] for text in (AYA, "What is 2 + 2?")]
    rows = Dataset.from_dict({"prompt": prompts, "completion": [[], []]})
    kept, left_out = without_contaminated(rows, index, said.append)
    assert (list(kept["prompt"]), left_out) == (prompts[1:], 1)
    assert "Problem 2 of bench has the same words: 'every morning aya walks" in said[0]
    with pytest.raises(InputError, match="all 1 rows"):
        without_contaminated(rows.select([0]), index, said.append)
