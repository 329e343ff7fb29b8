"""Which grader agrees with people? Judged pairs of a reference and a response in, mistakes out.

The packaged pairs have two halves: `held-out`, which no grader here was mended by, and `open`.
"""

import importlib.util
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from runpy import run_path

from rpd_metric.errors import InputError, MissingExtraError
from rpd_metric.grading.answers import Verdict
from rpd_metric.grading.custom import FORMS, load_grader

OWN, MATH_VERIFY, LM_EVAL = "rpd", "math-verify", "lm-eval"
ALL_FORMS = "all"


@dataclass(frozen=True)
class JudgedPair:
    """A reference answer and a response, and whether a person called the response right."""

    form: str  # what makes it hard: "unit", "interval", ...
    reference: str
    response: str
    right: bool


@dataclass(frozen=True)
class Mistakes:
    """The wrong verdicts of a grader on the pairs of one form, or of all forms."""

    grader: str
    form: str
    right: int  # pairs by what the person said
    wrong: int
    false_accepts: int
    false_rejects: int


def read_pairs(half: str = "held-out") -> list[JudgedPair]:
    """The packaged pairs of a half."""
    text = files("rpd_datasets.sets").joinpath("answer_pairs.jsonl").read_text(encoding="utf-8")
    rows = map(json.loads, text.splitlines())
    return [JudgedPair(**row) for row in rows if row.pop("half") == half]


def accepted(grader: str, pairs: Sequence[JudgedPair]) -> list[bool]:
    """Which responses a grader accepts.

    Args:
        grader (`str`): `"rpd"`, `"math-verify"`, `"lm-eval"` (the rule of its AIME tasks), or a
            function of one's own, as `"checks.py:check"`.
    """
    if grader == MATH_VERIFY:
        return list(_by_math_verify(pairs))
    if grader == LM_EVAL:
        return list(_by_lm_eval(pairs))
    if grader != OWN and ":" not in grader:
        known = ", ".join((OWN, MATH_VERIFY, LM_EVAL))
        raise InputError(f"there is no grader {grader!r}: use one of {known}, or {FORMS}")
    with load_grader(None if grader == OWN else grader) as own:
        verdicts = own.grade((pair.reference, pair.response) for pair in pairs)
        return [verdict is Verdict.CORRECT for verdict in verdicts]


def mistakes(grader: str, pairs: Sequence[JudgedPair]) -> list[Mistakes]:
    """What a grader gets wrong, by form in the order of the pairs, and last of all."""
    verdicts = accepted(grader, pairs)
    rows = []
    for form in (*dict.fromkeys(pair.form for pair in pairs), ALL_FORMS):
        counts = Counter(
            (pair.right, verdict)
            for pair, verdict in zip(pairs, verdicts, strict=True)
            if form in (pair.form, ALL_FORMS)
        )
        right, wrong = (counts[side, True] + counts[side, False] for side in (True, False))
        mistaken = counts[False, True], counts[True, False]
        rows.append(Mistakes(grader, form, right, wrong, *mistaken))
    return rows


def _by_math_verify(pairs: Sequence[JudgedPair]) -> Iterator[bool]:
    """math-verify alone, with the reference in a box, which it reads best."""
    if importlib.util.find_spec("math_verify") is None:
        raise MissingExtraError("the grader math-verify", extra="grading", module="math_verify")
    from math_verify import parse, verify

    for pair in pairs:
        yield verify(parse(rf"\boxed{{{pair.reference}}}"), parse(pair.response))


def _by_lm_eval(pairs: Sequence[JudgedPair]) -> Iterator[bool]:
    try:
        rule = distribution("lm_eval").locate_file("lm_eval/tasks/aime/utils.py")
    except PackageNotFoundError:
        raise InputError("lm-eval is not installed: pip install --no-deps lm-eval") from None
    grade = run_path(str(rule))["process_results"]
    for pair in pairs:
        yield bool(grade({"answer": pair.reference}, [pair.response])["exact_match"])
