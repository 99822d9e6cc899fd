"""State cut anew: from the shards that machines hold in memory to the parts that another world needs.

Everybody says which shards are on their machine; all draw the same conclusion about the newest snapshot that is whole
among them. Then everybody says which boxes of which tensors they need, and each box travels once, from one who holds it
(from oneself, if possible) to one who needs it. No storage is read. A large box that lies in one stretch leaves the
shard as it is and arrives where it belongs: copies of gigabytes, into memory that was never touched, would take longer
than the way itself. Small ones travel together.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist

from penstock.core import InputError
from penstock.runtime.checkpoints.layout.chunks import Box, Chunk, box_of, local_part
from penstock.runtime.checkpoints.layout.messages import Traffic, begin_to_receive, finish, send_bytes
from penstock.runtime.checkpoints.memory.shards import ShardName

_ALONE_BYTES = 1 << 16
"""A part of so many bytes is a message of its own."""

Needs = Mapping[str, Box]
"""The box of each tensor that one worker needs."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The snapshot to go on from: for each of its ranks, who of the present world reads that shard."""

    step: int
    readers: tuple[int, ...]
    names: tuple[ShardName, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a tensor that goes from one worker to another: ``box`` of the chunk of a shard."""

    shard: int
    chunk: Chunk
    box: Box

    @property
    def bytes(self) -> int:
        return self.box.count * self.chunk.dtype.itemsize


def newest_whole(offers: Sequence[Iterable[ShardName]]) -> Origin | None:
    """The newest snapshot all of whose shards somebody has; ``offers[rank]`` is what rank has on its machine."""
    by_set: dict[tuple[int, str, int], dict[int, tuple[int, ShardName]]] = {}
    for rank, names in enumerate(offers):
        for name in names:
            by_set.setdefault((name.step, name.set, name.size), {}).setdefault(name.rank, (rank, name))
    whole = [key for key, shards in by_set.items() if len(shards) == key[2]]
    if not whole:
        return None
    best = max(whole)
    found = [by_set[best][shard] for shard in range(best[2])]
    return Origin(best[0], tuple(rank for rank, _ in found), tuple(name for _, name in found))


def needs_of(room: Mapping[str, torch.Tensor]) -> Needs:
    """What this worker has to receive to fill these tensors."""
    return {key: box_of(tensor) for key, tensor in room.items()}


def journeys(
    chunks: Sequence[Sequence[Chunk]], readers: Sequence[int], needs: Sequence[Needs]
) -> dict[tuple[int, int], list[Part]]:
    """What goes from whom to whom, in an order that both know; ``chunks[shard]`` are read by ``readers[shard]``."""
    held: dict[str, list[tuple[int, Chunk]]] = {}
    for shard, found in enumerate(chunks):
        for chunk in found:
            held.setdefault(chunk.key, []).append((shard, chunk))
    ways: dict[tuple[int, int], list[Part]] = {}
    for rank, wanted in enumerate(needs):
        for key, box in wanted.items():
            for shard, chunk in _once(held.get(key, ()), readers, rank):
                if (common := box.meet(chunk.box)) is not None:
                    ways.setdefault((readers[shard], rank), []).append(Part(shard, chunk, common))
    return ways


def check_covered(needs: Needs, ways: Mapping[tuple[int, int], list[Part]], rank: int) -> None:
    """Refuse to go on with tensors that nobody would fill."""
    coming = dict.fromkeys(needs, 0)
    for (_, to), parts in ways.items():
        for part in parts if to == rank else ():
            coming[part.chunk.key] += part.box.count
    for key, box in needs.items():
        if coming[key] != box.count:
            raise InputError(
                f"a saved state with {coming[key]} of {box.count} numbers of {key!r}", "one that is whole",
                "Remove it (a snapshot in memory, a checkpoint) and go on from an older one",
            )  # fmt: skip


def _once(held: Iterable[tuple[int, Chunk]], readers: Sequence[int], rank: int) -> Iterable[tuple[int, Chunk]]:
    """Equal boxes, which replicas hold, count once: one's own if there is one."""
    chosen: dict[Box, tuple[int, Chunk]] = {}
    for shard, chunk in held:
        if chunk.box not in chosen or readers[shard] == rank:
            chosen[chunk.box] = (shard, chunk)
    return chosen.values()


def fill(
    room: Mapping[str, torch.Tensor],
    boxes: Needs,
    shards: Mapping[int, torch.Tensor],
    ways: Mapping[tuple[int, int], list[Part]],
    group: dist.ProcessGroup | None,
) -> None:
    """Send what others need of the shards read here, and put what comes into ``room``, whose tensors are ``boxes``."""
    me = 0 if group is None else dist.get_rank(group)
    sending = [_send(parts, shards, to, group) for (by, to), parts in ways.items() if by == me != to]
    coming = [
        _Arrival.begin(message, by, room, boxes, group)
        for (by, to), parts in ways.items()
        if to == me != by
        for message in _messages(parts)
    ]
    for part in ways.get((me, me), ()):
        _copy_to(_target(part, room, boxes), _cut(part, shards))
    for arrival in coming:
        arrival.finish()
    for one in sending:
        finish(one)


def _messages(parts: list[Part]) -> list[list[Part]]:
    """What goes from one to another, as both of them divide it: large parts alone, and all small ones together."""
    small = [part for part in parts if part.bytes < _ALONE_BYTES]
    return [[part] for part in parts if part.bytes >= _ALONE_BYTES] + ([small] if small else [])


def _send(parts: list[Part], bytes_of: Mapping[int, torch.Tensor], to: int, group: dist.ProcessGroup | None) -> Traffic:
    found: Traffic = []
    for message in _messages(parts):
        pieces = [_flat_bytes(_cut(part, bytes_of).contiguous()) for part in message]
        found += send_bytes(pieces[0] if len(pieces) == 1 else torch.cat(pieces), to, group)
    return found


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A message that is being received: into the tensor itself, or into memory that is then copied into tensors."""

    traffic: Traffic
    message: list[Part]
    targets: list[torch.Tensor]
    packed: torch.Tensor | None

    @classmethod
    def begin(
        cls, message: list[Part], by: int, room: Mapping[str, torch.Tensor], boxes: Needs,
        group: dist.ProcessGroup | None,
    ) -> "_Arrival":  # fmt: skip
        targets = [_target(part, room, boxes) for part in message]
        if len(message) == 1 and _takes_bytes(targets[0], message[0]):
            return cls(begin_to_receive(_flat_bytes(targets[0]), by, group), message, targets, None)
        packed = torch.empty(sum(part.bytes for part in message), dtype=torch.uint8)
        return cls(begin_to_receive(packed, by, group), message, targets, packed)

    def finish(self) -> None:
        finish(self.traffic)
        if self.packed is not None:
            flats = torch.split(self.packed, [part.bytes for part in self.message])
            for part, target, flat in zip(self.message, self.targets, flats, strict=True):
                aligned = flat if len(flats) == 1 else flat.clone()
                _copy_to(target, aligned.view(part.chunk.dtype).view(part.box.extent))


def _cut(part: Part, bytes_of: Mapping[int, torch.Tensor]) -> torch.Tensor:
    return part.chunk.view(bytes_of[part.shard])[part.box.inside(part.chunk.box)]


def _target(part: Part, room: Mapping[str, torch.Tensor], boxes: Needs) -> torch.Tensor:
    """Where a part belongs in this worker's tensors."""
    key = part.chunk.key
    return local_part(room[key])[part.box.inside(boxes[key])]


def _takes_bytes(target: torch.Tensor, part: Part) -> bool:
    return target.device.type == "cpu" and target.is_contiguous() and target.dtype == part.chunk.dtype


def _flat_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(-1).view(torch.uint8)


@torch.no_grad()
def _copy_to(target: torch.Tensor, piece: torch.Tensor) -> None:
    target.copy_(piece)
