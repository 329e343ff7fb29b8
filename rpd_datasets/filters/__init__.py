"""What is left out before scoring, and why (App. C.1 of the paper)."""
