"""From packed tokens to the batches of a training loop."""
