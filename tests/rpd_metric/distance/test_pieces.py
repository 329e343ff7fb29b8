"""`pieces` and `combined`: what each part sees, and that texts are read within bounds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rpd_metric.distance.linkage import average_linkage
from rpd_metric.metrics.matrices import (
    MOST_PIECES,
    READINGS,
    distance_matrices,
    gather,
)

WORDS = ["factor", "polynomial", "angle", "count", "cases", "matrix", "root", "modulo"]


class WordCounts:
    """An encoder whose dimensions are words: what it should say can be worked out by hand."""

    name = "word counts"

    def encode(self, texts):
        return np.array(
            [[text.lower().split().count(word) for word in WORDS] for text in texts],
            dtype=np.float32,
        ).reshape(len(texts), len(WORDS))


def pieces(problem, *solutions):
    return distance_matrices(["pieces"], problem, solutions, None, WordCounts())["pieces"]


def test_three_quarters_are_the_pieces_and_one_quarter_the_methods():
    # No method is named in either, and no word is shared: the text alone, three quarters of 1.
    assert pieces("", "angle", "matrices modulo " * 2)[0, 1] == pytest.approx(1.0)
    assert pieces("", "root", "angle")[0, 1] == pytest.approx(0.75)
    # The same pieces to the encoder; one names a method that the other does not.
    assert pieces("", "root induction", "root telescope")[0, 1] == pytest.approx(0.25)


def test_what_the_statement_says_tells_no_solutions_apart():
    alike = pieces("", "angle root", "angle matrix")[0, 1]
    without = pieces("angle", "angle root", "angle matrix")[0, 1]
    assert without > alike


def test_both_lists_ask():
    long = "root " * 40 + "angle " * 40
    # "root" finds itself, "angle" finds nothing: half of the longer list's share.
    assert pieces("", "root", long)[0, 1] == pytest.approx(0.75 * (0 + 0.5) / 2)


def test_half_of_it_is_the_level_of_average_linkage():
    solutions = ["root angle", "angle matrix", "modulo cases", "count root"]
    alone = np.zeros((4, 4))
    for i, j in itertools.combinations(range(4), 2):
        alone[i, j] = alone[j, i] = pieces("", solutions[i], solutions[j])[0, 1]
    expected = (alone + average_linkage(alone)) / 2
    np.testing.assert_allclose(pieces("", *solutions), expected)


def test_equal_texts_are_at_distance_zero_whatever_they_are_written_in():
    for text in ("root angle", "因式分解", "2 + 2 = 4", "By induction."):
        assert pieces("root", text, text)[0, 1] == pytest.approx(0)


def test_a_trace_of_any_length_is_read_in_a_bounded_number_of_pieces_from_start_to_end():
    trace = " ".join(f"word{number}" for number in range(10_000))
    (read,) = READINGS["pieces"]("", [trace], [()])
    assert len(read) == MOST_PIECES
    assert read[0].startswith("word0 ")
    assert read[-1].endswith("word9999")


def test_of_a_trace_the_part_that_carries_the_answer_is_compared():
    write_up = "We factor the polynomial. " * 30
    found = pieces("", f"<think>{'angle modulo ' * 400}</think>{write_up}", write_up)
    assert found[0, 1] == pytest.approx(0)


def test_combined_is_strategy_without_the_statement_and_a_quarter_of_the_text():
    steps = [["factor"], ["modulo"]]
    texts = ["count cases", "count cases"]
    found = distance_matrices(["combined", "strategy"], "", texts, steps, WordCounts())
    # The texts are equal: three quarters of what the steps say are left.
    assert found["combined"][0, 1] == pytest.approx(0.75 * found["strategy"][0, 1])


def test_no_encoder_is_asked_about_methods():
    class Counting(WordCounts):
        def __init__(self):
            self.seen = []

        def encode(self, texts):
            self.seen += texts
            return super().encode(texts)

    encoder = Counting()
    evidence = gather(["methods"], "P", ["By induction.", "none"], None, encoder)
    assert encoder.seen == []
    assert [rows.astype(bool).sum() for rows in evidence.vectors["methods"]] == [1, 0]
