"""The paper's training sets: the choices behind their names, and what keeps them comparable."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import datasets
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parts.fake_judge import judge_reply, kind_of
from parts.fake_tgi import FakeTGI
from rpd_datasets import CurationConfig, FilterConfig, Problem, rpd_curate, select_problems
from rpd_datasets.cli import main
from rpd_datasets.curation.run import curate_folder
from rpd_datasets.curation.run_options import RunOptions
from rpd_datasets.curation.scoring import Models, choose, score_problem, scoring_fingerprint
from rpd_datasets.inputs.source import open_source
from rpd_datasets.judging.judges import CurationJudges
from rpd_datasets.presets import PRESETS, preset_config
from rpd_datasets.select import shuffled
from rpd_datasets.tokens import token_counter
from rpd_metric.errors import InputError, ModelError
from rpd_metric.models.chat import ChatReply
from rpd_metric.models.concurrency import run
from rpd_metric.models.kinds import load_embedder
from rpd_metric.steps.protocol import Summary

LONG = Path(__file__).parents[3] / "shared/data/multi_solution/candidates_long.jsonl"
MODELS = {"summarizer": "extractive", "embedder": "minilm"}
VERBS = ["Factor", "Integrate", "Count", "Draw", "Substitute", "Guess", "Induct", "Reflect"]
THINGS = ["the sum", "every case", "a triangle", "the remainder", "the roots", "each term"]


def write_rows(path, num_problems=12, num_solutions=5, start=0):
    rows = []
    for n in range(start, start + num_problems):
        solutions = [
            f"{VERBS[(n + i) % 8]} {THINGS[(n * i) % 6]} first. Then {VERBS[(3 * i + n) % 8]} "
            f"{THINGS[(i + n) % 6]} with great care {i}. So the answer is {n}."
            for i in range(num_solutions)
        ]
        rows.append({"problem": f"Problem {n}", "solutions": solutions, "level": n})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def rows(tmp_path):
    return write_rows(tmp_path / "rows.jsonl")


def curate(capsys, rows, output, *options):
    arguments = ["curate", str(rows), "--output", str(output), "--json", *map(str, options)]
    assert main(arguments) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def curated(folder):
    return datasets.load_dataset(str(folder), split="train")


def manifest(folder):
    return json.loads((Path(folder) / "manifest.json").read_text())


def rejects(folder):
    return [json.loads(line) for line in (Path(folder) / "rejects.jsonl").open()]


# The table of presets


def test_the_presets_are_the_rows_of_the_papers_tables():
    sizes = {name: (p.num_problems, p.num_solutions) for name, p in PRESETS.items()}
    assert sizes == {
        "paper": (100, 3),
        "rpd": (100, 3),
        "random-1p3s": (100, 3),
        "raw": (100, 3),
        "summary": (100, 3),
        "llm": (100, 3),
        "unfiltered-1p16s": (225, 16),
        "random-1p1s": (300, 1),
        "rpd-1p2s": (150, 2),
        "rpd-1p3s": (100, 3),
        "rpd-1p4s": (75, 4),
        "rpd-1p5s": (60, 5),
        "random-q-rpd-a": (100, 3),
        "rpd-q-random-a": (100, 3),
        "rpd-3000": (1000, 3),
        "random-3000": (3000, 1),
        "rpd-math-code": (100, 3),
        "random-math-code": (300, 1),
    }
    assert all(preset.source.startswith("Table ") for preset in PRESETS.values())


def test_sets_that_are_compared_have_the_same_number_of_samples():
    for name, preset in PRESETS.items():
        wanted = {"unfiltered-1p16s": 3600, "rpd-3000": 3000, "random-3000": 3000}.get(name, 300)
        assert preset.num_problems * preset.num_solutions == wanted


def test_every_preset_but_the_unfiltered_one_has_the_papers_filters():
    for name, preset in PRESETS.items():
        filters = preset.filters
        if name == "unfiltered-1p16s":
            assert (filters.min_solutions, filters.max_mean_tokens) == (16, None)
            assert not filters.require_complete
        else:
            assert filters == FilterConfig.paper()


@pytest.mark.parametrize("name", PRESETS)
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
        config = preset_config(name, **MODELS, judge=judge if "llm" in name else None)
    options = manifest(tmp_path / "out")["options"]
    expected = config.as_dict()
    assert options.pop("filters") == {**expected.pop("filters"), "min_solutions": 4}
    assert options == {option: expected[option] for option in options}
    preset, counts = PRESETS[name], result["counts"]
    if name != "llm":  # there it depends on the judge
        problems = min(12, preset.num_problems) + (6 if preset.mixed else 0)
        assert counts["problems_chosen"] == problems
        assert counts["solutions_chosen"] == problems * min(5, preset.num_solutions)
    assert manifest(tmp_path / "out")["preset"] == name


@pytest.fixture(scope="module")
def real_rows(tmp_path_factory):
    """As many real problems and solutions as the largest preset needs."""
    if not LONG.exists():
        pytest.skip(f"{LONG} is not there")
    with LONG.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in itertools.islice(lines, 5)]
    for row in rows:
        row["solutions"], row["correct"] = row["solutions"][:5], row["correct"][:5]
    file = tmp_path_factory.mktemp("real") / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_works_on_real_solutions(name, real_rows, tmp_path, capsys):
    with FakeTGI(reply=judge_reply) as server:
        result = curate(
            capsys,
            real_rows,
            tmp_path / "out",
            *("--preset", name, "--min-solutions", 4, "--num-problems", 4),
            *("--summarizer", "extractive", "--embedder", "minilm"),
            *(["--mix", str(real_rows)] if PRESETS[name].mixed else []),
            *(["--judge", f"tgi:{server.url}"] if name == "llm" else []),
            *("--store", str(tmp_path / "replies.sqlite")),
        )
    num_problems = 8 if PRESETS[name].mixed else 4
    assert result["counts"]["problems_chosen"] == num_problems or name == "llm"
    assert result["counts"]["problems_chosen"] > 1


def test_options_beside_a_preset_win(rows, tmp_path, capsys):
    options = ("--preset", "random-1p3s", "--min-solutions", 4, "--num-problems", 5)
    curate(capsys, rows, tmp_path / "out", *options, "--solutions", "all", "--num-solutions", 2)
    assert len(curated(tmp_path / "out")) == 5
    assert manifest(tmp_path / "out")["options"]["solutions"] == "all"
    assert all(picks == [0, 1] for picks in curated(tmp_path / "out")["selected"][:])


def test_an_unknown_preset_and_one_that_lacks_its_models_are_refused():
    with pytest.raises(InputError, match=r"unknown preset 'rdp'; use one of paper, rpd"):
        preset_config("rdp")
    with pytest.raises(InputError, match="wants its models named"):
        preset_config("paper", embedder="minilm")


# Equal seeds, equal pools


@given(st.lists(st.text(max_size=5), unique=True, max_size=30), st.integers(0, 5), st.data())
def test_the_order_of_a_draw_does_not_depend_on_what_else_is_drawn(texts, seed, data):
    order = [texts[index] for index in shuffled(texts, seed)]
    some = data.draw(st.lists(st.sampled_from(texts), unique=True) if texts else st.just([]))
    kept = set(some)
    assert [some[i] for i in shuffled(some, seed)] == [text for text in order if text in kept]


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


def test_the_order_of_the_input_does_not_change_a_draw(rows, tmp_path, capsys):
    other = tmp_path / "other.jsonl"
    other.write_text("".join(reversed(rows.read_text().splitlines(keepends=True))))
    options = ("--problems", "random", "--solutions", "random", "--num-problems", 5)
    one = curate(capsys, rows, tmp_path / "one", *options)["chosen"]
    assert curate(capsys, other, tmp_path / "two", *options)["chosen"] == one


def test_select_problems_draws_as_the_command_line_does(rows, tmp_path, capsys):
    config = CurationConfig(problems="random", solutions="random", seed=3)
    ds = datasets.load_dataset("json", data_files=str(rows), split="train")
    ds = ds.map(rpd_curate, fn_kwargs={"config": config})
    drawn = select_problems(ds, 5, method="random", seed=3)
    options = ("--problems", "random", "--solutions", "random", "--num-problems", 5, "--seed", 3)
    curate(capsys, rows, tmp_path / "out", *options)
    assert drawn["problem"][:] == curated(tmp_path / "out")["problem"][:]
    assert drawn["selected"][:] == curated(tmp_path / "out")["selected"][:]


def test_select_problems_ranks_by_the_configured_distance_or_takes_the_diverse_ones():
    rows = [
        {"problem": name, "rpd_score": by_rpd, "problem_score": by_raw, "diverse": diverse}
        for name, by_rpd, by_raw, diverse in [
            ("a", 0.1, 0.9, True),
            ("b", 0.3, 0.1, None),
            ("c", 0.2, 0.5, True),
            ("d", None, 0.2, False),
        ]
    ]

    def names(*arguments, **options):
        return [row["problem"] for row in select_problems(rows, *arguments, **options)]

    assert names(4) == ["a", "c", "d", "b"]
    assert names(4, "rpd") == ["b", "c", "a", "d"]
    assert sorted(names(4, "llm")) == ["a", "c"]
    assert names(1, "llm", seed=1) == names(2, "llm", seed=1)[:1]
    with pytest.raises(InputError, match="unknown method 'best'"):
        names(1, "best")
    with pytest.raises(InputError, match=r"no selected; run ds\.map"):
        names(1, "random")


# Distances and choices other than RPD


class NoSteps:
    name = "nobody"
    fingerprint = "nobody/1"

    async def summarize(self, problem, solutions):
        raise AssertionError("nothing that was asked for reads steps")


class Sentences:
    name = "sentences"
    fingerprint = "sentences/1"

    async def summarize(self, problem, solutions):
        return [Summary(tuple(part for part in text.split(". ") if part)) for text in solutions]


def loose(**options):
    return CurationConfig(filters=FilterConfig(min_solutions=1, require_complete=False), **options)


def models(summarizer, judge=None):
    return Models(summarizer, load_embedder("minilm"), token_counter("estimate"), judge)


PROBLEM = Problem(
    "What is 2 + 3?",
    (
        "Count on from two. The sum is 5.",
        "Count up from two. The sum is 5.",
        "Draw five coins on a table in a row and cover three. The sum is 5.",
    ),
)


@pytest.mark.parametrize("choice", ["raw", "raw_chunks", "random"])
def test_no_summary_is_made_where_nothing_reads_steps(choice):
    config = loose(problems=choice, solutions=choice, num_solutions=2)
    scored = run(score_problem(PROBLEM, config, models(NoSteps())))
    assert scored.score is None
    assert scored.steps == [[], [], []]
    assert len(run(choose(PROBLEM, scored, config, models(NoSteps()))).value) == 2


def test_rpd_is_measured_beside_any_distance_between_steps():
    plain = run(score_problem(PROBLEM, loose(), models(Sentences())))
    for choice in ("summary", "strategy"):
        config = loose(problems=choice, solutions=choice)
        scored = run(score_problem(PROBLEM, config, models(Sentences())))
        assert scored.matrix == plain.matrix
        assert scored.score == plain.score
        assert scored.distances != plain.matrix
        assert scored.problem_score not in (None, plain.score)


def test_ties_decide_which_rpd_is_meant():
    by_rpd = {"problems": "rpd", "solutions": "rpd"}
    first = run(score_problem(PROBLEM, loose(ties="first", **by_rpd), models(Sentences())))
    mean = run(score_problem(PROBLEM, loose(ties="mean", **by_rpd), models(Sentences())))
    assert first.matrix != mean.matrix
    assert first.problem_score == first.score


def test_each_stage_may_have_a_distance_of_its_own():
    row = {"problem": PROBLEM.problem, "solutions": list(PROBLEM.solutions)}
    config = loose(problems="raw", solutions="strategy", num_solutions=2)
    result = rpd_curate(row, config)
    assert result["problem_score"] != result["rpd_score"]
    assert result["distance_matrix"] != result["rpd_matrix"]
    assert len(result["selected"]) == 2
    assert "diverse" not in result
    by_rpd = rpd_curate(row, loose(problems="rpd", solutions="rpd"))
    assert not {"problem_score", "distance_matrix", "choice_reason"} & set(by_rpd)


def test_columns_of_other_distances_keep_to_the_rows_own_solutions():
    row = {"problem": PROBLEM.problem, "solutions": [None, *PROBLEM.solutions]}
    result = rpd_curate(row, loose(solutions="raw", num_solutions=2))
    assert result["distance_matrix"][0] == [None] * 4
    assert result["distance_matrix"][3][1] > result["distance_matrix"][2][1] > 0
    assert result["selected"][0] == 3
    empty = rpd_curate({"problem": "p", "solutions": []}, loose(solutions="raw"))
    assert empty["distance_matrix"] == []


def test_scores_of_one_distance_are_never_taken_for_another():
    summarizer = Sentences()
    prints = {
        scoring_fingerprint(loose(problems=problems, solutions=solutions), models(summarizer))
        for problems in ("rpd", "raw", "random")
        for solutions in ("rpd", "summary", "random")
    }
    assert len(prints) == 9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"problems": "best"}, "unknown choice of problems 'best'"),
        ({"solutions": "rpd_first"}, "unknown choice of solutions 'rpd_first'"),
        ({"completeness": "always"}, "unknown completeness 'always'"),
        ({"problems": "llm"}, "name one with judge"),
        ({"completeness": "llm"}, "name one with judge"),
        ({"solutions": "llm", "judge": "tgi:x", "num_solutions": 1}, "two solutions or more"),
    ],
)
def test_choices_that_make_no_sense_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        CurationConfig(**options)


# A judge in the place of a distance


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
    judge = manifest(tmp_path / "out")["judge"]
    assert judge["name"] == "Qwen/Qwen3-14B"
    assert set(judge["prompts"]) == {"problems", "solutions"}


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


def test_a_judge_that_says_nothing_usable_ends_in_one_line(rows, store, tmp_path, capsys):
    def reply(body):
        return "//boxed{2}" if kind_of(body) == "judge_problem" else "All are fine."

    with FakeTGI(reply=reply) as server:
        arguments = ["curate", rows, "-o", tmp_path / "out", *llm(server, store)]
        assert main([str(argument) for argument in arguments]) == 1
    assert "no usable choice of solutions" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_uniform_pool_is_one_line_that_says_so(rows, store, tmp_path, capsys):
    with FakeTGI(reply=lambda body: "//boxed{1}") as server:
        arguments = ["curate", rows, "-o", tmp_path / "out", *llm(server, store)]
        assert main([str(argument) for argument in arguments]) == 1
    assert "is called diverse" in capsys.readouterr().err


def test_one_chat_model_summarises_and_judges_through_one_flow(rows, store, tmp_path, capsys):
    with FakeTGI(reply=judge_reply) as server:
        spec = f"tgi:{server.url}"
        options = ("--problems", "llm", "--summarizer", spec, "--store", store)
        curate(capsys, rows, tmp_path / "out", *options, "--num-problems", 3)
        kinds = [kind_of(received.body) for received in server.requests]
    assert (kinds.count("summarize"), kinds.count("judge_problem")) == (60, 12)
    assert manifest(tmp_path / "out")["summarizer"]["name"] == "Qwen/Qwen3-14B"


class Answers:
    """A chat model that answers by the words in a request."""

    model = "answers"

    def __init__(self, **by_word):
        self.by_word = by_word
        self.asked = []

    async def __call__(self, request):
        user = request.messages[-1]["content"]
        self.asked.append(user)
        answer = next(answer for word, answer in self.by_word.items() if word in user)
        return ChatReply(answer, "stop")


def test_map_with_a_judge_says_why_nothing_was_selected(store):
    with FakeTGI(reply=lambda body: "//boxed{1}") as server:
        config = loose(problems="llm", solutions="llm", judge=f"tgi:{server.url}", store=store)
        row = {"problem": PROBLEM.problem, "solutions": list(PROBLEM.solutions)}
        result = dict(rpd_curate(row, config))
        assert len(server.requests) == 1
    assert (result["diverse"], result["selected"]) == (False, [])
    assert result["choice_reason"] == "not_diverse"


# The judge as a filter


def judged_filter(chat, *solutions, **filters):
    settings = {"min_solutions": 1, "completeness_tokens": 8, **filters}
    config = CurationConfig(
        problems="random",
        solutions="random",
        completeness="llm",
        judge="answers",
        filters=FilterConfig(**settings),
    )
    problem = Problem("p", solutions)
    return run(score_problem(problem, config, models(NoSteps(), CurationJudges(chat))))


def test_the_completeness_judge_sees_the_ends_and_decides():
    chat = Answers(four="Fine. //boxed{2}", dividing="No. //boxed{1}", odd="Perhaps.")
    beginning = "We begin with a long introduction that nobody needs. " * 5
    scored = judged_filter(
        chat, f"{beginning}The answer is four", "We go on by dividing", "This is odd."
    )
    assert scored.drop_reasons == ["", "incomplete", "no_envelope"]
    assert not any("introduction" in user for user in chat.asked)
    details = [reject.detail for reject in scored.rejects]
    assert details[0] == "The solution was not finished: incomplete."
    assert details[1].startswith("no verdict on its completeness: ")


def test_only_what_the_cheaper_filters_let_through_is_judged_and_each_end_once():
    chat = Answers(four="//boxed{2}")
    same_end = "and so, at the very last and after all of this, the answer is four"
    scored = judged_filter(chat, f"Add {same_end}", f"Count on {same_end}")
    assert scored.usable == [0, 1]
    assert len(chat.asked) == 1
    assert judged_filter(chat, "It is four", max_mean_tokens=1).drop_reasons == ["too_long"]
    assert judged_filter(chat, "four", min_solutions=2).drop_reasons == ["too_few_solutions"]
    assert len(chat.asked) == 1


def test_a_solution_without_a_verdict_on_its_end_is_left_out_and_counted(
    rows, store, tmp_path, capsys
):
    def reply(body):
        return "" if "care 3" in body["messages"][-1]["content"] else "//boxed{2}"

    with FakeTGI(reply=reply) as server:
        options = ("--completeness", "llm", "--judge", f"tgi:{server.url}", "--store", store)
        result = curate(capsys, rows, tmp_path / "out", *options, "--num-problems", 2)
        assert len(server.requests) == 60
    assert result["counts"]["solutions_usable"] == 48
    assert {r["reason"] for r in rejects(tmp_path / "out")} == {"no_envelope"}
    assert manifest(tmp_path / "out")["options"]["completeness"] == "llm"


def test_a_problem_that_a_failing_server_did_not_judge_is_judged_when_the_run_goes_on(
    rows, tmp_path
):
    class Judge:
        model = "judge"

        def __init__(self, failing):
            self.failing = failing
            self.asked = []

        async def __call__(self, request):
            user = request.messages[-1]["content"]
            self.asked.append(user)
            if self.failing and "Problem 1\n" in user:
                raise ModelError("out of order")
            return ChatReply("//boxed{2}", "stop")

    def stop_after_four(_):
        if len(failing.asked) >= 4:
            raise KeyboardInterrupt

    def go(judge, on_problem):
        config = loose(problems="llm", solutions="random", judge="judge", num_problems=12)
        return curate_folder(
            lambda scratch, reject: open_source(rows, scratch=scratch, on_reject=reject),
            tmp_path / "out",
            config,
            models(Sentences(), CurationJudges(judge)),
            describe=lambda report: {},
            options=RunOptions(max_in_flight=1, on_problem=on_problem),
        )

    failing, sound = Judge(failing=True), Judge(failing=False)
    with pytest.raises(KeyboardInterrupt):
        go(failing, stop_after_four)
    report = go(sound, lambda _: None)
    assert len(report.chosen) == 12
    assert sum("Problem 1\n" in user for user in sound.asked) == 1
    assert not any("Problem 0\n" in user for user in sound.asked)


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
    assert "| Mixed in | code.jsonl (3 problems chosen, by themselves) |" in card


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
    assert manifest(tmp_path / "out")["mixed_in"][0]["only"] == {"domain": "code"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--preset", "rpd-math-code"], "name the second with --mix INPUT"),
        (["--mix", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--mix", "sample:0"], "asks for no problems"),
        (["--problems", "llm"], "--judge"),
    ],
)
def test_options_that_lack_something_are_one_line(options, message, rows, tmp_path, capsys):
    assert main(["curate", str(rows), "-o", str(tmp_path / "out"), *options]) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("rpd ")]
    assert len(lines) == 1
    assert message in lines[0]


# What the card says


def test_the_card_of_a_random_set_claims_no_diversity(rows, tmp_path, capsys):
    options = ("--preset", "random-1p3s", "--min-solutions", 4)
    curate(capsys, rows, tmp_path / "out", *options)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| Problems | `random` – drawn at random |" in card
    assert "| Solutions | `random` – at random, without regard to distance |" in card
    assert "had no\npart in the choice" in card
    assert "Steps by | nobody" in card
    assert "differ most" not in card
    assert "diversity" not in card.split("---")[1]


def test_the_card_of_another_distance_names_it_and_its_columns(rows, tmp_path, capsys):
    options = ("--preset", "summary", "--min-solutions", 4, "--num-problems", 4)
    curate(capsys, rows, tmp_path / "out", *options)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| Problems | `summary` – ranked by" in card
    assert "embeddings of two solutions' joined steps" in card
    assert "Problem score by `summary`, chosen problems" in card
    assert {"problem_score", "distance_matrix"} <= set(curated(tmp_path / "out").column_names)
    assert "- `distance_matrix`: the distances that chose the solutions, `summary`." in card


def test_the_card_of_a_judged_set_names_the_judge(rows, store, tmp_path, capsys):
    with FakeTGI(reply=judge_reply) as server:
        options = llm(server, store, "--completeness", "llm")
        curate(capsys, rows, tmp_path / "out", *options)
        card = (tmp_path / "out" / "README.md").read_text()
        assert server.url not in card + (tmp_path / "out" / "manifest.json").read_text()
    assert "| Judged by | Qwen/Qwen3-14B (completeness, problems, solutions);" in card
    assert "| Completeness judged by | Qwen/Qwen3-14B, from the last 500 tokens |" in card


def test_the_table_of_facts_in_the_card_is_one_unbroken_table(rows, tmp_path, capsys):
    curate(capsys, rows, tmp_path / "out", "--num-problems", 2)
    card = (tmp_path / "out" / "README.md").read_text()
    table = card.partition("## How it was made\n\n")[2].partition("\n\n")[0].splitlines()
    assert all(line.startswith("|") and line.endswith("|") for line in table)
    assert table[-1] == "| Seed | 0 |"
