"""Words for the columns that policies read and write."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.core import MOST_VALUE_STEPS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

PLAN_STEPS = 16
"""A plan has at most this many changes of width, its end included."""


VALUE_STEPS = MOST_VALUE_STEPS
"""A job has at most this many deadlines of falling value."""


class Standing:
    """What a job has been told so far; plain numbers, because they fill a column."""

    UNANSWERED: Final = 0
    DEFERRED: Final = 1
    ADMITTED: Final = 2
    PROMISED: Final = 3
