"""Solutions that were not finished: cut off, looping, or without the answer (App. C.1).

The paper has a language model judge the last 500 tokens of every solution. These rules work in any
language: no sentence, formula, bracket, fence or program is left open, and the text does not end in
a loop. If the problem has a reference answer, a solution must announce an answer, right or wrong,
or have that value near its end.

With the reference (without it) they refuse 0.1 % of 8,149 complete solutions of language models,
catch 98 % (94 %) of them cut at a random place and 84 % (28 %) cut at the end of a sentence, and
refuse 9 % (1 %) of 559 published by people, and none of 288 in five languages.
"""

import re

from rpd_datasets.filters.answer_checks import reference_of
from rpd_datasets.filters.candidates import Candidates, Drops, FilterConfig
from rpd_datasets.problem import each_solution
from rpd_datasets.tokens import text_tail
from rpd_metric.models.chat import ends_in_loop
from rpd_metric.reasons import Reason
from rpd_metric.steps.passages import FENCE, fenced

# Notes of a line or two were not cut and need not announce an answer.
SHORT_TOKENS = 40
OPEN_ENDED = (Reason.CUT_OFF, Reason.NO_FINAL_ANSWER)

# What servers, Inspect and others say of a reply that reached its limit, and in which columns.
REACHED_LIMIT = ("length", "max_tokens", "model_length")
END_COLUMNS = ("finish_reason", "finish_reasons", "stop_reason")

EndingCheck = tuple[bool, str | None]
COMPLETE: EndingCheck = (True, None)
# How much of a solution's end is looked at, as in the paper.
TAIL_TOKENS = 500
# About 500 tokens of mathematics, at 2.8 characters each.
TAIL_CHARACTERS = 1400
CLOSING_CHARACTERS = 300
BRACKET_CHARACTERS = 200

BOX = re.compile(r"\\(?:boxed|fbox|framebox)\b\s*")
# Books print the final value in bold.
BOLD_VALUE = re.compile(r"\\mathbf\{[\s\d.,/-]+\}")
# An answer that is announced as one, with something after the announcement.
ANSWER = re.compile(
    r"\b(?:answers?|ans)\b[\s*_)]*(?:(?:is|are|=|:|be|to be|would be|will be|must be)[\s*_:]*(?=\S)"
    r"|(?=[$\d\\(]))"
    r"|^####\s*(?=\S)",
    re.IGNORECASE | re.MULTILINE,
)
# A line that is nothing but a value: "$12$", "**7**", "\[ 42 \]".
LONE_VALUE = re.compile(
    r"[\s$*\\\[\](){}]*(?:[A-E]|-?\d[\d,.]*(?:/\d+)?|-?\\[dt]?frac\{.*\})[\s$*\\\[\](){}.]*"
)
# "Answer: ..." in any language, on the last line: a few words, a colon, and a value with a digit.
ANSWER_LINE = re.compile(r"\W*[^\W\d][^:：\d=]{0,40}[:：][^:：]{0,30}\d[^:：]{0,20}")
# What no finished sentence or formula ends with.
DANGLING = re.compile(
    r"(?:[,;:(\[{+\-−*/=<>&^_|≤≥≠×·]|\\(?:frac|sqrt|cdot|times|left|le|ge|leq|geq|text|begin|pm)"
    r"|\\|\b(?:the|an|of|and|or|to|is|are|we|that|with|for|by|in|as|if|so|then|thus|hence|"
    r"therefore|since|because|which|this|let))$",
    re.IGNORECASE,
)
# A list item that has only its number yet.
LONE_NUMBERING = re.compile(r"\s*(?:\d{1,2}[.)]|[-*•])")
# "]0, 1[" and "[0, 1)" close themselves.
INTERVAL = re.compile(r"[\[\](][^\[\]()]{1,40}[,;][^\[\]()]{1,40}[\[\])]")
QUOTED = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'")
# Full stops of all scripts, closing brackets and quotes, the end of a formula or of a proof.
ENDED = re.compile(
    r"(?:[.!?…。．！？؟۔।॥։።။།)\]}）］｝」』】》»›$|%°'\"’”“∎■□]|\\end\{\w+\*?\}"
    r"|\\(?:qed|blacksquare|square|Box)|\bQ\.?E\.?D)$"
)
DECORATION = re.compile(r"[\s*_~`]+$|<[^<>\n]{1,30}>\s*$")


