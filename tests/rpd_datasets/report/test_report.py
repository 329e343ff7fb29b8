"""The report of a curated folder: what it says, and that nothing in it can do harm."""

import base64
import json
import re
import zlib
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from parts.browser import chromium, drawn, ready
from parts.curated_folder import STEPS, a_row, change_manifest, write_folder
from parts.rows import write_rows
from rpd_datasets.cli import main
from rpd_datasets.problem import Rejected
from rpd_datasets.report import read_curated, write_report
from rpd_datasets.report.archive import LIMITS, archive
from rpd_datasets.report.charts import draw_card_figures, palette
from rpd_datasets.selection.decisions import read_decisions
from rpd_metric.distance.measured import CHAT, read_evidence
from rpd_metric.errors import InputError

EVIL = (
    "<script>window.ran = 1</script><img src=x onerror='window.ran = 2'></script></style></title>"
    "]]><svg onload=window.ran=3><a href='javascript:window.ran=4'>x</a>\"' autofocus "
    "onfocus='window.ran=5' {{ 7 * 7 }} <!-- $\\href{javascript:window.ran=6}{x}$ "
    "$\\text{</script><script>window.ran=7</script>}$"
)
# In brackets a sum does not break.
LONG = " + ".join(rf"{k} \cdot {k + 1}" for k in range(1, 13))
CODE = "Go through them:\n```python\nfor n in range(9):\n    print($n$)\n```\nand add."
HEBREW = "\u05e0\u05d7\u05d1\u05e8 $1+1$."
CHOSEN_BY = [[0, 0.125, None, 0.375], [0.125, 0, None, 0.25], [None] * 4, [0.375, 0.25, None, 0]]


def the_page(folder: Path, max_problems: int = 100) -> str:
    page = folder.parent / "out" / "report.html"
    write_report(read_curated(folder, max_problems), page)
    return page.read_text(encoding="utf-8")


def words(page: str) -> str:
    """The page's text, without its style sheet and script, in one line."""
    body = re.sub(r"<(style|script)[^>]*>.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", body).split())


def embedded(page: str) -> tuple[list, list]:
    """The list of problems, and the problems, that a page holds."""

    def unpack(name: str) -> list:
        (packed,) = re.findall(rf'<script type="text/plain" id="{name}">([^<]*)</script>', page)
        return json.loads(zlib.decompress(base64.b64decode(packed)))

    pieces = len(re.findall(r'id="piece\d+"', page))
    return unpack("index"), [one for n in range(pieces) for one in unpack(f"piece{n}")]


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
        [
            row,
            a_row(
                "Find **exactly** $\\frac{1}{2}+\\frac{1}{3}$.",
                strategies=[0, 1, None, 0],
                strategy_names=["a common denominator", EVIL],
            ),
            a_row(
                f"How many are there? ${LONG}$ or $({LONG})$",
                solutions=list("abcd"),
                steps=[[CODE, HEBREW], STEPS[1], [], STEPS[3]],
            ),
        ],
        not_chosen=[0.4, 0.2, None],
        rejects=[
            Rejected("filter", EVIL, EVIL, EVIL, EVIL, 2),
            Rejected("filter", "duplicate", "rows.jsonl:2", "The same text as solution 0.", "", 2),
            Rejected("filter", "too_few", "rows.jsonl:99", "Only two are there.", "left-out-one"),
        ],
    )
    change_manifest(folder, input={"name": EVIL}, summarizer={"name": EVIL})
    the_page(folder)
    return folder.parent / "out" / "report.html"


@pytest.fixture(scope="module")
def window(evil_page, tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("browser") / "profile") as browser:
        browser.get(evil_page.as_uri())
        yield browser


def press(window, *keys: str) -> None:
    """Press keys one by one, each drawn before the next."""
    for key in keys:
        window.switch_to.active_element.send_keys(key)
        drawn(window)


def text_of(window, css: str) -> str:
    script = "return document.querySelector(arguments[0])?.textContent ?? ''"
    return " ".join(window.execute_script(script, css).split())


def search(window, words: str) -> str:
    box = window.find_element("id", "search")
    box.clear()
    box.send_keys(words)
    return window.find_element("id", "found").text


