"""Where shards are scored: processes of this machine, or a Ray cluster."""
