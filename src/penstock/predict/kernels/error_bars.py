"""How far a prediction may be off: as far as predictions of shapes that far from anything measured were."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from penstock.predict.kernels.tiling import Array
from penstock.tools import compiled, has_compiler

_GROWTH_PER_OCTAVE = 0.25
_FARTHEST = 1.5
"""In range: not farther from the nearest measured shape than 1.5 times what the fit itself was tested on."""
_MARGIN = 0.5
_CHUNK = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBars:
    """Half-widths (of the logarithm of time) by distance from measured shapes, in octaves; nine of ten are inside."""

    references: Array
    distances: Array
    widths: Array

    def distance(self, shapes: Array) -> Array:
        return nearest(shapes, self.references)

    def width(self, distance: Array) -> Array:
        inside = np.interp(distance, self.distances, self.widths)
        return np.asarray(inside * (1 + _GROWTH_PER_OCTAVE * np.maximum(0.0, distance - self.distances[-1])))

    def covers(self, shapes: Array, distance: Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        low, high = self.references.min(axis=0) - _MARGIN, self.references.max(axis=0) + _MARGIN
        return np.asarray(((shapes >= low) & (shapes <= high)).all(axis=1) & (distance <= _FARTHEST * self._reach))

    @property
    def _reach(self) -> float:
        return float(max(self.distances[-1], _MARGIN))


def nearest(shapes: Array, references: Array) -> Array:
    """Euclidean distance to the nearest reference. O(shapes x references), most of them given up after a column."""
    return np.sqrt(_search()(np.ascontiguousarray(shapes), np.ascontiguousarray(references)))


@cache
def _search() -> Callable[[Array, Array], Array]:
    """Compiled where numba is installed."""
    return compiled(_one_by_one) if has_compiler() else _in_chunks


def _one_by_one(shapes: Array, references: Array) -> Array:
    found = np.empty(len(shapes))
    for row in range(len(shapes)):
        best = np.inf
        for other in range(len(references)):
            square = 0.0
            for column in range(shapes.shape[1]):
                square += (shapes[row, column] - references[other, column]) ** 2
                if square >= best:
                    break
            best = min(best, square)
        found[row] = best
    return found


def _in_chunks(shapes: Array, references: Array) -> Array:
    found = np.empty(len(shapes))
    for start in range(0, len(shapes), _CHUNK):
        part = shapes[start : start + _CHUNK]
        squares = (part**2).sum(axis=1)[:, None] + (references**2).sum(axis=1) - 2 * part @ references.T
        found[start : start + _CHUNK] = np.maximum(squares, 0.0).min(axis=1)
    return found
