"""Regression trees as plain arrays: stored in a file, read by anybody, evaluated without the library that grew them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from penstock.predict.kernels.tiling import Array
from penstock.tools import compiled, has_compiler

Indices = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.float32]
Features = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """A sum of trees, the nodes of each in the order a walk to the left visits them.

    A node sends a row to the next node if ``row[feature] <= number``, else to ``right``. A leaf is its own ``right``,
    and its ``number`` is what it adds.
    """

    feature: Features
    number: Numbers
    right: Indices
    roots: Indices
    base: float

    def predict(self, rows: Array) -> Array:
        """O(trees x depth) per row."""
        columns = (self.feature, self.number, self.right, self.roots)
        return self.base + _descent()(np.ascontiguousarray(rows), *columns)


@cache
def _descent() -> Callable[..., Array]:
    """Compiled where numba is installed; the light install of a measuring machine has only NumPy."""
    return compiled(_descend) if has_compiler() else _descend_together


def _descend(rows: Array, feature: Features, number: Numbers, right: Indices, roots: Indices) -> Array:
    """Tree by tree: the nodes of one stay in the processor's cache while all rows pass."""
    total = np.zeros(len(rows))
    for root in roots:
        for row in range(len(rows)):
            node = root
            while right[node] != node:
                node = node + 1 if rows[row, feature[node]] <= number[node] else right[node]
            total[row] += number[node]
    return total


def _descend_together(rows: Array, feature: Features, number: Numbers, right: Indices, roots: Indices) -> Array:
    """The same, a level at a time for all rows and trees."""
    node = np.broadcast_to(roots, (len(rows), len(roots)))
    index = np.arange(len(rows))[:, None]
    while np.any(right[node] != node):
        after = np.where(rows[index, feature[node]] <= number[node], node + 1, right[node])
        node = np.where(right[node] == node, node, after)
    return np.asarray(number[node].sum(axis=1, dtype=float))
