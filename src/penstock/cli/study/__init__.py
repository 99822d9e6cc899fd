"""Verbs that need no server: traces, policies and simulations."""
