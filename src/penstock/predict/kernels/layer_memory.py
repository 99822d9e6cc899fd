"""What was measured of the same layer at other batch sizes: it says more than any model of layers like it.

A library picks one of many kernels for a layer, and neighbouring layers may get quite different ones. What the trees,
which smooth over neighbours, are off on one layer is therefore much the same at all of its batch sizes.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from penstock.predict.kernels.calls import KernelCall
from penstock.predict.kernels.shapes import physics_key, shape_family
from penstock.predict.kernels.tiling import Array

_DOUBT = 0.3
"""The weight of knowing nothing, in rows of the same size."""
OFF_STEPS = 256
"""What a row says is kept in steps of a 256th (of the logarithm)."""
_HASH_BYTES, _LAYER_BYTES = 8, 5
"""Of a layer's hash, the first bytes are enough to tell a hundred thousand layers apart."""
_DOUBLINGS = 2.0
"""A row counts e times less for each so many doublings of the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerMemory:
    """Measured rows in the order of their layers: which one, how large, and how far the model was off."""

    layers: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.float16]
    off: npt.NDArray[np.float16]
    """Of the usual time and of the mean, a row each."""

    def corrections(self, calls: Sequence[KernelCall]) -> Array:
        """log(time / what the model says) of the usual time and of the mean, zero for a layer nobody measured."""
        layers = layer_keys(calls)
        first, last = (np.searchsorted(self.layers, layers, side=side) for side in ("left", "right"))
        found = last - first
        asking = np.repeat(np.arange(len(calls)), found)
        row = np.arange(len(asking)) - np.repeat(np.cumsum(found) - found, found) + np.repeat(first, found)
        doublings = np.abs(log_sizes(calls)[asking] - self.sizes[row]).astype(float)
        weights = np.exp(-doublings / _DOUBLINGS)
        told = [np.bincount(asking, weights * off, len(calls)) for off in self.off[row].T]
        return np.asarray(np.transpose(told) / (np.bincount(asking, weights, len(calls)) + _DOUBT)[:, None])


def shortened(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The first bytes of whole hashes, as files of version 5 hold them; their order stays."""
    return hashes >> np.uint64(8 * (_HASH_BYTES - _LAYER_BYTES))


def layer_keys(calls: Sequence[KernelCall]) -> npt.NDArray[np.uint64]:
    """A number for everything about each call but its batch, the same on every machine."""
    return np.array([_layer(call) for call in calls], dtype=np.uint64)


def _layer(call: KernelCall) -> int:
    key = f"{physics_key(call)}/{call.variant}/{shape_family(call)}".encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=_HASH_BYTES).digest()[:_LAYER_BYTES], "big")


def log_sizes(calls: Sequence[KernelCall]) -> npt.NDArray[np.float16]:
    """log2 of the product of each call's dims."""
    return np.array([np.log2(max(prod(call.dims), 1)) for call in calls], dtype=np.float16)
