"""A chat model in the place of a distance or of a filter, and what it does not say."""

import pytest

from parts.curate_rows import curate, curated, manifest, rejects, write_rows
from parts.fake_judge import kind_of
from parts.fake_tgi import FakeTGI
from parts.scripted import ScriptedChat
from rpd_datasets import CurationConfig, FilterConfig, Problem, rpd_curate
from rpd_datasets.curation.models import Models
from rpd_datasets.curation.scoring import score_problem
from rpd_datasets.judging.judges import CurationJudges
from rpd_datasets.tokens import token_counter
from rpd_metric.models.concurrency import run
from rpd_metric.models.spec import load_embedder


@pytest.fixture
def rows(tmp_path):
    return write_rows(tmp_path / "rows.jsonl")


@pytest.fixture
def store(tmp_path):
    return str(tmp_path / "replies.sqlite")


def llm(server, store, *options):
    return (
        *("--preset", "llm", "--min-solutions", 4, "--judge", f"tgi:{server.url}"),
        *("--store", store, *options),
    )


def test_the_llm_baseline_takes_diverse_problems_and_the_sets_that_the_judge_names(
    rows, store, tmp_path, capsys
):
    def reply(body):
        user = body["messages"][-1]["content"]
        if kind_of(body) == "judge_problem":
            return "//boxed{1}" if "Problem 1" in user else "//boxed{2}"  # 1, 10 and 11
        return "They differ.\n//boxed_json{{[5, 1, 3]}}"

    with FakeTGI(reply=reply) as server:
        result = curate(capsys, rows, tmp_path / "out", *llm(server, store, "--num-problems", 7))
        assert len(server.requests) == 12 + 7
        curate(capsys, rows, tmp_path / "again", *llm(server, store, "--num-problems", 7))
        assert len(server.requests) == 12 + 7
    assert result["counts"]["problems_chosen"] == 7
    rows_chosen = curated(tmp_path / "out")
    assert all(rows_chosen["diverse"][:])
    assert rows_chosen["selected"][:] == [[4, 0, 2]] * 7
    assert {(r["stage"], r["reason"]) for r in rejects(tmp_path / "out")} == {("select", "uniform")}
    assert len(rejects(tmp_path / "out")) == 3
    assert server.url not in (tmp_path / "out" / "README.md").read_text()
    judge = manifest(tmp_path / "out")["judge"]
    assert judge["name"] == "Qwen/Qwen3-14B"


def test_what_the_judge_does_not_say_is_counted_and_another_problem_takes_the_place(
    rows, store, tmp_path, capsys
):
    def reply(body):
        user = body["messages"][-1]["content"]
        if kind_of(body) == "judge_problem":
            return "Who knows?" if "Problem 0" in user else "//boxed{2}"
        return "All of them." if "Problem 3" in user or "Problem 7" in user else "//boxed{[1,2,3]}"

    with FakeTGI(reply=reply) as server:
        options = llm(server, store, "--num-problems", 9)
        result = curate(capsys, rows, tmp_path / "out", *options)
    assert result["counts"]["problems_chosen"] == 9
    dropped = {(r["problem"], r["reason"]) for r in rejects(tmp_path / "out")}
    assert dropped == {(f"Problem {n}", "no_envelope") for n in (0, 3, 7)}
    assert not {row["problem"] for row in result["chosen"]} & {"Problem 3", "Problem 7"}


def test_map_with_a_judge_says_why_nothing_was_selected(store):
    with FakeTGI(reply=lambda body: "//boxed{1}") as server:
        filters = FilterConfig(min_solutions=1, require_complete=False)
        options = {"problems": "llm", "solutions": "llm", "judge": f"tgi:{server.url}"}
        config = CurationConfig(filters=filters, store=store, **options)
        row = {"problem": "2 + 3?", "solutions": ["Count on. It is 5.", "Draw coins. It is 5."]}
        result = dict(rpd_curate(row, config))
        assert len(server.requests) == 1
    assert (result["diverse"], result["selected"]) == (False, [])
    assert result["choice_reason"] == "not_diverse"


def judged_filter(chat, *solutions, **filters):
    settings = {"min_solutions": 1, **filters}
    config = CurationConfig(
        problems="random",
        solutions="random",
        completeness="llm",
        judge="answers",
        filters=FilterConfig(**settings),
    )
    problem = Problem("p", solutions)
    judges = CurationJudges(chat)
    models = Models(None, load_embedder("minilm"), token_counter("estimate"), judges)
    return run(score_problem(problem, config, models))


def test_the_completeness_judge_sees_the_ends_and_decides():
    chat = ScriptedChat(four=["Fine. //boxed{2}"], dividing=["No. //boxed{1}"], odd=["Perhaps."])
    beginning = "We begin with a long introduction. " + "Then it goes on and on. " * 100
    scored = judged_filter(
        chat, f"{beginning}The answer is four", "We go on by dividing", "This is odd."
    )
    assert scored.drop_reasons == ["", "incomplete", "no_envelope"]
    assert not any("introduction" in user for user in chat.users)
    details = [reject.detail for reject in scored.rejects]
    assert details[0] == "The solution was not finished: incomplete."
    assert details[1].startswith("no verdict on its completeness: ")


def test_only_what_the_cheaper_filters_let_through_is_judged_and_each_end_once():
    chat = ScriptedChat("//boxed{2}")
    same_end = "and so it goes on, " * 200 + "and at the very last the answer is four"
    # Two of one length, or the same share of their characters would not be the same end.
    scored = judged_filter(chat, f"Add, {same_end}", f"Sum, {same_end}")
    assert scored.usable == [0, 1]
    assert len(chat.users) == 1
    assert judged_filter(chat, "It is four", max_mean_tokens=1).drop_reasons == ["too_long"]
    assert judged_filter(chat, "four", min_solutions=2).drop_reasons == ["too_few_solutions"]
    assert len(chat.users) == 1
