"""The page of a metric Space: paste solutions or steps, see how far apart they are, and why.

Like `rpd_metric/metrics/rpd/rpd.py` this file is copied into a Space, there as `app.py`; it runs
here as well: `python -m rpd_datasets.publish.space.app`. It needs no network: MiniLM comes with its
package, steps are taken without a language model, fonts are the system's. Formulas and Markdown of
solutions are drawn by Gradio, which lets no HTML through that could run.
"""

from __future__ import annotations

import re
import sys
from html import escape
from pathlib import Path

# A wheel beside this file can be imported as it is; what is installed comes first.
sys.path += [str(wheel) for wheel in Path(__file__).parent.glob("rpd_metric-*.whl")]

import gradio as gr
import numpy as np
import numpy.typing as npt

from rpd_metric.distance.calibration import load_calibration
from rpd_metric.distance.core import mean_pairwise, rpd_alignment, rpd_matrix
from rpd_metric.errors import InputError
from rpd_metric.models.concurrency import run
from rpd_metric.models.embedders import Embedder
from rpd_metric.models.kinds import load_embedder
from rpd_metric.steps.summarizers import load_summarizer

SOLUTIONS, STEPS = "solutions", "steps, one per line"
MAX_ENTRIES = 6
MAX_CHARACTERS = 100_000
# The packaged curves come from solutions of a hundred words and more.
FEW_WORDS = 25
EXAMPLE = (
    "What is the sum of the first 100 positive integers?",
    SOLUTIONS,
    "Write the sum from 1 to 100 and, under it, from 100 to 1. Each column adds up to 101. There "
    "are 100 columns, so twice the sum is 10100. Halve it: the sum is 5050.",
    "Pair the first number with the last, the second with the last but one, and so on. Every pair "
    "adds up to 101. There are 50 pairs, hence the sum is 5050.",
    "We prove by induction that the sum of the first n integers is n(n+1)/2. For n = 1 both sides "
    "are 1. Adding n+1 to the formula for n gives the formula for n+1. Put n = 100 to get 5050.",
)
ABOUT = """# Reasoning Path Divergence

How differently was a problem solved? Every solution becomes a few steps; each step of the shorter
list looks for its closest step in the longer one; the mean of those cosine distances is the
distance of the two solutions. Near 0 the steps say the same; a larger value means other steps, be
it by another strategy or only by other words, which an embedding cannot always distinguish. Steps
come from the extractive summarizer and embeddings from MiniLM, so values compare only with others
made that way.

From Python: `evaluate.load("rpd")` after `import rpd_metric`.
"""
LATEX: list[dict[str, str | bool]] = [
    {"left": "$$", "right": "$$", "display": True},
    {"left": "\\[", "right": "\\]", "display": True},
    {"left": "$", "right": "$", "display": False},
    {"left": "\\(", "right": "\\)", "display": False},
]
CSS = """
.rpd-steps {overflow-wrap: anywhere}
.rpd-steps li li {font-size: 1em}
.rpd-steps .katex-display {overflow-x: auto; overflow-y: hidden}
.rpd table {border-collapse: collapse; margin: .5rem 0 1.5rem; width: auto}
.rpd td, .rpd th {padding: .4rem .75rem; text-align: left; vertical-align: top;
  border: 1px solid var(--border-color-primary)}
.rpd td.n {text-align: right; font-variant-numeric: tabular-nums; min-width: 4.5rem}
.rpd .wide {overflow-x: auto}
.rpd .total {font-size: 1.5rem}
@media (max-width: 600px) {
  .rpd table {font-size: .85rem}
  .rpd td, .rpd th {padding: .25rem .35rem}
  .rpd td.n {min-width: 3.2rem}
}
"""


def compare(embedder: Embedder, problem: str, kind: str, *entries: str) -> tuple[str, str]:
    """Look at solutions: how far apart they are, and why.

    Args:
        embedder ([`~rpd_metric.models.embedders.Embedder`]): Encodes the steps.
        problem (`str`): Helps to take steps out of solutions; may be empty.
        kind (`str`): [`SOLUTIONS`] or [`STEPS`].
        entries (`str`): Empty ones are left out.

    Returns:
        `tuple[str, str]`: Distances with what they mean and a heat map, as HTML; the steps that
        found each other and every solution's steps, as Markdown with formulas.

    Raises:
        InputError: If fewer than two entries have steps, or there is too much text.
    """
    named = [
        (f"Solution {place}", text)
        for place, text in enumerate(entries, start=1)
        if text and text.strip()
    ]
    if len(named) < 2:
        raise InputError("paste at least two solutions")
    if sum(len(text) for _, text in named) > MAX_CHARACTERS:
        raise InputError(f"that is more than {MAX_CHARACTERS:,} characters; shorten the solutions")
    if kind == STEPS:
        steps = [[line.strip() for line in text.splitlines() if line.strip()] for _, text in named]
    else:
        taken = run(
            load_summarizer("extractive").summarize(
                problem.strip() or None, [text for _, text in named]
            )
        )
        for (name, _), summary in zip(named, taken, strict=True):
            if not summary.ok:
                raise InputError(f"{name} has no steps ({summary.reason}): write more of it")
        steps = [list(summary.steps) for summary in taken]
    names = [name for name, _ in named]
    short = [name for name, text in named if kind == SOLUTIONS and len(text.split()) < FEW_WORDS]
    vectors = embedder.encode([step for one in steps for step in one])
    ends = np.cumsum([len(one) for one in steps])
    parts = np.split(vectors, ends[:-1])
    matrix = rpd_matrix(parts)
    distances = (
        f'<div class="rpd"><p class="total">Mean distance <b>{mean_pairwise(matrix):.3f}</b></p>'
        + _reading(names, matrix, "extractive" if kind == SOLUTIONS else "chat")
        + _too_short(short)
        + _heat_map(names, matrix)
        + "</div>"
    )
    found = [
        "### Steps that found each other",
        *(
            _matches((names[a], names[b]), (steps[a], steps[b]), (parts[a], parts[b]))
            for a in range(len(names))
            for b in range(a + 1, len(names))
        ),
        "### Steps",
        *(
            "\n".join([f"**{name}**", "", *(f"1. {_text(step)}" for step in one)])
            for name, one in zip(names, steps, strict=True)
        ),
    ]
    return distances, "\n\n".join(found)


