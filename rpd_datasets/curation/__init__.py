"""From problems to a curated folder: score each, choose, write, resume."""
