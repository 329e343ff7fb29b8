"""The PNG figures of a curated folder."""

from __future__ import annotations

import io

import pytest

from parts.curated_folder import HashEmbedder, a_row, write_folder
from rpd_datasets.rejects import Rejected
from rpd_datasets.report.figures import draw_card_figures, draw_figures, palette
from rpd_datasets.report.measures import measure
from rpd_datasets.report.reading import read_curated
from rpd_metric.errors import MissingExtraError


def drawn(folder, embedder=None):
    curated = read_curated(folder, 10)
    return draw_figures(curated, measure(curated.shown, embedder))


def test_there_is_a_figure_of_each_kind_and_of_the_first_problems(tmp_path):
    from PIL import Image

    rows = [a_row(f"Problem {index}?") for index in range(5)]
    figures = drawn(write_folder(tmp_path / "curated", rows, not_chosen=[0.3]), HashEmbedder())
    assert sorted(figures) == [
        "case_1.png",
        "case_2.png",
        "case_3.png",
        "distances.png",
        "left_out.png",
        "problem_scores.png",
        "token_lengths.png",
    ]
    for content in figures.values():
        with Image.open(io.BytesIO(content)) as image:
            assert image.width >= 600
            assert len(image.convert("RGB").getcolors(1 << 24)) > 10  # not an empty sheet


def test_the_figures_have_the_colours_of_the_page(tmp_path):
    from PIL import Image

    def colours(content):
        with Image.open(io.BytesIO(content)) as image:
            return {
                f"#{r:02x}{g:02x}{b:02x}"
                for _, (r, g, b) in image.convert("RGB").getcolors(1 << 24)
            }

    page = palette()
    assert page["page"] == "#fbfbfa"  # the light colours, not the dark ones
    rejects = [Rejected("filter", "duplicate", "rows.jsonl:1", "detail")]
    folder = write_folder(tmp_path / "c", [a_row(), a_row("b?")], not_chosen=[0.3], rejects=rejects)
    found = drawn(folder, HashEmbedder())
    for name, kinds in {
        "problem_scores.png": ["accent", "accent-pale"],
        "token_lengths.png": ["tokens"],
        "distances.png": ["accent", "raw"],
        "left_out.png": ["accent", "gone"],
        "case_1.png": ["s0", "s1", "q0", "q10"],
    }.items():
        assert {page[kind] for kind in kinds} <= colours(found[name]), name
    # Where another distance chose, that one has the first colour, and is in the heat map.
    matrix = [[0.0, 0.1, None, 0.4], [0.1, 0.0, None, 0.3], [None] * 4, [0.4, 0.3, None, 0.0]]
    rows = [a_row(distance_matrix=matrix), a_row("b?", distance_matrix=matrix)]
    by_pieces = drawn(write_folder(tmp_path / "p", rows, solutions="pieces"), HashEmbedder())
    assert {page[kind] for kind in ("accent", "beside", "raw")} <= colours(
        by_pieces["distances.png"]
    )
    assert by_pieces["case_1.png"] != found["case_1.png"]
    card = draw_card_figures([0.1, 0.2, 0.5], [0.5], [3, 4])
    assert page["accent"] in colours(card["problem_scores.png"])


def test_equal_inputs_give_equal_bytes(tmp_path):
    folder = write_folder(tmp_path / "curated", [a_row()])
    assert drawn(folder, HashEmbedder()) == drawn(folder, HashEmbedder())


def test_without_an_embedder_or_steps_what_is_left_is_drawn(tmp_path):
    bare = write_folder(tmp_path / "bare", [a_row()], with_steps=False)
    assert "case_1.png" not in drawn(bare)
    assert "case_1.png" in drawn(write_folder(tmp_path / "curated", [a_row()]))


def test_a_reason_with_a_dollar_sign_is_no_formula(tmp_path):
    rejects = [Rejected("filter", "costs_$x_{$", "rows.jsonl:1", "detail")]
    folder = write_folder(tmp_path / "curated", [a_row()], rejects=rejects)
    assert drawn(folder)["left_out.png"].startswith(b"\x89PNG")


def test_a_missing_matplotlib_says_what_to_install(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"pip install -e .*\[report\]"):
        drawn(write_folder(tmp_path / "curated", [a_row()]))
