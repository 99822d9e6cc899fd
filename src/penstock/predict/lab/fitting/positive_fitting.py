"""Sums of positive terms, fitted to the logarithm of what they should add up to and held near what is expected."""

import numpy as np

from penstock.predict.kernels.tiling import Array

_ROUNDS = 60


def fit_positive(terms: Array, wanted: Array, expected: Array, freedom: float | Array) -> Array:
    """Coefficients of ``terms`` (a row for every sum) by least squares of logarithms.

    ``freedom`` is how far, as a logarithm, a coefficient may be from its expected value, one for all or one for each:
    where rows say little about it, it stays there. Levenberg and Marquardt's steps, on the logarithms of the
    coefficients: all stay positive.
    """
    start = np.log(expected)
    found, damping = start.copy(), 1.0
    best = _distance(found, terms, wanted, start, freedom)
    for _ in range(_ROUNDS):
        parts = terms * np.exp(found)
        whole = parts.sum(axis=1)
        slopes = np.vstack([parts / whole[:, None], np.diag(1 / (freedom * np.ones(len(found))))])
        rest = np.concatenate([np.log(wanted / whole), (start - found) / freedom])
        step = np.linalg.solve(slopes.T @ slopes + damping * np.eye(len(found)), slopes.T @ rest)
        distance = _distance(found + step, terms, wanted, start, freedom)
        if distance < best:
            found, best, damping = found + step, distance, damping / 3
        else:
            damping *= 4
    return np.asarray(np.exp(found))


def _distance(found: Array, terms: Array, wanted: Array, start: Array, freedom: float | Array) -> float:
    off = np.log(wanted / (terms * np.exp(found)).sum(axis=1))
    return float(np.sum(off**2) + np.sum(((found - start) / freedom) ** 2))
