"""What a text is written in, and what a run says where solutions are in several languages."""

import json

import pytest

from parts.fake_tgi import FakeTGI
from parts.kill_loop import summary
from parts.rows import write_rows
from rpd_datasets.cli import main
from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.curated import curate_dataset
from rpd_datasets.filters.candidates import FilterConfig
from rpd_datasets.language import written_in
from rpd_metric.distance.distances import TOGETHER

ENGLISH = (
    "Pair the first number with the last one: each of the 50 pairs adds up to 101, so it is 5050.",
    "Write the sum twice, once in reverse, and add: every column is 101, and half of it is 5050.",
    "A sum of the first n numbers is $\\frac{n(n+1)}{2}$, which for a hundred gives us 5050.",
)
GERMAN = (
    "Man bildet Paare aus der ersten und der letzten Zahl: 50 Paare zu je 101 ergeben 5050.",
    "Schreibt man die Summe rückwärts darunter, so ergibt jede Spalte 101, zusammen also 5050.",
    "Nach der bekannten Formel ist die Summe gleich $\\frac{n(n+1)}{2}$, hier also genau 5050.",
)
CHINESE = (
    "把第一个数与最后一个数配成一对，每对的和都是 101，一共有 50 对，所以总和等于 5050。",
    "把同一个和倒过来再写一遍，然后逐列相加，每一列都是 101，取其一半就得到 5050。",
    "根据等差数列的求和公式，前一百个正整数的和为 $\\frac{n(n+1)}{2}$，也就是 5050。",
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((text, "en") for text in ENGLISH),
        *((text, "de") for text in GERMAN),
        *((text, "zh") for text in CHINESE),
        ("把两个数相加：12+8=20。答案是20。", "zh"),
        ("逐个相加：1,3,6,10,15,21,28,36,45,55。答案：55", "zh"),
        ("$x = 4$, so 4.", ""),
        ("Here is how:\n```python\ndef total(n):\n    return n * (n + 1) // 2\n```", "program"),
    ],
)
def test_formulas_and_code_are_no_language(text, expected):
    assert written_in(text) == expected


@pytest.mark.parametrize("reference", [{}, {"answer": "5050"}])
@pytest.mark.parametrize(
    ("texts", "mixed"),
    [((ENGLISH,), False), ((GERMAN, CHINESE), False), ((ENGLISH[:2] + CHINESE[:1],), True)],
)
def test_translated_solutions_stay_and_a_run_says_what_its_distances_count(
    texts, mixed, reference, tmp_path
):
    rows = [
        {"problem": f"Sum of the first {number} hundred?", "solutions": some} | reference
        for number, some in enumerate(texts)
    ]
    config = CurationConfig(num_solutions=3, filters=FilterConfig(min_solutions=3))
    file = write_rows(tmp_path / "rows.jsonl", rows)
    curated = curate_dataset(file, tmp_path / "out", config)
    outcome = curated.manifest["outcome"]
    assert (curated.folder / "rejects.jsonl").read_bytes() == b""
    assert curated.manifest["counts"]["solutions_chosen"] == 3 * len(rows)
    assert any("in several languages" in said for said in outcome["warnings"]) == mixed
    assert outcome["median"]["means"] is None, "without a chat model no words are calibrated"
    assert outcome["distance"]["sees"].startswith(TOGETHER)


@pytest.mark.parametrize(("texts", "calibrated"), [(ENGLISH, True), (GERMAN, False)])
def test_scores_are_put_into_words_where_labelled_pairs_tell_what_they_mean(
    texts, calibrated, tmp_path, capsys
):
    row = {"problem": "Sum to 100?", "solutions": texts}
    file = write_rows(tmp_path / "rows.jsonl", [row])
    with FakeTGI(reply=summary) as server:
        line = ["score", str(file), "--json", "--distance", "strategy"]
        assert main([*line, "--summarizer", f"tgi:{server.url}"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["means"] is not None) == calibrated
    said = "with an AUROC of 0.899" if calibrated else "not measured on texts in 'de'"
    assert said in found["measures"]
