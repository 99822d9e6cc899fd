"""Which snapshots lie in a machine's memory, told from their records alone; needs no PyTorch."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from penstock.tools import open_regular, parse_json

RECORDS = "*/r*.json"
_LARGEST_RECORD = 1 << 24
_MOST_RECORDS = 1024
_MOST_BYTES = 1 << 26
"""Of all records that are read for one answer."""
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
    left = _MOST_BYTES
    for path in islice(_records(place), _MOST_RECORDS):
        with suppress(OSError, ValueError, TypeError, KeyError, OverflowError), open_regular(path) as file:
            text = file.read(min(left, _LARGEST_RECORD))
            left -= len(text)
            key, rank, shard = _shard(text)
            found.setdefault(key, {})[rank] = shard
    glances = [_together(list(shards.values())) for shards in found.values()]
    return sorted(glances, key=lambda one: (one.step, one.made_at), reverse=True)


def _together(shards: list[SnapshotGlance]) -> SnapshotGlance:
    newest = max(shard.made_at for shard in shards)
    return replace(shards[0], held=len(shards), bytes=sum(shard.bytes for shard in shards), made_at=newest)


def _records(place: Path) -> Iterator[Path]:
    """Files that :data:`RECORDS` names, looked for as they come: a directory may hold millions of others."""
    for folder in _entries(place):
        if folder.is_dir(follow_symlinks=False):
            names = (Path(entry.path) for entry in _entries(folder.path))
            yield from (path for path in names if path.match(RECORDS))


def _entries(folder: Path | str) -> Iterator[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as entries:
        yield from islice(entries, _MOST_RECORDS)


def _shard(text: bytes) -> tuple[str, int, SnapshotGlance]:
    """The snapshot that a record belongs to, the rank whose shard it is, and that shard."""
    said = parse_json(text, _LARGEST_RECORD)
    step, size, made_at = int(said["step"]), int(said["size"]), float(said["made_at"])
    if not 0 <= made_at < _YEAR_9999:
        raise ValueError(f"made at {made_at}")
    shard = SnapshotGlance(step=step, held=1, size=size, bytes=int(said["bytes"]), made_at=made_at)
    return f"{said['set']}/{step}/{size}", int(said["rank"]), shard
