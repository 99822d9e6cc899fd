"""A shard: tokens in one file, where their documents begin in another.

``NAME.tok`` holds nothing but tokens, little-endian, 2 or 4 bytes each, so that anything that reads flat token files
reads it. ``NAME.idx`` has a header of 64 bytes, a CRC-32 for every mebibyte of tokens, and then the place of each
document, counted in tokens, with the shard's length as the last one. The checksums come first: a reader that needs no
documents never touches the places, which are 8 bytes for each of them.
"""

import mmap
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from penstock.core import PenstockError

TOKENS, INDEX = ".tok", ".idx"
BLOCK_BYTES = 2**20
"""What one checksum vouches for: small enough to be checked on the way when it is first read."""
_SMALL_BYTES = 2**16
_MAGIC = b"PENSTOK1"
_HEADER = struct.Struct("<8sIIQQIII20x")

Offsets = NDArray[np.int64]
Tokens = NDArray[np.uint16] | NDArray[np.uint32]


class DamagedShardError(PenstockError):
    """A file that is not what was written; says which and where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardIndex:
    """What the index of a shard says; ``offsets`` is one longer than there are documents."""

    files: int
    """Files that are open for as long as it is."""
    token_bytes: int
    documents: int
    tokens: int
    checksums: NDArray[np.uint32]
    offsets: Offsets


def shard_name(number: int, series: str = "") -> str:
    """The name of a shard; a series of its own keeps shards apart from those that they are to replace."""
    return f"shard-{number:05d}{series}"


def token_type(token_bytes: int) -> np.dtype[np.unsignedinteger]:
    return np.dtype("<u2" if token_bytes == 2 else "<u4")


def index_bytes(offsets: Offsets, checksums: NDArray[np.uint32], token_bytes: int) -> bytes:
    """The content of an index file."""
    sums, places = checksums.astype("<u4").tobytes(), offsets.astype("<i8").tobytes()
    sums += bytes(_places_at(len(checksums)) - _HEADER.size - len(sums))
    header = _HEADER.pack(
        _MAGIC, token_bytes, len(checksums), len(offsets) - 1, int(offsets[-1]),
        BLOCK_BYTES, zlib.crc32(sums), zlib.crc32(places),
    )  # fmt: skip
    return header + sums + places


def read_index(path: Path, *, check_offsets: bool = False) -> ShardIndex:
    """Map an index; the checksums are checked, the places of documents too if asked for (it reads all of them)."""
    content = mapped(path)
    if len(content) < _HEADER.size:
        raise DamagedShardError(f"{path.name} is too short for an index")
    magic, token_bytes, blocks, documents, tokens, block_bytes, sums_crc, places_crc = _HEADER.unpack_from(content)
    places_at = _places_at(blocks)
    if magic != _MAGIC or token_bytes not in (2, 4) or block_bytes != BLOCK_BYTES:
        raise DamagedShardError(f"{path.name} is no index of this version")
    if len(content) != places_at + 8 * (documents + 1):
        raise DamagedShardError(f"{path.name} is cut off or too long")
    view = memoryview(content)
    if zlib.crc32(view[_HEADER.size : places_at]) != sums_crc:
        raise DamagedShardError(f"the checksums in {path.name} are damaged")
    if check_offsets and zlib.crc32(view[places_at:]) != places_crc:
        raise DamagedShardError(f"the places of documents in {path.name} are damaged")
    return ShardIndex(
        files=_files(content), token_bytes=token_bytes, documents=documents, tokens=tokens,
        checksums=np.frombuffer(content, "<u4", blocks, _HEADER.size),
        offsets=np.frombuffer(content, "<i8", documents + 1, places_at),
    )  # fmt: skip


class TokenFile:
    """The tokens of a shard, mapped, and the file behind the map, from which long stretches come faster than by faults.

    Of a file without long stretches there is the map alone, and a small one is read instead, unless it is still being
    filled: that is faster, and keeps no file open.
    """

    __slots__ = ("_content", "_handle", "tokens")

    def __init__(self, path: Path, index: ShardIndex, *, may_change: bool = False) -> None:
        self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._content = _content(self._handle, may_change=may_change)
        size = len(self._content)
        if size <= BLOCK_BYTES and not may_change:
            self.close()
        if size != index.tokens * index.token_bytes:
            raise DamagedShardError(f"{path.name} has {size} bytes instead of {index.tokens} tokens")
        self.tokens: Tokens = np.frombuffer(self._content, token_type(index.token_bytes))

    @property
    def files(self) -> int:
        """Files that it keeps open."""
        return _files(self._content) + (self._handle >= 0)

    def announce(self, start: int, stop: int) -> None:
        """These bytes will be read: have the system ask the disk for all of them at once."""
        if self._handle >= 0 and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._handle, start, stop - start, os.POSIX_FADV_WILLNEED)
        elif isinstance(self._content, mmap.mmap):
            self._content.madvise(mmap.MADV_WILLNEED)

    def read_into(self, buffer: memoryview, start: int) -> memoryview:
        """Bytes from ``start`` on into a buffer, or what there is of them, while other threads run."""
        if self._handle < 0:
            return self.tokens.data.cast("B")[start : start + len(buffer)]
        return buffer[: os.preadv(self._handle, [buffer], start)]

    def close(self) -> None:
        """Read no more from the file; what is mapped stays for as long as somebody holds it."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __del__(self) -> None:
        if hasattr(self, "_handle"):
            self.close()


def mapped(path: Path) -> mmap.mmap | bytes:
    """A file's content in the page cache, for as long as somebody holds an array on it; of a small file a copy."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _content(handle, may_change=False)
    finally:
        os.close(handle)


def _content(handle: int, *, may_change: bool) -> mmap.mmap | bytes:
    size = os.fstat(handle).st_size
    if not size or (size <= _SMALL_BYTES and not may_change):
        return os.read(handle, size)
    return mmap.mmap(handle, size, access=mmap.ACCESS_READ)


def _files(content: mmap.mmap | bytes) -> int:
    """A map keeps its file open."""
    return int(isinstance(content, mmap.mmap))


def _places_at(blocks: int) -> int:
    """Where the places of documents begin, aligned to their 8 bytes."""
    return _HEADER.size + 8 * -(-blocks // 2)


def block_checksums(tokens: Tokens) -> NDArray[np.uint32]:
    data = tokens.data.cast("B")
    return np.array(
        [zlib.crc32(data[at : at + BLOCK_BYTES]) for at in range(0, len(data), BLOCK_BYTES)], dtype=np.uint32
    )
