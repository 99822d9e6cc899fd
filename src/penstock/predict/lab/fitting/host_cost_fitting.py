"""What the host needs per operation, from how long it took to issue whole iterations."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock.predict.iteration import CALLS, ISSUED_KINDS, HostCost
from penstock.predict.lab.fitting.positive_fitting import fit_positive
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
    named: dict[str, Any] = {f"{kind}_s": float(cost) for kind, cost in zip(ISSUED_KINDS, costs, strict=True)}
    return HostCost(**named)


_EXPECTED = {
    "forward": 2e-5, "backward": 1.4e-5, "optimizer": 6e-5, "convolution": 4e-5, "view": 3e-6, "listed": 1e-6,
    "launched": 6e-6, "module": 6e-6, "iteration": 3e-4, CALLS: 0.7,
}  # fmt: skip
_FREEDOM = 0.7
_BESIDE_CALLS = ("view", "listed", "launched", "module", "iteration")
"""What is not in the times of operations by name."""


def fit_host_of_gpu(
    issued: Sequence[tuple[Mapping[str, float], float]], doubt: float, by_name: Mapping[str, float] | None = None
) -> HostCost:  # fmt: skip
    """The same on logarithms, held near what hosts of GPUs usually need: kinds that always come together stay apart.

    With times of operations ``by_name`` those count instead of how many there are of each kind.
    """
    kinds = (*_BESIDE_CALLS, CALLS) if by_name else ISSUED_KINDS
    rows = np.array([[counts.get(kind, 0.0) for kind in kinds] for counts, _ in issued], dtype=float)
    costs = fit_positive(
        rows, np.array([seconds for _, seconds in issued]), np.array([_EXPECTED[kind] for kind in kinds]), _FREEDOM
    )
    found = dict.fromkeys(ISSUED_KINDS, 0.0) | dict(zip(kinds, map(float, costs), strict=True))
    share = found.pop(CALLS, 0.0)
    named: dict[str, Any] = {f"{kind}_s": cost for kind, cost in found.items()}
    return HostCost(**named, doubt=doubt, calls_share=share, by_name=by_name or {})