@pytest.mark.slow
class TestInABrowser:
    @pytest.fixture(autouse=True)
    def fresh(self, window, evil_page):
        window.get("about:blank")
        window.get(evil_page.as_uri())
        ready(window)

    def test_no_script_from_the_data_runs_and_texts_stand_as_written(self, window):
        from selenium.common.exceptions import JavascriptException

        window.execute_script("document.getElementById('list').focus()")
        for _ in range(7):
            press(window, "j")
            window.execute_script(
                "for (const e of document.querySelectorAll('#problem details')) e.open = true"
            )
            press(window, "r")
        window.execute_script("location.hash = '#p1'")
        window.refresh()
        ready(window)
        # Nothing was loaded from elsewhere, and nothing went wrong.
        assert window.execute_script("return performance.getEntriesByType('resource').length") == 0
        assert window.get_log("browser") == []
        asked = text_of(window, ".asked")
        assert asked.startswith("<script>window.ran = 1</script><img src=x onerror=")
        assert "{{ 7 * 7 }}" in asked
        assert window.execute_script("return document.querySelectorAll('main a, img').length") == 0
        with pytest.raises(JavascriptException, match="requires 'TrustedHTML'"):
            window.execute_script("document.body.innerHTML = '<p>'")
        assert window.execute_script("return window.ran === undefined")
        window.get_log("browser")  # read here so that it is empty for other tests

    def test_a_walk_through_list_search_and_reading_view_by_keyboard(self, window):
        assert search(window, "") == "7 of 7 problems"
        assert search(window, "picture shows 2") == "1 of 7 problems"  # in a solution's text
        press(window, "\N{ESCAPE}")
        assert window.find_element("id", "found").text == "7 of 7 problems"
        press(window, "j", "j")
        assert "rank 2" in text_of(window, "#problem .facts")
        fraction = window.find_element("css selector", ".asked mfrac")
        assert fraction.size["width"] < fraction.size["height"]  # as source it is one wide line
        assert text_of(window, ".asked strong") == "exactly"
        # The full stop stays with its formula, however narrow the window.
        assert text_of(window, ".asked math mtext") == "."
        others = text_of(window, ".others")
        assert "compared, not chosen: others are further apart. Distance 0." in others
        assert "left out: duplicate (The same text as solution 0.)" in others
        press(window, "r")
        texts = window.find_elements("css selector", ".solutions .fulltext")
        assert [one.is_displayed() for one in texts] == [True, True]
        assert "Solution 3: a common denominator" in text_of(window, ".solutions h4")
        assert EVIL.split()[0] in text_of(window, ".others h4")
        by_name = "const e = document.getElementById('strategy'); e.value = arguments[0]"
        by_name += "; e.dispatchEvent(new Event('input'))"
        for name, found in (("a common denominator", 1), ("", 7)):
            window.execute_script(by_name, name)
            assert window.find_element("id", "found").text == f"{found} of 7 problems"
        press(window, "/")
        window.switch_to.active_element.send_keys("left-out-one")
        press(window, "\ue007")
        assert "too few: Only two are there." in text_of(window, "#problem")
        press(window, "o")
        assert window.find_element("id", "overview").is_displayed()

    def test_code_keeps_its_lines_in_a_step_and_a_text_has_its_own_direction(self, window):
        window.execute_script("document.querySelectorAll('.entry')[2].click()")
        press(window, "r")
        script = "return document.querySelector('#problem .solutions .steps pre').textContent"
        assert window.execute_script(script) == "for n in range(9):\n    print($n$)"
        script = (
            "return [...document.querySelectorAll('#problem .steps li')]"
            ".map(e => [e.textContent.trim(), getComputedStyle(e).unicodeBidi])"
            ".filter(([text]) => text.startsWith('\u05e0'))"
        )
        assert [bidi for _, bidi in window.execute_script(script)] == ["plaintext"]
        assert window.execute_script("return document.querySelector('.asked').dir") == "auto"

    def test_marks_are_kept_and_saved_for_rpd_curate(self, window, tmp_path):
        window.execute_script(
            "window.saved = []; URL.createObjectURL = blob => { window.saved.push(blob); "
            "return 'blob:x' }; HTMLAnchorElement.prototype.click = () => {}"
        )
        window.execute_script("document.getElementById('list').focus()")
        press(window, "j", "j")
        window.find_element("css selector", "[aria-label='keep solution 0']").click()
        window.find_element("css selector", "[aria-label='reject solution 3']").click()
        window.find_element("id", "save").click()
        text = window.execute_async_script("window.saved[0].text().then(arguments[0])")
        file = tmp_path / "marks.json"
        file.write_text(text)
        assert read_decisions(str(file)) == {("k1", 0): "keep", ("k1", 3): "reject"}


