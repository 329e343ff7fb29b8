"""Steps without a language model: sentences of the solution itself, one for each of its phases.

A solution is read as passages (`passages.py`) and cut into three to five phases of about equal
length. A phase's passage is the one that says most about what is done: it names telling methods
(`vocabulary.py`), it acts ("substitute", "by the ... formula"), and is neither meta talk, a check,
the restated problem nor the answer. Deterministic and linear in the length of the solution.
"""

import re
from collections.abc import Sequence

from rpd_metric.reasons import Reason
from rpd_metric.steps.passages import Passage, passages, without_docstrings
from rpd_metric.steps.protocol import MIN_STEPS, Summary
from rpd_metric.steps.vocabulary import Method, find_methods

VERSION = "5"

# Up to so many passages are told in three phases, up to so many in four, more in five.
_SHORT, _MIDDLING = 6, 12
# A passage counts for its phase's length up to so many characters.
_LONG_PASSAGE = 300
# A heading is put before its passage, up to this length in all.
_WITH_HEADING = 540
_MOST_METHODS, _MOST_ACTS = 3, 3

_ANSWER = re.compile(
    r"\W*(?:(?:so|thus|therefore|hence|finally),?\s)?(?:the\s)?(?:final\s|correct\s|required\s)?"
    r"answer\b|\W*\\boxed\b|\W*\\framebox\b|.{0,40}\\boxed\{[^}]{0,80}\}\W*$",
    re.IGNORECASE,
)
_ANSWER_INSIDE = re.compile(r"answer\b|\\(?:boxed|framebox)\b", re.IGNORECASE)
_META = re.compile(
    r"(?:okay|ok|alright|hmm+|wait|sure|great|maybe|perhaps|actually|verif|here'?s"
    r"|to (?:verify|check)|to solve this|so i (?:have|need|got)|but (?:wait|let me|i)"
    r"|let'?s (?:dive|try to understand|break|start by understanding|solve (?:this|the)|see\b|go"
    r"|think|proceed|verify|check|double)|now,? let's (?:see|think)"
    r"|let me (?:think|see|check|verify|try|re|start|make|double|just|first)"
    r"|first,? (?:i|let me|we) (?:need|should|have) to understand"
    r"|i (?:need|have|think|should|remember|wonder|recall|want|am|was|can't|don't)\b"
    r"|we need to (?:find|determine|understand)|we are (?:given|asked|looking))",
    re.IGNORECASE,
)
_EMPTY_HEADING = re.compile(
    r"\W*(?:understand|problem|given|verif|check|conclu|final|answer|solution|summary|result"
    r"|approach|introduction|identify the problem|analy[sz]e the problem|restat)",
    re.IGNORECASE,
)
_ACT = re.compile(
    r"\b(?:let|set|us(?:e|ing)|appl(?:y|ying|ied)|substitut\w+|by|consider\w*|suppose|denote"
    r"|assum\w+|defin\w+|factor\w*|expand\w*|differentiat\w+|solv\w+|subtract\w*|add(?:ing)?"
    r"|multipl\w+|divid\w+|simplif\w+|rewrit\w+|writ\w+|express\w*|count\w*|comput\w+|calculat\w+"
    r"|equat\w+|combin\w+|complet\w+|draw\w*|construct\w*|place|reduc\w+|tak(?:e|ing)|choos\w+"
    r"|list\w*|test\w*|try\w*|find\w*|determin\w+|convert\w*|sum(?:ming)?|compar\w+|since|because"
    r"|formula|theorem|identity|property|symmetry|similar|recurrence|cases?)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]+")
_LATEX_OR_WORD = re.compile(r"\\[a-zA-Z]+|[a-zA-Z]{3,}")


