"""Publishing through the real hub client to a Hub on this machine, whole and with faults."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from huggingface_hub import (
    EvalResultEntry,
    HfApi,
    constants,
    eval_result_entries_to_yaml,
    parse_eval_result_entries,
)

from parts.local_hub import TOKEN, Fault, LocalHub
from rpd_datasets.cli import main
from rpd_datasets.publish.eval_results import eval_entry, read_entries, write_entry
from rpd_datasets.publish.model_card import NOT_EVALUATED
from rpd_datasets.publish.publishable import publishable
from rpd_datasets.publish.pushing import Pushed, push_folder
from rpd_metric.errors import InputError, OutputError

REPO = "datasets/ada/set"
COMMIT = "POST .*/commit/"
SHARDS = {"data/train-00000-of-00001.parquet", "sft/train-00000-of-00001.parquet"}
FIGURES = {"figures/problem_scores.svg", "figures/token_lengths.svg"}
FILES = {"README.md", "manifest.json", "scores.jsonl", "rejects.jsonl", *SHARDS, *FIGURES}


@pytest.fixture(scope="module")
def curated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("curated")
    asked = ["curate", "sample", "--limit", "6", "--num-problems", "3", "--num-solutions", "2"]
    assert main([*asked, "--output", str(folder / "set")]) == 0
    return folder / "set"


@pytest.fixture
def folder(curated, tmp_path):
    return Path(shutil.copytree(curated, tmp_path / "set"))


@pytest.fixture
def hub(monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    # The client waits 24 seconds in all before it gives up on a file; here nothing gets better.
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)
    with LocalHub() as local:
        yield local


def push(hub: LocalHub, folder: Path, repo: str = "ada/set", **options: object) -> Pushed:
    return push_folder(folder, repo, api=HfApi(hub.url, token=TOKEN), **options)  # type: ignore


def other_card(folder: Path) -> None:
    card = folder / "README.md"
    card.write_text(card.read_text() + "\nA later word.\n")


def test_a_folder_is_published_privately_in_one_commit(hub, folder):
    pushed = push(hub, folder, "set")

    sent = hub.uploads()
    again = push(hub, folder)
    assert (pushed.changed, again.changed, again.commit) == (True, False, pushed.commit)
    assert hub.uploads() == sent >= len(SHARDS), "what is there was sent again"
    assert pushed.repo_id == "ada/set", "a name alone is put under the user's own"
    repo = hub.repos[REPO]
    assert repo.private
    assert pushed.private
    assert repo.messages[1:] == ["Made with Reasoning Path Divergence"]
    assert set(hub.files(REPO)) == {".gitattributes", *FILES}
    for name in FILES - {"README.md"}:
        assert hub.files(REPO)[name] == (folder / name).read_bytes()
    assert pushed.commit == repo.branches["main"]
    assert pushed.url == f"{hub.url}/datasets/ada/set"
    card = hub.files(REPO)["README.md"].decode()
    assert 'load_dataset("ada/set"' in card
    assert "PATH_OR_ID" not in card


def test_a_later_push_replaces_its_files_leaves_others_and_says_so(hub, folder):
    first = push(hub, folder)
    old = {"data/train-00001-of-00002.parquet": b"old", "notes/mine.txt": b"keep"}
    hub.repos[REPO].commit("main", {**hub.files(REPO), **old}, "by hand")

    (folder / "report.html").write_text("<!doctype html>")
    pushed = push(hub, folder, exclude=["rejects.jsonl"], private=False)

    assert pushed.deleted == ("data/train-00001-of-00002.parquet", "rejects.jsonl")
    left = {".gitattributes", "notes/mine.txt", "report.html", *FILES} - {"rejects.jsonl"}
    assert set(hub.files(REPO)) == left
    assert pushed.private, "private=False is for new repositories"
    assert first.notes == ()
    (note,) = pushed.notes
    assert "an earlier dataset: 7 of its files were written over, 2 deleted" in note


def test_a_public_repository_is_written_only_if_that_is_said(hub, folder):
    assert not push(hub, folder, private=False).private
    other_card(folder)

    with pytest.raises(InputError, match="is public: pass public=True"):
        push(hub, folder)
    assert b"A later word." not in hub.files(REPO)["README.md"]
    assert push(hub, folder, private=False).changed


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (403, "may not write to ada/set: take one with write permission"),
        (500, "the Hub refuses ada/set (HTTP 500: "),
        (0, "the connection to the Hub broke"),
    ],
)
def test_a_refused_commit_leaves_the_revision_as_it_was(hub, folder, status, says):
    push(hub, folder)
    before = dict(hub.repos[REPO].branches)
    other_card(folder)
    hub.faults = [Fault(COMMIT, status)]

    with pytest.raises(OutputError) as caught:
        push(hub, folder)

    message = str(caught.value)
    assert says in message
    assert "push again to finish" in message
    assert "\n" not in message
    assert hub.repos[REPO].branches == before
    assert push(hub, folder).changed


def test_an_upload_broken_in_the_middle_is_completed_by_a_second_push(hub, folder):
    # One of the two large files arrives; every attempt at the other fails.
    failing = max(hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in SHARDS)
    hub.faults = [Fault(f"PUT /lfs/{failing}", 500, times=100)]

    with pytest.raises(OutputError, match="push again to finish"):
        push(hub, folder)
    assert set(hub.files(REPO)) == {".gitattributes"}
    assert hub.uploads() == 1

    hub.faults = []
    push(hub, folder)
    assert hub.uploads() == 2, "what had arrived was sent again"
    for name in SHARDS:
        assert hub.files(REPO)[name] == (folder / name).read_bytes()


def test_a_commit_made_by_somebody_else_meanwhile_is_not_overwritten(hub, folder):
    push(hub, folder)

    class Slow(HfApi):
        def create_commit(self, *args: object, **kwargs: object) -> object:  # type: ignore
            hub.repos[REPO].commit("main", {"theirs": b"x"}, "theirs")
            return super().create_commit(*args, **kwargs)  # type: ignore

    with pytest.raises(OutputError, match="changed by somebody else"):
        push_folder(folder, "ada/set", api=Slow(hub.url, token=TOKEN))
    assert hub.files(REPO) == {"theirs": b"x"}


def test_a_push_whose_last_answer_was_lost_is_found_complete(hub, folder):
    hub.faults = [Fault(COMMIT, 0, late=True)]
    with pytest.raises(OutputError, match="either all of this push or nothing of it"):
        push(hub, folder)
    assert set(hub.files(REPO)) == {".gitattributes", *FILES}
    assert not push(hub, folder).changed


@pytest.mark.parametrize(
    ("repo", "client", "says"),
    [
        ("no/such/id", {}, "not a repository id"),
        ("bob/set", {}, "may not write to bob/set"),
        ("ada/set", {"token": "hf_wrong"}, "does not accept the token"),
        ("ada/set", {"endpoint": "http://127.0.0.1:9"}, "connection to the Hub broke"),
    ],
)
def test_what_is_not_allowed_is_one_line(hub, folder, repo, client, says):
    with pytest.raises(OutputError, match=says):
        push_folder(folder, repo, api=HfApi(**{"endpoint": hub.url, "token": TOKEN, **client}))


def test_settings_of_the_client_that_hinder_a_push_are_named(hub, folder, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", False)
    # The client does not fall back by itself where a server has no Xet.
    with pytest.raises(OutputError, match=r"xet-write-token.* set HF_HUB_DISABLE_XET=1"):
        push(hub, folder)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(OutputError, match="unset HF_HUB_OFFLINE"):
        push(hub, folder)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    with pytest.raises(InputError, match="set HF_TOKEN"):
        push_folder(folder, "ada/set", api=HfApi(hub.url))


@pytest.mark.parametrize("name", ["README.md", "manifest.json", *sorted(SHARDS)])
def test_a_folder_without_one_of_its_files_is_not_complete(folder, name):
    (folder / name).unlink()
    with pytest.raises(InputError, match="is not complete"):
        publishable(folder)


def test_shards_must_be_readable_and_of_the_cards_size(folder):
    import pyarrow.parquet as pq

    shard = folder / "data/train-00000-of-00001.parquet"
    pq.write_table(pq.read_table(shard).slice(0, 2), shard)
    with pytest.raises(InputError, match=r"says 3 rows for 'default', data/.* hold 2"):
        publishable(folder)
    shard.write_bytes(b"PAR1 cut off")
    with pytest.raises(InputError, match="is damaged"):
        publishable(folder)


def test_a_folder_or_card_of_something_else_is_refused(folder, tmp_path):
    with pytest.raises(InputError, match="is not a folder"):
        publishable(tmp_path / "nowhere")
    (tmp_path / "running.partial").mkdir()
    with pytest.raises(InputError, match="is not finished: run the same rpd curate again"):
        publishable(tmp_path / "running")
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    with pytest.raises(InputError, match="not the card that rpd curate wrote"):
        publishable(folder)
    (folder / "README.md").write_text("---\na: [\n---\n")
    with pytest.raises(InputError, match="is damaged"):
        publishable(folder)


@pytest.fixture
def model(tmp_path):
    import numpy as np
    from safetensors.numpy import save_file

    folder = tmp_path / "model"
    (folder / "checkpoint-9").mkdir(parents=True)
    save_file({"weight": np.ones((2, 2), np.float32)}, folder / "model.safetensors")
    (folder / "config.json").write_text('{"model_type": "qwen3"}')
    (folder / "tokenizer.json").write_text('{"vocab": {"/home/x/": 1}}')
    (folder / "README.md").write_text("---\nlicense: mit\n---\nA model.\n")
    (folder / "training_args.bin").write_bytes(b"pickled")
    (folder / "checkpoint-9/optimizer.pt").write_bytes(b"state")
    return folder


def test_a_model_is_published_without_its_checkpoints(hub, model):
    entry = eval_entry("MathArena/aime_2026:default", 41.67, "mean of 64 samples")
    path = write_entry(model, entry)
    assert path == model / ".eval_results/MathArena-aime_2026-default.yaml"
    path.rename(path.with_stem("aime24"))
    (model / "README.md").write_text(f"---\nlicense: mit\n---\n{NOT_EVALUATED}\n")
    pushed = push(hub, model, "ada/model")

    assert pushed.url == f"{hub.url}/ada/model"
    expected = {"README.md", "config.json", "model.safetensors", "tokenizer.json"}
    expected |= {".eval_results/aime24.yaml", ".gitattributes"}
    published = hub.files("models/ada/model")
    assert set(published) == expected
    assert b"- MathArena/aime_2026, default: 41.67 (mean of 64 samples)" in published["README.md"]

    # Saved again in shards: none of the old weights are left.
    (model / "model.safetensors").rename(model / "model-00001-of-00001.safetensors")
    shards = {"weight_map": {"weight": "model-00001-of-00001.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(shards))
    assert push(hub, model, "ada/model").deleted == ("model.safetensors",)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("value: 1", "is not a list of results"),
        ("- value: 1", "entry has no dataset"),
        ("- value: high\n  dataset: {id: a/b, task_id: c}", "value is 'high', not a float"),
        ("- value: 1\n  dataset: {id: a/b}", "dataset has no task_id"),
        ("- value: 1\n  dataset: {id: a/b, task_id: c, name: d}", "unknown key 'name'"),
        ("- value: 1\n  dataset: {id: a/b, task_id: c}\n  source: {name: d}", "source has no url"),
        ("- [", "is not YAML"),
    ],
)
def test_a_result_that_the_hub_would_refuse_is_not_sent(model, written, said):
    (model / ".eval_results").mkdir()
    (model / ".eval_results/a.yaml").write_text(written)
    with pytest.raises(InputError, match=said):
        publishable(model)


def test_a_result_is_what_the_clients_own_writer_makes_of_it(model):
    """The format has no machine-readable schema: the Hub's client is the nearest to it."""
    source = "https://example.org/log"
    path = write_entry(model, eval_entry("a/b:c", 12.5, "n", source))
    (entry,) = parse_eval_result_entries(read_entries(path))
    assert entry == EvalResultEntry("a/b", "c", 12.5, source_url=source, notes="n")
    assert eval_result_entries_to_yaml([entry]) == read_entries(path)
    for task in ("a/b", "b:c", "a/b:c/d", ""):
        with pytest.raises(InputError, match="name a benchmark of the Hub"):
            eval_entry(task, 1, "")


