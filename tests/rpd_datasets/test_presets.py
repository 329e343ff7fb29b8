"""The paper's training sets: the choices behind their names, and what keeps them comparable."""

import json

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


@pytest.mark.parametrize("name", ["paper", "llm", "unfiltered-1p16s", "random-math-code"])
def test_a_preset_is_the_same_from_python_and_from_the_command_line(name, rows, tmp_path, capsys):
    extra = ["--mix", str(write_rows(tmp_path / "code.jsonl", 6, start=50))]
    models = ["--summarizer", "extractive", "--embedder", "minilm"]
    with FakeTGI(reply=judge_reply) as server:
        judge, store = f"tgi:{server.url}", str(tmp_path / "replies.sqlite")
        result = curate(
            capsys,
            rows,
            tmp_path / "out",
            *("--preset", name, "--min-solutions", 4, *models, "--store", store),
            *(extra if PRESETS[name].mixed else []),
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
        problems = min(12, preset.num_problems) + (6 if preset.mixed else 0)
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


# Mixtures


def test_a_mix_chooses_from_each_input_by_itself(rows, tmp_path, capsys):
    code = write_rows(tmp_path / "code.jsonl", 4, start=100)
    options = ("--preset", "rpd-math-code", "--min-solutions", 4, "--num-problems", 6)
    result = curate(capsys, rows, tmp_path / "out", *options, "--mix", f"{code}:3")
    levels = curated(tmp_path / "out")["level"][:]
    assert [level >= 100 for level in levels] == [False] * 6 + [True] * 3
    assert result["counts"]["problems_read"] == 16
    made = manifest(tmp_path / "out")
    assert (made["input"]["name"], made["input"]["problems_chosen"]) == ("rows.jsonl", 6)
    assert [(one["name"], one["problems_chosen"]) for one in made["mixed_in"]] == [
        ("code.jsonl", 3)
    ]
    alone = curate(capsys, rows, tmp_path / "alone", *options, "--mix", code)["chosen"]
    assert alone[:6] == result["chosen"][:6]
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| Mixed in | code.jsonl (3 problems chosen, by themselves), read as grouped" in card


def test_one_input_may_hold_both_parts_of_a_mix(tmp_path, capsys):
    both = tmp_path / "both.jsonl"
    lines = []
    for domain, start in (("math", 0), ("code", 100)):
        part = write_rows(tmp_path / "part.jsonl", 4, start=start)
        lines += [json.loads(line) | {"domain": domain} for line in part.read_text().splitlines()]
    both.write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = ("--only", "domain=math", "--mix", both, "--mix-only", "domain=code")
    curate(capsys, both, tmp_path / "out", *options, "--num-problems", 2)
    assert curated(tmp_path / "out")["domain"][:] == ["math", "math", "code", "code"]
    assert manifest(tmp_path / "out")["options"]["mix_only"] == {"domain": "code"}
