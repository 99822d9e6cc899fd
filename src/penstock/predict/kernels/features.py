"""What the learned part may look at: ratios to what a device offers, so that it carries over to other devices."""

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.predict.kernels.calls import ImageLayout, KernelCall, Precision
from penstock.predict.kernels.physics import BoundTimes, Rates
from penstock.predict.kernels.tiling import Array, TiledWork, dims_of

_PRECISIONS = tuple(Precision)
_LARGEST_ALIGNMENT = 128
_PAGE = 4096
"""What is a multiple of this many bytes is copied at once; the rest of anything else takes a copy of its own."""


def features(
    calls: Sequence[KernelCall], work: TiledWork, rates: Rates, terms: BoundTimes, variants: Mapping[str, float]
) -> Array:
    """One row per call: shape, waves, how the bounds compare, how well the dims are aligned, and which kernel."""
    dims = dims_of(calls[0].family, calls).astype(np.int64)
    bounds = np.column_stack([terms.compute, terms.dram, terms.l2, terms.latency]) / terms.total[:, None]
    moved = work.dram_bytes / rates.l2_bytes
    sizes = np.array([(call.flops, call.read_bytes, call.written_bytes) for call in calls]).reshape(-1, 3)
    return np.column_stack([
        work.shape,
        work.shape.sum(axis=1),
        _log2(terms.waves),
        terms.tail,
        _log2(bounds),
        _log2(moved),
        _log2(terms.compute / terms.dram),
        _log2((sizes[:, 0] + 1) / work.dram_bytes),
        _log2((sizes[:, 1] + 1) / (sizes[:, 2] + 1)),
        work.tile_class[terms.candidate],
        terms.candidate,
        work.misaligned,
        alignment(dims),
        alignment(sizes[:, 1:].astype(np.int64), _PAGE),
        [_PRECISIONS.index(call.precision) for call in calls],
        [call.layout == ImageLayout.CHANNELS_LAST for call in calls],
        [variant_code(call.variant, variants) for call in calls],
    ])  # fmt: skip


def alignment(
    numbers: np.ndarray[tuple[int, ...], np.dtype[np.int64]], largest: int = _LARGEST_ALIGNMENT
) -> Array:  # fmt: skip
    """log2 of the largest power of two that divides each number: libraries have faster kernels for multiples of 8."""
    return np.asarray(np.log2(np.clip(numbers & -numbers, 1, largest)))


def variant_code(variant: str, known: Mapping[str, float]) -> float:
    """How much slower than the family's physics a variant runs (as a logarithm); an unknown one as its kin do."""
    if variant in known:
        return known[variant]
    return known.get(variant.split("/", maxsplit=1)[0], 0.0)


def _log2(values: Array) -> Array:
    return np.asarray(np.log2(np.maximum(values, 1e-12)))
