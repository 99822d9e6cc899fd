"""The devices of one kind: who holds which, and at what pace decisions are taken about them."""

import math

from penstock.core import Cluster
from penstock.placement import Occupancy

VACATED_BEFORE_S = 10.0
"""A node counts as gone this long before it leaves, and a slot more, because decisions are a slot apart."""
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

    def leases_after(self, now: float) -> list[tuple[float, int]]:
        """(when, how many devices count as gone) for the nodes that are there and known to leave, as yet in use."""
        sizes = self.occupancy.size_per_node
        leaving = [(self.gone_at(position), int(sizes[position])) for position in self.until]
        return [(at, devices) for at, devices in leaving if devices and at > now]

    def closing(self, now: float) -> tuple[int, ...]:
        """Positions of the nodes that are there and count as gone."""
        sizes = self.occupancy.size_per_node
        return tuple(position for position in self.until if sizes[position] and self.gone_at(position) <= now)

    def closes_at(self, now: float) -> float:
        """When the next node counts as gone."""
        return min((at for at, _ in self.leases_after(now)), default=math.inf)

    def gone_at(self, position: int) -> float:
        """When a node counts as gone; infinite if it is not known to leave."""
        return self.until.get(position, math.inf) - self.slot - VACATED_BEFORE_S

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
