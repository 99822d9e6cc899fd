"""How long collectives take between devices that share nodes and networks.

Inside a node a group uses the link between its devices, as :mod:`~penstock.network.collectives` has it. A group that
crosses nodes runs a ring over all its members, bound by the slowest part of the way: the link inside, or its share of
the node's network, which all groups that cross it at the same time divide.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from penstock.core import InputError, UnknownNameError
from penstock.network.collectives import allgather_s, allreduce_s, ring_s, send_s
from penstock.network.links import NODE_NETWORKS, REACHED, Link, link_named


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
class Fabric:
    """``inside``: the link between the devices of a node. ``between``: the network that a whole node shares.

    ``measured``: all-reduces inside a node that need not be computed.
    """

    inside: Link
    between: Link
    measured: MeasuredCollectives | None = None

    @property
    def source(self) -> str:
        return f"{self.inside.name} and {self.between.source}"

    def with_rates(self, source: str, *, inside: float | None = None, between: float | None = None) -> "Fabric":
        """With other published rates in bytes per second; collectives reach their usual share of them."""
        return replace(
            self, inside=_at_rate(self.inside, inside, source), between=_at_rate(self.between, between, source)
        )

    def all_reduce_s(self, count: float, group: Group) -> float:
        """Sum ``count`` bytes over the group so that every member has the result."""
        if group.nodes > 1:
            return self._ring_s(count, group, rounds=2)
        if self.measured is not None and group.size > 1:
            return self.measured.all_reduce_s(count, group.size)
        return allreduce_s(count, group.size, self.inside)

    def half_s(self, count: float, group: Group) -> float:
        """A reduce-scatter or an all-gather: half of an all-reduce."""
        if group.nodes > 1:
            return self._ring_s(count, group, rounds=1)
        if self.measured is not None:
            return self.all_reduce_s(count, group) / 2
        return allgather_s(count, group.size, self.inside)

    def all_to_all_s(self, count: float, group: Group) -> float:
        """Every member sends ``count`` bytes in all, an equal part to every member."""
        if group.size == 1:
            return 0.0
        near = self.inside.carry_s(count * (group.inside - 1) / group.size, group.inside)
        far = count * (group.size - group.inside) / group.size * group.inside * group.sharing
        return self._start_s(group) + max(near, far / self.between.bandwidth) + self._hops_s(group)

    def send_s(self, count: float, *, by_network: bool, senders: int = 1) -> float:
        """One message of ``count`` bytes by each of ``senders`` devices of a node at the same time."""
        return send_s(senders * count, self.between) if by_network else send_s(count, self.inside)

    def _ring_s(self, count: float, group: Group, rounds: int) -> float:
        rate = min(self.inside.rate(group.inside), self.between.bandwidth / group.sharing)
        way = Link(
            name="way", start_s=self._start_s(group), hop_s=0.0, bandwidth=rate,
            ramp_s=max(self.inside.ramp_s, self.between.ramp_s),
        )  # fmt: skip
        return ring_s(count, group.size, way, hops_s=self._hops_s(group), rounds=rounds)

    def _start_s(self, group: Group) -> float:
        return self.inside.start_s + (self.between.start_s if group.nodes > 1 else 0.0)

    def _hops_s(self, group: Group) -> float:
        """Rings over many members are built as trees across nodes: their depth counts, not their length."""
        across = math.ceil(math.log2(group.nodes)) * self.between.hop_s
        return (group.inside - 1) * self.inside.hop_s + across


def fabric_of(link: str) -> Fabric:
    """What usually joins devices with this link: the link inside a node, and a network between nodes."""
    if link not in NODE_NETWORKS:
        raise UnknownNameError.of("link inside a node", link, NODE_NETWORKS)
    return Fabric(inside=link_named(link), between=NODE_NETWORKS[link])


def _at_rate(link: Link, rate: float | None, source: str) -> Link:
    return link if rate is None else replace(link, bandwidth=REACHED * rate, share_by_devices={}, source=source)
