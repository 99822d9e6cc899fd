"""How long collectives take between devices that share nodes and networks.

Ring algorithms, bound by the slowest link they cross. Inside a node the link is the device's own; between nodes it is
the node's network, shared by all groups that cross it at the same time.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.core import InputError


@dataclass(frozen=True, slots=True)
class Group:
    """``inside`` members in each of ``nodes`` nodes; ``sharing`` such groups use a node's network together."""

    inside: int
    nodes: int = 1
    sharing: int = 1

    @property
    def size(self) -> int:
        return self.inside * self.nodes


@dataclass(frozen=True)
class MeasuredCollectives:
    """Measured all-reduces inside a node: for each group size, sizes in bytes and seconds."""

    seconds: Mapping[int, tuple[NDArray[np.float64], NDArray[np.float64]]]

    def all_reduce_s(self, count: float, size: int) -> float:
        if size not in self.seconds:
            raise InputError(f"an all-reduce over {size} devices", f"one of the measured {sorted(self.seconds)}")
        sizes, seconds = self.seconds[size]
        if count > sizes[-1]:
            return float(seconds[-1] * count / sizes[-1])
        return float(np.interp(count, sizes, seconds))


@dataclass(frozen=True, kw_only=True)
class Network:
    """Bytes/s: of one device's link in one direction, and of one node's network in one direction.

    ``efficiency``: the share of a link's rate that collectives reach. Latencies are those of one step of a ring.
    ``measured``: all-reduces inside a node that need not be computed.
    """

    link: float
    node_network: float
    efficiency: float = 0.77
    link_latency_s: float = 4e-6
    network_latency_s: float = 10e-6
    measured: MeasuredCollectives | None = None

    def all_reduce_s(self, count: float, group: Group) -> float:
        """Sum ``count`` bytes over the group so that every member has the result."""
        if group.size == 1:
            return 0.0
        if group.nodes == 1 and self.measured is not None:
            return self.measured.all_reduce_s(count, group.size)
        return self._ring_s(count, group, rounds=2)

    def half_s(self, count: float, group: Group) -> float:
        """A reduce-scatter or an all-gather: half of an all-reduce."""
        if group.nodes == 1 and self.measured is not None:
            return self.all_reduce_s(count, group) / 2
        return self._ring_s(count, group, rounds=1) if group.size > 1 else 0.0

    def all_to_all_s(self, count: float, group: Group) -> float:
        """Every member sends ``count`` bytes in all, an equal part to every member."""
        if group.size == 1:
            return 0.0
        inside = count * (group.inside - 1) / group.size / (self.link * self.efficiency)
        outside = count * (group.size - group.inside) / group.size
        crossing = outside * group.inside * group.sharing / (self.node_network * self.efficiency)
        return max(inside, crossing) + self._latency(group)

    def send_s(self, count: float, *, by_network: bool, senders: int = 1) -> float:
        """One message of ``count`` bytes by each of ``senders`` devices of a node at the same time."""
        if by_network:
            return senders * count / (self.node_network * self.efficiency) + self.network_latency_s
        return count / (self.link * self.efficiency) + self.link_latency_s

    def _ring_s(self, count: float, group: Group, rounds: int) -> float:
        rate = self.link
        if group.nodes > 1:
            rate = min(rate, self.node_network / group.sharing)
        steps = rounds * (group.size - 1)
        return steps / group.size * count / (rate * self.efficiency) + rounds * self._latency(group)

    def _latency(self, group: Group) -> float:
        """Rings over many members are built as trees across nodes: their depth counts, not their length."""
        inside = (group.inside - 1) * self.link_latency_s
        return inside + int(np.ceil(np.log2(group.nodes))) * self.network_latency_s
