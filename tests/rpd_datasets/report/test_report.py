"""The report of a curated folder: what it says, and that nothing in it can do harm."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import datasets
import numpy as np
import pytest

from parts.browser import chromium
from parts.curated_folder import STEPS, HashEmbedder, a_row, write_folder
from rpd_datasets.cli import main
from rpd_datasets.rejects import Rejected
from rpd_datasets.report import read_curated, write_report
from rpd_datasets.report.charts import bins_of, nice_step
from rpd_datasets.report.funnel import funnel
from rpd_datasets.report.measures import measure, percentile
from rpd_datasets.report.reading import spread
from rpd_metric.errors import InputError

EVIL = (
    "<script>window.ran = 1</script><img src=x onerror='window.ran = 2'></script></style></title>"
    "]]><svg onload=window.ran=3><a href='javascript:window.ran=4'>x</a>\"' autofocus "
    "onfocus='window.ran=5' {{ 7 * 7 }} <!-- $\\href{javascript:window.ran=6}{x}$ "
    "$\\text{</script><script>window.ran=7</script>}$"
)


def the_page(folder: Path, embedder=None, max_problems: int = 100) -> str:
    page = folder.parent / "out" / "report.html"
    curated = read_curated(folder, max_problems)
    write_report(curated, page, embedder or HashEmbedder(), figures=False)
    return page.read_text(encoding="utf-8")


def words(page: str) -> str:
    """The page's text, without its style sheet and script, in one line."""
    body = re.sub(r"<(style|script)>.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", body).split())


@pytest.fixture(scope="module")
def evil_page(tmp_path_factory) -> Path:
    """A report in which every text that comes from outside tries to run a script."""
    row = a_row(
        EVIL,
        solutions=[EVIL, f"A {EVIL}", EVIL * 90, f"B {EVIL}"],
        steps=[[EVIL, "Subtract."], STEPS[1], [], [*STEPS[3], f"C {EVIL}"]],
        drop_reasons=["", "", EVIL, ""],
        **{EVIL: EVIL, "per_solution": [EVIL] * 4, "nested": {EVIL: [EVIL]}},
    )
    folder = tmp_path_factory.mktemp("evil") / "curated"
    write_folder(
        folder,
        [row, a_row("Find $\\frac{1}{2}+\\frac{1}{3}$."), a_row("How many triangles are there?")],
        not_chosen=[0.4, 0.2, None],
        rejects=[Rejected("filter", EVIL, EVIL, EVIL, EVIL, 2)],
    )
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["input"]["name"] = manifest["summarizer"]["name"] = EVIL
    (folder / "manifest.json").write_text(json.dumps(manifest))
    the_page(folder, HashEmbedder(EVIL))
    return folder.parent / "out" / "report.html"


@pytest.fixture(scope="module")
def window(evil_page, tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("browser") / "profile") as browser:
        browser.get(evil_page.as_uri())
        yield browser


