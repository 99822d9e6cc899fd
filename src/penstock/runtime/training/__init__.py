"""The training loop as a script sees it: runs, steps, samples and their order, models that change engines."""
