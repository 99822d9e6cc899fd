"""Who holds whose shard, and how it gets there: every worker's newest snapshot lies on two machines.

A machine that is lost takes its workers' memory with it. So each shard is also held by a worker of the next machine, in
the order of ranks. The exchange runs over connections and a process group of its own, in the background; it ends with a
barrier, so whoever is through knows that everybody has everything, and may overwrite what came before.
"""

import logging
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from penstock.core import InputError
from penstock.runtime.checkpoints.memory.host_memory import HostBuffer
from penstock.runtime.checkpoints.memory.shard_lines import ShardLines
from penstock.runtime.checkpoints.memory.shards import SLOTS, MemoryDirectory, ShardRecord, ShardSlots

_log = logging.getLogger(__name__)
NO_BYTES = torch.empty(0, dtype=torch.uint8)


def holders(nodes: Sequence[str]) -> list[int | None]:
    """For each rank the one on the next machine that holds its shard too; None where there is one machine only.

    >>> holders(["a", "a", "b", "c"])
    [2, 2, 3, 0]
    >>> holders(["a", "a"])
    [None, None]
    """
    order = list(dict.fromkeys(nodes))
    ranks = {node: [rank for rank, one in enumerate(nodes) if one == node] for node in order}
    found: list[int | None] = []
    for rank, node in enumerate(nodes):
        neighbours = ranks[order[(order.index(node) + 1) % len(order)]]
        found.append(None if len(order) == 1 else neighbours[ranks[node].index(rank) % len(neighbours)])
    return found


@dataclass(slots=True)
class _Ward:
    """A rank whose shard is held here."""

    rank: int
    files: ShardSlots
    buffers: dict[int, HostBuffer] = field(default_factory=dict)
    has_room: bool = True

    def room(self, slot: int, size: int) -> torch.Tensor:
        """Where to receive a shard. It has to go somewhere even if there is no room to keep it."""
        held = self.buffers.get(slot)
        if held is None or held.size < size:
            held = self.buffers[slot] = self._memory(slot, size)
        elif self.has_room:
            self.files.void(slot)
        return held.bytes[:size]

    def commit(self, slot: int, record: ShardRecord) -> None:
        if self.has_room:
            self.files.commit(slot, record)

    def _memory(self, slot: int, size: int) -> HostBuffer:
        try:
            self.files.void(slot)
            return self.files.buffer(slot, size, pinned=False)
        except (InputError, OSError) as refusal:
            self.has_room = False
            _log.warning("the shard of rank %d cannot be held here: %s", self.rank, refusal)
            return HostBuffer(size, pinned=False)


class PeerExchange:
    """One worker's part in a world whose members hold each other's shards."""

    def __init__(self, group: dist.ProcessGroup, nodes: Sequence[str], place: MemoryDirectory, set_id: str) -> None:
        held_by = holders(nodes)
        me = dist.get_rank(group)
        self._group = group
        self._holder = held_by[me]
        self._wards = [_Ward(rank, place.slots(set_id, rank)) for rank, by in enumerate(held_by) if by == me]
        self._turn = 0
        self.active = any(by is not None for by in held_by)
        self._lines = ShardLines(group, self._holder, [ward.rank for ward in self._wards]) if self.active else None
        self.bytes = 0
        """Sent by this worker so far."""

    def exchange(self, record: ShardRecord | None, shard: torch.Tensor) -> None:
        """Give one's shard to its holder and take what one holds for others; returns when everybody has done both.

        Without a record there is no shard this time, and nobody waits for one.
        """
        if self._lines is not None:
            sending = self._send(self._lines, record, shard)
            for ward in self._wards:
                self._receive(self._lines, ward)
            sending.result()
        self._turn = (self._turn + 1) % SLOTS
        dist.barrier(self._group)

    def close(self) -> None:
        """The world is over."""
        if self._lines is not None:
            self._lines.close()

    def _send(self, lines: ShardLines, record: ShardRecord | None, shard: torch.Tensor) -> "Future[None]":
        text = NO_BYTES if record is None else _bytes_of(record.to_text())
        sizes = torch.tensor([text.numel(), shard.numel()]).view(torch.uint8)
        self.bytes += shard.numel() if self._holder is not None else 0
        return lines.send((sizes, text, shard))

    def _receive(self, lines: ShardLines, ward: _Ward) -> None:
        sizes = torch.empty(2, dtype=torch.int64)
        lines.receive(sizes.view(torch.uint8), ward.rank)
        text = torch.empty(int(sizes[0]), dtype=torch.uint8)
        lines.receive(text, ward.rank)
        lines.receive(ward.room(self._turn, int(sizes[1])), ward.rank)
        if text.numel():
            ward.commit(self._turn, ShardRecord.parse(bytes(text.numpy()).decode()))


def _bytes_of(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
