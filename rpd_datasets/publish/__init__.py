"""Publishing: checks before a push, cards, the push itself, and the metric's Space."""
