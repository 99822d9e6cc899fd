"""Which snapshots lie in a machine's memory, told from their records alone; needs no PyTorch."""

import itertools
import json
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

RECORDS = "*/r*.json"
_LARGEST_RECORD = 1 << 24
_MOST_RECORDS = 1024
_YEAR_9999 = 253_402_300_800


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotGlance:
    """A snapshot of a step: ``held`` of its ``size`` shards are on this machine."""

    step: int
    held: int
    size: int
    bytes: int
    made_at: float

    @property
    def is_whole(self) -> bool:
        return self.held == self.size


def snapshots_in(place: Path) -> list[SnapshotGlance]:
    """The snapshots below a directory, the newest first; what is no record of one is passed over."""
    found: dict[str, dict[int, SnapshotGlance]] = {}
    for path in itertools.islice(place.glob(RECORDS), _MOST_RECORDS):
        with suppress(OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
            key, rank, shard = _shard(path)
            found.setdefault(key, {})[rank] = shard
    glances = [_together(list(shards.values())) for shards in found.values()]
    return sorted(glances, key=lambda one: (one.step, one.made_at), reverse=True)


def _together(shards: list[SnapshotGlance]) -> SnapshotGlance:
    newest = max(shard.made_at for shard in shards)
    return replace(shards[0], held=len(shards), bytes=sum(shard.bytes for shard in shards), made_at=newest)


def _shard(path: Path) -> tuple[str, int, SnapshotGlance]:
    """The snapshot that a record belongs to, the rank whose shard it is, and that shard."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        said = json.loads(file.read(_LARGEST_RECORD))
    step, size, made_at = int(said["step"]), int(said["size"]), float(said["made_at"])
    if not 0 <= made_at < _YEAR_9999:
        raise ValueError(f"made at {made_at}")
    shard = SnapshotGlance(step=step, held=1, size=size, bytes=int(said["bytes"]), made_at=made_at)
    return f"{said['set']}/{step}/{size}", int(said["rank"]), shard
