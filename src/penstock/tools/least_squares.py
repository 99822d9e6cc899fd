"""Least squares with coefficients that may not be negative: times, costs and shares of a sum have no other sign.

The active-set method of Lawson and Hanson ("Solving Least Squares Problems", 1974, chapter 23), for the few unknowns
that cost models have. SciPy holds the same, but is no dependency of a scheduler.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_TOLERANCE = 1e-12
"""A gradient below this share of the largest that could occur counts as zero."""


def nonnegative_least_squares(rows: Floats, targets: Floats) -> Floats:
    """The x of at least 0 for which ``|rows @ x - targets|`` is smallest; O(rows x columns^2) per column that enters.

    Columns are scaled to length one first, so their units do not matter. A column of zeros gets a coefficient of 0; of
    columns that depend on each other any combination may carry the sum.
    """
    lengths = np.linalg.norm(rows, axis=0)
    lengths[lengths == 0] = 1.0
    return np.asarray(_solved(rows / lengths, targets) / lengths)


def _solved(matrix: Floats, targets: Floats) -> Floats:
    """For columns of length one. Every change of the solution lowers the error, so no set of columns comes twice."""
    solution = np.zeros(matrix.shape[1])
    refused = np.zeros(matrix.shape[1], dtype=np.bool_)
    residual = targets
    while not np.all(refused | (solution > 0)):
        gradient = np.where(refused | (solution > 0), -np.inf, matrix.T @ residual)
        entering = int(gradient.argmax())
        if gradient[entering] <= _TOLERANCE * np.linalg.norm(targets):
            break
        moved = _descended(matrix, targets, solution, entering)
        better = targets - matrix @ moved
        if np.linalg.norm(better) < np.linalg.norm(residual):
            solution, residual = moved, better
            refused[:] = False
        else:
            refused[entering] = True
    return solution


def _descended(matrix: Floats, targets: Floats, solution: Floats, entering: int) -> Floats:
    """The best sum of the columns in use and one more; those that would become negative on the way leave one by one."""
    used = solution > 0
    used[entering] = True
    while True:
        wanted = np.zeros_like(solution)
        wanted[used] = np.linalg.lstsq(matrix[:, used], targets, rcond=None)[0]
        negative = np.flatnonzero(used & (wanted <= 0))
        if not negative.size:
            return wanted
        steps = solution[negative] / np.maximum(solution[negative] - wanted[negative], np.finfo(float).tiny)
        solution = np.maximum(solution + steps.min() * (wanted - solution), 0.0)
        leaving = negative[steps.argmin()]
        solution[leaving], used[leaving] = 0.0, False
