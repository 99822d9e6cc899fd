"""Error bars from residuals of shapes that a fit has not seen, by their distance from those it has."""

from itertools import pairwise

import numpy as np

from penstock.predict.kernels.error_bars import ErrorBars, nearest
from penstock.predict.kernels.tiling import Array

_COVERED = 0.9
_KNOTS = 5
_REFERENCES = 1500
_STEPS = 8
"""References are kept in eighths of an octave."""


def fit_error_bars(shapes: Array, off: Array, fold: Array) -> ErrorBars:
    """From residuals (of logarithms) of rows whose fold was left out, and their distance from the other folds."""
    distance = np.zeros(len(shapes))
    for left_out in np.unique(fold):
        mine = fold == left_out
        distance[mine] = nearest(shapes[mine], thinned(shapes[~mine])) if np.any(~mine) else 0.0
    edges = np.quantile(distance, np.linspace(0, 1, _KNOTS + 1))
    widths = [np.quantile(np.abs(off)[(distance >= a) & (distance <= b)], _COVERED) for a, b in pairwise(edges)]
    knots = np.maximum.accumulate((edges[:-1] + edges[1:]) / 2)
    references = np.round(thinned(shapes) * _STEPS) / _STEPS
    return ErrorBars(references=references, distances=knots, widths=np.maximum.accumulate(widths))


def widest_error_bars(shapes: Array, off: Array) -> ErrorBars:
    """Of a family with too few rows for folds: twice what its physics missed most, at any distance."""
    references = np.unique(shapes.astype(np.float32), axis=0).astype(float)
    return ErrorBars(references=references, distances=np.zeros(1), widths=np.array([2 * float(np.abs(off).max())]))


def thinned(shapes: Array) -> Array:
    """At most so many of them that a search stays quick; the first and last of every column stay."""
    unique = np.unique(shapes, axis=0)
    if len(unique) <= _REFERENCES:
        return unique
    extremes = np.concatenate([unique.argmin(axis=0), unique.argmax(axis=0)])
    picked = np.linspace(0, len(unique) - 1, _REFERENCES).astype(int)
    return np.asarray(unique[np.union1d(picked, extremes)])
