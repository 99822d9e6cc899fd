"""What has been asked for lately, for policies that weigh a promise against the likely future."""

from dataclasses import dataclass

import numpy as np

from penstock.policies.columns import Floats

COST_CLASSES = 64
"""Jobs are told apart by the power of two of the device-seconds they take at their most economical width."""


@dataclass(frozen=True, slots=True, eq=False)
class ArrivalStatistics:
    """``demand[c]``: devices that jobs with a deadline that take up to 2 ** c device-seconds would keep busy.

    Counted over the recent past and the time that such jobs had on average.
    """

    demand: Floats

    @classmethod
    def none(cls) -> "ArrivalStatistics":
        return cls(np.zeros(COST_CLASSES))

    def affordable_cost(self, devices: float) -> float:
        """The cost up to which all jobs together keep at most so many devices busy; infinite if all of them do."""
        busy = np.cumsum(self.demand)
        return np.inf if busy[-1] <= devices else float(2.0 ** np.searchsorted(busy, devices, side="right"))
