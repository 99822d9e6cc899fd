"""How the workers of a run write one checkpoint together: which chunk is written by whom, and each one's file."""

import errno
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch
import torch.distributed as dist

from penstock.runtime.checkpoints.layout.chunks import ALIGNMENT, Chunk, local_part
from penstock.runtime.checkpoints.manifest import FileSum
from penstock.runtime.checkpoints.saved_state import ShardFile
from penstock.runtime.checkpoints.storage import CheckpointDraft, CheckpointStorage, reason_of
from penstock.runtime.value_messages import gather_values

_PIECE = 1 << 24


def write_shards(
    storage: CheckpointStorage, draft: CheckpointDraft, chunks: Sequence[Chunk], tensors: Mapping[str, torch.Tensor],
    group: dist.ProcessGroup | None,
) -> tuple[tuple[ShardFile, ...], tuple[FileSum, ...]]:  # fmt: skip
    """Write this worker's part of the state; return the files of all workers and what they must look like.

    ``chunks`` are what this worker holds, ``tensors`` their bytes, which may have been copied elsewhere. With a group,
    all members call it; where one of them fails, all raise.
    """
    rank = 0 if group is None else dist.get_rank(group)
    offers = gather_values([chunk.to_row() for chunk in chunks], group)
    everyone = [[Chunk.from_row(row) for row in rows] for rows in offers]
    shards = tuple(_shard(writer, chunks) for writer, chunks in enumerate(_divided(everyone)))
    failure: Exception | None = None
    written: dict[str, Any] = {}
    try:
        if shards[rank].chunks:
            written = asdict(storage.write(draft, shards[rank].name, _content(shards[rank], tensors)))
    except Exception as error:
        failure = error
    outcomes = gather_values((written, "" if failure is None else reason_of(failure)), group)
    if failure is not None:
        raise failure
    for reason in (reason for _, reason in outcomes if reason):
        raise OSError(errno.EIO, reason, draft.place)
    files = tuple(FileSum(**each) for each, _ in outcomes if each)
    return tuple(shard for shard in shards if shard.chunks), files


def _divided(everyone: Sequence[Sequence[Chunk]]) -> list[list[Chunk]]:
    """What each worker writes: a box that several hold goes to the one with the least to write so far."""
    holders: dict[tuple[str, object], list[int]] = {}
    for rank, chunks in enumerate(everyone):
        for chunk in chunks:
            holders.setdefault((chunk.key, chunk.box), []).append(rank)
    load = [0] * len(everyone)
    divided: list[list[Chunk]] = [[] for _ in everyone]
    for rank, chunks in enumerate(everyone):
        for chunk in chunks:
            held_by = holders[chunk.key, chunk.box]
            if held_by[0] == rank:
                writer = min(held_by, key=lambda holder: load[holder])
                load[writer] += chunk.bytes
                divided[writer].append(chunk)
    return divided


def _shard(writer: int, chunks: Sequence[Chunk]) -> ShardFile:
    placed, end = [], 0
    for chunk in chunks:
        placed.append(replace(chunk, start=end))
        end += _padded(chunk.bytes)
    return ShardFile(f"shard-{writer:05d}.bin", end, tuple(placed))


def _content(shard: ShardFile, tensors: Mapping[str, torch.Tensor]) -> Iterator[memoryview]:
    """The bytes of a shard, in pieces of bounded size."""
    for chunk in shard.chunks:
        flat = local_part(tensors[chunk.key]).cpu().contiguous().reshape(-1).view(torch.uint8)
        yield from (piece.numpy().data for piece in torch.split(flat, _PIECE) if piece.numel())
        yield memoryview(bytes(_padded(chunk.bytes) - chunk.bytes))


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
