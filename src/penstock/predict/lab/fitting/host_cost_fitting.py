"""What the host needs per operation, from how long it took to issue whole iterations."""

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.predict.iteration import ISSUED_KINDS, HostCost
from penstock.tools import nonnegative_least_squares


def fit_host_costs(issued: Sequence[tuple[Mapping[str, float], float]], whole: Sequence[float] = ()) -> HostCost:
    """From (what was issued, seconds that took), on errors relative to those; no cost is below 0.

    Where the seconds are what is left of an iteration beside its kernels, errors count relative to the iteration:
    ``whole`` gives its seconds.
    """
    if not issued:
        return HostCost()
    scales = whole or [seconds for _, seconds in issued]
    rows = np.array(
        [[counts.get(k, 0) / scale for k in ISSUED_KINDS] for (counts, _), scale in zip(issued, scales, strict=True)]
    )
    shares = np.array([seconds / scale for (_, seconds), scale in zip(issued, scales, strict=True)])
    costs = nonnegative_least_squares(rows, shares)
    return HostCost(**{f"{kind}_s": float(cost) for kind, cost in zip(ISSUED_KINDS, costs, strict=True)})
