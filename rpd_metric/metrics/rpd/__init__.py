"""The `evaluate` module `rpd`."""
