"""The `evaluate` module `pass_at_k`."""
