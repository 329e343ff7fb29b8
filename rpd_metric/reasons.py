"""Why a row, a problem, a solution or a reply was left out: one list for both packages.

Nothing is dropped in silence. What leaves something out names one of these, and a run counts by
them. A filter or layout of another package may bring a word of its own. docs/reasons.md has the
table.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """A short code to count by, which is its text everywhere, and what it means.

    Attributes:
        meaning (`str`): One line for a person.

    Example:

    >>> Reason.DUPLICATE, Reason.DUPLICATE == "duplicate"
    ('duplicate', True)
    >>> Reason("duplicate").meaning
    'the same text as an earlier solution, blank space aside'
    """

    meaning: str

    @property
    def option(self) -> str:
        """The option of `rpd curate` that brings back what was left out, `""` where none does."""
        return next((option for option, reasons in _BACK.items() if self in reasons), "")

    def __new__(cls, code: str, meaning: str = "") -> Reason:
        """A member is written as its code and its meaning."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    __repr__ = str.__repr__

    # Reading: a row, or a solution in it.
    NOT_UTF8 = "not_utf8", "the row is not UTF-8"
    LINE_TOO_LONG = "line_too_long", "the line is too long to be held in memory"
    MALFORMED_JSON = "malformed_json", "the line is not JSON"
    MALFORMED_CSV = "malformed_csv", "quotes do not match, or there are more or fewer cells"
    TOO_DEEP = "too_deep", "the row is nested too deep to be carried along"
    NOT_AN_OBJECT = "not_an_object", "the row is not an object with named columns"
    MISSING_COLUMN = "missing_column", "the row lacks a column that is read"
    NULL_GROUP = "null_group", "the list of solutions or messages is null"
    EMPTY_GROUP = "empty_group", "the list of solutions or messages is empty"
    NOT_A_LIST = "not_a_list", "solutions or messages are not a list"
    NULL_PROBLEM = "null_problem", "the problem is null"
    EMPTY_PROBLEM = "empty_problem", "the problem is empty or blank"
    PROBLEM_NOT_TEXT = "problem_not_text", "the problem is a number, a list or the like"
    NULL_SOLUTION = "null_solution", "the solution is null"
    EMPTY_SOLUTION = "empty_solution", "the solution has no text"
    SOLUTION_NOT_TEXT = "solution_not_text", "the solution is a number, a list or the like"
    NOT_UNICODE = "not_unicode", "a text holds half of a surrogate pair and cannot be written"
    BAD_ROW = "bad_row", "the problem is not text, or the solutions are not a list"
    NOT_TEXT = "not_text", "the solution is a number, a list or null, in a row that is mapped"
    NO_USABLE_SOLUTION = "no_usable_solution", "none of the row's solutions can be used"
    NOT_ONE_EXCHANGE = "not_one_exchange", "the messages lack the question or the answer"
    NOT_OF_THE_HARNESS = "not_of_the_harness", "the row does not have the harness's format"
    NO_TEXTS = "no_texts", "the row has log-likelihoods instead of generated text"
    FAILED_EPOCH = "failed_epoch", "the sample failed in Inspect"
    UNFINISHED_LOG = "unfinished_log", "the log of Inspect is cancelled, failed or not finished"
    # Grouping.
    WRONG_COUNT = "wrong_count", "the number of solutions differs from the one asked for"
    # Filters.
    CONTAMINATED = "contaminated", "the problem is part of a benchmark"
    TOO_LONG = "too_long", "the problem's solutions are too long on average"
    TOO_FEW_SOLUTIONS = "too_few_solutions", "too few of the problem's solutions are left"
    TOO_FEW_STRATEGIES = (
        "too_few_strategies",
        "the solutions show too few strategies, or unknown ones",
    )
    REJECTED_BY_HAND = "rejected_by_hand", "a person rejected the solution"
    INCORRECT = "incorrect", "the input marks the solution as wrong"
    CORRECTNESS_UNKNOWN = "correctness_unknown", "the input does not mark the solution"
    WRONG_ANSWER = "wrong_answer", "the final answer differs from the reference"
    NO_MAJORITY = "no_majority", "no answer is more frequent than every other"
    NO_ANSWER = "no_answer", "the solution names no final answer"
    MINORITY_ANSWER = "rare_answer", "most solutions have another final answer"
    FLOUNDERING = "admits_mistake", "the solution admits a mistake or makes values fit"
    INCOMPLETE = "incomplete", "a judge says that the solution was not finished"
    EMPTY = "empty", "nothing follows the thoughts"
    UNCLOSED_THINK = "unclosed_think", "the thoughts never end"
    UNCLOSED_BOX = "unclosed_box", "the box around the answer does not close"
    UNCLOSED_CODE = "unclosed_code", "a block of code does not close"
    REPETITION_LOOP = "repetition_loop", "the text ends in a loop"
    CUT_OFF = "cut_off", "the solution breaks off"
    NO_FINAL_ANSWER = "no_final_answer", "the solution has no answer to compare with the reference"
    DUPLICATE = "duplicate", "the same text as an earlier solution, blank space aside"
    UNNATURAL = "unnatural", "the student finds the problem's other solutions more natural"
    # Replies of a summarizer or a judge.
    MODEL_ERROR = "model_error", "the request to the model failed"
    TRUNCATED = "truncated", "the reply was cut off"
    NO_ENVELOPE = "no_envelope", "the reply lacks the box or the JSON that was asked for"
    QUOTED_ENVELOPE = "quoted_envelope", "the reply's JSON is that of the prompt"
    BAD_JSON = "bad_json", "the reply's JSON is broken"
    WRONG_SHAPE = "wrong_shape", "the reply's JSON holds something else"
    CONTROL_CHARACTERS = "control_characters", "a step holds control characters"
    TOO_FEW_STEPS = "too_few_steps", "the reply has too few steps"
    TOO_MANY_STEPS = "too_many_steps", "the reply has too many steps"
    COPIED_EXAMPLE = "copied_example", "the reply repeats the prompt's example"
    REPEATED_STEPS = "repeated_steps", "two steps of the reply say the same"
    NO_STEPS = "no_steps", "no step was found in the solution"
    BAD_VERDICT = "bad_verdict", "the verdict of the reply cannot be read"
    CONTRADICTION = "contradiction", "the judge says one thing in one order, another in the other"
    NO_VERDICT = "no_verdict", "the judge gave no verdict"
    PLUGIN_FAILED = "plugin_failed", "a part of another package failed on the problem"
    # Choosing.
    UNIFORM = "uniform", "a judge finds one method in all of the problem's solutions"
    NOT_DIVERSE = "not_diverse", "the problem is not among the diverse ones"
    NO_SOLUTIONS = "no_solutions", "no solution is left to choose from"
    SKIPPED = "skipped", "a person labelled nothing"
    # Export.
    NO_RIGHT_SOLUTION = "no_right_solution", "no solution was chosen, or is known to be right"
    NO_WRONG_SOLUTION = "no_wrong_solution", "no solution is known to be wrong"
    NOT_IN_FORMAT = "not_in_format", "the trainer's format cannot hold the conversation"