@pytest.mark.slow
def test_the_page_fits_a_phone_in_the_dark(evil_page, tmp_path):
    with chromium(tmp_path / "profile", dark=True, width=390) as window:
        window.get(evil_page.as_uri())
        ready(window)
        wide = "return ['html', '#detail'].map(e => document.querySelector(e).scrollWidth)"
        assert window.execute_script(wide)[0] == 390
        for place in (2, 0):  # the long sums, then the longest texts
            window.execute_script(f"document.querySelectorAll('.entry')[{place}].click()")
            drawn(window)
            assert window.execute_script(wide) == [390, 390]
        assert not window.find_element("id", "side").is_displayed()
        page = window.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert page == "rgb(20, 24, 27)"
        window.find_element("id", "back").click()
        assert window.find_element("id", "list").is_displayed()


def test_equal_inputs_give_equal_bytes_without_a_path_or_a_date(tmp_path):
    folder = write_folder(tmp_path / "curated", [a_row(), a_row("Another?")])
    page = the_page(folder)
    elsewhere = write_folder(tmp_path / "b" / "curated", [a_row(), a_row("Another?")])
    assert page == the_page(elsewhere)
    assert str(tmp_path) not in page
    assert not re.search(r"20\d\d-\d\d-\d\d", page)


def test_strategies_reasons_and_carried_columns_stand_beside_their_solutions(tmp_path):
    row = a_row(strategies=[0, 1, 1, 0], strategy_names={"0": "by parts"}, source="a textbook")
    row |= {"correct": [True, False, True, False], "subject": "sums"}
    index, (problem,) = embedded(the_page(write_folder(tmp_path / "curated", [row])))
    assert problem["solutions"][0]["beside"] == {"correct": "True", "strategy": "by parts"}
    assert problem["solutions"][1]["beside"]["strategy"] == "1"
    assert problem["solutions"][2]["dropped"] == "duplicate"
    carried = {"source": "a textbook", "subject": "sums"}
    assert problem["carried"].items() >= carried.items()
    assert (index[0]["wrong"], index[0]["subject"]) == (1, "sums")


def test_the_distance_that_chose_is_shown_beside_rpd_and_read_by_labelled_pairs(tmp_path):
    row = a_row(distance_matrix=CHOSEN_BY)
    folder = write_folder(tmp_path / "curated", [row], solutions="strategy")
    page = the_page(folder)
    _, (problem,) = embedded(page)
    assert problem["distances"][0] == [0, 125, None, 375]
    assert "distance_matrix" not in problem["carried"]
    assert problem["pairs"][0]["says"] is None  # no pairs were labelled with this encoder
    chose = "Distance strategy, by which solutions were chosen"
    assert chose in words(page)
    evidence = read_evidence().about(["rpd", "strategy"], "minilm", CHAT).as_dict()
    made_by = {"embedder": {"name": "minilm"}, "summarizer": {"name": "Qwen/Qwen3-14B"}}
    change_manifest(folder, evidence=evidence, **made_by)
    page = the_page(folder)
    (pair,) = embedded(page)[1][0]["pairs"]
    says = "almost surely the same method"  # at a distance of 0.375
    assert pair == {"first": 0, "second": 3, "says": says}
    assert "strategy, the chance of another method at a distance of 0.1: 0%" in words(page)


def test_a_corpus_too_large_for_a_page_is_cut_and_says_so(tmp_path):
    rng = np.random.default_rng(0)
    long = [rng.bytes(4_000).hex() for _ in range(4)]
    folder = write_folder(tmp_path / "curated", [a_row(solutions=long) for _ in range(50)])
    curated = read_curated(folder, 100)
    packed = archive(curated, budget=250_000)
    assert len(packed.index) + sum(map(len, packed.pieces)) <= 250_000
    assert packed.limits != LIMITS[0]
    first = json.loads(zlib.decompress(base64.b64decode(packed.pieces[0])))[0]["solutions"]
    chosen, other = first[3], first[1]
    assert len(chosen["text"]) > len(other["text"])
    assert len(other["text"]) + other["omitted"] + len(other["tail"]) == 8_000
    assert long[1].startswith(other["text"])
    assert long[1].endswith(other["tail"])
    assert archive(curated).limits == LIMITS[0]


def test_53_000_problems_stay_readable_and_the_sample_is_stated(tmp_path):
    rng = np.random.default_rng(0)
    folder = write_folder(
        tmp_path / "curated",
        [a_row(f"Problem number {index}?") for index in range(250)],
        not_chosen=list(rng.random(52_750)),
    )
    page = the_page(folder, max_problems=20)
    text = words(page)
    assert "Of 250 chosen problems, 20 are shown, spread evenly over the ranks" in text
    assert "The list holds 3,020 of 53,000 problems" in text
    index, problems = embedded(page)
    assert (len(index), len(problems)) == (3020, 20)
    assert problems[-1]["problem"] == "Problem number 249?"
    assert len(page) < 2_000_000


