"""Passages: whole sentences, display lines and programs, and what carries a trace's answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpd_metric.measure import pieces_read
from rpd_metric.steps.passages import answer_part, blocks, fenced, passages, word_spans


def texts(solution: str) -> list[str]:
    return [passage.text for passage in passages(solution)]


@pytest.mark.parametrize(
    "formula",
    [
        "$f(x) = 2. X \\text{ is } 3. Y$",
        "\\(a. B\\)",
        "\\[a. B\n c. D\\]",
        "$$a. B$$",
        "\\begin{align*} a. B \\\\ c. D \\end{align*}",
    ],
)
def test_nothing_is_cut_inside_a_formula(formula: str) -> None:
    found = texts(f"We see this. Hence we get {formula} as wanted. Then we stop.")
    assert any(" ".join(formula.split()) in text for text in found)
    assert found[0] == "We see this."
    assert found[-1] == "Then we stop."


@pytest.mark.parametrize(
    "found",
    [
        ["We get $x = 2.$", "Hence \\(y = 3.\\)", "It is done."],
        ["Adding gives\n\\[ a = 2, \\]\nwhere a is a length.", "Next we stop."],
        ["The total is:\n2 + 2 = 4", "That is all."],
        ["See e.g. Fermat and P. Halmos.", "Then go."],
        ["It costs $5.", "So.\n\n[asy] draw(A);", "\n```\nIt fits."],
    ],
)
def test_where_a_sentence_ends(found: list[str]) -> None:
    """A display line stays with what announces it; an abbreviation ends nothing."""
    joined = " ".join(found) if "Adding" in found[0] else "\n".join(found)
    assert texts(joined)[0] == " ".join(found[0].split())
    assert texts(joined)[-1] == " ".join(found[-1].replace("```", "").split())


def test_a_chinese_sentence_ends_without_a_blank() -> None:
    found = ["男生有 5 人。", "他问：“够吗？”", "共 $9。0$ 种；", "故\n\\[ x = 4 \\]", "完毕！"]
    assert texts("".join(found)) == [" ".join(one.split()) for one in found]


WRITE_UP = "We count the squares. " * 20


@pytest.mark.parametrize(
    ("opening", "closing"),
    [("<think>", "</think>"), ("<|begin_of_thought|>", "<|end_of_thought|>"), ("", "</think>")],
)
def test_the_write_up_after_the_thoughts_carries_the_answer(opening: str, closing: str) -> None:
    assert answer_part(f"{opening}Maybe not.{closing}{WRITE_UP}") == WRITE_UP


@given(
    st.lists(
        st.sampled_from(["We go. ", "$x = 1. A$", "\\[ y. B \\]", "```\nA. B\n```", "\n", "\n\n"])
        | st.text(max_size=20),
        max_size=12,
    )
)
def test_passages_are_made_of_the_solution_itself(parts: list[str]) -> None:
    solution = "".join(parts)
    for passage in passages(solution):
        passage.text.encode("utf-8")
        assert passage.text.strip()
        assert sum(map(len, texts(solution))) <= 2 * len(solution) + 1


@given(st.text(st.characters(max_codepoint=0x2FF) | st.sampled_from("\x1c\u2028\u3000 ")))
def test_words_of_a_text_with_blanks_are_what_stands_between_them(text: str) -> None:
    assert [text[start:end] for start, end in word_spans(text)] == text.split()


def test_a_text_without_blanks_is_read_in_pieces_and_its_thoughts_are_left_out() -> None:
    thought = "我们先试一试直接计算的办法看看行不行。" * 10
    answer = "因为两边同除以未知数,所以平方以后得到所求的值。" * 12
    read = pieces_read(f"<think>{thought}</think>{answer}")
    assert len(read) == 4
    assert "".join(read) == answer


# Programs

PROGRAM = "def double(x):\n    # twice\n    return 2 * x"


@pytest.mark.parametrize(
    "program",
    [
        PROGRAM,
        "    total = 0\n    for x in xs:\n        total += x\n    return total",
        "import math\nprint(math.pi)",
        "class A:\n    x = 1",
        "    return sorted(set(xs))",
    ],
)
def test_a_program_without_a_fence_keeps_its_lines(program: str) -> None:
    found = passages(f"We write it down.\n{program}\nThat is all.")
    assert [p.text for p in found] == ["We write it down.", f"```\n{program}\n```", "That is all."]
    assert found[1].kind == "code"


@pytest.mark.parametrize(
    "text",
    [
        "We add:\nx = 2 + 3\ny = x + 1\nso y = 6.",
        "if n is even:\nthen n = 2k.\nfor all k in S:\nit holds.",
        "Return to the first case.\n    x = 3\n    y = 4",
        "[asy]\nimport graph;\nreal f(real x) {\n  if (x < 1) {\n    return(x);\n  }\n}\n[/asy]",
        "```python\ndef f(x):\n    return x\n```",
        "from 1 to 10:\n    1, 2, 3",
    ],
)
def test_mathematics_prose_drawings_and_fences_are_left_alone(text: str) -> None:
    assert fenced(text) == text


def test_a_long_block_is_cut_at_free_lines_and_comments_and_loses_nothing() -> None:
    body = "\n\n".join(
        f"    # part {n}\n" + "\n".join(f"    x{n}{i} = {i}" for i in range(5)) for n in range(3)
    )
    code = f"```python\ndef f():\n{body}\n```"
    found = blocks(code)
    assert len(found) == 3
    assert all(part.startswith("```python\n") and part.endswith("\n```") for part in found)
    lines = [line for part in found for line in part.split("\n")[1:-1] if line.strip()]
    assert lines == [line for line in code.split("\n")[1:-1] if line.strip()]
