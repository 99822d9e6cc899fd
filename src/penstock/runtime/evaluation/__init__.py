"""What runs inside a worker that evaluates a checkpoint: shards, raw outputs, metric steps, results. Needs no torch."""
