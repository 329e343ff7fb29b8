"""What a log of Inspect says: the text of a problem, and the texts of its solutions.

Plain attributes are read, so that `inspect_ai` need not be installed to import this.
"""

from collections.abc import Sequence
from typing import Any


def problem_text(prompt: str | list[Any]) -> str:
    """The problem in a sample's input: of messages, what the user says after the last example."""
    if isinstance(prompt, str):
        return prompt
    answered = [place for place, message in enumerate(prompt) if message.role == "assistant"]
    last = prompt[answered[-1] + 1 :] if answered else prompt
    return "\n\n".join(message.text for message in last if message.role == "user")


def turn_text(message: Any) -> str:
    """What a model wrote in one turn: its thoughts in `<think>` tags, then its words.

    Thoughts that only their maker can read are given by their summary.
    """
    if isinstance(message.content, str):
        return message.content
    parts = []
    for part in message.content:
        if part.type == "text":
            parts.append(part.text)
        elif part.type == "reasoning":
            thought = (part.summary or "") if part.redacted else part.reasoning
            parts.append(f"<think>\n{thought}\n</think>" if thought.strip() else "")
    return "\n\n".join(part for part in parts if part.strip())


def solution_texts(messages: Sequence[Any], output: Any) -> list[str]:
    """The solutions of one sample: one for each choice of the last turn.

    What the model wrote in earlier turns, before a call of a tool for example, comes first.
    Assistant messages that it did not write are examples.
    """
    turns = [
        message
        for message in messages
        if message.role == "assistant" and message.source == "generate"
    ]
    choices = [choice.message for choice in output.choices] or turns[-1:]
    last = [turn_text(choice) for choice in choices] or [""]
    if output.completion not in ("", choices[0].text if choices else ""):
        last[0] = output.completion  # which a solver wrote, and which was scored
    before = [turn_text(turn) for turn in turns[:-1]]
    return ["\n\n".join(text for text in (*before, text) if text.strip()) for text in last]
