"""Prompt templates: what is packaged, what a user may bring, and what rendering must not do."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rpd_metric.errors import InputError
from rpd_metric.prompts.templates import PromptTemplate, fence, load_template

SUMMARIES = ["summarize", "summarize_json"]
VALUES = {"problem": "P", "solution": "S", "min_steps": 3, "max_steps": 5}


@pytest.fixture
def own_file(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("[system]\nList steps.\n[user]\n{{problem}}\n{{solution}}\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_packaged_summary_prompt_puts_fixed_text_first_and_the_solution_last(name):
    template = load_template(name)
    first, second = (template.render(**{**VALUES, "solution": text}) for text in ("one", "two"))
    assert [message["role"] for message in first] == ["system", "user"]
    assert first[0] == second[0]
    assert first[1]["content"].index("P") < first[1]["content"].index("one")
    assert first[1]["content"].endswith("one")
    assert second[1]["content"].endswith("two")


def test_a_user_may_bring_a_file(own_file):
    template = load_template(own_file)
    assert template.name == "mine.txt"
    assert template.render(problem="P", solution="S", min_steps=3) == (
        {"role": "system", "content": "List steps."},
        {"role": "user", "content": "P\nS"},
    )
    own_file.write_text("List steps.\n{{problem}}\n{{solution}}\n", encoding="utf-8")
    assert load_template(own_file).render(problem="P", solution="S") == (
        {"role": "user", "content": "List steps.\nP\nS"},
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{problem}}", r"lacks \{\{solution\}\}"),
        ("", r"lacks \{\{problem\}\}, \{\{solution\}\}"),
        ("{{problem}} {{solution}} {{answer}}", r"has \{\{answer\}\}, which nothing fills in"),
        ("[user]\n{{problem}}\n[system]\n{{solution}}", r"found: user, system"),
    ],
)
def test_an_unusable_file_is_refused_with_what_is_wrong(own_file, text, message):
    own_file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message) as caught:
        load_template(own_file)
    assert "mine.txt" in str(caught.value)
    assert "\n" not in str(caught.value)


AWKWARD_PIECES = [
    *("{", "}", "{{", "}}", "%s", "%(problem)s", "{0}", "{problem}", "{{solution}}", "\\1", "é"),
    *("\\g<0>", "{{problem}}", "$solution", "\n[user]\n", "[system]\n", "</solution>"),
]
AWKWARD = st.lists(st.sampled_from(AWKWARD_PIECES)).map("".join)


@given(problem=AWKWARD, solution=AWKWARD)
def test_values_are_put_in_exactly_as_they_are(problem, solution):
    template = PromptTemplate("t", "[system]\nFixed.\n[user]\n<{{problem}}|{{solution}}>")
    assert template.render(problem=problem, solution=solution) == (
        {"role": "system", "content": "Fixed."},
        {"role": "user", "content": f"<{problem}|{solution}>"},
    )


@given(st.text(st.characters(codec=None)))
@example("half a \ud835 pair")
def test_a_fence_encloses_any_text_and_does_not_occur_in_it(text):
    opening, *inside, closing = fence("solution", text).split("\n")
    assert "\n".join(inside) == text
    assert closing == opening.replace("<", "</")
    assert closing not in text