class TestInABrowser:
    def test_no_script_from_the_data_runs(self, window):
        window.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")
        assert window.execute_script("return window.ran === undefined")
        assert window.execute_script("return document.scripts.length") == 1
        assert (
            window.execute_script(
                "return [...document.querySelectorAll('*')].filter(e => "
                "[...e.attributes].some(a => a.name.startsWith('on') || a.name === 'style' || "
                "/javascript:/i.test(a.value) && a.name !== 'data-search'))"
                ".length"
            )
            == 0
        )
        assert window.execute_script("return document.querySelectorAll('img, iframe').length") == 0
        # A blocked script or style would be reported here: not even an attempt is made.
        assert window.get_log("browser") == []

    def test_the_texts_are_read_as_they_were_written(self, window):
        text = window.execute_script("return document.querySelector('.statement').textContent")
        assert text.startswith("<script>window.ran = 1</script><img src=x onerror=")
        assert "{{ 7 * 7 }}" in text

    def test_the_policy_stops_what_would_be_slipped_in(self, window):
        from selenium.common.exceptions import JavascriptException

        with pytest.raises(JavascriptException, match="requires 'TrustedScript'"):
            window.execute_script("document.body.setAttribute('onclick', 'window.ran = 8')")
        window.execute_script(
            "const a = document.createElement('a'); a.href = 'javascript:window.ran = 9';"
            "document.body.append(a); a.click(); a.remove()"
        )
        assert window.execute_script("return window.ran === undefined")
        # The browser says so, too; the log is read here so that it is empty for other tests.
        messages = [entry["message"] for entry in window.get_log("browser")]
        assert any("violates the following Content Security Policy" in m for m in messages)

    def test_nothing_is_loaded(self, window):
        entries = "return performance.getEntriesByType('resource').length"
        assert window.execute_script(entries) == 0

    def test_search_finds_problems_by_their_words_and_says_how_many(self, window):
        box = window.find_element("id", "search")
        found = window.find_element("id", "found")
        assert found.text == "6 of 6 problems"
        box.send_keys("TRIANGLES many")
        assert found.text == "1 of 6 problems"
        shown = "return [...document.querySelectorAll('.case:not([hidden])')].map(e => e.id)"
        assert window.execute_script(shown) == ["p3"]
        box.send_keys("nowhere")
        assert window.find_element("id", "nothing").is_displayed()
        box.send_keys("\N{ESCAPE}")
        assert found.text == "6 of 6 problems"

    def test_the_list_of_problems_can_be_narrowed_to_the_chosen_ones(self, window):
        from selenium.webdriver.support.ui import Select

        which = Select(window.find_element("id", "which"))
        which.select_by_value("other")
        assert window.find_element("id", "found").text == "3 of 6 problems"
        which.select_by_value("all")

    def test_headings_sort_by_keyboard_and_say_so(self, window):
        from selenium.webdriver.common.keys import Keys

        score = window.find_elements("css selector", ".problems thead th")[2]
        column = "return [...document.querySelectorAll('.problems tbody tr')].map(r => Number("
        values = f"{column} r.cells[2].dataset.value))"
        button = score.find_element("css selector", "button")
        button.send_keys(Keys.ENTER)
        assert score.get_attribute("aria-sort") == "descending"
        down = window.execute_script(values)
        assert down == sorted(down, reverse=True)
        button.send_keys(Keys.SPACE)
        assert score.get_attribute("aria-sort") == "ascending"
        assert window.execute_script(values) == sorted(down)

    def test_a_link_opens_its_problem_and_moves_the_focus_there(self, window):
        from selenium.webdriver.common.keys import Keys

        window.execute_script("document.getElementById('close').click()")
        assert window.find_element("id", "p2").get_attribute("open") is None
        window.find_element("css selector", "a[href='#p2']").send_keys(Keys.ENTER)
        window.execute_async_script("requestAnimationFrame(() => arguments[0]())")
        assert window.find_element("id", "p2").get_attribute("open") is not None
        focused = "return document.activeElement.parentElement.id"
        assert window.execute_script(focused) == "p2"

    def test_every_control_is_reached_by_tab_shows_the_focus_and_has_a_name(self, window):
        from selenium.webdriver.common.keys import Keys

        page = window.current_url.partition("#")[0]
        window.get("about:blank")
        window.get(page)
        reached = set()
        for _ in range(80):
            window.switch_to.active_element.send_keys(Keys.TAB)
            kind, name, outline = window.execute_script(
                "const e = document.activeElement; return [e.tagName + (e.id && '#' + e.id), "
                "e.textContent.trim() || e.labels?.[0]?.textContent || e.ariaLabel, "
                "getComputedStyle(e).outlineStyle]"
            )
            if kind in ("BODY", "HTML"):
                break
            assert name, kind
            assert outline == "solid", kind
            reached.add(kind)
        assert {"A", "INPUT#search", "SELECT#which", "BUTTON", "BUTTON#open", "SUMMARY"} <= reached

    def test_formulas_are_drawn_by_the_browser(self, window):
        fraction = window.find_element("css selector", "#p2 .statement mfrac")
        assert fraction.size["height"] > 15  # as source it would be one wide line
        assert fraction.size["width"] < fraction.size["height"]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_fits_a_phone_and_reads_well_in_light_and_dark(evil_page, tmp_path, dark):
    with chromium(tmp_path / "profile", dark=dark, width=390) as window:
        window.get(evil_page.as_uri())
        wide = "return [document.documentElement.scrollWidth, window.innerWidth]"
        assert window.execute_script(wide) == [390, 390]
        # WCAG 2's contrast of every cell of the heat map and of running text.
        ratios = window.execute_script(
            """
            const parse = c => c.match(/[\\d.]+/g).map(Number);
            const light = c => {
              const [r, g, b] = parse(c).map(v => (v /= 255) <= 0.03928 ? v / 12.92
                : ((v + 0.055) / 1.055) ** 2.4);
              return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            };
            const ground = e => {
              const c = getComputedStyle(e).backgroundColor;
              return parse(c)[3] === 0 ? ground(e.parentElement) : c;
            };
            const table = document.querySelector('table.heat');
            for (let q = 0; q <= 10; q++) {
              const cell = table.tBodies[0].insertRow().insertCell();
              cell.className = 'q' + q;
            }
            return [...document.querySelectorAll('.heat td, p, dt, .facts, figcaption, a, th')]
              .map(e => {
                const [a, b] = [light(getComputedStyle(e).color), light(ground(e))];
                return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
              });
            """
        )
        assert min(ratios) >= 4.5
        page = window.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (page == "rgb(20, 24, 27)") is dark


