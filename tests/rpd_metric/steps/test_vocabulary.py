"""The vocabulary of methods: its data, and what counts as a mention."""

from __future__ import annotations

import pytest

from rpd_metric.steps.vocabulary import find_methods


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("Completing the square gives", "Complete the square"),
        ("we completed the square", "Complete the square"),
        ("By Fermat's little theorem", "Apply Fermat's little theorem"),
        ("By Fermat’s little theorem", "Apply Fermat's little theorem"),
        ("$\\binom{5}{2}$", "Count choices with binomial coefficients"),
        ("$7 \\equiv 2 \\pmod 5$", "Work modulo a number"),
        ("\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "Use matrices"),
        ("x^2 - 5x + 6 = 0", "Work with a quadratic equation"),
        ("LAW OF COSINES", "Apply the law of cosines"),
        ("the inclusion-exclusion principle", "Use inclusion-exclusion"),
    ],
)
def test_a_method_is_known_by_words_endings_commands_and_notation(text: str, phrase: str) -> None:
    assert phrase in [method.phrase for method in find_methods(text)]


def test_methods_are_ordered_by_first_mention() -> None:
    found = find_methods("Use symmetry, then induction. Symmetry again.")
    assert [method.phrase for method in found] == ["Use symmetry", "Argue by induction"]
