"""State cut anew: from the shards that machines hold in memory to the parts that another world needs.

Everybody says which shards are on their machine; all draw the same conclusion about the newest snapshot that is whole
among them. Then everybody says which boxes of which tensors they need, and each box travels once, from one who holds it
(from oneself, if possible) to one who needs it. No storage is read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist

from penstock.core import InputError
from penstock.runtime.checkpoints.memory.chunks import Box, Chunk, box_of, local_part
from penstock.runtime.checkpoints.memory.messages import Sending, finish, receive_bytes, send_bytes
from penstock.runtime.checkpoints.memory.shards import HeldShard, ShardName

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
                f"a snapshot in memory with {coming[key]} of {box.count} numbers of {key!r}", "one that is whole",
                "Remove the snapshots in memory and go on from a checkpoint",
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
    shards: Mapping[int, HeldShard],
    ways: Mapping[tuple[int, int], list[Part]],
    group: dist.ProcessGroup | None,
) -> None:
    """Send what others need of the shards read here, and put what comes into the tensors of ``room``."""
    me = 0 if group is None else dist.get_rank(group)
    bytes_of = {shard: held.read() for shard, held in shards.items()}
    boxes = needs_of(room)
    sending = [_send(parts, bytes_of, to, group) for (by, to), parts in ways.items() if by == me != to]
    for part in ways.get((me, me), ()):
        _place(_cut(part, bytes_of), part, room, boxes)
    for (by, to), parts in ways.items():
        if to == me != by:
            _receive(parts, by, group, room, boxes)
    for one in sending:
        finish(one)


def _cut(part: Part, bytes_of: Mapping[int, torch.Tensor]) -> torch.Tensor:
    return part.chunk.view(bytes_of[part.shard])[part.box.inside(part.chunk.box)]


@torch.no_grad()
def _place(piece: torch.Tensor, part: Part, room: Mapping[str, torch.Tensor], boxes: Needs) -> None:
    key = part.chunk.key
    local_part(room[key])[part.box.inside(boxes[key])].copy_(piece)


def _send(parts: list[Part], bytes_of: Mapping[int, torch.Tensor], to: int, group: dist.ProcessGroup | None) -> Sending:
    """All that one worker needs of us, one piece behind the other."""
    packed = torch.cat([_cut(part, bytes_of).reshape(-1).view(torch.uint8) for part in parts])
    return send_bytes(packed, to, group)


def _receive(
    parts: list[Part], by: int, group: dist.ProcessGroup | None, room: Mapping[str, torch.Tensor], boxes: Needs
) -> None:
    packed = torch.empty(sum(part.bytes for part in parts), dtype=torch.uint8)
    receive_bytes(packed, by, group)
    for part, flat in zip(parts, torch.split(packed, [part.bytes for part in parts]), strict=True):
        aligned = flat.clone().view(part.chunk.dtype)
        _place(aligned.view(part.box.extent), part, room, boxes)
