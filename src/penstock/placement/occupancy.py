"""Who holds which device of one kind, kept so that the next free block is found without looking at devices.

Inside a node, devices are bits of a Python integer (a *mask*: bit 3 is the node's fourth device); across nodes, free
counts and block sizes are NumPy arrays with one entry per node of the cluster, so a search is a few vector operations
whatever the number of devices. Nodes of other kinds stay in the arrays with no devices, which keeps node positions
and device indices those of the cluster. This module records; it never chooses.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from penstock.core import Cluster, InvariantError

Masks = Mapping[int, int]
"""Devices by node: position of the node -> mask."""

Counts = NDArray[np.int64]
"""One number per node."""


@lru_cache(maxsize=1 << 16)
def slots_of(mask: int) -> tuple[int, ...]:
    """The bits that are set, lowest first."""
    return tuple(slot for slot in range(mask.bit_length()) if mask >> slot & 1)


def block_mask(size: int, start: int) -> int:
    return (1 << size) - 1 << start


@lru_cache(maxsize=1 << 16)
def blocks_of(mask: int) -> tuple[tuple[int, int], ...]:
    """The buddy blocks of a mask, each as large as it gets: (size, start), lowest start first.

    >>> blocks_of(0b0111_0100)
    ((1, 2), (2, 4), (1, 6))
    """
    blocks: list[tuple[int, int]] = []
    while mask:
        start, size = (mask & -mask).bit_length() - 1, 1
        while start % (2 * size) == 0 and not block_mask(2 * size, start) & ~mask:
            size *= 2
        blocks.append((size, start))
        mask &= ~block_mask(size, start)
    return tuple(blocks)


@lru_cache(maxsize=1 << 16)
def _sizes_in(mask: int) -> int:
    """The sizes of a mask's buddy blocks, or-ed together: sizes are powers of two, so each is a bit of its own."""
    sizes = 0
    for size, _ in blocks_of(mask):
        sizes |= size
    return sizes


