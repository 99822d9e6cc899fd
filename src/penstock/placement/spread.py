"""Spread: as many nodes as possible, the emptiest first; what a load balancer does when nobody stops it.

A baseline to compare with. It evens out heat and memory traffic and makes every gang pay for the network.
"""

from collections.abc import Sequence

import numpy as np

from penstock.placement.base import Ask, lowest, place_one_by_one
from penstock.placement.occupancy import Counts, Masks, Occupancy


class Spread:
    """O(nodes log nodes) per round of one device per node."""

    name = "spread"
    summary = "one device per node in turn, emptiest node first; moves nobody"

    def place(self, occupancy: Occupancy, asks: Sequence[Ask]) -> dict[int, tuple[int, ...]]:
        return place_one_by_one(occupancy, asks, _choose)


def _choose(occupancy: Occupancy, held: Masks, width: int) -> Masks:
    own = np.zeros_like(occupancy.free_per_node)
    own[list(held)] = [mask.bit_count() for mask in held.values()]
    missing = width - int(own.sum())
    if missing <= 0:
        shares = _deal(np.zeros_like(own), own, width)
        return {node: lowest(held[node], count) for node, count in _positive(shares)}
    extra = _deal(own, occupancy.free_per_node - own, missing)
    parts = dict(held)
    for node, count in _positive(extra):
        mine = parts.get(node, 0)
        parts[node] = mine | lowest(occupancy.mask(node) & ~mine, count)
    return parts


def _deal(own: Counts, room: Counts, count: int) -> Counts:
    """Hand out ``count`` devices, each to a node where the job has fewest, the one with most room first."""
    dealt = np.zeros_like(own)
    while count:
        having, left = own + dealt, room - dealt
        open_nodes = np.flatnonzero(left > 0)
        turn = open_nodes[having[open_nodes] == having[open_nodes].min()]
        turn = turn[np.argsort(-left[turn], kind="stable")][:count]
        dealt[turn] += 1
        count -= len(turn)
    return dealt


def _positive(counts: Counts) -> list[tuple[int, int]]:
    nodes = np.flatnonzero(counts)
    return list(zip(nodes.tolist(), counts[nodes].tolist(), strict=True))
