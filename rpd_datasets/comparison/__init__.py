"""Comparing models on the same problems: what they solve, and in how many ways."""
