"""Verbs about jobs: hand them in, look at them, steer them."""
