"""Which numbers and expressions are read, however they are written."""

import time

import pytest

from rpd_metric.steps.vocabulary import expressions


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It is 4,095 or $4{,}095$.", {"4095"}),
        (r"$2^{12}$ and 2**12, with \frac{k}{60} as k/60", {"2", "12", "60", "2^12", "k/60"}),
        ("x² − 6x", {"6", "x^2", "2-6"}),
        ("so n\\cdot 3 is 3.50 = 4", {"3", "3.5", "4", "n*3", "3.50=4"}),
        ("Let energy be conserved; a ball rolls.", set()),
        ("", set()),
    ],
)
def test_ways_to_write_an_expression_are_read_alike(text, found):
    assert expressions(text) == found


@pytest.mark.parametrize("part", ["1,", "1", "a+", "\\frac{", "{}", "1.1", "\\,", "x", "§="])
def test_reading_is_linear_in_the_length_of_a_text(part):
    began = time.process_time()
    expressions(part * 200_000)
    assert time.process_time() - began < 5
