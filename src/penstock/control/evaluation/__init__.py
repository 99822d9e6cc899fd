"""Evaluation of checkpoints beside training: which ones, by which jobs, what they found, and what got worse."""
