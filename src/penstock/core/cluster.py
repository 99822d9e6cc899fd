"""What there is: devices in nodes in racks under spines."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

from penstock.core.device_group import parse_device_group
from penstock.core.errors import ClusterError
from penstock.core.units import parse_bytes

DEFAULT_KIND = "gpu"


@dataclass(frozen=True, slots=True)
class PowerModel:
    """Watts of one device: linear between idle and peak in utilisation."""

    idle_w: float = 0.0
    peak_w: float = 0.0

    def watts(self, utilisation: float) -> float:
        return self.idle_w + (self.peak_w - self.idle_w) * min(max(utilisation, 0.0), 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine with devices of one kind."""

    name: str
    device_count: int
    kind: str = DEFAULT_KIND
    rack: str = "rack-0"
    spine: str = "spine-0"
    device_memory: int = 0
    power: PowerModel = PowerModel()

    def __post_init__(self) -> None:
        if self.device_count < 1:
            raise ClusterError(f"node {self.name!r} with {self.device_count} devices", "at least 1")


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator, addressed by its index in the cluster."""

    index: int
    node: int
    slot: int
    kind: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes in order; device indices run through the nodes one after the other.

    Indices never change their meaning: a node that is there no more, because it came back with other devices, keeps
    its place as ``retired`` (a position in ``nodes``), and what it is now comes last.

    >>> cluster = Cluster.parse("2x8xA100-80GB+4x4xT4")
    >>> cluster.device_count, cluster.kinds, cluster.device(17).kind
    (32, ('A100', 'T4'), 'T4')
    """

    nodes: tuple[Node, ...]
    retired: frozenset[int] = frozenset()
    _starts: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _capacities: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.nodes:
            raise ClusterError("a cluster without nodes", "at least one node")
        names = [node.name for _, node in self.present()]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ClusterError(f"two nodes called {twice!r}", "different names")
        starts, total = [], 0
        for node in self.nodes:
            starts.append(total)
            total += node.device_count
        object.__setattr__(self, "_starts", (*starts, total))
        capacities: dict[str, int] = {}
        for _, node in self.present():
            capacities[node.kind] = capacities.get(node.kind, 0) + node.device_count
        object.__setattr__(self, "_capacities", capacities)

    @classmethod
    def parse(cls, text: str, nodes_per_rack: int = 16) -> "Cluster":
        """A cluster from "16x8", "16x8xA100", "4x8xA100-80GB", or several of them joined by "+"."""
        nodes: list[Node] = []
        for group in text.split("+"):
            nodes.extend(_parse_group(group.strip(), text, len(nodes), nodes_per_rack))
        return cls(tuple(nodes))

    @property
    def device_count(self) -> int:
        return self._starts[-1]

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(self._capacities)

    def capacity(self, kind: str) -> int:
        return self._capacities.get(kind, 0)

    def present(self) -> Iterator[tuple[int, Node]]:
        """The nodes that are not retired, with their positions."""
        return ((position, node) for position, node in enumerate(self.nodes) if position not in self.retired)

    def position(self, name: str) -> int | None:
        """Where the node of that name is in ``nodes``."""
        return next((position for position, node in self.present() if node.name == name), None)

    def with_node(self, node: Node) -> "Cluster":
        """One more node, after all others."""
        return Cluster((*self.nodes, node), self.retired)

    def relabelled(self, position: int, node: Node) -> "Cluster":
        """The same devices under another description."""
        return Cluster((*self.nodes[:position], node, *self.nodes[position + 1 :]), self.retired)

    def without(self, position: int) -> "Cluster":
        """A node is there no more; its device indices stay its own."""
        return Cluster(self.nodes, self.retired | {position})

    def devices_of(self, node: int) -> range:
        """The device indices of a node."""
        return range(self._starts[node], self._starts[node + 1])

    def device(self, index: int) -> Device:
        node = self.node_of(index)
        return Device(index, node, index - self._starts[node], self.nodes[node].kind)

    def node_of(self, device: int) -> int:
        """The position of the node a device sits in. O(log nodes)."""
        if not 0 <= device < self.device_count:
            raise ClusterError(f"device {device}", f"0 to {self.device_count - 1}")
        low, high = 0, len(self.nodes)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._starts[middle] <= device else (low, middle)
        return low

    def tree(self) -> dict[str, dict[str, list[str]]]:
        """The topology: spine -> rack -> node names."""
        tree: dict[str, dict[str, list[str]]] = {}
        for _, node in self.present():
            tree.setdefault(node.spine, {}).setdefault(node.rack, []).append(node.name)
        return tree

    def distance(self, a: int, b: int) -> int:
        """Hops up the tree between two devices: 0 same device, 1 node, 2 rack, 3 spine, 4 beyond."""
        if a == b:
            return 0
        one, two = self.nodes[self.node_of(a)], self.nodes[self.node_of(b)]
        if one.name == two.name:
            return 1
        if (one.spine, one.rack) == (two.spine, two.rack):
            return 2
        return 3 if one.spine == two.spine else 4

    def __str__(self) -> str:
        return "+".join(_describe_groups(node for _, node in self.present()))


def fewest_nodes(count: int, devices_per_node: int) -> int:
    """Nodes a compact placement of ``count`` devices needs."""
    return math.ceil(count / devices_per_node)


def _parse_group(group: str, whole: str, offset: int, nodes_per_rack: int) -> Iterator[Node]:
    found = parse_device_group(group)
    if found is None or found.nodes is None:
        raise ClusterError(
            f"{whole!r} is not a cluster",
            "NODESxDEVICES[xKIND[-MEMORY]], both numbers from 1 to 1,000,000, groups joined by +",
            'Try "16x8", "4x8xA100-80GB" or "8x8xA100+4x4xT4"',
        )
    memory = parse_bytes(found.memory) if found.memory else 0
    for i in range(offset, offset + found.nodes):
        yield Node(
            name=f"node-{i}", device_count=found.per_node, kind=found.kind or DEFAULT_KIND,
            rack=f"rack-{i // nodes_per_rack}", device_memory=memory,
        )  # fmt: skip


def _describe_groups(nodes: Iterable[Node]) -> Iterator[str]:
    for (devices, kind, memory), group in groupby(nodes, lambda n: (n.device_count, n.kind, n.device_memory)):
        named = "" if kind == DEFAULT_KIND else f"x{kind}"
        yield f"{len(list(group))}x{devices}{named}{_describe_memory(memory)}"


def _describe_memory(memory: int) -> str:
    for unit in ("GB", "GiB"):
        count, rest = divmod(memory, parse_bytes(f"1{unit}"))
        if count and not rest:
            return f"-{count}{unit}"
    return ""
