"""The taught encoder: the file that is shipped, and that it sees what its statement says."""

import numpy as np
import pytest

from parts.recorded_groups import SHARED, read_lines
from rpd_datasets.judging.auroc import count_wins, pooled_auroc, within_auroc
from rpd_datasets.judging.labels import Labels
from rpd_metric.errors import ModelError
from rpd_metric.measure import distance_matrices
from rpd_metric.models import minilm
from rpd_metric.models.spec import load_embedder

TEXTS = ["Add the roots by Vieta.", "Count the cases modulo 7, one by one.", "", "By induction."]


def test_another_file_than_the_shipped_one_is_an_error_that_says_so(tmp_path, monkeypatch):
    assert minilm.TAUGHT.stat().st_size < 8_000_000
    content = bytearray(minilm.TAUGHT.read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "taught.npz").write_bytes(content)
    monkeypatch.setattr(minilm, "TAUGHT", tmp_path / "taught.npz")
    with pytest.raises(ModelError, match=r"has sha256 .*, not .*Install the package again"):
        load_embedder("taught", batch_size=3)


def test_every_layer_above_the_third_is_changed_and_a_vector_is_of_its_text_alone():
    changes = minilm.read_changes()
    assert {name.split(".")[2] for name in changes} == {"3", "4", "5"}
    assert all(change.abs().max() > 0 for change in changes.values())
    encoder, untaught = load_embedder("taught"), load_embedder("minilm")
    vectors = encoder.encode(TEXTS)
    np.testing.assert_array_equal(encoder.encode(TEXTS[1:2])[0], vectors[1])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert not np.allclose(vectors, untaught.encode(TEXTS), atol=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("distance", "file", "pooled", "within"),
    [
        # Every seventh problem, and the 12 Python problems, as in docs/distances.md.
        ("taught", "controlled_train.jsonl", 0.639, 0.711),
        ("growth", "controlled.jsonl", 0.783, 0.803),
    ],
)
def test_the_figures_of_the_docs_come_from_the_shipped_file(distance, file, pooled, within):
    if not (SHARED / file).is_file():
        pytest.skip(f"{SHARED / file} is not here; the sets are no part of the repository")
    rows = read_lines(SHARED / file)
    rows = [row for row in rows if "tests" in row] if distance == "growth" else rows[::7]
    distances, different = [], []
    for row in rows:
        asked = (row["problem"], row["solutions"], None, load_embedder("minilm"), 0, row)
        matrix = distance_matrices([distance], *asked)[distance]
        pairs = Labels.of(row).pairs()
        distances.append([matrix[i, j] for i, j, _ in pairs])
        different.append([differs for *_, differs in pairs])
    wins, ones = count_wins(distances, different), np.ones((1, len(rows)))
    figures = (pooled_auroc(wins, ones)[0], within_auroc(wins, ones)[0])
    np.testing.assert_allclose(figures, (pooled, within), atol=0.002)