class TestThePage:
    def test_equal_inputs_give_equal_bytes_without_a_path_or_a_date(self, tmp_path):
        folder = write_folder(tmp_path / "curated", [a_row(), a_row("Another?")])
        page = the_page(folder)
        again = the_page(
            write_folder(tmp_path / "elsewhere" / "curated", [a_row(), a_row("Another?")])
        )
        assert page == again
        assert str(tmp_path) not in page
        assert not re.search(r"20\d\d-\d\d-\d\d", page)

    def test_the_policy_names_the_only_script_and_style_sheet(self, evil_page):
        page = evil_page.read_text(encoding="utf-8")
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
        assert "default-src &#39;none&#39;" in policy
        assert "unsafe" not in policy
        for tag in ("script", "style"):
            (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert f"{tag}-src &#39;sha256-{digest}&#39;" in policy
        assert "http" not in re.sub(r'http-equiv="', "", page)

    def test_it_says_who_made_the_steps_the_embeddings_and_the_choice(self, tmp_path):
        text = words(the_page(write_folder(tmp_path / "curated", [a_row()], selection="exact")))
        assert "Steps by extractive (no language model: passages of the solution itself)" in text
        assert "Embeddings by hash" in text
        assert "Solutions chosen by rpd, exact: the subset with the largest smallest" in text

    def test_left_out_solutions_and_carried_columns_are_shown(self, tmp_path):
        row = a_row(source="a textbook", correct=[True, False, True, True])
        text = words(the_page(write_folder(tmp_path / "curated", [row])))
        assert "Left out: solution 2 (duplicate)" in text
        assert "source a textbook" in text
        assert "chosen first · 35 tokens · correct: True" in text

    def test_matches_name_the_steps_and_equal_steps_are_at_distance_zero(self, tmp_path):
        row = a_row(steps=[STEPS[2], STEPS[1], [], STEPS[3]])
        text = words(the_page(write_folder(tmp_path / "curated", [row])))
        assert "Step of solution 3 Closest step of solution 0 Distance" in text
        assert (
            "1 Compare both sides of the equation. 3 Compare both sides of the equation. 0.000"
            in text
        )

    def test_another_embedder_is_named_and_none_leaves_its_parts_out(self, tmp_path):
        folder = write_folder(tmp_path / "curated", [a_row()])
        assert "this report with another : matches need not" in words(
            the_page(folder, HashEmbedder("another"))
        )
        write_report(read_curated(folder, 5), tmp_path / "none.html", None, figures=False)
        text = words((tmp_path / "none.html").read_text())
        assert "No embedder was used" in text
        assert "raw text" not in text
        assert "RPD of all pairs" in text

    def test_problems_drawn_without_steps_have_a_report_too(self, tmp_path):
        folder = write_folder(
            tmp_path / "curated", [a_row()], with_steps=False, problems="random", solutions="random"
        )
        text = words(the_page(folder))
        assert "Problems chosen by random Solutions chosen by random Tokens" in text
        assert "Histogram" not in text.partition("raw-text")[0]
        assert "Raw-text distance: quartiles" in text
        assert "RPD of all pairs" not in text

    def test_the_distance_that_chose_is_shown_beside_rpd(self, tmp_path):
        matrix = [
            [0, 0.125, None, 0.375],
            [0.125, 0, None, 0.25],
            [None] * 4,
            [0.375, 0.25, None, 0],
        ]
        folder = write_folder(
            tmp_path / "curated", [a_row(distance_matrix=matrix)], solutions="raw"
        )
        text = words(the_page(folder))
        assert "raw of all pairs" in text
        assert "0.38" in text
        assert "distance_matrix" not in text

    def test_a_long_solution_is_cut_in_the_middle_and_says_so(self, tmp_path):
        solutions = ["start " + "x" * 20_000 + " end", "b", "c", "d"]
        page = the_page(write_folder(tmp_path / "curated", [a_row(solutions=solutions)]))
        assert "13,010 characters are left out here" in words(page)
        assert page.count("x" * 5001) == 0

    def test_53_000_problems_stay_readable_and_the_sample_is_stated(self, tmp_path):
        rng = np.random.default_rng(0)
        folder = write_folder(
            tmp_path / "curated",
            [a_row(f"Problem number {index}?") for index in range(250)],
            not_chosen=list(rng.random(52_750)),
            rejects=[
                Rejected("filter", "too_long", f"rows:{i}", f"It has {i} tokens.") for i in range(9)
            ],
        )
        page = the_page(folder, max_problems=20)
        text = words(page)
        assert "Of 250 chosen problems, 20 are shown, spread evenly over the ranks" in text
        assert "The table of problems holds 320 of 53,000" in text
        assert page.count('class="case"') == 20
        assert "Problem number 0?" in text
        assert "Problem number 249?" in text
        assert "Problem scores of all 53,000 scored problems" in text
        assert "rows:2: It has 2 tokens." in text
        assert "rows:3:" not in text
        assert len(page) < 2_000_000


class TestMeasures:
    def test_matches_of_a_pair_average_to_its_stored_distance(self, tmp_path):
        folder = write_folder(tmp_path / "curated", [a_row(), a_row(selected=[0, 1, 3])])
        measures = measure(read_curated(folder, 5).shown, HashEmbedder())
        pairs = [pair for case in measures.cases for pair in case.pairs]
        assert len(pairs) == 4
        for pair in pairs:
            mean = np.mean([match.distance for match in pair.matches])
            assert mean == pytest.approx(pair.rpd, abs=1e-6)
        assert len(measures.rpd) == len(measures.raw) == 6

    def test_the_raw_distance_is_the_cosine_distance_of_the_whole_texts(self, tmp_path):
        shown = read_curated(write_folder(tmp_path / "curated", [a_row()]), 5).shown
        (pair,) = measure(shown, HashEmbedder()).cases[0].pairs
        a, b = HashEmbedder().encode([shown[0].solutions[0], shown[0].solutions[3]])
        expected = 1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b)
        assert pair.raw == pytest.approx(float(expected), abs=1e-6)

    def test_the_plane_keeps_the_largest_variance_and_does_not_flip(self, tmp_path):
        shown = read_curated(write_folder(tmp_path / "curated", [a_row()]), 5).shown
        plane = measure(shown, HashEmbedder()).cases[0].plane
        assert [len(points) for points in plane.steps.values()] == [2, 3]
        assert 1 >= plane.explained[0] >= plane.explained[1] > 0
        everything = np.concatenate([*plane.steps.values(), np.array(list(plane.texts.values()))])
        np.testing.assert_allclose(everything.mean(axis=0), 0, atol=1e-6)
        again = measure(shown, HashEmbedder()).cases[0].plane
        np.testing.assert_array_equal(plane.texts[0], again.texts[0])

    def test_a_percentile_counts_ties_half(self):
        assert percentile(np.array([0.0, 1.0, 1.0, 2.0]), 1.0) == 50.0
        assert percentile(np.array([0.0, 1.0]), 5.0) == 100.0

    def test_bins_hold_every_value_once_and_the_marked_ones_again(self):
        values = [0.0, 0.1, 0.3, 0.3, 0.30000000000000004, 1.0]
        bins = bins_of(values, values[:2])
        assert (bins.counts.sum(), bins.marked.sum()) == (6, 2)
        assert (bins.marked <= bins.counts).all()
        assert bins_of([]).counts.sum() == 0
        assert bins_of([0.0, 0.0]).counts.sum() == 2

    @pytest.mark.parametrize("span", [0.003, 0.99, 1, 7, 53_000])
    def test_steps_of_an_axis_are_round_and_few(self, span):
        step = nice_step(span, 5)
        assert span / step <= 5.01
        assert float(f"{step:.1e}") == step

    def test_a_sample_is_spread_from_first_to_last(self):
        assert spread(250, 3) == [0, 124, 249]
        assert len(set(spread(101, 100))) == 100


