"""The server looked at from outside: metrics, device readings, counts of jobs, its own log."""
