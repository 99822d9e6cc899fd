"""Output of workers on the disk, bounded, and addressed as if nothing were ever thrown away.

An offset counts bytes since the run began. A full file ``merged.log`` is renamed to ``merged.log.OFFSET``, after the
offset at which it begins, so the names alone tell which offsets are still there, and a reader keeps its place across a
rotation.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.backends.agent.log_times import LogTimes, noted_offset

ROTATE_BYTES = 16 * 2**20
KEPT = 2


@dataclass(frozen=True, slots=True, order=True)
class LogSegment:
    """A file that holds the bytes from ``start`` on."""

    start: int
    path: Path


class LogWriter:
    """Appends to a log and rotates it. A full disk loses output, never the run. ``times`` notes when it was written."""

    def __init__(
        self, path: Path, rotate_bytes: int = ROTATE_BYTES, kept: int = KEPT, times: LogTimes | None = None
    ) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._rotate_bytes = rotate_bytes
        self._kept = kept
        self._times = times
        self._start = segments(path)[-1].start
        self._handle = _open(path)
        self._size = os.fstat(self._handle).st_size

    def write(self, data: bytes) -> None:
        with suppress(OSError):
            if self._size and self._size + len(data) > self._rotate_bytes:
                self._rotate()
            if self._times is not None and data:
                self._times.mark(self._start + self._size)
            self._size += os.write(self._handle, data)

    def close(self) -> None:
        os.close(self._handle)

    def _rotate(self) -> None:
        self._path.rename(self._path.with_name(f"{self._path.name}.{self._start}"))
        os.close(self._handle)
        self._handle, self._size = _open(self._path), 0
        every = segments(self._path)
        self._start = every[-1].start
        for old in every[: -1 - self._kept]:
            old.path.unlink(missing_ok=True)
        if self._times is not None:
            self._times.forget_before(segments(self._path)[0].start)


def read_log(path: Path, offset: int, limit: int) -> tuple[bytes, int]:
    """Up to ``limit`` bytes from ``offset`` on, and the offset after them.

    An offset whose bytes were rotated away reads on from the oldest that are left; one beyond the end waits there.
    """
    while True:
        before = segments(path)
        data, at = _read(before, max(offset, before[0].start), limit)
        if segments(path) == before:
            return data, at + len(data)


def offset_since(path: Path, moment: float) -> int:
    """Where output begins that was written at ``moment`` or later: at the end of the log if there is none yet."""
    offset = noted_offset(path, moment)
    return _end(path) if offset is None else offset


def segments(path: Path) -> list[LogSegment]:
    """What is left of a log, oldest first; the last one is being written."""
    rotated = sorted(
        LogSegment(int(found.suffix[1:]), found)
        for found in path.parent.glob(f"{path.name}.*") if found.suffix[1:].isdigit()
    ) if path.parent.is_dir() else []  # fmt: skip
    try:
        start = rotated[-1].start + rotated[-1].path.stat().st_size if rotated else 0
    except FileNotFoundError:
        return segments(path)
    return [*rotated, LogSegment(start, path)]


def _end(path: Path) -> int:
    try:
        return segments(path)[-1].start + path.stat().st_size
    except FileNotFoundError:
        return 0


def _read(parts: list[LogSegment], offset: int, limit: int) -> tuple[bytes, int]:
    held = [part for part in parts if part.start <= offset]
    data = _read_file(held[-1].path, offset - held[-1].start, limit)
    if not data and len(held) < len(parts):
        return _read(parts, parts[len(held)].start, limit)
    return data, offset


def _read_file(path: Path, position: int, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(position)
            return file.read(limit)
    except FileNotFoundError:
        return b""


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
