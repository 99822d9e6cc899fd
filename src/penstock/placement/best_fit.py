"""Consolidated best fit: the fullest node that still has room, and never a job moved for another.

The usual choice of cluster managers without migration. It keeps jobs together while it can; holes left behind by
departed jobs stay holes, so wide jobs end up spread over more nodes the longer the cluster runs.
"""

from collections.abc import Sequence

import numpy as np

from penstock.placement.base import Ask, carve, place_one_by_one, round_up
from penstock.placement.occupancy import Counts, Masks, Occupancy, block_mask


class BestFit:
    """O(nodes) vector operations per job, O(nodes log nodes) for one wider than any node has free."""

    name = "best-fit"
    summary = "the fullest node that fits, else the fewest nodes; moves nobody"

    def place(self, occupancy: Occupancy, asks: Sequence[Ask]) -> dict[int, tuple[int, ...]]:
        return place_one_by_one(occupancy, asks, _choose)


def _choose(occupancy: Occupancy, held: Masks, width: int) -> Masks:
    fresh = compact(occupancy, width)
    if not held:
        return fresh
    kept = resized(occupancy, held, width)
    return kept if len(kept) <= len(fresh) else fresh


def compact(occupancy: Occupancy, width: int) -> Masks:
    """Free devices on the fewest nodes possible without moving anyone."""
    return _carved(occupancy, pack(occupancy.free_per_node, width))


def pack(counts: Counts, width: int) -> dict[int, int]:
    """How many to take from each bin, so that the fewest bins give ``width`` and the last is the tightest fit.

    >>> pack(np.array([3, 8, 5, 8]), 5), pack(np.array([3, 8, 5, 8]), 10)
    ({2: 5}, {1: 8, 0: 2})
    """
    fits = (counts >= width).nonzero()[0]
    if fits.size:
        return {int(fits[counts[fits].argmin()]): width}
    order = np.argsort(-counts, kind="stable")
    reach = np.cumsum(counts[order])
    emptied = order[: np.searchsorted(reach, width)]
    rest = width - int(reach[len(emptied) - 1])
    others = order[len(emptied) :]
    fits = others[counts[others] >= rest]
    taken = dict(zip(emptied.tolist(), counts[emptied].tolist(), strict=True))
    return taken | {int(fits[counts[fits].argmin()]): rest}


def resized(occupancy: Occupancy, held: Masks, width: int) -> Masks:
    """Another width for a job that keeps as many of its devices as that allows."""
    count = sum(mask.bit_count() for mask in held.values())
    return _grown(occupancy, held, width - count) if width > count else _shrunk(held, width)


def _shrunk(held: Masks, width: int) -> Masks:
    nodes = list(held)
    counts = np.array([held[node].bit_count() for node in nodes], dtype=np.int64)
    return {nodes[i]: carve(held[nodes[i]], count) for i, count in pack(counts, width).items()}


def _grown(occupancy: Occupancy, held: Masks, missing: int) -> Masks:
    """All it held, then what is free beside it, then the fewest other nodes."""
    parts: dict[int, int] = {}
    for node, mask in held.items():
        extra = min(missing, (occupancy.mask(node) & ~mask).bit_count())
        parts[node] = _extended(mask, occupancy.mask(node), extra) if extra else mask
        missing -= extra
    if not missing:
        return parts
    elsewhere = occupancy.free_per_node.copy()
    elsewhere[list(held)] = 0
    return {**parts, **_carved(occupancy, pack(elsewhere, missing))}


def _extended(mask: int, available: int, extra: int) -> int:
    """The mask and ``extra`` more devices of its node: of the buddy block around it where that is free."""
    size = round_up(mask.bit_count() + extra)
    start = (mask & -mask).bit_length() - 1
    around = block_mask(size, start - start % size)
    inside = not mask & ~around and not around & ~available
    return mask | carve((around if inside else available) & ~mask, extra)


def _carved(occupancy: Occupancy, counts: dict[int, int]) -> Masks:
    return {node: carve(occupancy.mask(node), count) for node, count in counts.items()}
