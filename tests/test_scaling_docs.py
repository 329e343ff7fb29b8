"""The examples of docs/scaling.md parse, down to the `rpd` commands in them."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from rpd_datasets.cli import _parser, main
from rpd_metric.steps.summarizers import summarizer_spec

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = (DOCS / "scaling.md").read_text(encoding="utf-8")
SLURM = DOCS / "scaling" / "slurm.sbatch"
KUBERAY = yaml.safe_load((DOCS / "scaling" / "kuberay.yaml").read_text(encoding="utf-8"))


def parse(command: str):
    words = shlex.split(command)
    assert words[0] == "rpd"
    parser, _ = _parser()
    return parser.parse_args(words[1:])


def test_the_slurm_script_is_sound_and_its_command_is_ours():
    subprocess.run(["bash", "-n", str(SLURM)], check=True)
    text = SLURM.read_text(encoding="utf-8")
    assert len(re.findall(r"^#SBATCH --", text, re.MULTILINE)) >= 6
    (command,) = re.findall(r"^rpd curate .*?(?= &$)", text, re.MULTILINE | re.DOTALL)
    args = parse(command.replace("\\\n", " ").replace("$CHAT", "http://a/v1,http://b/v1"))
    assert (args.engine, args.shard_size) == ("ray", 8)
    assert len(summarizer_spec(args.summarizer).urls) == 2


def test_the_kuberay_job_is_sound_and_its_entrypoint_is_ours():
    assert (KUBERAY["apiVersion"], KUBERAY["kind"]) == ("ray.io/v1", "RayJob")
    cluster = KUBERAY["spec"]["rayClusterSpec"]
    (workers,) = cluster["workerGroupSpecs"]
    args = parse(KUBERAY["spec"]["entrypoint"])
    assert args.engine == "ray"
    assert args.ray_actors == workers["maxReplicas"]
    pods = [group["template"]["spec"] for group in (cluster["headGroupSpec"], workers)]
    for pod in pods:
        (container,) = pod["containers"]
        mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == {
            volume["name"] for volume in pod["volumes"]
        }
        assert mounts["/shared"] == "shared", "every pod sees the output folder"
        assert {"name": "RAY_USAGE_STATS_ENABLED", "value": "0"} in container["env"]
    assert args.output.is_relative_to("/shared")
    assert args.store.startswith("/replies/")
    assert pods[0]["containers"][0]["image"] == pods[1]["containers"][0]["image"]


def test_the_ray_that_the_examples_name_is_the_one_that_is_tested():
    constraints = (DOCS.parent / "constraints.txt").read_text()
    assert f"ray=={KUBERAY['spec']['rayClusterSpec']['rayVersion']}" in constraints


@pytest.mark.parametrize("command", re.findall(r"`(rpd curate INPUT .*?)`", PAGE))
def test_commands_for_each_size_parse(command):
    assert str(parse(command).output).endswith("curated")


def test_the_command_to_try_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    assert main([*shlex.split(block)[1:], "--limit", "8"]) == 0, capsys.readouterr().err
    assert (tmp_path / "two-processes" / "README.md").exists()


def test_files_that_the_page_names_are_there():
    for path in re.findall(r"\]\((?!http)([^)#]+)", PAGE):
        assert (DOCS / path).exists(), path


def test_figures_on_paper_follow_from_their_assumptions():
    an_hour = 10_014 / 15_000 * 3600
    assert round(an_hour) == 2403
    assert round(3600 / 1.64 / 2) == 1098
    assert round(8 * an_hour, -2) == 19_200
    assert round(512 * an_hour, -4) == 1_230_000
    assert [round(850_000 / (8 * rate)) for rate in (1098, an_hour)] == [97, 44]
    assert round(850_000 / (512 * an_hour) * 60) == 41
    assert round(850_000 / an_hour * 3, -1) == 1060
    assert round(850_000 / 1098) == 774
    assert round(512 * an_hour / 3600) == 342
    assert round(512 * an_hour / 3600 / 475, 2) == 0.72
