"""A copy of a large file of which only those blocks are there that somebody has asked for.

The file has holes for the others. Beside it lies one byte for each block, set when the block is written; processes of a
machine share both. Two that fetch the same block write the same bytes. Whoever has the copy open goes on with it when
its name is gone, because the cache was full.
"""

import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from penstock.runtime.data.storage.shard_file import BLOCK_BYTES

_RUN_BLOCKS = 8
"""Blocks that are asked for in one request."""


class SparseCopy:
    """The copy at ``path`` of a file of ``size`` bytes; ``read(start, stop)`` has the original's bytes."""

    def __init__(self, path: Path, size: int, read: Callable[[int, int], bytes]) -> None:
        self.path = path
        self._size = size
        self._read = read
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        blocks = -(-size // BLOCK_BYTES)
        if not path.exists() or path.stat().st_size != size:
            marks_path(path).unlink(missing_ok=True)
        _lengthen(path, size)
        self._handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        _lengthen(marks_path(path), max(1, blocks))
        with marks_path(path).open("r+b") as file:
            self._marks = mmap.mmap(file.fileno(), 0)
        os.utime(path)

    def fetch(self, first: int, last: int) -> None:
        """Bring the blocks from ``first`` to before ``last`` that are not there."""
        for start, stop in self._missing(first, last):
            content = self._read(start * BLOCK_BYTES, min(stop * BLOCK_BYTES, self._size))
            os.pwrite(self._handle, content, start * BLOCK_BYTES)
            self._marks[start:stop] = b"\x01" * (stop - start)

    def __del__(self) -> None:
        if hasattr(self, "_handle"):
            os.close(self._handle)

    def _missing(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Runs of blocks that are not there."""
        block = first
        while block < last:
            if self._marks[block]:
                block += 1
                continue
            stop = block + 1
            while stop < min(last, block + _RUN_BLOCKS) and not self._marks[stop]:
                stop += 1
            yield block, stop
            block = stop


def marks_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.have")


def _lengthen(path: Path, size: int) -> None:
    with path.open("ab") as file:
        file.truncate(size)
