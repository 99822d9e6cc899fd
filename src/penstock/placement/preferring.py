"""Jobs that would rather run on certain nodes are seated there first, where there is room; a strategy places others.

A wish and no condition: policies count devices and not nodes, and a placement finds devices for everybody who was
given some. So a job whose nodes are full runs elsewhere.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.placement.base import Ask, carve
from penstock.placement.best_fit import pack
from penstock.placement.occupancy import Occupancy


def seat_preferred(
    occupancy: Occupancy, asks: Sequence[Ask], wishes: Mapping[int, Sequence[int]]
) -> dict[int, tuple[int, ...]]:
    """Devices for jobs that hold none, on the fewest of the nodes (by position) that each wishes for.

    >>> from penstock.core import Cluster
    >>> occupancy = Occupancy(Cluster.parse("3x4"), "gpu")
    >>> seat_preferred(occupancy, [Ask(1, 2), Ask(2, 3), Ask(3, 2)], {1: [2], 2: [2]})
    {1: (8, 9)}
    """
    seated: dict[int, tuple[int, ...]] = {}
    for ask in asks:
        nodes = list(wishes.get(ask.key, ()))
        if ask.held or not nodes:
            continue
        counts = np.zeros_like(occupancy.free_per_node)
        counts[nodes] = occupancy.free_per_node[nodes]
        if counts.sum() < ask.width:
            continue
        chosen = {node: carve(occupancy.mask(node), count) for node, count in pack(counts, ask.width).items()}
        occupancy.assign(ask.key, chosen)
        seated[ask.key] = occupancy.devices(ask.key)
    return seated
