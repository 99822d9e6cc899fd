"""How often to save: the interval that loses the least time to saving and to doing again what was not saved."""

import math
from dataclasses import dataclass

from penstock.core.errors import InputError
from penstock.core.units import format_duration


def best_interval_s(blocking_s: float, mean_time_between_failures_s: float) -> float:
    """Young's interval between checkpoints, sqrt(2 C M): the least time lost to saving and to redoing together.

    C is what a checkpoint costs, M the mean time between failures (Young 1974). Daly (2006) has terms beyond it, which
    matter where C is not small beside M; a copy in the background always is.

    >>> best_interval_s(0.5, 3600)
    60.0
    """
    if blocking_s <= 0 or mean_time_between_failures_s <= 0:
        raise InputError(
            f"cost {blocking_s:g} s, time between failures {mean_time_between_failures_s:g} s", "both above 0 seconds",
            "Measure the cost with one checkpoint",
        )  # fmt: skip
    return math.sqrt(2 * blocking_s * mean_time_between_failures_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingInterval:
    """How often a job saves, and what that follows from."""

    seconds: float
    cost_s: float
    between_failures_s: float

    def __str__(self) -> str:
        """
        >>> print(SavingInterval(seconds=420.0, cost_s=0.2, between_failures_s=144_000.0))
        saves every 7m: each costs 0.2 s, failures about every 1d 16h
        """
        every, apart = format_duration(self.seconds), format_duration(self.between_failures_s)
        return f"saves every {every}: each costs {self.cost_s:.2g} s, failures about every {apart}"
