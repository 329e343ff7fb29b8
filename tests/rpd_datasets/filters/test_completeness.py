"""Whether a solution was finished, decided by rules."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parts.rows import read_lines
from rpd_datasets.filters.completeness import ends_in_loop, is_complete

DATA = Path(__file__).parents[4] / "shared" / "data"
CONTROLLED = DATA / "strategy_bench" / "controlled.jsonl"
WORK = "We add both equations, which leaves $2x = 8$ and with it one unknown.\n\n"

FINISHED = {
    "a box": "So $x = \\boxed{4}$.",
    "a box with nested braces": "$\\boxed{\\left\\{ 1, \\sqrt{2} \\right\\}}$",
    "an announced answer": "**Final Answer:** 12",
    "the answer of a benchmark": "He pays 3 * 4 = 12 dollars.\n#### 12",
    "a sentence that concludes": "Therefore, the number of ways is 12.",
    "a formula that concludes": "Hence\n\\[ x = 4. \\]",
    "the end of a proof": "Both sides agree, as desired.",
    "a proof that names no answer": "Every prime above 3 is odd. This proves the claim ∎",
    "an option": "The correct option is B.",
    "German": "Zieht man beide Gleichungen voneinander ab, bleibt $2x = 8$, also ist $x = 4$.",
    "a German answer": "Teilen durch 2 liefert die Lösung.\n\nAntwort: 4 Wege",
    "Spanish": "Restando las dos ecuaciones queda $2x = 8$, luego el valor buscado es 4.",
    "Chinese": "两式相减得 $2x=8$，两边同除以 2，故所求的值为 4。",
    "a Chinese answer": "两式相减得 $2x=8$。\n答：4 种",
    "a French interval": "Donc l'ensemble des solutions est $]4, +\\infty[$.",
    "Arabic": "نطرح المعادلتين فنحصل على ٤، فهل من حل آخر؟",
    "Hindi": "दोनों समीकरण घटाने पर उत्तर 4 है।",
    "a lone value": "Adding the cases:\n\n$12$",
    "money": "Thus each of them pays $5.",
    "an answer after thinking": "<think>\nHm, and so\n</think>\nThe answer is $4$.",
    "an answer behind a code block": "```python\nprint(4)\n```\n```output\n4\n```\nSo it is $4$.",
}
UNFINISHED = {
    "in a sentence": ("Now we can divide both sides by", "cut_off"),
    "behind an operator": ("Therefore $x = 4$ and $y =", "cut_off"),
    "in an inline formula": ("So the value is $\\frac{6}{12", "cut_off"),
    "in a display": ("Therefore\n\\[ x = 4 + y", "cut_off"),
    "in a bracket": ("Therefore it is 4 (which is even.", "cut_off"),
    "before a list item": ("There are three cases, so:\n\n1. First, it is 4.\n2.", "cut_off"),
    "before the announced answer": ("Therefore, the final answer is:", "cut_off"),
    "behind the answer": ("So $x = \\boxed{4}$.\n\nWait, let me check with the", "cut_off"),
    "in the box": ("So $x = \\boxed{\\frac{4}{", "unclosed_box"),
    "while thinking": ("<think>\nSo the answer is $\\boxed{4}$. But wait.", "unclosed_think"),
    "in code": ("Read the input and add:\n```python\nprint(sum(", "unclosed_code"),
    "in a German sentence": ("Also ist $x = 4$, und damit wird die", "cut_off"),
    "in a Chinese sentence": ("两式相减得 $2x=8$，两边同除以", "cut_off"),
    "after thinking": ("<think>\nThe answer is 4.\n</think>\n\n", "empty"),
    "at once": (" \n", "empty"),
    "in a loop": ("So it is 4. " + "Wait, let me check again. " * 40, "repetition_loop"),
}


@pytest.mark.parametrize("end", FINISHED.values(), ids=FINISHED.keys())
def test_a_solution_that_comes_to_its_end_is_complete(end: str) -> None:
    assert is_complete(WORK + end) == (True, None)


@pytest.mark.parametrize(("end", "reason"), UNFINISHED.values(), ids=UNFINISHED.keys())
def test_a_solution_that_stops_is_refused_with_the_reason(end: str, reason: str) -> None:
    assert is_complete(end if reason == "empty" else WORK + end) == (False, reason)


def test_beside_a_reference_an_answer_must_stand_near_the_end() -> None:
    after = " ".join(f"The number {n} has {n % 7} neighbours in the list." for n in range(60))
    long_after = f"So $x = \\boxed{{907}}$.\n\n{after}"
    assert is_complete(long_after, reference="907") == (False, "no_final_answer")
    assert is_complete(long_after) == (True, None)
    assert is_complete(long_after, tail=long_after, reference="907") == (True, None)


@pytest.mark.parametrize(
    ("end", "reference"),
    [
        ("Damit sind es genau 1.250 Wege.", "1,250"),
        ("Damit ist die Länge genau 1,8 cm.", "1.8"),
        ("所以一共有 120 种选法。", "120"),
        ("Entonces son 50 + 10 + 2.", "62"),
        ("Er ist demnach ein Knappe.", "Knappe"),
        ("Somit gilt $x = \\frac{33}{8}$.", "$\\tfrac{33}{8}$"),
    ],
)
def test_the_value_of_the_reference_is_an_answer_in_any_language(end: str, reference: str) -> None:
    assert is_complete(WORK + end, reference=reference) == (True, None)
    assert is_complete(WORK + end, reference="907") == (False, "no_final_answer")


def test_a_text_may_end_in_the_value_of_the_reference_without_a_full_stop() -> None:
    end = "Das Produkt ist die Summe der Zahlen. Antwort: 5050"
    assert is_complete(WORK + end, reference="5050") == (True, None)
    assert is_complete(WORK + end, reference="50") == (False, "cut_off")


PROGRAM = """    best = {"": "("}
    for name in names:
        if name.startswith('"'):
            best[name] = max(best.get(name, 0), len(name))
    return best_"""


def test_a_program_without_a_fence_is_finished_unless_it_breaks_off() -> None:
    assert is_complete(PROGRAM) == is_complete(PROGRAM + "\n\n") == (True, None)
    for unfinished in ("", "\nprint(best", "\nx = 'a", "\nif best:", "\nx = best +"):
        complete = not unfinished
        assert is_complete(PROGRAM + unfinished) == (complete, None if complete else "cut_off")


@pytest.mark.skipif(not CONTROLLED.exists(), reason="needs the labelled sets in ../shared/data")
def test_no_solution_in_another_language_or_subject_is_unfinished() -> None:
    ends = [
        is_complete(text, reference=reference)
        for row in read_lines(CONTROLLED)
        for text in row["solutions"]
        for reference in (None, row["reference_answer"])
    ]
    assert len(ends) == 576
    assert set(ends) == {(True, None)}


@given(text=st.text(alphabet="ab $\\{}[]().,:\n`*<>/think boxed answer 4", max_size=300))
def test_every_text_gets_a_verdict(text: str) -> None:
    complete, reason = is_complete(text)
    assert complete == (reason is None)
    for character in ("{", "$", "(", "\0"):
        assert is_complete(text + character * 5001)[0] is False


@given(
    start=st.text(max_size=50),
    unit=st.text(alphabet="abcdefgh ", min_size=1, max_size=80).filter(str.strip),
    cut=st.integers(0, 79),
)
def test_a_repeated_stretch_is_a_loop_wherever_it_is_cut(start: str, unit: str, cut: int) -> None:
    assert ends_in_loop(start + unit * (400 // len(unit) + 5) + unit[:cut])


def test_three_equal_cases_are_no_loop() -> None:
    case = "In this case both sides are equal, because every term cancels against its neighbour. "
    assert (ends_in_loop(WORK + case * 3), ends_in_loop(WORK + case * 4)) == (False, True)
