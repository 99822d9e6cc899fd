"""First fit: the lowest free device indices, the baseline that knows nothing about nodes."""

from collections.abc import Sequence

import numpy as np

from penstock.placement.base import Ask, lowest, place_one_by_one
from penstock.placement.occupancy import Masks, Occupancy


class FirstFit:
    """O(nodes) vector operations per job. A resized job keeps its devices, the lowest when it shrinks."""

    name = "first-fit"
    summary = "the lowest free device indices; moves nobody"

    def place(self, occupancy: Occupancy, asks: Sequence[Ask]) -> dict[int, tuple[int, ...]]:
        return place_one_by_one(occupancy, asks, _choose)


def _choose(occupancy: Occupancy, held: Masks, width: int) -> Masks:
    parts = _first(held, list(held), width)
    missing = width - sum(mask.bit_count() for mask in parts.values())
    if not missing:
        return parts
    nodes = np.flatnonzero(occupancy.free_per_node)[:width].tolist()
    free = {node: occupancy.mask(node) & ~parts.get(node, 0) for node in nodes}
    for node, mask in _first(free, nodes, missing).items():
        parts[node] = parts.get(node, 0) | mask
    return parts


def _first(masks: Masks, nodes: Sequence[int], count: int) -> dict[int, int]:
    """The lowest ``count`` devices of ascending nodes, or all when there are fewer."""
    parts: dict[int, int] = {}
    for node in nodes:
        if not count:
            break
        if taken := lowest(masks[node], count):
            parts[node] = taken
            count -= taken.bit_count()
    return parts
