"""Whether an answer or a program is right."""
