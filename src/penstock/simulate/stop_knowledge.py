"""What a scheduler may know about jobs that end by a metric: names alone, so that a command line can list them."""

from enum import StrEnum


class StopKnowledge(StrEnum):
    """What the scheduler knows about when such jobs end."""

    FORECAST = "forecast"
    """What their metrics tell while they run."""
    MOST = "most"
    """That they do at most all their work; metrics are ignored."""
    ORACLE = "oracle"
    """Everything."""
