"""The sets of `make sets`: what the Hub, datasets, Inspect and Croissant's readers ask of them."""

import hashlib
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from datasets import load_dataset
from huggingface_hub import DatasetCard, DatasetCardData

from benchmarks.sets.make import make
from parts.scripted import WordCounts
from rpd_datasets.cli import main
from rpd_datasets.judging.graders import mistakes, read_pairs
from rpd_datasets.judging.metric_comparison import compare_metrics
from rpd_metric import Distance

NAMES = ("strategy-labels", "grading-pairs")
# What NeurIPS asks of datasets since 2026.
RESPONSIBLE = (
    *("rai:dataLimitations", "rai:dataBiases", "rai:personalSensitiveInformation"),
    *("rai:dataUseCases", "rai:dataSocialImpact", "rai:hasSyntheticData"),
    *("prov:wasDerivedFrom", "prov:wasGeneratedBy"),
)


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    output = tmp_path_factory.mktemp("sets")
    make(output)
    return output


def loader(folder: Path):
    spec = importlib.util.spec_from_file_location("load", folder / "load.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert len((folder / "load.py").read_text().splitlines()) <= 100
    return module


@pytest.mark.parametrize("name", NAMES)
def test_a_set_is_accepted_by_push_and_its_card_by_datasets(
    name, sets, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path))
    assert main(["push", str(sets / name), "--dry-run", "--json"]) == 0
    sent = json.loads(capsys.readouterr().out)
    assert sent["findings"] == []
    assert {"README.md", "LICENSE", "croissant.json", "eval.yaml", "load.py"} <= set(sent["files"])
    card = DatasetCard.load(sets / name / "README.md")
    data = card.data.to_dict()
    # Unknown fields and types are refused by the reader of the hub client.
    assert DatasetCardData(**data).to_dict() == data
    assert data["license"] == "cc0-1.0"
    assert "<!--" not in card.text
    for info in data["dataset_info"]:
        for split in info["splits"]:
            place = {"split": split["name"], "cache_dir": str(tmp_path)}
            rows = load_dataset(str(sets / name), info["config_name"], **place)
            assert len(rows) == split["num_examples"]


@pytest.mark.parametrize("name", NAMES)
def test_the_tasks_of_a_set_fit_inspect_and_their_rows_make_samples(name, sets):
    hf = pytest.importorskip("inspect_ai._eval.task.hf")
    board = yaml.safe_load((sets / name / "eval.yaml").read_text())
    assert set(board) == {"name", "description", "evaluation_framework", "tasks"}
    for task in map(hf.HFTask.model_validate, board["tasks"]):
        rows = load_dataset("parquet", data_files=f"{sets / name}/{task.config}/{task.split}-*")
        sample = hf._record_to_sample_hf(rows["train"][0], task.field_spec)
        assert (sample.target, len(sample.choices)) in (("A", 2), ("B", 2))


@pytest.mark.parametrize("name", NAMES)
def test_the_croissant_of_a_set_has_its_files_its_columns_and_what_conferences_ask_for(name, sets):
    path = sets / name / "croissant.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    assert all(data[field] not in (None, "") for field in RESPONSIBLE)
    for file in data["distribution"]:
        assert (
            file["sha256"] == hashlib.sha256((sets / name / file["@id"]).read_bytes()).hexdigest()
        )
        file["contentUrl"] = file["@id"]  # offline
    croissant = pytest.importorskip("mlcroissant", reason="needs mlcroissant")
    path.with_name("offline.json").write_text(json.dumps(data), encoding="utf-8")
    read = croissant.Dataset(path.with_name("offline.json"))
    assert not read.metadata.ctx.issues.errors
    for part in read.metadata.record_sets:
        row = next(iter(read.records(part.uuid)))
        assert set(row) == {field.uuid for field in part.fields}
    path.with_name("offline.json").unlink()


def test_a_task_that_the_card_lacks_is_refused(sets, tmp_path, capsys):
    folder = tmp_path / "set"
    (make(tmp_path)[1]).rename(folder)
    board = folder / "eval.yaml"
    board.write_text(board.read_text().replace("config: judge", "config: judges"))
    assert main(["push", str(folder), "--dry-run"]) == 1
    assert "the card has no config 'judges' with split 'test'" in capsys.readouterr().err


def test_the_loading_code_counts_what_the_commands_count(sets, tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path))
    labels = loader(sets / "strategy-labels")
    rows = labels.load("controlled")

    def lengths(_, solutions):
        sizes = np.array([len(text) for text in solutions], dtype=float)
        return abs(sizes[:, None] - sizes) / 1000

    found = labels.measure(rows, lengths)
    solutions = {row["problem"]: row["solutions"] for row in rows}

    def of_evidence(evidence):
        return lengths("", solutions[evidence.problem])

    own = Distance("lengths", of_evidence, ("text",), "the difference in length")
    compared = compare_metrics(rows.to_list(), WordCounts(["a"]), methods=[own], num_bootstrap=2)
    (figures,) = (one.figures for one in compared.results if one.distance == "lengths")
    assert found["auroc"] == pytest.approx(figures["pooled"].value)
    assert found["triples"] == pytest.approx(figures["triples"].value)

    graders = loader(sets / "grading-pairs")
    (tmp_path / "checks.py").write_text("def check(a, b):\n    return a in b\n")
    *_, every = mistakes(f"{tmp_path}/checks.py:check", read_pairs())
    counted = graders.measure(graders.load(), lambda reference, response: reference in response)
    assert counted == {name: getattr(every, name) for name in counted}
