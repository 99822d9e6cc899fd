"""A platform's own past, read from its store for replays."""
