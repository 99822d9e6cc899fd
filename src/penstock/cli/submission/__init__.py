"""Verbs that hand a job in or ask about one that might be: all of them describe it by the same flags and files."""
