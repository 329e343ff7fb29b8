"""What evaluation harnesses write for each sample, as rows of a problem with its solutions.

    lm-evaluation-harness   samples_TASK_DATE.jsonl   (`--log_samples`, `repeats` in the task)
    lighteval               details_TASK_DATE.parquet (`--save-details`)

        -> {"problem", "solutions", "correct", "correct_METRIC", ..., "score_METRIC", ..., "answer"}

Files are recognized by their columns (lm-eval 0.4.13, lighteval 0.13.0). Scores per solution become
`correct_METRIC` (the first one also `correct`), or `score_METRIC` if they neither are right or
wrong nor shares; scores of a whole problem are left out. Where lm-eval writes the mean over the
replies that a filter kept, the marks are restored.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rpd_datasets.inputs.raw_rows import Row
from rpd_datasets.messages import with_thoughts
from rpd_datasets.problem import Rejected
from rpd_metric.grading.score_scales import ScoreScale, score_scales
from rpd_metric.reasons import Reason

Values = Mapping[str, Any]
# Where a document has its problem; else it is the prompt, with all its examples.
_PROBLEM = ("problem", "question", "query", "prompt", "input", "text")


@dataclass(frozen=True)
class Harness:
    """How one harness' rows are read."""

    columns: Mapping[str, type]  # identify its rows, with their types
    row: Callable[[Values], dict[str, Any] | None]  # the values of a problem; None without texts
    scores: Callable[[Values], Mapping[str, Any]]  # by name
    key: str | None = None  # the column shared by rows that score the same solutions

    def misses(self, values: Values) -> str | None:
        """The first column that a row does not have, or not as the harness writes it."""
        wrong = (name for name, kind in self.columns.items() if type(values.get(name)) is not kind)
        return next(wrong, None)


def read_harness(
    harness: Harness, read: Callable[[], Iterator[Row | Rejected]], right_score: str | None = None
) -> Iterator[Row | Rejected]:
    """The rows of a harness as problems; with a key, rows are read twice to join their scores."""
    key, scores = harness.key or "", defaultdict[Any, dict[str, Any]](dict)
    for row in read() if key else ():
        if isinstance(row, Row) and not harness.misses(row.values):
            scores[row.values[key]].update(harness.scores(row.values))
    for row in read():
        if isinstance(row, Rejected):
            yield row
        elif missing := harness.misses(row.values):
            detail = f"The column {missing!r} is not as the harness writes it."
            yield Rejected("read", Reason.NOT_OF_THE_HARNESS, row.place, detail)
        else:
            values = row.values
            of_row = scores.pop(values[key], None) if key else harness.scores(values)
            if of_row is None:
                continue  # the same solutions with another score, which the first row has
            if (problem := harness.row(values)) is None:
                detail = "The row holds log-likelihoods, and no texts that were written."
                yield Rejected("read", Reason.NO_TEXTS, row.place, detail)
            else:
                count = len(problem["solutions"])
                lists = ((n, s if isinstance(s, list) else [s]) for n, s in of_row.items())
                each = {name: column for name, column in lists if len(column) == count}
                marked = with_marks(problem, each, score_scales(each, right_score))
                yield Row(row.place, marked, problem["id"])


def with_marks(
    row: Values, scores: Mapping[str, list[Any]], scales: Mapping[str, ScoreScale | None]
) -> dict[str, Any]:
    """A problem's row with a mark for each solution and scorer, or the score on an unknown scale.

    >>> scores = {"exact": [1.0, 0.0], "judge": [8, 3]}
    >>> with_marks({"solutions": ["4", "5"]}, scores, score_scales(scores))
    {'solutions': ['4', '5'], 'correct': [True, False], 'correct_exact': [True, False], \
'score_judge': [8, 3]}
    """
    marked = dict(row)
    for name, values in scores.items():
        if scale := scales[name]:
            marks = [scale.is_right(value) for value in values]
            marked = {**marked, "correct": marked.get("correct", marks), f"correct_{name}": marks}
        else:
            marked[f"score_{name}"] = values
    return marked


def _lm_eval_row(values: Values) -> dict[str, Any] | None:
    sampling = values["arguments"].get("gen_args_0") or {}
    # For a generation these are its settings, for a log-likelihood a text.
    if not isinstance(sampling.get("arg_1"), dict):
        return None
    return {
        "problem": _text(values["doc"]) or sampling.get("arg_0"),
        # One list for each request, and generation asks once.
        "solutions": values["resps"][0] if values["resps"] else [],
        "answer": values["target"],
        "id": str(values["doc_id"]),
    }


def _lm_eval_scores(values: Values) -> dict[str, Any]:
    # "none" is the harness' word for no filter.
    ending = "" if values["filter"] == "none" else f"_{values['filter']}"
    marks = _exact_matches(values)
    mean = sum(marks) / len(marks) if marks else float("nan")
    scores = {}
    for name in values["metrics"]:
        score = values.get(name)
        # If a filter keeps an answer of each reply, the score is their mean.
        is_mean = isinstance(score, int | float) and abs(mean - score) < 1e-9
        scores[f"{name}{ending}"] = marks if is_mean else score
    return scores


def _exact_matches(values: Values) -> list[float]:
    """Whether the filter's answer to each reply is the reference; empty if it keeps one answer."""
    answers = values["filtered_resps"][0] if values["filtered_resps"] else None
    if not isinstance(answers, list) or len(answers) != len(values["resps"][0]):
        return []
    return [float(answer == values["target"]) for answer in answers]


def _lighteval_row(values: Values) -> dict[str, Any] | None:
    doc, reply = values["doc"], values["model_response"]
    texts, thoughts = reply.get("text"), reply.get("reasonings")
    if not texts:
        return None
    if isinstance(thoughts, list) and len(thoughts) == len(texts):
        texts = [with_thoughts(*pair) for pair in zip(thoughts, texts, strict=True)]
    gold = doc.get("gold_index")
    places = gold if isinstance(gold, list) else [gold]
    choices = doc.get("choices") or []
    answers = [choices[n] for n in places if isinstance(n, int) and 0 <= n < len(choices)]
    return {
        "problem": doc.get("query"),
        "solutions": texts,
        "answer": ", ".join(map(str, answers)),
        "id": str(doc.get("id", "")),
    }


def _text(doc: Values) -> str:
    texts = (doc.get(name) for name in _PROBLEM)
    return next((text for text in texts if isinstance(text, str) and text.strip()), "")


HARNESSES = (
    Harness(
        {"doc_id": int, "doc": dict, "arguments": dict, "resps": list, "filter": str}
        | {"filtered_resps": list, "metrics": list, "target": str},
        _lm_eval_row,
        _lm_eval_scores,
        key="doc_id",
    ),
    Harness(
        {"doc": dict, "metric": dict, "model_response": dict},
        _lighteval_row,
        lambda values: values["metric"],
    ),
)