class ExtractiveSummarizer:
    """The `extractive` summarizer; see the module's docstring and [`Summarizer`].

    >>> solution = '''Let me think. Place the triangle in coordinates with A at the origin.
    ... The slope of AB is 2, so the altitude has slope -1/2. Now both lines are known.
    ... Solving the system of equations gives $$x = 2, y = 1.$$ Good.
    ... The answer is 3.'''
    >>> for step in ExtractiveSummarizer().steps(None, solution).steps:
    ...     print(step)
    Place the triangle in coordinates with A at the origin.
    The slope of AB is 2, so the altitude has slope -1/2.
    Solving the system of equations gives $$x = 2, y = 1.$$
    """

    name = "extractive"
    fingerprint = f"extractive/{VERSION}"

    async def summarize(self, problem: str | None, solutions: Sequence[str]) -> list[Summary]:
        """Extract the steps of each solution, in order."""
        return [self.steps(problem, solution) for solution in solutions]

    def steps(self, problem: str | None, solution: str) -> Summary:
        """At most five steps of one solution; what only repeats the problem is no step."""
        telling = telling_passages(problem, solution)
        if not telling:
            detail = "the solution holds no text: no letter and no digit"
            return Summary((), Reason.EMPTY_SOLUTION, detail)
        phases = _phases(telling, MIN_STEPS + (len(telling) > _SHORT) + (len(telling) > _MIDDLING))
        known = set(find_methods(problem or ""))
        chosen = [max(phase, key=lambda passage: _worth(passage, known)) for phase in phases]
        return Summary(tuple(dict.fromkeys(passage.text for passage in chosen)))


def telling_passages(problem: str | None, solution: str) -> list[Passage]:
    """The passages of a solution that may represent a phase of it, each after its heading.

    Those that only state the answer or repeat the problem are left out, if any others remain.
    """
    telling: list[Passage] = []
    known = set(_WORD.findall((problem or "").lower()))
    title = ""
    for passage in passages(solution):
        text = passage.text
        if passage.kind == "heading":
            title = "" if _EMPTY_HEADING.match(text) else text
            continue
        if title and len(title) + len(text) <= _WITH_HEADING:
            text = f"{title.rstrip(': .')}: {text}"
        title = ""
        if passage.kind == "code":
            text = without_docstrings(text, lambda text: _repeats(text, known))
        telling.append(Passage(text, passage.kind))
    telling = [p for p in telling if p.kind == "code" or not _ANSWER.match(p.text)] or telling
    return [p for p in telling if p.kind == "code" or not _repeats(p.text, known)] or telling


def _repeats(text: str, known: set[str]) -> bool:
    words = _WORD.findall(text.lower())
    return len(words) >= 6 and sum(word in known for word in words) >= 0.8 * len(words)


def _phases(telling: Sequence[Passage], count: int) -> list[list[Passage]]:
    """At most `count` contiguous groups of about the same length, none of them empty."""
    if len(telling) <= count:
        return [[passage] for passage in telling]
    # By the root of the length: five short sentences do more than one as long as they are.
    sizes = [min(len(passage.text), _LONG_PASSAGE) ** 0.5 for passage in telling]
    phases: list[list[Passage]] = [[] for _ in range(count)]
    before, total = 0.0, sum(sizes)
    for passage, size in zip(telling, sizes, strict=True):
        middle = (before + size / 2) / total
        phases[min(int(middle * count), count - 1)].append(passage)
        before += size
    return [phase for phase in phases if phase]


def _worth(passage: Passage, known: set[Method]) -> float:
    """How much a passage says about what is done; methods that the problem names count less."""
    text = passage.text
    weights = [m.weight * (0.4 if m in known else 1) for m in find_methods(text)]
    worth = sum(sorted(weights, reverse=True)[:_MOST_METHODS])
    if passage.kind == "code":
        return worth  # whole, however long, and whatever it is made of
    worth += 0.8 * min(len(_ACT.findall(text)), _MOST_ACTS)
    if sum(not word.startswith("\\") for word in _LATEX_OR_WORD.findall(text)) < 4:
        worth -= 3  # a formula alone says what came out, not how
    if len(text) > 330:
        worth -= 1 + (len(text) - 330) / 200
    elif len(text) < 40:
        worth -= 1
    if _META.match(text):
        worth -= 3
    if "?" in text:
        worth -= 2
    if _ANSWER_INSIDE.search(text):
        worth -= 1.5
    return worth
