"""Pods of runs: what they ask for, how they are created and removed, and what their status means."""
