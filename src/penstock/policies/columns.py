"""Words for the columns that policies read and write."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.core import LATE_TOLERANCE_S, MOST_VALUE_STEPS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

PLAN_STEPS = 16
"""A plan has at most this many changes of width, its end included."""

KEPT_WITHIN_S = LATE_TOLERANCE_S / 2
"""A plan that is followed keeps a promise if it ends at most this much after its limit; new plans end by the limit.

Ends are computed anew at every decision, from other sums of the same durations. The other half of the tolerance is for
the clock that runs the job."""

MOST_SUSPENSIONS = 8
"""So often a job is suspended at most for anything less than a promise or a quota, under policies that bound that."""

ROUNDING_S = 1e-6
"""Ends are computed from the rate and the work in another order than they happen in."""

VALUE_STEPS = MOST_VALUE_STEPS
"""A job has at most this many deadlines of falling value."""


class Standing:
    """What a job has been told so far; plain numbers, because they fill a column."""

    UNANSWERED: Final = 0
    DEFERRED: Final = 1
    ADMITTED: Final = 2
    PROMISED: Final = 3
