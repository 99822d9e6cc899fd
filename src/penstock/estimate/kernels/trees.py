"""Regression trees as plain arrays: stored in a file, read by anybody, evaluated without the library that grew them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from penstock.core.jit import compiled
from penstock.estimate.kernels.work import Array

Indices = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """A sum of trees. A node sends a row left if ``row[feature] <= threshold``; leaves point to themselves."""

    feature: npt.NDArray[np.int16]
    threshold: Numbers
    left: Indices
    right: Indices
    value: Numbers
    roots: Indices
    base: float

    def predict(self, rows: Array) -> Array:
        """O(trees x depth) per row."""
        columns = (self.feature, self.threshold, self.left, self.right, self.value, self.roots)
        return self.base + _descent()(np.ascontiguousarray(rows), *columns)


@cache
def _descent() -> Callable[..., Array]:
    """Compiled where numba is installed; the light install of a measuring machine has only NumPy."""
    try:
        return compiled(_descend)
    except ImportError:
        return _descend_together


def _descend(
    rows: Array,
    feature: npt.NDArray[np.int16],
    threshold: Numbers,
    left: Indices,
    right: Indices,
    value: Numbers,
    roots: Indices,
) -> Array:
    total = np.zeros(len(rows))
    for row in range(len(rows)):
        for root in roots:
            node = root
            while left[node] != node:
                node = left[node] if rows[row, feature[node]] <= threshold[node] else right[node]
            total[row] += value[node]
    return total


def _descend_together(
    rows: Array,
    feature: npt.NDArray[np.int16],
    threshold: Numbers,
    left: Indices,
    right: Indices,
    value: Numbers,
    roots: Indices,
) -> Array:
    """The same, a level at a time for all rows and trees."""
    node = np.broadcast_to(roots, (len(rows), len(roots)))
    index = np.arange(len(rows))[:, None]
    while np.any(left[node] != node):
        node = np.where(rows[index, feature[node]] <= threshold[node], left[node], right[node])
    return np.asarray(value[node].sum(axis=1))
