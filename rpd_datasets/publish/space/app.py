"""The page of a metric Space: paste solutions, see how far apart they are, and why.

Like `rpd_metric/metrics/rpd/rpd.py` this file is copied into a Space, there as `app.py`; it runs
here as well: `python -m rpd_datasets.publish.space.app`. It needs no network: MiniLM comes with its
package, steps are taken without a language model, fonts are the system's. Formulas and Markdown of
solutions are drawn by Gradio, which lets no HTML through that could run.
"""

import re
import sys
from itertools import chain, combinations
from pathlib import Path

# A wheel beside this file can be imported as it is; what is installed comes first.
sys.path += [str(wheel) for wheel in Path(__file__).parent.glob("rpd_metric-*.whl")]

import gradio as gr
import numpy as np

from rpd_metric.distance.core import mean_pairwise, rpd_alignment, rpd_matrix
from rpd_metric.distance.measured import read_evidence
from rpd_metric.errors import InputError
from rpd_metric.models.concurrency import run
from rpd_metric.models.spec import Embedder, load_embedder
from rpd_metric.steps.summarizers import load_summarizer

MAX_ENTRIES = 6
MAX_CHARACTERS = 100_000
# Of fewer, a sentence or two are all the steps there are.
FEW_WORDS = 25
EXAMPLE = (
    "What is the sum of the first 100 positive integers?",
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
    {"left": left, "right": right, "display": left in ("$$", "\\[")}
    for left, right in (("$$", "$$"), ("\\[", "\\]"), ("$", "$"), ("\\(", "\\)"))
]
# Formulas and six solutions are wider than a phone.
CSS = """
.rpd {overflow-wrap: anywhere}
.rpd table {display: block; overflow-x: auto}
.rpd .katex-display {overflow-x: auto; overflow-y: hidden}
"""


def compare(embedder: Embedder, problem: str, *entries: str) -> str:
    """Say in Markdown how far apart solutions are, and which steps matched.

    Empty entries are left out. Raises [`InputError`] where fewer than two have steps, or there is
    too much text.
    """
    given = enumerate(entries, start=1)
    named = {f"Solution {place}": text for place, text in given if text and text.strip()}
    if len(named) < 2:
        raise InputError("paste at least two solutions")
    if sum(map(len, named.values())) > MAX_CHARACTERS:
        raise InputError(f"that is more than {MAX_CHARACTERS:,} characters; shorten the solutions")
    names, summarizer = list(named), load_summarizer("extractive")
    taken = run(summarizer.summarize(problem.strip() or None, list(named.values())))
    for name, summary in zip(names, taken, strict=True):
        if not summary.ok:
            raise InputError(f"{name} has no steps ({summary.reason}): write more of it")
    steps = [list(summary.steps) for summary in taken]
    vectors = embedder.encode(list(chain.from_iterable(steps)))
    parts = np.split(vectors, np.cumsum(list(map(len, steps)))[:-1])
    matrix = rpd_matrix(parts)
    lines = [f"## Mean RPD {mean_pairwise(matrix):.3f}", "", "| |" + "|".join(names) + "|"]
    lines.append("|---" * (len(names) + 1) + "|")
    for name, row in zip(names, matrix, strict=True):
        lines.append(f"| **{name}** |" + "|".join(f"{distance:.3f}" for distance in row) + "|")
    if short := [name for name, text in named.items() if len(text.split()) < FEW_WORDS]:
        warning = f"fewer than {FEW_WORDS} words, too little to judge by"
        lines += ["", f"**{', '.join(short)}: {warning}**"]
    evidence = read_evidence().about(["rpd"], "minilm", "extractive")
    lines += ["", f"RPD measures {evidence.describe('rpd', 'en')}."]
    lines += ["", "### Steps that found each other"]
    for a, b in combinations(range(len(names)), 2):
        lines += ["", f"**{names[a]} and {names[b]}**", ""]
        for match in rpd_alignment(parts[a], parts[b]):
            asker, other = (a, b) if match.asker == "a" else (b, a)
            lines += [
                f"- **{match.distance:.3f}** {names[asker]}: {_text(steps[asker][match.step])}",
                f"  - closest in {names[other]}: {_text(steps[other][match.match])}",
            ]
    for name, solution in zip(names, steps, strict=True):
        lines += ["", f"### Steps of {name}", "", *(f"1. {_text(step)}" for step in solution)]
    return "\n".join(lines)


def _text(step: str) -> str:
    """A step in one line of Markdown: emphasis and formulas stay, HTML becomes text."""
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", " ".join(step.split()))


def make_page(embedder: Embedder) -> gr.Blocks:
    """The page."""

    def answer(problem: str, *entries: str) -> str:
        try:
            return compare(embedder, problem, *entries)
        except InputError as error:
            # In place of the result: a message that fades is missed.
            return f"**{error}**"

    page: gr.Blocks
    with gr.Blocks(title="Reasoning Path Divergence", analytics_enabled=False) as page:
        gr.Markdown(ABOUT)
        problem = gr.Textbox(label="Problem (optional)", lines=2)
        with gr.Row():
            boxes = [
                gr.Textbox(label=f"Solution {place}", lines=6, max_lines=12, min_width=300)
                for place in range(1, MAX_ENTRIES + 1)
            ]
        with gr.Row():
            example = gr.Button("Fill in an example", elem_id="example")
            button = gr.Button("Compare", variant="primary", elem_id="compare")
        result = gr.Markdown(latex_delimiters=LATEX, elem_classes="rpd")
        filled = [*EXAMPLE, *[""] * (MAX_ENTRIES + 1 - len(EXAMPLE))]
        example.click(lambda: filled, outputs=[problem, *boxes])
        button.click(answer, inputs=[problem, *boxes], outputs=result)
    return page


def main() -> None:
    """Serve the page; host and port come from Gradio's own environment variables."""
    theme = gr.themes.Default(
        font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]
    )
    make_page(load_embedder("minilm")).launch(theme=theme, css=CSS)


if __name__ == "__main__":
    main()
