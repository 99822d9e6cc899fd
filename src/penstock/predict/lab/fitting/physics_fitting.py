"""Coefficients of the analytical part, by Levenberg and Marquardt's method on the logarithm of measured times."""

from collections.abc import Callable

import numpy as np

from penstock.predict.kernels.physics import Physics, Rates
from penstock.predict.kernels.tiling import Array, TiledWork

WEAK_PRIOR = 0.001
"""What holds coefficients near their start, as a share of what the measured rows weigh."""
_ROUNDS = 25


def fit_physics(
    start: Physics, work: TiledWork, rates: Rates, seconds: Array, weights: Array, *, prior: float = WEAK_PRIOR
) -> Physics:
    """Least squares of log(time / prediction), held near the coefficients of ``start`` by a prior."""
    first = start.log_coefficients
    scale = np.sqrt(weights / weights.mean())

    def residuals(point: Array) -> Array:
        off = np.log(seconds / Physics(point).terms(work, rates).total)
        moved = (point - first) * np.sqrt(prior * len(seconds) / len(point))
        return np.concatenate([scale * _softened(off), moved])

    return Physics(_least_squares(residuals, first))


def _softened(off: Array) -> Array:
    """A squared loss near zero and a linear one beyond 50 %: outliers pull, but do not rule."""
    size = np.abs(off)
    return np.asarray(np.sign(off) * np.where(size < 0.5, size, np.sqrt(np.maximum(size - 0.25, 0.0))))


def _least_squares(residuals: Callable[[Array], Array], start: Array) -> Array:
    point, damping = start.copy(), 1e-2
    off = residuals(point)
    for _ in range(_ROUNDS):
        slope = np.column_stack([(residuals(point + step) - off) / 1e-3 for step in 1e-3 * np.eye(len(point))])
        gram, pull = slope.T @ slope, slope.T @ off
        trial = point - np.linalg.solve(gram + damping * np.diag(np.diag(gram) + 1e-9), pull)
        trial = np.clip(trial, start - 4, start + 4)
        new = residuals(trial)
        gain = 1 - (new @ new) / (off @ off)
        if gain > 0:
            point, off, damping = trial, new, damping / 3
            if gain < 1e-5:
                break
        else:
            damping *= 5
            if damping > 1e6:
                break
    return point
