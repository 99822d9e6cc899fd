"""Numbers that anyone can re-run."""
