"""The devices of one kind: who holds which, and at what pace decisions are taken about them."""

import math

from penstock.core import Cluster
from penstock.placement import Occupancy

_CALM_SLOTS = 20
"""Gaps longer than this many slots say nothing about how often decisions are taken under load."""


class KindState:
    """One kind of device. ``size`` counts the devices that the cluster has of it, whether they work or not."""

    def __init__(self, cluster: Cluster, kind: str, slot: float) -> None:
        self.kind = kind
        self.slot = slot
        self.occupancy = Occupancy(cluster, kind)
        self.size = cluster.capacity(kind)
        self.dirty = False
        self.last_round = -math.inf
        self.wake_at = math.inf
        self.interval = slot
        self.until: dict[int, float] = {}
        """When nodes leave that are known to: the ends of leases and of draining, by position."""

    @property
    def leases(self) -> list[tuple[float, int]]:
        """(when, how many devices leave) for the nodes that are there and known to leave."""
        sizes = self.occupancy.size_per_node
        return [(until, int(sizes[position])) for position, until in self.until.items() if sizes[position]]

    def copy(self) -> "KindState":
        """An independent one."""
        other = KindState.__new__(KindState)
        other.__dict__.update(self.__dict__)
        other.occupancy, other.until = self.occupancy.copy(), self.until.copy()
        return other

    @property
    def due_at(self) -> float:
        """When the next decision should be taken if no further event comes."""
        earliest = self.last_round + self.slot
        return earliest if self.dirty else max(self.wake_at, earliest)

    def interval_at(self, now: float) -> float:
        """The recent mean time between decisions, if one is taken now."""
        gap = now - self.last_round
        if not (self.slot and math.isfinite(gap)):
            return self.interval
        gap = min(max(gap, self.slot), _CALM_SLOTS * self.slot)
        return self.interval + 0.1 * (gap - self.interval)

    def decided(self, now: float, wake_at: float) -> None:
        """A decision was taken; what was on trial holds."""
        self.occupancy.settle()
        self.interval = self.interval_at(now)
        self.last_round = now
        self.wake_at = wake_at
        self.dirty = False

    def change_pace(self, slot: float) -> None:
        """Decisions come at another pace from now on, and the next one is due."""
        self.slot = self.interval = slot
        self.dirty = True
