"""Which ranks a job lands on when the artifact re-places everything at a scheduling event.

Jobs of a node or more take whole nodes in order. Smaller ones fill partly used nodes, found through free lists keyed by
the largest block size that divides what is free; a new node is opened when no list has one. Handed over widest first
(as ElasticFlow does) the ranks are simply consecutive.
"""

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.simulate.replicas.elasticflow.overhead import Ranks

BLOCKS = (256, 128, 88, 72, 64, 56, 48, 40, 32, 24, 16, 12, 8, 4, 2, 1)
"""The artifact's block sizes, largest first."""


@dataclass(slots=True)
class _Node:
    first_rank: int
    used: int = 0


class _FreeLists:
    """Partly used nodes by block size, least used first."""

    def __init__(self, per_node: int) -> None:
        self._per_node = per_node
        self._lists: defaultdict[int, list[_Node]] = defaultdict(list)

    def take(self, width: int) -> _Node | None:
        """A node with room: of exactly this block size, else of the largest."""
        if self._lists[width]:
            return self._lists[width].pop(0)
        for block in BLOCKS:
            if block <= width:
                return None
            if self._lists[block]:
                return self._lists[block].pop(0)
        return None

    def put(self, node: _Node) -> None:
        free = self._per_node - node.used
        if free > 0:
            block = next(block for block in BLOCKS if block <= free and free % block == 0)
            insort(self._lists[block], node, key=lambda other: other.used)


def place(widths: Iterable[int], per_node: int) -> list[Ranks]:
    """The ranks of each job, in the order given; the caller sees to it that they fit into the cluster."""
    lists = _FreeLists(per_node)
    placed: list[Ranks] = []
    next_rank = 0
    for width in widths:
        node = lists.take(width) if width < per_node else None
        if node is None:
            node = _Node(next_rank)
            next_rank += -(-width // per_node) * per_node
        placed.append((node.first_rank + node.used, width))
        node.used += width
        if width < per_node:
            lists.put(node)
    return placed
