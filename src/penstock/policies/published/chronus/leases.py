"""Time counted in leases, and what each job needs of them.

Leases begin at the same times for everybody, at multiples of their length. Lease 0 is the one that runs now, of which
only the rest is left. What a lease is worth to a job is its length less what a decision may come late and what it costs
the job to begin.
"""

import math
from typing import NamedTuple

import numpy as np

from penstock.policies.columns import Floats, Ints
from penstock.policies.kind_view import KindView

MOST_LEASES = 1200
"""Nothing is reserved further ahead: half a month of twenty minutes."""
_ROUNDING = 1e-9


class LeaseClock(NamedTuple):
    """The leases as seen from now."""

    now: float
    length: float
    first: int
    """Which of all leases since the beginning of time is lease 0."""

    @classmethod
    def at(cls, now: float, length: float) -> "LeaseClock":
        return cls(now, length, math.floor(now / length + _ROUNDING))

    @property
    def boundary(self) -> float:
        """When lease 0 ends."""
        return (self.first + 1) * self.length

    def is_new(self, slot: float) -> bool:
        """Whether lease 0 has just begun: decisions are at least ``slot`` apart, so they may come that late."""
        return self.now - self.first * self.length <= slot + _ROUNDING * max(self.now, 1.0)

    def leases_until(self, times: Floats) -> Ints:
        """How many leases end by these times, lease 0 included."""
        bounded = np.minimum(times / self.length + _ROUNDING, float(self.first + MOST_LEASES))
        return np.asarray(np.maximum(np.floor(bounded).astype(np.int64) - self.first, 0))


class LeaseNeeds(NamedTuple):
    """Over all rows: seconds of work at the requested width, and what lease 0 and later leases are worth to each."""

    clock: LeaseClock
    seconds: Floats
    cautious_s: Floats
    """The same with a margin for estimates that are too low: what a new reservation has to cover."""
    first_s: Floats
    later_s: Floats
    until: Ints
    """(rows, VALUE_STEPS) leases that end by each deadline of falling value; 0 where there is none."""

    @classmethod
    def of(cls, view: KindView, length: float, safety: float) -> "LeaseNeeds":
        clock = LeaseClock.at(view.now, length)
        seconds = view.rigid_seconds
        begins = np.where(view.width == view.requested, view.still_s, view.start_s)
        first_s = np.maximum(clock.boundary - view.now - begins, 0.0)
        later_s = np.maximum(length - view.slot - view.start_s - view.overhead.every_round_s, 0.0)
        until = np.where(np.isfinite(view.step_at), clock.leases_until(view.step_at), 0)
        return cls(clock, seconds, safety * seconds, first_s, later_s, until)