def test_a_funnel_adds_up_from_read_to_chosen(tmp_path):
    rejects = [
        Rejected("read", "bad_json", "rows.jsonl:9", "not JSON"),
        Rejected("filter", "too_few_solutions", "rows.jsonl:3", "2 of 4"),
        Rejected("filter", "duplicate", "rows.jsonl:1", "same as 0", "p", 2),
    ]
    folder = write_folder(tmp_path / "curated", [a_row()], not_chosen=[0.5, None], rejects=rejects)
    for unit, expected in (
        ("problem", [3, -1, 3, -1, 2, -1, 1]),
        ("solution", [12, -1, 11, -9, 2]),
    ):
        levels = funnel(read_curated(folder, 5), unit)
        assert [-lv.count if lv.gone else lv.count for lv in levels] == expected
    assert levels[1].examples == ("rows.jsonl:1, solution 2: same as 0",)


class TestErrors:
    def test_what_is_no_curated_folder_is_refused(self, tmp_path):
        with pytest.raises(
            InputError, match=r"has no manifest.json: name a folder that rpd curate"
        ):
            read_curated(tmp_path, 5)

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("manifest.json", "{", "is not JSON"),
            ("manifest.json", '{"format": 2}', "another version"),
            ("scores.jsonl", '{"rank": 0}\n', "scores.jsonl:1 is no score"),
            ("rejects.jsonl", '{"stage": "filter"}\n', r"rejects\.jsonl:1 is no reject"),
            ("data/train-00000-of-00001.parquet", "no table", "cannot be read"),
        ],
    )
    def test_a_broken_file_is_named(self, tmp_path, name, text, message):
        rejects = [Rejected("filter", "duplicate", "rows.jsonl:1", "detail")]
        folder = write_folder(tmp_path / "curated", [a_row()], rejects=rejects)
        (folder / name).write_text(text)
        with pytest.raises(InputError, match=message):
            read_curated(folder, 5)

    def test_scores_of_another_run_are_noticed(self, tmp_path):
        folder = write_folder(tmp_path / "curated", [a_row()])
        other = write_folder(tmp_path / "other", [a_row(), a_row("Another?")])
        (other / "scores.jsonl").rename(folder / "scores.jsonl")
        with pytest.raises(InputError, match=r"holds 1 problems, but scores\.jsonl says that 2"):
            read_curated(folder, 5)

    def test_the_report_is_an_html_file_and_nothing_else_is_overwritten(self, tmp_path):
        curated = read_curated(write_folder(tmp_path / "curated", [a_row()]), 5)
        with pytest.raises(InputError, match=r"name it README\.html"):
            write_report(curated, tmp_path / "curated" / "README.md", HashEmbedder())


