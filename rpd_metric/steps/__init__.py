"""From the text of a solution to the short, ordered list of what it does."""
