"""Jobs that may run on certain nodes only: whether there is room for all of them at once, and who gets how much where.

Devices of a node are all alike and a job may be spread over several, so this is a flow from jobs to nodes. Whoever can
be moved aside counts as air here: what is seated by this comes before them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.core import InvariantError
from penstock.placement.base import carve
from penstock.placement.best_fit import pack
from penstock.placement.occupancy import Counts, Masks, Occupancy

Shares = dict[int, int]
"""How many devices of each node, by position."""


@dataclass(frozen=True, slots=True)
class ConfinedAsk:
    """A job that shall hold ``width`` devices of ``nodes`` (positions), of those it ``prefers`` first; it ``held`` so
    many of each node before."""

    key: int
    width: int
    nodes: frozenset[int]
    held: Mapping[int, int]
    prefers: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Crowd:
    """Jobs that may run nowhere else than on nodes with ``room`` devices for them, and shall hold more together."""

    keys: tuple[int, ...]
    room: int


class Seating:
    """Shares of confined jobs in the ``room`` of nodes: what is not held by whoever stays where it is.

    Of that, what is not ``spare`` somebody has to be moved away from; it is used where nothing else is left.
    """

    def __init__(self, room: Counts, spare: Counts) -> None:
        self.shares: dict[int, Shares] = {}
        self._asks: dict[int, ConfinedAsk] = {}
        self._room = room
        self._left = room.copy()
        self._spare = spare.copy()

    def seat_all(self, asks: Sequence[ConfinedAsk]) -> Crowd | None:
        """Room for each, in this order; those who hold devices stay there as far as possible.

        The first group that is too large for its nodes is returned instead, and the rest is not seated.
        """
        for ask in asks:
            self._admit(ask)
        for ask in asks:
            missing = ask.width - sum(self.shares[ask.key].values())
            if missing and (reached := self._seat(ask, missing)) is not None:
                return self._crowd(reached)
        return None

    def most_for(self, ask: ConfinedAsk) -> int:
        """How many devices this job could have beside those that are seated."""
        self._admit(ask)
        self._seat(ask, ask.width - sum(self.shares[ask.key].values()))
        return sum(self.shares[ask.key].values())

    def _admit(self, ask: ConfinedAsk) -> None:
        """With as much as it may keep of what it holds."""
        self._asks[ask.key] = ask
        self.shares[ask.key] = {}
        missing = ask.width
        for node in sorted(ask.held.keys() & ask.nodes, key=lambda node: (-ask.held[node], node)):
            missing -= self._give(ask.key, node, min(ask.held[node], missing))

    def _give(self, key: int, node: int, count: int) -> int:
        given = min(count, int(self._left[node]))
        if given > 0:
            self._left[node] -= given
            self._spare[node] -= given
            self.shares[key][node] = self.shares[key].get(node, 0) + given
        return max(given, 0)

    def _seat(self, ask: ConfinedAsk, missing: int) -> set[int] | None:
        """So many more devices for a job; if there are not so many, the nodes that it could reach."""
        for among, free in self._choices(ask):
            counts = np.zeros_like(free)
            counts[among] = np.maximum(free[among], 0)
            if counts.sum() >= missing:
                for node, count in pack(counts, missing).items():
                    self._give(ask.key, node, count)
                return None
        for node in sorted(ask.nodes):
            missing -= self._give(ask.key, node, missing)
        while missing:
            moved, reached = self._shift(ask, missing)
            if not moved:
                return reached
            missing -= moved
        return None

    def _choices(self, ask: ConfinedAsk) -> list[tuple[list[int], Counts]]:
        """Where to look for devices, best first: beside its own, preferred nodes, all nodes; who sits there moves
        last."""
        spare, left = np.minimum(self._spare, self._left), self._left
        own = sorted(self.shares[ask.key].keys() & ask.nodes)
        preferred, every = sorted(ask.prefers & ask.nodes), sorted(ask.nodes)
        found = [(own, spare), (preferred, spare), (every, spare), (preferred, left), (every, left)]
        return [(nodes, free) for nodes, free in found if nodes]

    def _shift(self, ask: ConfinedAsk, missing: int) -> tuple[int, set[int]]:
        """Make room by moving others of the seated from node to node, along the shortest such way.

        Returns for how many devices, and the nodes that were looked at.
        """
        came: dict[int, tuple[int, int] | None] = dict.fromkeys(sorted(ask.nodes))
        queue = list(came)
        for node in queue:
            if self._left[node] > 0:
                return self._moved_along(ask, node, came, missing), set(came)
            for key, share in self.shares.items():
                if key == ask.key or not share.get(node):
                    continue
                for other in sorted(self._asks[key].nodes - came.keys()):
                    came[other] = (node, key)
                    queue.append(other)
        return 0, set(came)

    def _moved_along(self, ask: ConfinedAsk, end: int, came: Mapping[int, tuple[int, int] | None], missing: int) -> int:
        way: list[tuple[int, int, int]] = []
        node = end
        while (step := came[node]) is not None:
            way.append((step[1], step[0], node))
            node = step[0]
        count = min([missing, int(self._left[end]), *(self.shares[key][source] for key, source, _ in way)])
        for key, source, target in way:
            self._give(key, target, count)
            self._take(key, source, count)
        return self._give(ask.key, node, count)

    def _take(self, key: int, node: int, count: int) -> None:
        self._left[node] += count
        self._spare[node] += count
        self.shares[key][node] -= count
        if not self.shares[key][node]:
            del self.shares[key][node]

    def _crowd(self, nodes: set[int]) -> Crowd:
        """Everybody who may run nowhere else than on these nodes: by reaching no further they are full of them."""
        keys = tuple(key for key, ask in self._asks.items() if ask.width and ask.nodes <= nodes)
        if not keys:
            raise InvariantError("a job without room that nobody is in the way of")
        return Crowd(keys, int(self._room[sorted(nodes)].sum()))


def take_seats(
    occupancy: Occupancy, seats: Mapping[int, Shares], held: Mapping[int, Masks], movable: Collection[int]
) -> list[int]:
    """Give free devices by node to jobs that hold none, their former ones (``held``) where these are free.

    Who is in the way leaves with all its devices if it is ``movable``; returned are those who did.
    """
    needed: dict[int, int] = {}
    for share in seats.values():
        for node, count in share.items():
            needed[node] = needed.get(node, 0) + count
    left: list[int] = []
    for node, count in needed.items():
        left += _make_way(occupancy, node, count, movable)
    for key, share in seats.items():
        former = held.get(key, {})
        occupancy.assign(key, {node: _chosen(occupancy, node, n, former.get(node, 0)) for node, n in share.items()})
    return left


def _make_way(occupancy: Occupancy, node: int, count: int, movable: Collection[int]) -> list[int]:
    """The smallest job that is enough, else the largest, until the node has so many free devices."""
    left: list[int] = []
    while (missing := count - int(occupancy.free_per_node[node])) > 0:
        here = {key: mask.bit_count() for key, mask in occupancy.holders(node).items() if key in movable}
        if not here:
            raise InvariantError(f"{count} devices of node {node} are wanted, and nobody may leave it")
        enough = [key for key, devices in here.items() if devices >= missing]
        leaving = min(enough or here, key=lambda key: (here[key] if enough else -here[key], occupancy.width(key), key))
        occupancy.release(leaving)
        left.append(leaving)
    return left


def _chosen(occupancy: Occupancy, node: int, count: int, former: int) -> int:
    free = occupancy.mask(node)
    kept = former & free
    if kept.bit_count() >= count:
        return carve(kept, count)
    return kept | carve(free & ~kept, count - kept.bit_count())
