"""Verbs about jobs that are there: look at them, steer them."""
