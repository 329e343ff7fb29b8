"""What commands print: it fits the window, and is plain where nobody watches."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parts.curated_folder import HashEmbedder
from rpd_datasets import CurationConfig, FilterConfig, curate_dataset
from rpd_datasets.cli import curate, main, output
from rpd_datasets.cli.output import Progress, print_lines, print_scored, print_table
from rpd_datasets.curation import run
from rpd_datasets.curation.models import Models
from rpd_datasets.inputs.counting import count_problems
from rpd_datasets.inputs.spec import InputSpec
from rpd_datasets.curation import curated
from rpd_datasets.tokens import token_counter
from rpd_metric.models.chat import ChatReply, ChatRequest
from rpd_metric.models.flow import Flow
from rpd_metric.steps.extractive import ExtractiveSummarizer

LONG = "Find the smallest positive integer that leaves remainder four when divided by seven. " * 3


@pytest.fixture
def printed(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return lambda: capsys.readouterr().out


@pytest.mark.parametrize("columns", [80, 140])
def test_tables_fit_the_window(monkeypatch, printed, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    print_table([{"what": LONG, "count": 12345, "share": None}, {"what": "b", "count": 1}])
    print_scored([(LONG, 0.5, ["solution 3: " + LONG]), ("short", None, [])])
    print_lines([("Difference", LONG)])
    lines = printed().splitlines()
    assert max(map(len, lines)) <= columns
    assert any("12,345" in line for line in lines)
    assert any(line.startswith("1  0.500  Find the smallest") for line in lines)


def test_colour_and_bars_only_on_a_terminal(monkeypatch, printed):
    print_scored([("p", 0.5, [])])
    plain = printed()
    assert plain == "1  0.500  p\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    print_scored([("p", 0.5, [])])
    coloured = printed()
    assert "\x1b[" in coloured
    assert "━" in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    print_scored([("p", 0.5, [])])
    assert "\x1b[36m" not in printed()


def test_markup_in_a_problem_is_text(printed):
    print_scored([("[red]x[/red] [/]", 0.1, ["[bold]"])])
    print_table([{"a": "[/oops]"}])
    out = printed()
    assert "[red]x[/red] [/]" in out
    assert "[/oops]" in out


def test_progress_in_a_pipe_says_what_each_stage_came_to(capsys):
    with Progress("Loading models", None) as line:
        line.stage("Scoring problems", 2)
        line.advance()
        line.write("a message")
        line.advance()
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "Loading models ...",
        "Scoring problems ...",
        "a message",
        "Scoring problems: 2 in 0 s",
    ]


def test_each_stage_of_a_run_is_named_before_it_begins(monkeypatch, capsys, tmp_path):
    said, found = "", {}

    def noting(work, what):
        """The same, noting what stood on stderr when it was first called."""

        def noted(*arguments, **options):
            nonlocal said
            said += capsys.readouterr().err
            found.setdefault(what, said)
            return work(*arguments, **options)

        return noted

    embedder = HashEmbedder()
    embedder.encode = noting(embedder.encode, "Scoring problems ...")
    models = Models(ExtractiveSummarizer(), embedder, token_counter("estimate"))
    for module, name, what in (
        (curate, "load_models", "Loading models ..."),
        (run, "write_tables", "Writing ..."),
        (curated, "_figures", "Drawing figures ..."),
    ):
        work = getattr(module, name)
        if name == "load_models":
            work = lambda *_, **__: models  # noqa: E731
        monkeypatch.setattr(module, name, noting(work, what))
    rows = tmp_path / "rows.jsonl"
    ways = ("Count on from two", "Draw five coins in a row", "Add them the other way round")
    row = {"problem": "What is 2 + 3?", "solutions": [f"{way}. So it is 5." for way in ways]}
    rows.write_text(json.dumps(row) + "\n")
    out = str(tmp_path / "out")
    assert main(["curate", str(rows), "--num-solutions", "2", "-o", out]) == 0
    assert list(found) == [
        "Loading models ...",
        "Scoring problems ...",
        "Writing ...",
        "Drawing figures ...",
    ]
    for what, before in found.items():
        assert before.splitlines()[-1] == what
    assert "Scoring problems: 1 in" in found["Writing ..."]


def test_on_a_terminal_the_stage_is_on_the_screen_before_its_work_begins(monkeypatch, capsys):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    with Progress("Loading models", None) as line:
        assert "Loading models" in capsys.readouterr().err
        line.stage("Scoring problems", 2)
        assert "Scoring problems" in capsys.readouterr().err


def test_rows_are_counted_until_the_first_problem_is_scored(monkeypatch, capsys):
    monkeypatch.setattr(output, "SECONDS_BETWEEN_LINES", 0)
    monkeypatch.setattr(output, "ROWS_BETWEEN_NOTES", 2)
    with Progress("Scoring problems", 1) as line:
        for rows in (1, 2):
            line.read(rows)
        line.advance()
        line.read(4)
    said = capsys.readouterr().err.splitlines()
    assert said[1] == "Scoring problems: 0 of 1; 2 rows read"
    assert not any("4 rows" in one for one in said)


def test_problems_are_counted_where_that_is_cheap(tmp_path):
    rows = [{"problem": f"p{n}", "solutions": ["a", "b"]} for n in range(5)]
    jsonl = tmp_path / "rows.jsonl"
    jsonl.write_text("".join(json.dumps(row) + "\n" for row in rows) + "\n")
    parquet = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(rows), parquet)
    generations = tmp_path / "generations.jsonl"  # OpenR1-Math's columns
    row = {"problem": "p", "solution": "s", "generations": ["a", "b"]}
    generations.write_text(json.dumps(row) + "\n" + json.dumps(row) + "\n")
    assert count_problems(generations, InputSpec()) == 2
    flat = tmp_path / "flat.jsonl"
    flat.write_text('{"problem": "p", "solution": "a"}\n')
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"no parquet")
    assert count_problems("sample", InputSpec()) == 27
    assert count_problems(str(jsonl), InputSpec()) == count_problems(parquet, InputSpec()) == 5
    assert count_problems(jsonl, InputSpec(limit=2)) == 2
    unknown = (flat, broken, tmp_path / "none.jsonl", "me/on-the-hub")
    assert [count_problems(source, InputSpec()) for source in unknown] == [None] * 4
    assert count_problems(jsonl, InputSpec(only={"problem": "p1"})) is None


def test_what_a_server_is_doing_is_said_while_no_problem_is_finished(monkeypatch, capsys):
    class Slow:
        model = "slow"

        async def __call__(self, request):
            await asyncio.sleep(0.5)
            return ChatReply("late")

    monkeypatch.setattr(output, "SECONDS_BETWEEN_LINES", 0.05)
    monkeypatch.setattr(output, "SECONDS_BETWEEN_REFRESHES", 0.02)
    flow = Flow(Slow())
    models = SimpleNamespace(flows=(flow,))
    with output.Progress("Scoring", 1) as line, output.scoring(models, line) as scored_one:
        asyncio.run(flow(ChatRequest(())))
        before = capsys.readouterr().err
        scored_one()
    assert "Scoring: 0 of 1; 0 done" in before
    assert "1 in flight" in before


def test_progress_in_a_pipe_says_the_time_left(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(output.time, "monotonic", lambda: now[0])
    with Progress("Scoring problems", None) as line:
        line.expect(1000)
        for _ in range(500):
            now[0] += 0.1
            line.advance()
    first = capsys.readouterr().err.splitlines()[1]
    assert first == "Scoring problems: 300 of 1,000, 0:01:10 left"


def test_grouped_rows_say_how_many_problems_there_are(tmp_path):
    flat = tmp_path / "flat.jsonl"
    rows = [{"problem": f"p{n % 3}", "solution": f"s{n}"} for n in range(9)]
    flat.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = []
    curate_dataset(
        str(flat),
        tmp_path / "out",
        CurationConfig(num_problems=2, filters=FilterConfig(require_complete=False)),
        on_total=told.append,
    )
    assert told == [3]
