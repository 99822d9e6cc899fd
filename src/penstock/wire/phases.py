"""Where a job stands, in the words that people, the API and the command line share."""

from enum import StrEnum


class JobPhase(StrEnum):
    """Where a job stands, in the words people see: the scheduler's states, and what only the platform knows."""

    BLOCKED = "blocked"
    """It waits for other jobs to end; then it is prepared and asks the scheduler."""
    PREPARING = "preparing"
    """What it needs is being installed and its speed predicted; then it asks the scheduler."""
    ASKING = "asking"
    PENDING = "pending"
    RUNNING = "running"
    SUSPENDED = "suspended"
    PAUSED = "paused"
    """A person took it out of scheduling."""
    FINISHING = "finishing"
    """Its work on devices is done and they are given back; what is left of it needs none."""
    FINISHED = "finished"
    FAILED = "failed"
    DECLINED = "declined"
    CANCELLED = "cancelled"


OVER = frozenset({JobPhase.FINISHED, JobPhase.FAILED, JobPhase.DECLINED, JobPhase.CANCELLED})
"""Phases a job never leaves."""

ACTIVE = tuple(phase for phase in JobPhase if phase not in OVER)
"""Phases of a job that something may still become of."""