def test_the_verdict_stands_at_the_top_and_a_log_is_no_choice(tmp_path):
    folder = write_folder(tmp_path / "curated", [a_row()])
    answers = {"by": "", "chosen": {"right": 0, "wrong": 0, "not_checked": 3}}
    why = {"answer": "not measured", "why": "<pieces>"}
    change_manifest(folder, outcome={"answers": answers, "better_than_random": why})
    page = the_page(folder)
    verdict = '<p class="verdict"><b>Better than random</b> not measured (&lt;pieces&gt;)</p>'
    assert page.index("<h1>") < page.index(verdict) < page.index('id="filters"')
    assert "problems chosen 1" in words(page)
    log = replace(read_curated(folder, 9), word="picked")
    write_report(log, tmp_path / "log.html")
    shown = words((tmp_path / "log.html").read_text())
    assert "problems picked 1" in shown
    assert "Better than random" not in shown
    assert not re.search(r"chosen (problem|solution)|(problem|solution)s chosen", shown)


def test_charts_are_files_of_their_own_too(tmp_path):
    """One drawing: what a card shows is what the page shows, in its light colours."""
    folder = read_curated(write_folder(tmp_path / "curated", [a_row()]), 9)
    page = write_report(folder, tmp_path / "report.html").page.read_text(encoding="utf-8")
    colours, score = palette(), [folder.scores[0]["score"]]
    assert colours["page"] == "#fbfbfa"  # the light colours, not the dark ones
    figures = draw_card_figures(score, score, folder.selected_tokens)
    for kind, name in (("accent", "problem_scores.svg"), ("tokens", "token_lengths.svg")):
        root = ElementTree.fromstring(figures[name])
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        text = figures[name].decode()
        assert colours[kind] in text
        assert text.strip().partition("/>")[2] in page  # behind its own style sheet and ground
    assert sorted(draw_card_figures([], [], [3, 4])) == ["token_lengths.svg"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("manifest.json", "{", "is not JSON"),
        ("manifest.json", '{"format": 1}', "another version"),
        ("scores.jsonl", '{"rank": 0}\n', "scores.jsonl:1 is not a score"),
        ("rejects.jsonl", '{"stage": "filter"}\n', r"rejects\.jsonl:1 is not a reject"),
        ("data/train-00000-of-00001.parquet", "no table", "cannot be read"),
    ],
)
def test_a_broken_file_is_named(tmp_path, name, text, message):
    rejects = [Rejected("filter", "duplicate", "rows.jsonl:1", "detail")]
    folder = write_folder(tmp_path / "curated", [a_row()], rejects=rejects)
    (folder / name).write_text(text)
    with pytest.raises(InputError, match=message):
        read_curated(folder, 5)


def test_it_shows_the_stored_distances_and_needs_no_model(tmp_path, capsys):
    folder = write_folder(tmp_path / "curated", [a_row(), a_row(selected=[0, 1, 3])])
    page = tmp_path / "there" / "page.html"
    assert main(["report", str(folder), "-o", str(page)]) == 0  # its embedder is none that exists
    assert f"Written to {page}" in capsys.readouterr().out
    assert [path.name for path in page.parent.iterdir()] == ["page.html"]
    assert "All 6 pairs of compared solutions" in words(page.read_text())
    assert "is the 4 pairs of chosen solutions" in words(page.read_text())
    _, (problem, other) = embedded(page.read_text())
    assert problem["rpd"][0][1] > 0
    pairs = [(pair["first"], pair["second"]) for pair in other["pairs"]]
    assert pairs == [(0, 1), (0, 3), (1, 3)]


def test_a_file_of_solutions_gets_a_page_of_the_right_ones(tmp_path, capsys):
    row = {"problem": "What is 2 + 2?", "is_correct": [True, False, True, True]}
    row["solutions"] = ["Count up from two. So 4.", "Guess 5.", "Double two: 4.", "Add. It is 4."]
    file = write_rows(tmp_path / "samples.jsonl", [row])
    assert main(["report", str(file), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["problems_shown"], result["problems_chosen"]) == (1, 1)
    assert result["outcome"]["median"]["chosen"] > 0
    _, (problem,) = embedded((tmp_path / "samples-report.html").read_text())
    assert problem["solutions"][1]["dropped"] == "incorrect"