def _reading(names: list[str], matrix: npt.NDArray[np.floating], steps: str) -> str:
    """What the distances mean, by the curve fitted to labelled pairs of solutions."""
    curve = load_calibration("rpd", "minilm", steps)
    if curve is None:
        return ""
    pairs = "".join(
        f"<li>{names[a]} and {names[b]}, {escape(curve.in_words(float(matrix[a, b])))}</li>"
        for a in range(len(names))
        for b in range(a + 1, len(names))
    )
    return (
        f'<ul class="reading">{pairs}</ul><p>A scale to read it by: {escape(curve.scale())}. The '
        "pairs are solutions to competition problems.</p>"
    )


def _too_short(names: list[str]) -> str:
    if not names:
        return ""
    return (
        f'<p class="short"><b>{", ".join(names)}: fewer than {FEW_WORDS} words.</b> That is too '
        "little to judge by: such distances follow single words.</p>"
    )


def _heat_map(names: list[str], matrix: npt.NDArray[np.floating]) -> str:
    head = "".join(f"<th>{name}</th>" for name in names)
    rows = "".join(
        f"<tr><th>{name}</th>{''.join(map(_cell, row))}</tr>"
        for name, row in zip(names, matrix.tolist(), strict=True)
    )
    # Six solutions are wider than a phone.
    return f'<div class="wide"><table class="heat"><tr><th></th>{head}</tr>{rows}</table></div>'


def _cell(distance: float) -> str:
    # One hue, light to dark; 0.57 is where black and white text stand out equally.
    share = min(distance, 1.0)
    ink = "#fff" if share > 0.57 else "#000"
    colour = f"hsl(250 60% {96 - 60 * share:.0f}%)"
    return f'<td class="n" style="background:{colour};color:{ink}">{distance:.3f}</td>'


def _matches(
    names: tuple[str, str],
    steps: tuple[list[str], list[str]],
    vectors: tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]],
) -> str:
    """Who found whom, as a list: a table would break at every bar of a formula."""
    lines = [f"**{names[0]} and {names[1]}**", ""]
    for match in rpd_alignment(*vectors):
        asker, other = (0, 1) if match.asker == "a" else (1, 0)
        lines += [
            f"- **{match.distance:.3f}** {names[asker]}: {_text(steps[asker][match.step])}",
            f"  - closest in {names[other]}: {_text(steps[other][match.match])}",
        ]
    return "\n".join(lines)


def _text(step: str) -> str:
    """A step in one line of Markdown: emphasis and formulas stay, HTML becomes text."""
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", " ".join(step.split()))


def make_page(embedder: Embedder) -> gr.Blocks:
    """The page, not yet served.

    Args:
        embedder ([`~rpd_metric.models.embedders.Embedder`]): Loaded once, used for everybody.
    """

    def answer(problem: str, kind: str, *entries: str) -> tuple[str, str]:
        try:
            return compare(embedder, problem, kind, *entries)
        except InputError as error:
            # Where the result would stand, until there is one: a message that fades is missed.
            return f'<p class="rpd" role="alert"><b>{escape(str(error))}</b></p>', ""

    page: gr.Blocks
    with gr.Blocks(title="Reasoning Path Divergence", analytics_enabled=False) as page:
        gr.Markdown(ABOUT)
        with gr.Row():
            problem = gr.Textbox(label="Problem (optional)", lines=2, scale=3)
            kind = gr.Radio([SOLUTIONS, STEPS], value=SOLUTIONS, label="What you paste")
        boxes = []
        for start in range(0, MAX_ENTRIES, 3):
            with gr.Row():
                boxes += [
                    gr.Textbox(label=f"Solution {place}", lines=6, max_lines=12, min_width=260)
                    for place in range(start + 1, start + 4)
                ]
        with gr.Row():
            example = gr.Button("Fill in an example", elem_id="example")
            button = gr.Button("Compare", variant="primary", elem_id="compare")
        result = gr.HTML()
        found = gr.Markdown(latex_delimiters=LATEX, elem_classes="rpd-steps")
        filled = [*EXAMPLE, *[""] * (MAX_ENTRIES + 2 - len(EXAMPLE))]
        example.click(lambda: filled, outputs=[problem, kind, *boxes])
        button.click(answer, inputs=[problem, kind, *boxes], outputs=[result, found])
    return page


def main() -> None:
    """Serve the page; host and port come from Gradio's own environment variables."""
    theme = gr.themes.Default(
        font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]
    )
    make_page(load_embedder("minilm")).launch(theme=theme, css=CSS)


if __name__ == "__main__":
    main()
