"""Forests and layer memories in few bytes: a model of half a million rows is a file of some megabytes.

Everything that can be told from something else is left out. The nodes of a tree lie in the order of a walk to the left,
so one bit a node (inner or leaf) tells its shape. Trees split where bins of a feature end, at most a few hundred places
each, so a threshold is stored as its number among those of its feature. Leaves are stored as square roots in one byte,
finer the smaller they are (:func:`rounded_leaves`): exact for forests that were rounded when they were grown.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.predict.kernels.layer_memory import OFF_STEPS, LayerMemory
from penstock.predict.kernels.tiling import Array
from penstock.predict.kernels.trees import Forest, Indices, Numbers
from penstock.tools import compiled

Arrays = Mapping[str, np.ndarray[Any, np.dtype[Any]]]
Mask = npt.NDArray[np.bool_]

_LARGEST_ROOT = 127
_LEAST_EXPONENT = -100
"""So that it fits into a byte: trees with leaves this small add nothing."""


def packed_forest(forest: Forest) -> Arrays:
    leaf = forest.right == np.arange(len(forest.right))
    feature = forest.feature[~leaf]
    thresholds, counts, place = _numbered(feature, forest.number[~leaf])
    exponents = _leaf_exponents(forest.number, leaf, forest.roots)
    return {
        "leaf": np.packbits(leaf),
        "sizes": _smallest(np.diff(forest.roots, append=len(leaf))),
        "feature": _smallest(feature),
        "place": _smallest(place),
        "thresholds": thresholds,
        "threshold_counts": _smallest(counts),
        "square_roots": _square_roots(forest.number, leaf, forest.roots, exponents).astype(np.int8),
        "exponents": exponents.astype(np.int8),
    }


def unpacked_forest(arrays: Arrays, base: float) -> Forest:
    sizes = arrays["sizes"].astype(np.int64)
    nodes = int(sizes.sum())
    leaf = np.unpackbits(arrays["leaf"], count=nodes).astype(np.bool_)
    roots = (np.cumsum(sizes) - sizes).astype(np.int32)
    if nodes != len(leaf) or len(arrays["feature"]) != np.count_nonzero(~leaf):
        raise ValueError(f"{len(arrays['feature'])} splits in trees of {nodes} nodes")
    counts = arrays["threshold_counts"].astype(np.int64)
    number, feature = np.empty(nodes, dtype=np.float32), np.zeros(nodes, dtype=np.int16)
    feature[~leaf] = arrays["feature"]
    number[~leaf] = arrays["thresholds"][(np.cumsum(counts) - counts)[arrays["feature"]] + arrays["place"]]
    exponents = np.repeat(arrays["exponents"].astype(np.int32), (sizes + 1) // 2)
    number[leaf] = np.ldexp(_squares(arrays["square_roots"].astype(np.float32)), exponents)
    return Forest(feature=feature, number=number, right=_right_children()(leaf), roots=roots, base=base)


def rounded_leaves(number: Array, leaf: Mask, roots: Indices) -> Numbers:
    """Every leaf a signed square of at most 127, times a power of two of its tree; thresholds as they are.

    The many small leaves of late trees keep their sums, since steps are the finer the smaller a leaf is; a large leaf
    is off by less than a hundredth. Over a whole forest that comes to a thousandth of a time.
    """
    exponents = _leaf_exponents(number, leaf, roots)
    rounded = number.astype(np.float32)
    squares = _squares(_square_roots(number, leaf, roots, exponents))
    rounded[leaf] = np.ldexp(squares, exponents[_trees(leaf, roots)])
    return rounded


def packed_memory(memory: LayerMemory) -> Arrays:
    """Layers ascend: each is stored once, as its distance from the one before, with its number of rows."""
    layers, counts = np.unique(memory.layers, return_counts=True)
    return {
        "layers": np.diff(layers, prepend=np.uint64(0)),
        "counts": _smallest(counts),
        "sizes": memory.sizes,
        "off": np.ascontiguousarray(np.round(memory.off.astype(float) * OFF_STEPS).astype(np.int8).T),
    }


def unpacked_memory(arrays: Arrays) -> LayerMemory:
    return LayerMemory(
        layers=np.repeat(np.cumsum(arrays["layers"], dtype=np.uint64), arrays["counts"]),
        sizes=arrays["sizes"],
        off=np.ascontiguousarray((arrays["off"].T / OFF_STEPS).astype(np.float16)),
    )


def _numbered(feature: npt.NDArray[np.int16], threshold: Numbers) -> tuple[Numbers, Indices, Indices]:
    """Distinct thresholds by feature and size, how many each feature has, and each threshold's number among them."""
    order = np.lexsort((threshold, feature))
    ordered = np.stack([feature[order].astype(np.float32), threshold[order]])
    first = np.append(True, np.any(ordered[:, 1:] != ordered[:, :-1], axis=0))[: len(order)]
    counts = np.bincount(feature[order][first]) if len(order) else np.zeros(1, dtype=np.int64)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.cumsum(first) - 1
    place -= (np.cumsum(counts) - counts)[feature]
    return threshold[order][first], counts.astype(np.int32), place.astype(np.int32)


def _leaf_exponents(number: npt.NDArray[np.floating[Any]], leaf: Mask, roots: Indices) -> Indices:
    """Of each tree: the least power of two of which no leaf is more than 127 squared times as large."""
    largest = np.zeros(len(roots))
    np.maximum.at(largest, _trees(leaf, roots), np.abs(number[leaf]))
    mantissa, exponent = np.frexp(largest / _LARGEST_ROOT**2)
    return np.maximum(np.where(mantissa == 0.5, exponent - 1, exponent), _LEAST_EXPONENT).astype(np.int32)


def _square_roots(number: npt.NDArray[np.floating[Any]], leaf: Mask, roots: Indices, exponents: Indices) -> Array:
    """Of leaves in units of their tree, with their sign, to whole numbers."""
    units = np.ldexp(number[leaf].astype(float), -exponents[_trees(leaf, roots)])
    return np.asarray(np.round(np.copysign(np.sqrt(np.abs(units)), units)))


def _squares(roots: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.floating[Any]]:
    return np.asarray(np.copysign(roots**2, roots))


def _trees(leaf: Mask, roots: Indices) -> npt.NDArray[np.int64]:
    """The tree that each leaf belongs to."""
    return np.searchsorted(roots, np.flatnonzero(leaf), side="right") - 1


def _smallest(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Counts in the fewest bytes each."""
    return values.astype(np.min_scalar_type(int(values.max())) if values.size else np.uint8)


@cache
def _right_children() -> Callable[[Mask], Indices]:
    """Compiled where numba is installed."""
    try:
        return compiled(_right_of)
    except ImportError:
        return _right_of


def _right_of(leaf: Mask) -> Indices:
    """Where a node sends rows that are larger; a leaf sends them to itself. After a leaf, the walk goes on at the right
    of the latest node that has none yet."""
    right = np.empty(len(leaf), dtype=np.int32)
    waiting = np.empty(len(leaf) + 1, dtype=np.int32)
    depth = 0
    for node in range(len(leaf)):
        if leaf[node]:
            right[node] = node
            if depth:
                depth -= 1
                right[waiting[depth]] = node + 1
        else:
            waiting[depth] = node
            depth += 1
    return right
