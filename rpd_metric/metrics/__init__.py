"""The `evaluate` modules, laid out as `evaluate` lays out its own."""