class Occupancy:
    """The devices of one kind and the jobs, known by integer keys, that hold them.

    A job's devices are a gang: taken together, given back together. Searching code may read the arrays
    ``free_per_node``, ``blocks_per_node`` (sizes of the free buddy blocks, or-ed together) and ``size_per_node``
    (zero for nodes that are down or of another kind); only the methods write them.

    >>> occupancy = Occupancy(Cluster.parse("2x4"), "gpu")
    >>> occupancy.take(7, (2, 3, 4))
    >>> occupancy.free, occupancy.nodes_of(7), occupancy.lose_node(1), occupancy.devices(7)
    (5, 2, [7], ())
    """

    def __init__(self, cluster: Cluster, kind: str) -> None:
        self.kind = kind
        self._devices: dict[int, tuple[int, ...]] = {}
        self._parts: dict[int, dict[int, int]] = {}
        self._sizes = [node.device_count if node.kind == kind else 0 for node in cluster.nodes]
        self._starts = [cluster.devices_of(position).start for position in range(len(cluster.nodes))]
        self._node_of = [position for position, node in enumerate(cluster.nodes) for _ in range(node.device_count)]
        self._holders: list[dict[int, int]] = [{} for _ in cluster.nodes]
        self._up = [position not in cluster.retired for position in range(len(cluster.nodes))]
        self._broken = [0] * len(cluster.nodes)
        self._masks = [block_mask(size, 0) if up else 0 for size, up in zip(self._sizes, self._up, strict=True)]
        self._before: dict[int, Masks] | None = None
        self.pinned: frozenset[int] = frozenset()
        """Jobs that nobody may move to other devices in the decision on trial."""
        self.touched: set[int] = set()
        """Nodes where somebody came or went since the last decision that was settled."""
        self.free_per_node: Counts = np.array([mask.bit_count() for mask in self._masks], dtype=np.int64)
        self.size_per_node: Counts = self.free_per_node.copy()
        self.blocks_per_node: Counts = np.array([_sizes_in(mask) for mask in self._masks], dtype=np.int64)
        self._nodes_changed()

    def copy(self) -> "Occupancy":
        """An independent one; what never changes is shared."""
        other = Occupancy.__new__(Occupancy)
        other.__dict__.update(self.__dict__)
        other._devices, other._parts = self._devices.copy(), self._parts.copy()
        other._holders = [holders.copy() for holders in self._holders]
        other._sizes, other._starts, other._node_of = self._sizes.copy(), self._starts.copy(), self._node_of.copy()
        other.touched = self.touched.copy()
        other._node_sizes = self._node_sizes.copy()
        other._up, other._masks, other._broken = self._up.copy(), self._masks.copy(), self._broken.copy()
        other.free_per_node, other.blocks_per_node = self.free_per_node.copy(), self.blocks_per_node.copy()
        return other

    @property
    def capacity(self) -> int:
        """Devices that work, in nodes that are up."""
        return self._capacity

    @property
    def free(self) -> int:
        """Devices that work and that nobody holds."""
        return self._free

    @property
    def largest_node(self) -> int:
        """Devices that work in the largest node that is up."""
        return self._largest

    def fewest_nodes(self, width: int) -> int:
        """Nodes that ``width`` devices would span if nobody else were there."""
        if width <= self._largest:
            return 1
        return int(np.searchsorted(self._reach, width)) + 1

    def keys(self) -> tuple[int, ...]:
        """The jobs that hold devices, in order."""
        return tuple(sorted(self._devices))

    def devices(self, key: int) -> tuple[int, ...]:
        """The device indices a job holds, sorted; none when it holds nothing."""
        return self._devices.get(key, ())

    def width(self, key: int) -> int:
        return len(self.devices(key))

    def nodes_of(self, key: int) -> int:
        """How many nodes a job's devices span."""
        return len(self._parts.get(key, ()))

    def span(self, devices: Iterable[int]) -> int:
        """How many nodes these devices are on."""
        return len({self._node_of[device] for device in devices})

    def parts(self, key: int) -> Masks:
        """The devices a job holds, by node."""
        return self._parts.get(key, {})

    def mask(self, node: int) -> int:
        """The free devices of a node; none while it is down."""
        return self._masks[node]

    def holders(self, node: int) -> Masks:
        """Who holds what on a node: key -> mask."""
        return self._holders[node]

    def fragmentation(self) -> float:
        """The share of free devices that sit in partly used nodes, where no gang of a whole node can have them."""
        return self._stranded / self._free if self._free else 0.0

    def take(self, key: int, devices: Iterable[int]) -> None:
        """Give free devices to a job that holds none."""
        parts: dict[int, int] = {}
        for device in devices:
            node, bit = self._locate(key, device)
            if parts.get(node, 0) & bit:
                raise InvariantError(f"job {key} takes device {device} twice")
            parts[node] = parts.get(node, 0) | bit
        self.assign(key, parts)

    def assign(self, key: int, parts: Masks) -> None:
        """Like :meth:`take`, with the devices given by node. O(nodes spanned)."""
        self._check_free(key, parts)
        if self._before is not None:
            self._before.setdefault(key, {})
        mine: dict[int, int] = {}
        for node in sorted(parts):
            mine[node] = self._holders[node][key] = parts[node]
            self._set_mask(node, self._masks[node] & ~parts[node])
        self._parts[key] = mine
        starts = self._starts
        self._devices[key] = tuple([starts[node] + slot for node, mask in mine.items() for slot in slots_of(mask)])

    def release(self, key: int) -> None:
        """Take back all devices of a job; nothing happens when it holds none."""
        held = self._parts.pop(key, {})
        if held and self._before is not None:
            self._before.setdefault(key, held)
        for node, mask in held.items():
            del self._holders[node][key]
            self._set_mask(node, self._masks[node] | mask)
        self._devices.pop(key, None)

    def try_out(self) -> None:
        """From now on remember who held what, so that :meth:`take_back` can undo everything since."""
        self._before = {}
        self.pinned = frozenset()

    def settle(self) -> None:
        """What was tried out stays, and nobody is owed news of it."""
        self._before = None
        self.touched.clear()

    def touch(self, key: int) -> None:
        """Something about a job that holds devices changed besides which they are."""
        self.touched.update(self.parts(key))

    def take_back(self) -> None:
        """Undo what was tried out. O(changes)."""
        before, self._before = self._before or {}, None
        for key in before:
            self.release(key)
        for key, parts in before.items():
            if parts:
                self.assign(key, parts)

    def lose_node(self, position: int) -> list[int]:
        """A node goes down: who held devices there loses its whole gang, and is returned."""
        if not self._up[position]:
            return []
        keys = sorted(self._holders[position])
        for key in keys:
            self.release(key)
        self._up[position] = False
        self._set_mask(position, 0)
        self._nodes_changed()
        return keys

    def restore_node(self, position: int) -> None:
        """A node is back, empty; nothing happens when it was never down."""
        if self._up[position]:
            return
        self._up[position] = True
        self._set_mask(position, self._working(position))
        self._nodes_changed()

    def lose_device(self, position: int, slot: int) -> int | None:
        """A device fails: who held it loses its whole gang, and is returned."""
        bit = 1 << slot
        self._broken[position] |= bit
        key = next((key for key, mask in self._holders[position].items() if mask & bit), None)
        if key is not None:
            self.release(key)
        self._set_mask(position, self._masks[position] & ~bit)
        self._nodes_changed()
        return key

    def restore_device(self, position: int, slot: int) -> None:
        """A device works again; nothing happens when it never failed."""
        bit = 1 << slot
        if not self._broken[position] & bit:
            return
        self._broken[position] &= ~bit
        if self._up[position]:
            self._set_mask(position, self._masks[position] | bit)
        self._nodes_changed()

    def broken(self, position: int) -> int:
        """The devices of a node that failed alone, as a mask."""
        return self._broken[position]

    def is_up(self, position: int) -> bool:
        return self._up[position]

    def _working(self, position: int) -> int:
        return block_mask(self._sizes[position], 0) & ~self._broken[position]

    def add_node(self, cluster: Cluster) -> None:
        """The cluster grew by one node at the end."""
        position, node = len(self._sizes), cluster.nodes[-1]
        known = [node.device_count if node.kind == self.kind else 0 for node in cluster.nodes[:-1]]
        if known != self._sizes or cluster.devices_of(position).start != len(self._node_of):
            raise InvariantError(f"{cluster} is not what it was with one more node at the end")
        self._sizes.append(node.device_count if node.kind == self.kind else 0)
        self._starts.append(cluster.devices_of(position).start)
        self._node_of.extend([position] * node.device_count)
        self._holders.append({})
        self._up.append(False)
        self._broken.append(0)
        self._masks.append(0)
        self._node_sizes.append(0)
        self.free_per_node = np.append(self.free_per_node, 0)
        self.blocks_per_node = np.append(self.blocks_per_node, 0)
        self.restore_node(position)

    def validate(self) -> None:
        """Raise :class:`~penstock.core.InvariantError` unless every count agrees with who holds what."""
        taken = [device for devices in self._devices.values() for device in devices]
        if len(set(taken)) != len(taken):
            raise InvariantError("a device is held twice")
        if self.free + len(taken) != self.capacity:
            raise InvariantError(f"{self.free} free and {len(taken)} held devices, {self.capacity} in all")
        if self.free != int(self.free_per_node.sum()) or self.capacity != int(self.size_per_node.sum()):
            raise InvariantError("the totals are not the sums over the nodes")
        if self._stranded != int(self.free_per_node[self.free_per_node < self.size_per_node].sum()):
            raise InvariantError(f"{self._stranded} free devices in partly used nodes, the nodes say otherwise")
        for key, devices in self._devices.items():
            self._validate_gang(key, devices)
        for node in range(len(self._sizes)):
            self._validate_node(node)

    def _validate_gang(self, key: int, devices: tuple[int, ...]) -> None:
        parts: dict[int, int] = {}
        for device in devices:
            node, bit = self._locate(key, device)
            parts[node] = parts.get(node, 0) | bit
        if not parts or parts != self._parts.get(key) or list(devices) != sorted(devices):
            raise InvariantError(f"job {key} holds {devices}, its nodes say {self._parts.get(key)}")

    def _validate_node(self, node: int) -> None:
        mask, whole = self._masks[node], self._working(node) if self._up[node] else 0
        for key, held in self._holders[node].items():
            if self.parts(key).get(node) != held:
                raise InvariantError(f"node {node} says job {key} holds {held:b}, the job says otherwise")
            mask |= held
        if mask != whole or whole.bit_count() != self.size_per_node[node]:
            raise InvariantError(f"free and held devices of node {node} are {mask:b}, it has {whole:b}")
        indexed = (self.free_per_node[node], self.blocks_per_node[node])
        if indexed != (self._masks[node].bit_count(), _sizes_in(self._masks[node])):
            raise InvariantError(f"the index of node {node} says {indexed}, it has {self._masks[node]:b} free")

    def _locate(self, key: int, device: int) -> tuple[int, int]:
        if not 0 <= device < len(self._node_of) or not self._sizes[self._node_of[device]]:
            raise InvariantError(f"job {key} takes device {device}, which is no {self.kind}")
        node = self._node_of[device]
        if not self._up[node]:
            raise InvariantError(f"job {key} takes device {device} on node {node}, which is down")
        bit = 1 << (device - self._starts[node])
        if self._broken[node] & bit:
            raise InvariantError(f"job {key} takes device {device}, which failed")
        return node, bit

    def _check_free(self, key: int, parts: Masks) -> None:
        if key in self._devices:
            raise InvariantError(f"job {key} takes devices while holding {self._devices[key]}")
        if not parts:
            raise InvariantError(f"job {key} takes no devices")
        for node, mask in parts.items():
            if not mask or mask & ~self._masks[node]:
                raise InvariantError(f"job {key} takes {mask:b} of node {node}, where {self._masks[node]:b} is free")

    def _set_mask(self, node: int, mask: int) -> None:
        self.touched.add(node)
        count, before, size = mask.bit_count(), self._masks[node].bit_count(), self._node_sizes[node]
        self._free += count - before
        self._stranded += (count if count < size else 0) - (before if before < size else 0)
        self._masks[node] = mask
        self.free_per_node[node] = count
        self.blocks_per_node[node] = _sizes_in(mask)

    def _nodes_changed(self) -> None:
        broken = [mask.bit_count() for mask in self._broken]
        sizes = np.where(self._up, np.subtract(self._sizes, broken), 0).astype(np.int64)
        self.size_per_node = sizes
        self._node_sizes: list[int] = sizes.tolist()
        self._capacity = int(sizes.sum())
        self._largest = int(sizes.max(initial=0))
        self._reach = np.cumsum(np.sort(sizes)[::-1])
        self._free = int(self.free_per_node.sum())
        self._stranded = int(self.free_per_node[self.free_per_node < sizes].sum())
