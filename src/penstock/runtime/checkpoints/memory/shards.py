"""Snapshots that lie in a memory file system such as ``/dev/shm``: two slots for each worker, written in turn.

A slot is a stretch of bytes and a *record* beside it, which is removed before the bytes change and written after the
last of them, as InternEvo does with its two snapshots and their marker files; so one of the two is whole at any moment.
A worker's shard is part of a *set*: the snapshots of one world. A set is whole at a step when the shards of all its
ranks are, wherever they lie: on the machine of their worker, or with a peer on another one.
"""

import base64
import json
import logging
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from penstock.core import InputError
from penstock.runtime.checkpoints.layout.chunks import Chunk
from penstock.runtime.checkpoints.memory.glance import RECORDS
from penstock.runtime.checkpoints.memory.host_memory import HostBuffer, check_room, open_existing
from penstock.tools import write_atomically

_log = logging.getLogger(__name__)
SLOTS = 2
_PRIVATE = 0o700


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardName:
    """Whose shard of which snapshot: rank ``rank`` of the ``size`` workers of a set, after ``step`` steps."""

    set: str
    rank: int
    size: int
    step: int

    def to_row(self) -> tuple[str, int, int, int]:
        """As workers tell each other."""
        return self.set, self.rank, self.size, self.step

    @classmethod
    def from_row(cls, row: tuple[str, int, int, int]) -> "ShardName":
        name, rank, size, step = row
        return cls(set=name, rank=rank, size=size, step=step)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRecord:
    """What makes a stretch of bytes a shard; ``extras`` is everything that is not a tensor, as it is saved."""

    name: ShardName
    length: int
    chunks: tuple[Chunk, ...]
    extras: bytes
    made_at: float

    def to_row(self) -> tuple[list[list[Any]], bytes]:
        """As the workers of a new world tell each other: where what lies, and everything that is not a tensor."""
        return [chunk.to_row() for chunk in self.chunks], self.extras

    def to_text(self) -> str:
        name = self.name
        return json.dumps({
            "set": name.set, "rank": name.rank, "size": name.size, "step": name.step, "bytes": self.length,
            "made_at": self.made_at, "chunks": [chunk.to_row() for chunk in self.chunks],
            "extras": base64.b64encode(self.extras).decode(),
        })  # fmt: skip

    @classmethod
    def parse(cls, text: str) -> "ShardRecord":
        """Read one; whatever is none is a ValueError, a TypeError or a KeyError."""
        said = json.loads(text)
        name = ShardName(set=str(said["set"]), rank=int(said["rank"]), size=int(said["size"]), step=int(said["step"]))
        chunks = tuple(Chunk.from_row(row) for row in said["chunks"])
        total = int(said["bytes"])
        if any(chunk.start < 0 or chunk.start + chunk.bytes > total for chunk in chunks):
            raise ValueError("a chunk lies outside of its shard")
        extras = base64.b64decode(said["extras"], validate=True)
        return cls(name=name, length=total, chunks=chunks, extras=extras, made_at=float(said["made_at"]))


@dataclass(frozen=True, slots=True)
class HeldShard:
    """A shard that is whole and on this machine."""

    record: ShardRecord
    data: Path

    def read(self) -> torch.Tensor:
        return open_existing(self.data, self.record.length)


class MemoryDirectory:
    """The snapshots of one job on one machine. Nobody but its user may look into it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if os.path.lexists(path):
            self._check()

    def make(self) -> None:
        """Be there, for this user alone."""
        try:
            self.path.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        except OSError as error:
            raise _unusable(self.path, error.strerror or str(error)) from None
        self._check()

    def _check(self) -> None:
        """Others may write to memory as well: what they made is not trusted."""
        found = self.path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise _unusable(self.path, "it is not a directory of this user's")
        self.path.chmod(_PRIVATE)

    def shards(self) -> Iterator[HeldShard]:
        """Every shard with a record that fits its bytes."""
        for path in sorted(self.path.glob(RECORDS)):
            with suppress(OSError, ValueError, TypeError, KeyError):
                record = ShardRecord.parse(path.read_text())
                data = path.with_suffix(".bin")
                if data.stat().st_size >= record.length:
                    yield HeldShard(record, data)

    def newest_step(self) -> int:
        """Of the newest snapshot all of whose shards are on this machine; -1 without one."""
        held: dict[tuple[str, int, int], set[int]] = {}
        for shard in self.shards():
            name = shard.record.name
            held.setdefault((name.set, name.step, name.size), set()).add(name.rank)
        return max((step for (_, step, size), ranks in held.items() if len(ranks) == size), default=-1)

    def drop_after(self, step: int) -> None:
        """Of snapshots of later steps nothing is known any more; their bytes are written over."""
        for path in list(self.path.glob(RECORDS)):
            with suppress(OSError, ValueError, TypeError, KeyError):
                if ShardRecord.parse(path.read_text()).name.step > step:
                    path.unlink(missing_ok=True)

    def slots(self, set_id: str, rank: int) -> "ShardSlots":
        return ShardSlots(self, set_id, rank)

    def keep_only(self, set_id: str) -> None:
        """Remove what earlier worlds have left."""
        with suppress(OSError):
            for path in list(self.path.iterdir()):
                if path.name != set_id:
                    shutil.rmtree(path, ignore_errors=True)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


class ShardSlots:
    """The two slots of one shard."""

    def __init__(self, place: MemoryDirectory, set_id: str, rank: int) -> None:
        self._place = place
        self._directory = place.path / set_id
        self._rank = rank

    def buffer(self, slot: int, size: int, *, pinned: bool) -> HostBuffer:
        self._place.make()
        self._directory.mkdir(mode=_PRIVATE, exist_ok=True)
        path = self._path(slot).with_suffix(".bin")
        if not path.exists():
            check_room(self._directory, (SLOTS - slot) * size)
        return HostBuffer(size, pinned=pinned, path=path)

    def void(self, slot: int) -> None:
        """The bytes of a slot are about to change."""
        self._path(slot).unlink(missing_ok=True)

    def commit(self, slot: int, record: ShardRecord) -> None:
        """The bytes of a slot are what the record says."""
        try:
            write_atomically(self._path(slot), record.to_text(), mode=0o600)
        except OSError as error:
            _log.warning("a snapshot of step %d cannot be kept in memory: %s", record.name.step, error)

    def _path(self, slot: int) -> Path:
        return self._directory / f"r{self._rank:05d}.{slot}.json"


def record_of(name: ShardName, chunks: tuple[Chunk, ...], size: int, extras: bytes) -> ShardRecord:
    return ShardRecord(name=name, length=size, chunks=chunks, extras=extras, made_at=time.time())


def _unusable(path: Path, why: str) -> InputError:
    return InputError(
        f"snapshots in {path}, which cannot be used: {why}", "a directory that this user may write to",
        "Remove it, or give another memory_dir",
    )  # fmt: skip