_BACK = {
    "--min-solutions": (Reason.TOO_FEW_SOLUTIONS,),
    "--min-strategies": (Reason.TOO_FEW_STRATEGIES,),
    "--max-mean-tokens": (Reason.TOO_LONG,),
    "--decontaminate": (Reason.CONTAMINATED,),
    "--decisions": (Reason.REJECTED_BY_HAND,),
    "--no-only-correct": (Reason.CORRECTNESS_UNKNOWN,),
    "--keep-wrong": (Reason.INCORRECT, Reason.WRONG_ANSWER),
    "--answers": (Reason.NO_MAJORITY, Reason.NO_ANSWER, Reason.MINORITY_ANSWER),
    "--soundness": (Reason.FLOUNDERING,),
    "--no-require-complete": (
        *(Reason.INCOMPLETE, Reason.EMPTY, Reason.UNCLOSED_THINK, Reason.UNCLOSED_BOX),
        *(Reason.UNCLOSED_CODE, Reason.REPETITION_LOOP, Reason.CUT_OFF, Reason.NO_FINAL_ANSWER),
    ),
    "--no-drop-duplicates": (Reason.DUPLICATE,),
    "--student": (Reason.UNNATURAL,),
    "--problems": (Reason.UNIFORM,),
    "--exactly": (Reason.WRONG_COUNT,),
}


def with_option(reason: str, count: int) -> str:
    """How often something was left out for a reason, and the option that brings it back.

    >>> with_option("duplicate", 1200), with_option("null_problem", 1)
    ('duplicate 1,200 (--no-drop-duplicates)', 'null_problem 1')
    """
    known = reason in Reason.__members__.values()
    option = Reason(reason).option if known else ""
    return f"{reason} {count:,}" + (f" ({option})" if option else "")