def test_a_model_must_be_whole(model):
    weights = model / "model.safetensors"
    index = model / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"a": "model-00002-of-00002.safetensors"}}')
    with pytest.raises(InputError, match=r"has no model-00002-of-00002\.safetensors"):
        publishable(model)
    index.write_text("{}")
    with pytest.raises(InputError, match="is damaged"):
        publishable(model)
    index.unlink()
    whole = weights.read_bytes()
    for damaged in (whole[:-1], b"\xff" * 99, b""):
        weights.write_bytes(damaged)
        with pytest.raises(InputError, match="cut off or damaged"):
            publishable(model)
    weights.unlink()
    with pytest.raises(InputError, match=r"has no \*\.safetensors"):
        publishable(model)
    (model / "README.md").unlink()
    with pytest.raises(InputError, match=r"has no README\.md"):
        publishable(model)


def with_text(folder: Path, text: str, *, row: int, column: str = "solutions") -> None:
    """Put a text into a solution, or into a column that was carried along."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (shard,) = (folder / "data").glob("*.parquet")
    rows = pq.read_table(shard).to_pylist()
    for number, one in enumerate(rows):
        here = text if number == row else ""
        one["meta"] = {"note": here if column == "meta" else "fine"}
        one["solutions"][1] += here if column == "solutions" else ""
    pq.write_table(pa.Table.from_pylist(rows), shard)


def test_all_secrets_of_the_rows_are_refused_at_once_unless_their_kinds_are_let_through(
    hub, folder, caplog
):
    token, header = "hf_" + "aB3x" * 8, "Authorization: Bearer " + "aB3x" * 8
    with_text(folder, f" My key is {token}.", row=2)
    with (folder / "rejects.jsonl").open("a") as file:
        file.write(header)
    with pytest.raises(InputError) as caught:
        push(hub, folder)
    said = str(caught.value)
    assert said.startswith("nothing was sent.")
    assert "column solutions, row 2: Hugging Face Token (hf_aB3…)" in said
    assert "rejects.jsonl, line" in said
    assert "Authorization Header" in said
    assert token not in said
    assert hub.requests == []
    kinds = ["Hugging Face Token", "Authorization Header", "Huging"]
    assert push(hub, folder, allowed_secrets=kinds).changed
    assert "--allow-secret 'Huging' matches no finding" in caplog.text


def test_addresses_and_home_folders_are_warned_of_before_anything_is_sent(
    hub, folder, caplog, monkeypatch
):
    with_text(folder, " Write to ada@lovelace.uk or open /home/ada/notes.", row=1)
    sent: list[int] = []
    monkeypatch.setattr(caplog.handler, "emit", lambda record: sent.append(len(hub.requests)))
    push(hub, folder)
    assert sent == [0, 0], "one address, one home folder, both before the first request"


def test_a_dry_run_lists_files_and_findings_and_sends_nothing(folder, capsys):
    assert main(["push", str(folder), "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "sft/train-00000-of-00001.parquet" in out
    assert "No secrets" in out
    with_text(folder, f" hf_{'aB3x' * 8}, ada@lovelace.uk", row=2)
    assert main(["push", str(folder), "--dry-run"]) == 1
    out, err = capsys.readouterr()
    assert "Refused data/train-00000-of-00001.parquet, column solutions, row 2: Hugging" in out
    assert "Look at data/train-00000-of-00001.parquet, column solutions, row 2: e-mail" in out
    assert "1 of these would stop a push" in err
    # The report shows the texts of the rows, compressed.
    assert main(["report", str(folder)]) == 0
    capsys.readouterr()
    assert main(["push", str(folder), "--dry-run", "--exclude", "*.parquet"]) == 1
    assert "Refused report.html, column solutions, row 2: Hugging" in capsys.readouterr().out
    assert main(["push", str(folder)]) == 1
    assert "name the repository" in capsys.readouterr().err
