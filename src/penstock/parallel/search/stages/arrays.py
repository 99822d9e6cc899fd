"""The arrays compiled loops read, bundled: numba passes named tuples as they are."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]


class ChainCosts(NamedTuple):
    """Costs along the chain, one entry per operator; in :class:`Columns` with an axis of options before it.

    ``forward``, ``work``: microseconds of the forward pass, of forward and backward; infinite work cannot be run.
    ``activation``: megabytes an operator keeps for itself. ``saved``: megabytes that need not be kept when it and the
    next one are recomputed; ``closes``: that the next one starts a layer, where a recomputed segment ends.
    ``enters``: megabytes of its input. ``receives``, ``sends``: microseconds if a stage starts or ends with it.
    ``move``: microseconds of resharding, [operator, option before, option here].
    """

    forward: Floats
    work: Floats
    activation: Floats
    saved: Floats
    weight: Floats
    enters: Floats
    fwd_reserved: Floats
    bwd_reserved: Floats
    receives: Floats
    sends: Floats
    closes: Flags
    pinned: Flags
    move: Floats


class StageLimits(NamedTuple):
    """What a stage may take: megabytes, microseconds; and the megabytes that come with each one of weights."""

    memory_mb: float
    time_us: float
    per_weight: float


class Target(NamedTuple):
    """Where rows are entered: ``times`` and ``chosen`` are [later stages, end cut, cuts inside the stage].

    ``cut_index[operator]`` is the number of the cut before an operator, -1 where none may be.
    """

    cut_index: Ints
    times: NDArray[np.float32]
    chosen: NDArray[np.int8]