def is_complete(
    solution: str, tail: str | None = None, reference: str | None = None
) -> EndingCheck:
    """Judge by rules whether a solution is complete (instead of App. C.1's judge).

    `tail` is the end to examine, by default the last 1,400 characters. With a `reference` the
    solution must announce an answer, or end in that value. Returns whether it is complete, and if
    not why.

    >>> is_complete("Addition ergibt $2x = 8$, also ist x gleich 4.", reference="4")
    (True, None)
    >>> is_complete("Addition ergibt $2x = 8$, also können wir durch")
    (False, 'cut_off')
    """
    if solution.rfind("<think>") > solution.rfind("</think>"):
        return False, Reason.UNCLOSED_THINK
    tail = solution[-TAIL_CHARACTERS:] if tail is None else tail
    # Thoughts are not an answer.
    tail = tail.rpartition("</think>")[2].rstrip()
    if not tail:
        return False, Reason.EMPTY
    if ends_in_loop(tail):
        return False, Reason.REPETITION_LOOP
    return _judge_end(solution, tail, reference)


def _judge_end(solution: str, tail: str, reference: str | None) -> EndingCheck:
    fences = re.findall(r"^[ \t]*(?:```|~~~)", solution, re.MULTILINE)
    if fences and tail.endswith(("```", "~~~")) and len(fences) % 2 == 0:
        return COMPLETE
    if not fences and fenced(tail).endswith(FENCE):
        return (False, Reason.CUT_OFF) if _program_breaks_off(tail) else COMPLETE
    answer_at = _last_answer(tail)
    if answer_at is None:
        return False, Reason.UNCLOSED_BOX
    if answer_at < 0 and len(fences) % 2:
        return False, Reason.UNCLOSED_CODE
    last_line = _bare(tail).rpartition("\n")[2]
    # The line of the answer may be the last one: it needs no full stop.
    answers = answer_at >= 0 and "\n" not in tail[answer_at:]
    if _breaks_off(tail[answer_at:] if answers else tail, last_line):
        return False, Reason.CUT_OFF
    if answers or LONE_VALUE.fullmatch(last_line) or ANSWER_LINE.fullmatch(last_line):
        return COMPLETE
    # "... Antwort: 5050": the last word is the value that was asked for.
    if reference is not None and last_line.split()[-1:] == [reference.strip()]:
        return COMPLETE
    if not ENDED.search(last_line):
        return False, Reason.CUT_OFF
    if answer_at >= 0 or reference is None or _holds(tail[-CLOSING_CHARACTERS:], reference):
        return COMPLETE
    return False, Reason.NO_FINAL_ANSWER


def _holds(end: str, reference: str) -> bool:
    """Whether a text has the numbers of a reference answer, or its words if it has none."""
    # Thousands are written with commas or without, decimals with a comma or a point.
    ending, expected = (
        re.sub(r"(?<=\d)[,.](?=\d)", "", text.casefold()) for text in (end, reference)
    )
    parts = re.findall(r"\d+|[^\W\d_]+", re.sub(r"\\[a-z]+", " ", expected))
    numbers = set(re.findall(r"\d+", ending))
    # "50 + 10 + 2" is an answer, too.
    sums = re.findall(r"\d{1,9}(?:[+-]\d{1,9})+", ending.replace(" ", ""))
    numbers |= {str(sum(map(int, re.findall(r"[+-]?\d+", terms)))) for terms in sums}
    wanted_numbers = set(filter(str.isdecimal, parts))
    return wanted_numbers <= numbers if wanted_numbers else all(part in ending for part in parts)