class TestTheCommand:
    def test_a_curated_sample_gets_a_report_and_still_loads_as_a_dataset(self, tmp_path, capsys):
        out = tmp_path / "curated"
        assert (
            main(["curate", "sample", "--num-problems", "2", "--limit", "4", "-o", str(out)]) == 0
        )
        capsys.readouterr()
        assert main(["report", str(out), "--json"]) == 0
        result = json.loads(capsys.readouterr().out)
        assert result["problems_shown"] == result["problems_chosen"] == 2
        assert result["pairs"] == 30
        assert result["embedder"] == "minilm"
        assert result["median_rpd"] > 0 < result["median_raw"]
        text = words((out / "report.html").read_text(encoding="utf-8"))
        assert "Curation report sample" in text
        assert "but raw-text distances" not in text  # the embedder is the one that curated
        assert all(Path(path).read_bytes().startswith(b"\x89PNG") for path in result["figures"])
        assert len(datasets.load_dataset(str(out), split="train")) == 2

    def test_without_an_embedder_and_figures_it_needs_no_model(self, tmp_path, capsys):
        folder = write_folder(tmp_path / "curated", [a_row()])
        page = tmp_path / "there" / "page.html"
        command = ["report", str(folder), "--embedder", "none", "--no-figures", "-o", str(page)]
        assert main(command) == 0
        assert f"Written to {page}" in capsys.readouterr().out
        assert [path.name for path in page.parent.iterdir()] == ["page.html"]

    def test_an_embedder_that_cannot_be_loaded_is_one_line_that_says_what_to_do(
        self, tmp_path, capsys
    ):
        folder = write_folder(tmp_path / "curated", [a_row()])
        assert main(["report", str(folder)]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert "was made with the embedder 'hash', which cannot be loaded by that name" in line
        assert "--embedder none" in line
