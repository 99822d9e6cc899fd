"""What rescheduling costs the jobs it touches, and what starting and ending costs a job by itself."""

import math
from dataclasses import dataclass

from penstock.core.errors import InputError


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


FREE = Overhead()
"""Rescheduling costs nothing."""


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds that something takes: most likely, and at most, as far as that can be said."""

    likely: float = 0.0
    most: float = 0.0

    def __post_init__(self) -> None:
        if not (0.0 <= self.likely <= self.most < math.inf):
            raise InputError(f"{self.likely} s likely, {self.most} s at most", "0 or more, the likely one first")


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds without progress that belong to one job, on whatever devices.

    ``start`` lies between getting devices after having none and the first step: processes, imports, data, a checkpoint
    to load. ``resize`` is what a change of devices takes while it runs, ``end`` what follows the last step until the
    devices are free again. Forecasts use the likely values; a promise keeps the rest in reserve.
    """

    start: Span = Span()
    resize: Span = Span()
    end: Span = Span()

    @property
    def reserve_s(self) -> float:
        """What a promise has to allow for besides the likely course."""
        return self.start.most - self.start.likely + self.end.most - self.end.likely


NO_COSTS = Costs()
"""A job that starts and ends at once: what a trace knows."""
