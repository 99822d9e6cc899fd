"""Verbs about the platform: run a server, look at it, say who may use it."""
