"""The paper's training sets: the choices behind their names, and what keeps them comparable."""

import datasets
import pytest

from parts.curate_rows import curate, curated, manifest, write_rows
from parts.fake_judge import judge_reply
from parts.fake_tgi import FakeTGI
from rpd_datasets import CurationConfig, rpd_curate, select_problems
from rpd_datasets.options import as_options
from rpd_datasets.presets import PRESETS

MODELS = {"summarizer": "extractive", "embedder": "minilm"}


@pytest.fixture
def rows(tmp_path):
    return write_rows(tmp_path / "rows.jsonl")


@pytest.mark.parametrize("name", ["paper", "llm", "unfiltered-1p16s"])
def test_a_preset_is_the_same_from_python_and_from_the_command_line(name, rows, tmp_path, capsys):
    models = ["--summarizer", "extractive", "--embedder", "minilm"]
    with FakeTGI(reply=judge_reply) as server:
        judge, store = f"tgi:{server.url}", str(tmp_path / "replies.sqlite")
        result = curate(
            capsys,
            rows,
            tmp_path / "out",
            *("--preset", name, "--min-solutions", 4, *models, "--store", store),
            *(["--judge", judge] if "llm" in name else []),
        )
        judging = {"judge": judge} if "llm" in name else {}
        preset = PRESETS[name]
        config = CurationConfig(**preset.settings, filters=preset.filters, **MODELS, **judging)
    options = manifest(tmp_path / "out")["options"]
    expected = as_options(config, "choice") | as_options(config.filters, "")
    expected |= {"min_solutions": 4, "filter": [], "judge": options.get("judge"), "preset": name}
    assert options.items() >= expected.items()
    counts = result["counts"]
    if name != "llm":  # there it depends on the judge
        problems = min(12, preset.num_problems)
        assert counts["problems_chosen"] == problems
        assert counts["solutions_chosen"] == problems * min(5, preset.num_solutions)


def test_arms_with_one_seed_differ_only_in_what_their_names_say(rows, tmp_path, capsys):
    def problems(name, *options):
        out = tmp_path / "-".join([name, *map(str, options)])
        size = ("--num-problems", 6) if name != "random-1p1s" else ("--num-problems", 9)
        curate(capsys, rows, out, "--preset", name, "--min-solutions", 4, *size, *options)
        return curated(out)["problem"][:]

    pool = problems("random-1p3s")
    assert problems("random-q-rpd-a") == pool
    assert problems("random-1p1s")[:6] == pool
    assert problems("rpd-q-random-a") == problems("rpd")
    assert problems("random-1p3s", "--seed", 1) != pool


def test_select_problems_draws_as_the_command_line_does(rows, tmp_path, capsys):
    config = CurationConfig(problems="random", solutions="random", seed=3)
    ds = datasets.load_dataset("json", data_files=str(rows), split="train")
    ds = ds.map(rpd_curate, fn_kwargs={"config": config})
    drawn = select_problems(ds, 5, method="random", seed=3)
    options = ("--problems", "random", "--solutions", "random", "--num-problems", 5, "--seed", 3)
    curate(capsys, rows, tmp_path / "out", *options)
    assert drawn["problem"][:] == curated(tmp_path / "out")["problem"][:]
    assert drawn["selected"][:] == curated(tmp_path / "out")["selected"][:]
