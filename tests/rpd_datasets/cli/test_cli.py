"""The `rpd` command: its results, its errors in one line, and its exit status."""

import json
import re
import shlex
import subprocess
import sys

import datasets
import pytest
import shtab
from huggingface_hub import DatasetCard

import rpd_metric
from parts.rows import write_rows
from rpd_datasets import CurationConfig, curate_dataset
from rpd_datasets.account import outcome_lines
from rpd_datasets.cli import command_line, main

GOOD = "We factor the quadratic as $(x-2)(x-3)$. A product vanishes when a factor does. So it is 3."
OTHER = "Apply the quadratic formula with its discriminant. Compute both roots. The answer is 3."
THIRD = "Draw the parabola and mark its zeros. Read them off the sketch. Hence the answer is 3."
ROW = {"problem": "What is the larger root?", "solutions": [GOOD, OTHER, THIRD]}


def one_line_error(capsys, *arguments) -> str:
    """Run a command that must fail; returns its one line on stderr."""
    assert main([str(argument) for argument in arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = [line for line in captured.err.splitlines() if line.startswith("rpd ")]
    assert len(lines) == 1, captured.err
    assert "Traceback" not in captured.err
    return lines[0]


def test_curate_prints_what_was_chosen_and_names_each_stage_before_it(
    capsys, tmp_path, monkeypatch
):
    out = tmp_path / "out"
    arguments = ["curate", "sample", "--limit", "9", "--num-problems", "6", "--output", str(out)]
    assert main([*arguments, "--license", "apache-2.0", "--language", "en"]) == 0
    captured = capsys.readouterr()
    assert f"Written to {out}" in captured.out
    stages = [line for line in captured.err.splitlines() if line.endswith(" ...")]
    assert stages[:2] == ["Loading models ...", "Scoring problems ..."]
    assert {"Writing ...", "Drawing figures ..."} <= set(stages)
    assert "Scoring problems: 9 in" in captured.err
    assert max(map(len, re.sub("Next: .*|Written.*", "", captured.out).splitlines())) <= 80
    manifest = json.loads((out / "manifest.json").read_text())
    median = manifest["outcome"]["median"]
    assert median["chosen"] > median["random"] > 0
    # The card has the ending block, too.
    card = DatasetCard.load(out / "README.md")
    assert manifest["outcome"]["better_than_random"]["answer"] in ("yes", "too few problems")
    (answers, _), (better, _), *_ = lines = outcome_lines(manifest)
    assert (answers, better) == ("Answers", "Better than random")
    for name, said in lines:
        assert f"| {name} | {said} |" in card.text.replace("\\", "")
        assert f"{name} " in captured.out
    following = f"rpd report {out}"
    assert f"\nNext: {following}\n\n" in captured.out
    assert main(shlex.split(following)[1:]) == 0  # as typed
    assert "<b>Better than random</b>" in (out / "report.html").read_text()
    assert (card.data.license, card.data.language) == ("apache-2.0", "en")
    assert len(datasets.load_dataset(str(out), split="train")) == 6


def test_curate_json_is_one_object_on_stdout_and_nothing_else(capsys, tmp_path):
    out = tmp_path / "out"
    arguments = ["curate", "sample", "--limit", "6", "--num-problems", "2", "-o", str(out)]
    assert main([*arguments, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["counts"]["problems_chosen"] == len(result["chosen"]) == 2
    assert result["outcome"] == json.loads((out / "manifest.json").read_text())["outcome"]
    assert all(len(row["chosen"]) == len(row["strategies"]) == 3 for row in result["chosen"])


def test_score_names_its_distance_which_is_the_one_that_curate_goes_by(capsys, tmp_path):
    import evaluate

    file = write_rows(tmp_path / "g.jsonl", [ROW, {"problem": "alone", "solutions": [GOOD]}])
    found, by_default = {}, CurationConfig().solutions
    for name, more in ((by_default, []), ("rpd", ["--distance", "rpd"])):
        assert main(["score", str(file), *more]) == 0
        table = capsys.readouterr().out
        assert main(["score", str(file), *more, "--json"]) == 0
        found[name] = result = json.loads(capsys.readouterr().out)
        mean = result["mean_distance"]
        assert (result["distance"], result["embedder"]) == (name, "minilm")
        assert [one["mean_distance"] for one in result["problems"]] == [mean, None]
        assert f"\ndistance       {name}\nmean distance  {mean:.3f}\n" in table
        assert re.search(rf"\n   {name}(: [^;]+)?; 3 of 3 solutions compared", table)
    metric = evaluate.load("rpd", cache_dir=str(tmp_path))
    expected = metric.compute(predictions=[ROW["solutions"]], references=[ROW["problem"]])
    assert found["rpd"]["mean_distance"] == pytest.approx(expected["rpd"], abs=1e-5)  # five digits
    assert found["rpd"]["summarizer"] == "extractive"
    # Curating the same rows chooses by the same figure.
    curated = curate_dataset(file, tmp_path / "set", CurationConfig(num_solutions=2))
    assert curated.dataset[0]["problem_score"] == found[by_default]["problems"][0]["problem_score"]


def test_strategies_of_labelled_solutions_are_counted_where_problems_admit_several(
    capsys, tmp_path
):
    same = {**ROW, "problem": "And its square?", "strategies": ["factor"] * 3}
    several = {**ROW, "strategies": ["factor", "draw", "factor"]}
    rows = [row | {"correct": [True, True, False]} for row in (same, several)]
    file = str(write_rows(tmp_path / "g.jsonl", rows))
    found = {}
    for least in ("0", "2"):
        line = [file, "--json", "--embedder", "static", "--min-strategies", least]
        assert main(["score", *line]) == 0
        found[least] = json.loads(capsys.readouterr().out)
    names = ("effective_strategies", "coverage@2", "distinct@2")
    values = {n: [one[name]["value"] for name in names] for n, one in found.items()}
    assert values == {"0": pytest.approx([1.5, 1.5, 7 / 6]), "2": pytest.approx([2, 2, 4 / 3])}
    assert found["2"]["num_problems"] == found["2"]["effective_strategies"]["problems"] == 1
    assert "too_few_strategies" in [reject["reason"] for reject in found["2"]["left_out"]]
    # rpd curate leaves the same problem out, and its page shows the counts.
    filters = ["--min-strategies", "2", "--num-solutions", "2", "--embedder", "static"]
    assert main(["curate", file, *filters, "-o", str(tmp_path / "out")]) == 0
    counted = json.loads((tmp_path / "out" / "manifest.json").read_text())["outcome"]
    assert counted["problems_left_out"] == {"too_few_strategies": 1}
    assert counted["strategy_counts"]["coverage@2"] == "1.500 [1.000, 2.000] over 2 problems"


def test_right_solutions_alone_are_scored_where_a_reference_tells(capsys, tmp_path):
    wrong = "Add the coefficients and halve their sum. The answer is 7."
    unread = "Measure it with care. That comes to about five smoots in the end, which I like."
    row = ROW | {"solutions": [GOOD, OTHER, wrong, unread], "answer": "3", "risposta": "7"}
    file = write_rows(tmp_path / "g.jsonl", [row])
    for more, wrong_places, by in (
        ([], [2], "reference answers"),
        (["--answer-column", "risposta"], [1], "reference answers"),
        (["--all"], [], None),
    ):
        assert main(["score", str(file), "--json", "--embedder", "static", *more]) == 0
        result = json.loads(capsys.readouterr().out)
        places = [reject["solution_index"] for reject in result["left_out"]]
        assert (places, result["right_by"]) == (wrong_places, by)
        assert result["answers"] == {"right": 1, "wrong": 1, "not_checked": 2}
        assert result["warning"].startswith('2 of 4 answers could not be checked, e.g. "…')
    assert main(["score", str(file), "--embedder", "static"]) == 0
    shares = "1 right (25.0%), 1 wrong (25.0%), 2 could not be checked (50.0%)"
    assert shares in " ".join(capsys.readouterr().out.split())


def test_a_score_is_the_same_whichever_problem_comes_first(capsys, tmp_path):
    rows = [ROW, {**ROW, "problem": "And its square?", "correct": [1, 1, 0]}]
    found = []
    for name in ("a", "b"):
        assert main(["score", str(write_rows(tmp_path / f"{name}.jsonl", rows)), "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
        rows.reverse()
    assert found[0]["mean_distance"] == pytest.approx(found[1]["mean_distance"])
    assert [one["right_by"] for one in found] == ["correct"] * 2
    assert [row["usable"] for row in found[0]["problems"]] == [3, 2]


def test_a_column_with_marks_may_come_late_and_must_hold_marks(capsys, tmp_path):
    rows = [ROW | {"problem": f"{n} + 1?"} for n in range(40)]
    rows.append(ROW | {"verdict": ["pass", "pass", "fail"]})
    file = write_rows(tmp_path / "late.jsonl", rows)
    plan = ["plan", file, "--correct-column"]
    assert main([*map(str, plan), "verdict"]) == 0
    capsys.readouterr()
    assert "no column 'verdicts'" in one_line_error(capsys, *plan, "verdicts")
    file = write_rows(tmp_path / "odd.jsonl", [ROW | {"verdict": ["A", "A", "B"]}])
    said = one_line_error(capsys, "plan", file, "--correct-column", "verdict")
    assert "The column 'verdict' holds 'A'; marks are true/false, 1/0" in said


def test_report_of_a_file_goes_by_the_distance_that_is_named(capsys, tmp_path):
    file = write_rows(tmp_path / "g.jsonl", [ROW])
    for more, name in (([], CurationConfig().solutions), (["--distance", "raw"], "raw")):
        page = tmp_path / f"{name}.html"
        assert main(["report", str(file), "--json", "--output", str(page), *more]) == 0
        result = json.loads(capsys.readouterr().out)
        assert (result["chosen_by"], result["outcome"]["distance"]["name"]) == (name, name)
        assert f"Distance {name}" in page.read_text()
    assert "shows the distance that chose" in one_line_error(
        capsys, "report", tmp_path, "--distance", "raw"
    )


def test_report_reads_every_layout_that_curate_reads(tmp_path, capsys):
    texts = [f"First we {way} it. Then we read it off. It is 5." for way in ("factor", "count")]
    choices = [{"index": n, "message": {"content": text}} for n, text in enumerate(texts)]
    result = {"custom_id": "a", "response": {"status_code": 200, "body": {"choices": choices}}}
    file = write_rows(tmp_path / "results.jsonl", [result])
    assert main(["report", str(file)]) == 1
    assert "--prompts FILE" in capsys.readouterr().err
    messages = [{"role": "user", "content": "What is 2 + 3?"}]
    asked = {"custom_id": "a", "body": {"messages": messages}}
    prompts = str(write_rows(tmp_path / "requests.jsonl", [asked]))
    assert main(["report", str(file), "--json", "--prompts", prompts]) == 0
    assert json.loads(capsys.readouterr().out)["problems_shown"] == 1


def test_ctrl_c_while_the_command_is_imported_is_one_line():
    code = """if True:
        import _thread, sys
        import rpd_command
        class Interrupting:
            def find_spec(self, name, *_):
                if name == "rpd_datasets.config":
                    _thread.interrupt_main()
        sys.meta_path.insert(0, Interrupting())
        sys.exit(rpd_command.main())
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "rpd: interrupted; nothing was written\n")


def test_the_version_is_said(capsys):
    with pytest.raises(SystemExit) as error:
        main(["--version"])
    assert (error.value.code, capsys.readouterr().out) == (0, f"rpd {rpd_metric.__version__}\n")


def test_a_plan_says_why_problems_and_solutions_would_be_left_out(capsys, tmp_path):
    twice = ROW | {"problem": "Twice?", "solutions": [GOOD, GOOD]}
    file = write_rows(tmp_path / "g.jsonl", [ROW, twice])
    assert main(["plan", str(file), "--num-solutions", "3"]) == 0
    said = capsys.readouterr().out
    expected = "duplicate 1 (--no-drop-duplicates), too_few_solutions 1 (--min-solutions)"
    assert expected in " ".join(said.split())
    assert main(["plan", str(file), "--num-solutions", "4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["problems"], found["left_out"]["too_few_solutions"]) == (0, 2)


@pytest.mark.parametrize(
    ("typed", "title"), [(["help"], "usage: rpd [-h]"), (["help", "push"], "usage: rpd push [-h]")]
)
def test_help_is_a_command_too(typed, title, capsys):
    with pytest.raises(SystemExit) as error:
        main(typed)
    assert (error.value.code, capsys.readouterr().out.startswith(title)) == (0, True)


@pytest.mark.parametrize("name", command_line().commands)
def test_help_is_short_and_help_all_lists_every_option(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    said = []
    for option in ("--help", "--help-all"):
        with pytest.raises(SystemExit, match="0"):
            main([name, option])
        said.append(capsys.readouterr().out)
    short, full = said
    assert len(short.splitlines()) <= 70
    for action in command_line().commands[name]._actions:
        assert all(f" {one}" in full for one in action.option_strings or [action.metavar])
        assert not action.required or f" {(action.option_strings or [action.metavar])[0]}" in short
    if name == "curate":
        assert all(f"\n  --{one} " in short for one in ("seed", "solution-column", "preset"))
        assert "--shard-size" not in short


@pytest.mark.parametrize(
    ("typed", "known"),
    [("cur", "curate"), ("curate --num-s", "--num-solutions"), ("curate --problems ra", "random")],
)
def test_a_shell_completes_commands_options_and_values(typed, known):
    words = ["rpd", *typed.split()]
    ask = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _shtab_rpd rpd {words[-1]}"
    script = f'{shtab.complete(command_line(), "bash")}\n{ask}; echo "${{COMPREPLY[@]}}"'
    assert known in subprocess.check_output(["bash", "-c", script], text=True).split()


@pytest.mark.parametrize(
    ("arguments", "said", "see"),
    [
        (["curate", "sample"], "required: --output/-o", "rpd curate"),
        (["score", "sample", "--num-row", "3"], "did you mean --num-rows?", "rpd score"),
        (["plan", "sample", "--problems", "nonsense"], "'nonsense' (choose from", "rpd plan"),
        (["curat"], "did you mean curate?", "rpd"),
        (["plan", "sample", "--selection", "maxmn"], "did you mean maxmin?", "rpd plan"),
    ],
)
def test_a_wrong_command_line_ends_with_status_2(arguments, said, see, capsys):
    with pytest.raises(SystemExit) as error:
        main(arguments)
    lines = capsys.readouterr().err.splitlines()
    assert (error.value.code, len(lines), lines[1]) == (2, 2, f"See {see} --help")
    assert lines[0].startswith(f"{see}: ")
    assert said in lines[0]
