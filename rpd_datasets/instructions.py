r"""Prompt templates of training and evaluation: a name of [`PROMPTS`] or a text with `{problem}`.

The prompts of summarizers and judges are in `rpd_metric/prompts`.
"""

from rpd_metric.errors import InputError

MARK = "{problem}"

PROMPTS = {
    "problem": MARK,
    "box": MARK + "\n\nPut your final answer within \\boxed{}.",
    "reason_and_box": MARK + "\n\nReason step by step, and put the final answer in \\boxed{}.",
    "python_function": "Complete this Python function. Reply with the whole function in one "
    "fenced code block.\n\n```python\n" + MARK + "\n```",
}


def prompt_template(name: str) -> str:
    """The text of a prompt: a name of [`PROMPTS`], or a text with `{problem}` in it, as it is."""
    if name in PROMPTS:
        return PROMPTS[name]
    if MARK in name:
        return name
    raise InputError(f"prompt must contain {MARK} or be one of {', '.join(PROMPTS)}, got {name!r}")


def fill_prompt(template: str, problem: str) -> str:
    """Put a problem into a template; braces elsewhere in both stay as they are."""
    return template.replace(MARK, problem)
