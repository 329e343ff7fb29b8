"""Logs of Inspect, with stock tasks and stock scorers, are read as problems and as evaluations."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rpd_datasets.cli import main as rpd
from rpd_datasets.evaluation.reporting import report_text
from rpd_datasets.evaluation.results import find_logs, read_results
from rpd_datasets.inputs.local_files import LocalRows
from rpd_datasets.inputs.raw_rows import Row
from rpd_datasets.problem import Rejected
from rpd_metric.errors import InputError

inspect_ai: Any = pytest.importorskip("inspect_ai")
logs: Any = pytest.importorskip("inspect_ai.log")
models: Any = pytest.importorskip("inspect_ai.model")
scorers: Any = pytest.importorskip("inspect_ai.scorer")
solvers: Any = pytest.importorskip("inspect_ai.solver")
datasets: Any = pytest.importorskip("inspect_ai.dataset")
tools: Any = pytest.importorskip("inspect_ai.tool")

EPOCHS = 4
PROBLEMS = {"a": "What is 2 + 3?", "b": "What is 4 + 5?"}
TARGETS = {"a": "5", "b": "9"}
WAYS = (
    "We count up from the first number, one by one, until we arrive at {}.\n\nANSWER: {}",
    "Draw both numbers on a line and measure the whole length, which is {}.\n\nANSWER: {}",
    "Split the second number so that ten is filled, and add the rest: {}.\n\nANSWER: {}",
    "Look the sum up in the table of additions, where it says {}.\n\nANSWER: {}",
)


def run_log(folder: Path, *, failing: bool = False, **how: Any) -> Path:
    """A log by Inspect itself: epochs, stock scorers, and an epoch that fails where asked for."""

    @solvers.solver
    def scripted():  # type: ignore[no-untyped-def]
        async def solve(state, generate):  # type: ignore[no-untyped-def]
            if failing and state.sample_id == "b" and state.epoch == 3:
                raise RuntimeError("the model is gone")
            right = TARGETS[str(state.sample_id)] if state.epoch != 2 else "7"
            state.output.completion = WAYS[state.epoch - 1].format(right, right)
            return state

        return solve

    @scorers.scorer(metrics={"right": [scorers.accuracy()], "long": [scorers.accuracy()]})
    def several():  # type: ignore[no-untyped-def]
        async def score(state, target):  # type: ignore[no-untyped-def]
            right = target.text in state.output.completion
            return scorers.Score(value={"right": right, "long": 0.5})

        return score

    samples = [
        datasets.Sample(id=name, input=text, target=TARGETS[name])
        for name, text in PROBLEMS.items()
    ]
    scoring = [scorers.match(numeric=True), scorers.includes(), several()]
    task = inspect_ai.Task(samples, solver=scripted(), scorer=scoring, epochs=EPOCHS)
    task.fail_on_error = how.pop("fail_on_error", False)
    inspect_ai.eval(task, model="mockllm/model", log_dir=str(folder), display="none", **how)
    (path,) = (file for file in folder.iterdir() if file.suffix in (".eval", ".json"))
    return path


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return run_log(tmp_path_factory.mktemp("logs"))


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [row.values for row in LocalRows(path, name="log") if isinstance(row, Row)]


@pytest.mark.parametrize("log_format", ["eval", "json"])
def test_epochs_are_solutions_and_scores_are_marks(log_format, tmp_path):
    path = run_log(tmp_path, failing=True, log_format=log_format)
    found = list(LocalRows(path, name="log"))
    unfinished, failed = [row for row in found if isinstance(row, Rejected)]
    assert (failed.reason, failed.where) == ("failed_epoch", f"{path.name}:b:epoch 3")
    assert unfinished.reason == "unfinished_log"
    assert "lacks samples: 7 of 8 samples are finished" in unfinished.detail
    first, second = (row.values for row in found if isinstance(row, Row))
    assert (first["id"], first["problem"], first["answer"]) == ("a", PROBLEMS["a"], "5")
    texts = [WAYS[n].format(*[7 if n == 1 else 5] * 2) for n in range(EPOCHS)]
    assert first["solutions"] == texts
    assert first["correct"] == first["correct_match"] == [True, False, True, True]
    assert first["correct_several_right"] == [True, False, True, True]
    assert first["correct_several_long"] == [None] * 4  # a half is neither right nor wrong
    assert len(second["solutions"]) == 3
    assert second["correct"] == second["correct_includes"] == [True, False, True]


def test_missing_epochs_are_refused_by_name_or_counted(tmp_path):
    lacking = run_log(tmp_path / "lacking", failing=True)
    with pytest.raises(InputError, match=r"1 of 8 samples .* lacks samples"):
        read_results(lacking)
    found = read_results(lacking, allow_missing=True)
    assert (found.missing, found.counts) == (1, {"a": (4, 3), "b": (3, 2)})
    assert list(found.figures["pass_at_k"]) == [1, 2, 3]
    failed = run_log(tmp_path / "failed", failing=True, fail_on_error=True)
    with pytest.raises(InputError, match=r"The log .* failed \(.*the model is gone"):
        read_results(failed)
    cancelled = changed(lacking, tmp_path / "cancelled.json", status="cancelled")
    with pytest.raises(InputError, match="was cancelled: 7 of 8"):
        read_results(cancelled)
    (first, *_) = LocalRows(cancelled, name="log")
    assert isinstance(first, Rejected)
    assert "was cancelled" in first.detail


def changed(log: Path, path: Path, **values: Any) -> Path:
    """A log with other values at its top, or other samples, in JSON."""
    header = logs.read_eval_log(str(log))
    for name, value in values.items():
        setattr(header, name, value)
    logs.write_eval_log(header, str(path))
    return path


def test_any_scorer_counts_and_k_goes_as_far_as_there_are_epochs(log):
    found = read_results(log)
    assert (found.benchmark, found.name, found.samples) == ("task", "model", 4)
    assert list(found.figures["pass_at_k"]) == list(found.figures["first_k"]) == [1, 2, 4]
    assert read_results(log, scorer="several_right").correct == found.correct == ["1011", "1011"]
    halves = read_results(log, scorer="several_long")
    assert halves.correct == ["0000", "0000"]
    assert halves.mean_score.value == 0.5
    assert read_results(log, scorer="several_long", right_score="0.5").correct == ["1111"] * 2
    assert read_results(log, runs=2).samples == 2
    assert find_logs(log.parent) == [log]
    with pytest.raises(InputError, match="have no verdict of nobody"):
        read_results(log, scorer="nobody")


def scored_log(log: Path, path: Path, value: Any, answer: Any = None) -> Path:
    """The log with scores and answers of another kind: by their mark in the first scorer."""
    samples = logs.read_eval_log(str(log)).samples
    for sample in samples:
        right = sample.scores["match"].value == "C"
        text = sample.output.completion
        named = answer(text) if answer else text
        sample.scores = {"judge": scorers.Score(value=value(right), answer=named)}
    return changed(log, path, samples=samples)


@pytest.mark.parametrize(
    ("values", "right_score"), [((8, 3), "7"), (("A", "D"), "A,B"), ((0.9, 0.2), "0.9")]
)
def test_scores_on_a_scale_of_their_own_need_a_threshold(values, right_score, log, tmp_path):
    path = scored_log(log, tmp_path / "judged.json", lambda right: values[not right])
    if values != (0.9, 0.2):  # which are shares
        with pytest.raises(InputError, match=rf"judge \({values[0]}, {values[1]}\) .* right_score"):
            read_results(path)
        with pytest.raises(InputError, match="right_score"):
            rows_of(path)
    assert read_results(path, right_score=right_score).correct == ["1011", "1011"]
    found = LocalRows(path, name="log", right_score=right_score)
    assert [row.values["correct"] for row in found] == [[True, False, True, True]] * 2


def test_a_second_scorer_on_an_unknown_scale_is_carried_along(log, tmp_path):
    samples = logs.read_eval_log(str(log)).samples
    for sample in samples:
        sample.scores |= {"judge": scorers.Score(value=sample.epoch * 2)}
    (row, _) = rows_of(changed(log, tmp_path / "two.json", samples=samples))
    assert row["correct"] == [True, False, True, True]
    assert row["score_judge"] == [2, 4, 6, 8]
    assert "correct_judge" not in row


@pytest.mark.parametrize("command", ["score", "compare", "report"])
def test_the_error_names_the_option(command, log, tmp_path, capsys):
    from recipes.passk import main as passk

    path = scored_log(log, tmp_path / "judged.json", lambda right: 8 if right else 3)
    assert (passk if command == "report" else rpd)([command, str(path)]) == 1
    line = capsys.readouterr().err
    assert "the scores of judge (8, 3) are neither right or wrong nor shares" in line
    assert "--right-score" in line


def test_votes_are_of_answers_and_not_of_whole_replies(log, tmp_path):
    """Three epochs say 5, one says 7: as whole replies no two are equal."""
    wrong = scored_log(log, tmp_path / "wrong.json", lambda right: "I" if right else "C")
    # Three wrong samples agree against one that is right.
    assert read_results(wrong).figures["cons_at_n"].value == 0
    assert read_results(log, scorer="includes").figures["cons_at_n"].value == 1
    unread = scored_log(log, tmp_path / "unread.json", lambda _: "C", lambda text: text.upper())
    samples = logs.read_eval_log(str(unread)).samples
    for sample in samples:
        sample.output.completion = "It is five, as we all know."
        sample.scores["judge"].answer = sample.output.completion
    found = read_results(changed(unread, tmp_path / "prose.json", samples=samples))
    assert (found.unread, found.figures["cons_at_n"]) == (8, None)
    assert "no majority vote: the answers of 8 right samples cannot be read" in report_text(found)


def test_what_a_model_wrote_is_the_solution_and_examples_are_not(log, tmp_path):
    """Thoughts, turns before a call of a tool, several choices; examples, and the last question."""

    def said(*content: Any) -> Any:
        return models.ChatMessageAssistant(content=list(content), source="generate")

    asked = [
        models.ChatMessageSystem(content="Be brief."),
        models.ChatMessageUser(content="1 + 1?"),
        models.ChatMessageAssistant(content="2"),
        models.ChatMessageUser(content="2 + 3?"),
    ]
    turn = said(models.ContentText(text="Let me compute it."))
    last = said(models.ContentReasoning(reasoning="A sum."), models.ContentText(text="It is 5."))
    other = said(models.ContentText(text="It is 6."))
    sample = logs.read_eval_log(str(log)).samples[0]
    sample.input = asked
    sample.messages = [*asked, turn, models.ChatMessageTool(content="5"), last]
    ends = {"stop": last, "max_tokens": other}
    choices = [models.ChatCompletionChoice(message=ends[e], stop_reason=e) for e in ends]
    sample.output = models.ModelOutput(model="m", choices=choices)
    (row,) = rows_of(changed(log, tmp_path / "turns.json", samples=[sample]))
    assert row["problem"] == "2 + 3?"
    assert row["solutions"] == [
        "Let me compute it.\n\n<think>\nA sum.\n</think>\n\nIt is 5.",
        "Let me compute it.\n\nIt is 6.",
    ]
    # The score is of the first choice.
    assert (row["correct"], row["stop_reason"]) == ([True, None], list(ends))


def test_problems_with_like_texts_stay_apart_by_their_ids(log, tmp_path, capsys):
    """As where their images differ."""
    samples = logs.read_eval_log(str(log)).samples
    for sample in samples:
        sample.input = "What is the sum in the picture?"
    alike = changed(log, tmp_path / "alike.json", samples=samples)
    assert rpd(["score", str(alike), "--json", "--all"]) == 0
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert [problem["solutions"] for problem in problems] == [4, 4]


def test_without_inspect_a_log_says_what_to_install(log):
    code = (
        "import sys; sys.modules['inspect_ai'] = None; from rpd_datasets.cli import main; "
        f"sys.exit(main(['score', {str(log)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "reading an Inspect log needs the package" in done.stderr
    assert "[inspect]" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_stock_log_goes_through_report_score_compare_and_curate(log, tmp_path, capsys):
    from recipes.passk import main as passk

    other = run_log(tmp_path / "other")
    assert passk(["report", str(log), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["figures"]["pass_at_k"]["1"]["value"] == 0.75
    assert passk(["compare", f"A={log}", f"B={other}"]) == 0
    assert "cannot tell B from A" in capsys.readouterr().out
    assert rpd(["score", str(log.parent), "--json"]) == 0  # as Inspect's folder logs
    assert json.loads(capsys.readouterr().out)["num_problems"] == 2
    given = ["--num-problems", "2", "--num-solutions", "2", "--output", str(tmp_path / "out")]
    assert rpd(["curate", str(log), *given]) == 0
    # And our scorer grades it, with the diversity of what is right.
    command = [sys.executable, "-m", "inspect_ai", "score", str(log), "--action", "overwrite"]
    command += ["--scorer", "rpd_metric/math", "--output-file", str(tmp_path / "graded.eval")]
    command += ["--metric", "rpd_metric/pass_at_k", "--metric", "rpd_metric/rpd"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    graded = logs.read_eval_log(str(tmp_path / "graded.eval"))
    (score,) = graded.results.scores
    assert score.metrics["pass@1"].value == 0.75
    assert 0 < score.metrics["rpd"].value < 1


@pytest.mark.parametrize("log_format", ["eval", "json"])
def test_a_log_of_an_agent_keeps_calls_results_and_tools(log_format, tmp_path):
    @tools.tool
    def double():  # type: ignore[no-untyped-def]
        async def execute(number: int):  # type: ignore[no-untyped-def]
            """Doubles a number, and this text is longer than what a log of Inspect holds inline.

            Args:
                number: The number.
            """
            return number * 2

        return execute

    ask = models.ModelOutput.for_tool_call("mockllm", "double", {"number": 4})
    said = models.ModelOutput.from_content("mockllm", "Twice 4 is 8.")
    # To count tokens, Inspect would fetch a tokenizer.
    ask.usage = said.usage = models.ModelUsage()
    task = inspect_ai.Task(
        [datasets.Sample(id="a", input="2 * 4?", target="8")],
        solver=[
            solvers.system_message("Use the tool."),
            solvers.use_tools(double()),
            solvers.generate(),
        ],
        scorer=scorers.includes(),
        epochs=2,
    )
    model = models.get_model("mockllm/model", custom_outputs=[ask, said] * 2)
    inspect_ai.eval(
        task,
        model=model,
        log_dir=str(tmp_path),
        display="none",
        log_format=log_format,
        max_samples=1,
    )
    (log,) = tmp_path.glob(f"*.{log_format}")
    (row,) = rows_of(log)
    first, second = map(json.loads, row["trajectories"])
    assert (row["problem"], row["correct"]) == ("2 * 4?", [True, True])
    assert [turn["role"] for turn in first["prompt"]] == ["system", "user"]
    call, result, last = first["completion"]
    assert (
        row["solutions"]
        == ['tool call for tool double\n\ndouble({"number": 4})\n\nTwice 4 is 8.'] * 2
    )
    assert call["tool_calls"][0]["function"] == {"name": "double", "arguments": {"number": 4}}
    assert (result["role"], result["name"], result["content"]) == ("tool", "double", "8")
    assert last == {"role": "assistant", "content": "Twice 4 is 8."}
    (schema,) = second["tools"]
    assert schema["function"]["description"].endswith("inline.")
    assert schema["function"]["parameters"]["required"] == ["number"]
