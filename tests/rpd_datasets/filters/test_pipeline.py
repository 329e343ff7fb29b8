"""What is left out before scoring, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpd_datasets.filters import pipeline
from rpd_datasets.filters.candidates import Candidates, Drops, EndingCheck
from rpd_datasets.filters.pipeline import OURS, Filter, FilterConfig, Filtered, filter_problem
from rpd_datasets.problem import Problem
from rpd_metric.errors import InputError
from rpd_metric.registry import Registry

DONE = "Therefore the answer is ${}$."
ALL_OFF = FilterConfig(min_solutions=1, require_complete=False, drop_duplicates=False)


@dataclass(frozen=True)
class Words:
    """Counts words, so that lengths can be read off the texts."""

    name: str = "words"
    estimated: bool = False

    def __call__(self, text: str) -> int:
        return len(text.split())


def run(*solutions: str, config: FilterConfig = ALL_OFF, **extra: Any) -> Filtered:
    return filter_problem(Problem("p", solutions, extra, "a.jsonl:1"), config, Words())


def test_without_filters_everything_stays() -> None:
    filtered = run("one two", "one two", "three")
    assert filtered == Filtered((0, 1, 2), ("", "", ""), ("", "", ""), (2, 2, 1))


def test_length_is_the_mean_over_all_solutions_the_limit_included() -> None:
    config = replace(ALL_OFF, max_mean_tokens=3)
    assert run("a b c d e", "a", config=config).kept == (0, 1)
    filtered = run("a b c d e f g", "a", config=config)
    assert (filtered.kept, filtered.problem_reason) == ((), "too_long")
    assert filtered.reasons == ("too_long", "too_long")


def test_a_text_too_short_to_have_been_cut_need_not_announce_an_answer() -> None:
    unfinished = "We add the two equations. " + "This term cancels. " * 15 + "Now we divide by"
    config = replace(ALL_OFF, require_complete=True)
    filtered = run("Expand both products", "It is \\boxed{4", unfinished, config=config)
    assert filtered.reasons == ("", "unclosed_box", "cut_off")


def test_another_judge_of_completeness_sees_the_solution_and_its_last_tokens() -> None:
    seen = []

    def judge(solution: str, tail: str) -> EndingCheck:
        seen.append((solution, tail))
        return len(seen) == 2, None

    config = replace(ALL_OFF, require_complete=True, completeness_tokens=3)
    problem = Problem("p", ("one two three four five", "six"))
    assert filter_problem(problem, config, Words(), judge).reasons == ("incomplete", "")
    (solution, tail), last = seen
    assert solution == "one two three four five"
    assert solution.endswith(tail)
    assert 2 <= len(tail.split()) <= 4
    assert last == ("six", "six")


def test_equal_texts_are_kept_once_blank_space_aside() -> None:
    config = replace(ALL_OFF, drop_duplicates=True)
    filtered = run("a b", "c", " a\n\tb ", "A b", config=config)
    assert filtered.reasons == ("", "", "duplicate", "")
    assert filtered.details[2] == "The same text as solution 0."


def test_near_duplicates_go_by_their_shared_word_runs() -> None:
    config = replace(ALL_OFF, near_duplicate=0.9)
    words = [f"w{n}" for n in range(200)]
    text = " ".join(words)
    one_word_changed = " ".join([*words[:100], "other", *words[101:]])
    half_changed = " ".join([*words[:100], *(f"v{n}" for n in range(100))])
    filtered = run(text, one_word_changed, half_changed, text.upper(), config=config)

    # 196 runs of five words each; one changed word changes five of them: 191 / 201.
    assert filtered.reasons == ("", "near_duplicate", "", "near_duplicate")
    assert filtered.details[1] == "It shares 95% of its 5-word shingles with solution 0."


def test_a_finished_solution_is_no_duplicate_of_an_unfinished_one() -> None:
    config = replace(ALL_OFF, require_complete=True, near_duplicate=0.5)
    text = "We add the two equations and divide by two, which is allowed here. " * 4
    filtered = run(text + "So we divide by", text + DONE.format(4), config=config)
    assert filtered.reasons == ("cut_off", "")


@pytest.mark.parametrize(
    ("marks", "reasons"),
    [
        ([True, False, None], ("", "incorrect", "correctness_unknown")),
        (True, ("", "", "")),
        (["yes", 1, True], ("correctness_unknown", "correctness_unknown", "")),
        ([True, True], ("correctness_unknown",) * 3),
    ],
)
def test_only_solutions_marked_correct_stay(marks: Any, reasons: tuple[str, ...]) -> None:
    config = replace(ALL_OFF, only_correct=True, correct_column="verified")
    assert run("a", "b", "c", config=config, verified=marks).reasons == reasons
    with pytest.raises(InputError, match=r"'verified', which a\.jsonl:1 does not have, only: good"):
        run("a", config=config, good=[True])


def test_every_drop_has_one_record_and_a_dropped_problem_one_more() -> None:
    problem = Problem("p", ("a", "a", "b"), {}, "a.jsonl:1")
    config = replace(ALL_OFF, min_solutions=3, drop_duplicates=True)
    filtered = filter_problem(problem, config, Words())
    assert (filtered.kept, filtered.problem_reason) == ((), "too_few_solutions")
    assert filtered.reasons == ("too_few_solutions", "duplicate", "too_few_solutions")

    records = filtered.rejects(problem)
    assert [(record.reason, record.solution_index) for record in records] == [
        ("duplicate", 1),
        ("too_few_solutions", None),
    ]
    assert all(record.stage == "filter" and record.where == "a.jsonl:1" for record in records)


@pytest.mark.parametrize(
    "options",
    [{"max_mean_tokens": 0}, {"near_duplicate": 1.1}, {"soundness": "maybe"}, {"answers": "most"}],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        FilterConfig(**options)


SOLUTIONS = st.lists(
    st.sampled_from([DONE.format(n) for n in range(3)] + ["Now we", "So $x$ is 4."]),
    min_size=1,
    max_size=8,
)


@given(solutions=SOLUTIONS, least=st.integers(1, 4), near=st.none() | st.just(0.9))
def test_what_stays_and_what_goes_add_up_and_filtering_again_changes_nothing(
    solutions: list[str], least: int, near: float | None
) -> None:
    config = FilterConfig(min_solutions=least, near_duplicate=near)
    problem = Problem("p", tuple(solutions))
    filtered = filter_problem(problem, config, Words())

    kept = tuple(index for index, reason in enumerate(filtered.reasons) if not reason)
    assert kept == filtered.kept
    assert (filtered.problem_reason is None) == (len(filtered.kept) >= least)
    if kept:
        again = filter_problem(problem.take(kept), config, Words())
        assert again.kept == tuple(range(len(kept)))


def test_a_filter_of_another_package_is_applied_to_what_ours_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def drop(candidates: Candidates, value: str) -> Drops:
        return {n: ("brackets", value) for n in candidates.left if n >= int(value)}

    # In the place of its entry point.
    further = {"brackets": Filter(drop, "drops from VALUE on")}
    made = Registry("filter", Filter, {**OURS, **further}, "rpd.filters")
    monkeypatch.setattr(pipeline, "FILTERS", made)

    config = FilterConfig(min_solutions=1, filters=("brackets=1",))
    filtered = run("It is $4$.", "It  is $4$.", "So it is $4$.", config=config)
    assert filtered.reasons == ("", "duplicate", "brackets")
    with pytest.raises(InputError, match=r"--filter brackets=x: invalid literal for int"):
        run("It is $4$.", config=FilterConfig(filters=("brackets=x",)))
    for name, says in (
        ("bracket", "unknown filter 'bracket'; did you mean 'brackets'"),
        ("duplicates", "has an option of its own: --drop-duplicates"),
    ):
        with pytest.raises(InputError, match=says):
            FilterConfig(filters=(name,))