def _last_answer(tail: str) -> int | None:
    """Where the last announced answer begins; -1 without one, None for a box that never closes."""
    last = -1
    for match in BOX.finditer(tail):
        if tail.startswith("{", match.end()):
            if not _closes(tail, match.end()):
                return None
            last = max(last, match.start())
        elif match.end() < len(tail):
            last = max(last, match.start())
    for announcement in (ANSWER, BOLD_VALUE):
        # Only text after the last one so far can matter: usually little is left.
        for match in announcement.finditer(tail, last + 1):
            last = match.start()
    return last


def _closes(text: str, brace: int) -> bool:
    """Whether the group that opens at `brace` is closed."""
    depth = 0
    for match in re.finditer(r"(?<!\\)[{}]", text[brace:]):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return True
    return False


def _bare(text: str) -> str:
    """A text without the emphasis, tags and blanks at its end."""
    while (shorter := DECORATION.sub("", text)) != text:
        text = shorter
    return text


def _breaks_off(tail: str, last_line: str) -> bool:
    """Whether something was begun and not ended: a formula, a bracket, a list item, a phrase."""
    pairs = (("\\[", "\\]"), ("\\(", "\\)"), ("\\begin{", "\\end{"))
    last_line = INTERVAL.sub("()", last_line)
    return (
        any(tail.rfind(opening) > tail.rfind(closing) for opening, closing in pairs)
        or _in_bracket(last_line[-BRACKET_CHARACTERS:])
        or bool(DANGLING.search(last_line) or LONE_NUMBERING.fullmatch(last_line))
        or _in_formula(last_line)
    )


def _program_breaks_off(program: str) -> bool:
    """Whether a program that no fence closes ends inside a bracket, a text or a statement."""
    program = QUOTED.sub("0", program)
    last_line = program.rpartition("\n")[2].partition("#")[0].rstrip()
    broken = "'" in last_line or '"' in last_line or DANGLING.search(last_line.rstrip("_"))
    return bool(broken) or _in_bracket(program[-BRACKET_CHARACTERS:])


def _in_bracket(end: str) -> bool:
    """Whether a bracket is opened and not closed; one kind may close another, as in [0, 1)."""
    closed = 0
    for character in reversed(end):
        if character in ")]}":
            closed += 1
        elif character in "([{":
            if not closed:
                return True
            closed -= 1
    return False


def _in_formula(line: str) -> bool:
    """Whether a line ends inside `$...`; one dollar sign before a plain number is money."""
    before, dollar, after = line.replace("\\$", "").rpartition("$")
    if not dollar:
        return False
    if not after.strip():
        # A dollar sign at the end closes a formula, unless it follows a blank.
        return before[-1:].isspace() or before.endswith("(")
    return before.count("$") % 2 == 0 and any(sign in after for sign in "\\=^_")


def unfinished(candidates: Candidates, config: FilterConfig) -> Drops:
    """Leave out incomplete solutions, by what their server said, rules or a judge's verdicts."""
    drops: dict[int, tuple[str, str]] = {}
    answer = reference_of(candidates.problem, config.answer_column)
    columns = (each_solution(candidates.problem, name) for name in END_COLUMNS)
    # A list of another length does not say whose ends it holds.
    of_each = (ends for ends in columns if len(ends) == len(candidates.num_tokens))
    ended = {n for ends in of_each for n, end in enumerate(ends) if end in REACHED_LIMIT}
    for index in candidates.left:
        solution, num_tokens = candidates.problem.solutions[index], candidates.num_tokens[index]
        if index in ended:
            drops[index] = (Reason.CUT_OFF, "The reply ended at its limit of tokens.")
            continue
        if candidates.unfinished is not None:
            if why := candidates.unfinished(solution):
                drops[index] = why
            continue
        tail = text_tail(solution, TAIL_TOKENS, candidates.count_tokens, num_tokens)
        # An answer that was found right is there.
        reference = None if candidates.answers.marks[index] else answer
        _, reason = is_complete(solution, tail, reference)
        if reason and not (num_tokens < SHORT_TOKENS and reason in OPEN_ENDED):
            drops[index] = (reason, f"The solution was not finished: {reason}.")
    return drops
