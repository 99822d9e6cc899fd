"""What rescheduling costs the jobs it touches."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """Seconds without progress that a policy should expect.

    ``every_round_s`` is lost by every running job each time the scheduler takes a decision, changed or not;
    a job whose devices change loses ``change_s`` plus ``per_doubling_s`` for every doubling of its width. ``worst_s``
    is the most that one unforeseen change can cost, and what a careful promise keeps in reserve.
    """

    every_round_s: float = 0.0
    change_s: float = 0.0
    per_doubling_s: float = 0.0
    worst_s: float = 0.0

    def of_change(self, width: int) -> float:
        """Seconds a job loses when it comes to run on ``width`` other devices."""
        return self.change_s + self.per_doubling_s * math.log2(width)


FREE = Overhead()
"""Rescheduling costs nothing."""
