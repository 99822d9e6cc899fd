"""All tokens of a data set as one long row, of which any stretch can be read at once.

Shards are mapped when they are first needed, and the least recently used ones are let go, so that ten thousand of them
need no more open files than a few hundred. A mebibyte of tokens is compared with its checksum when it is first read;
that it was is remembered, one byte for each.
"""

import resource
import threading
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate
from weakref import WeakSet

import numpy as np

from penstock.runtime.data.storage.opening import StoredTokens
from penstock.runtime.data.storage.shard_file import (
    BLOCK_BYTES,
    INDEX,
    TOKENS,
    DamagedShardError,
    Offsets,
    ShardIndex,
    TokenFile,
    Tokens,
    read_index,
)

OPEN_FILES = 320
"""Room for the shards of two windows; of the 1,024 that a process may have by default."""
_FILES_OF_A_COPY = 2

_threads = threading.local()
_streams: "WeakSet[TokenStream]" = WeakSet()


def _own_buffer() -> memoryview:
    """Room for a block, one for each thread that reads ahead."""
    if not hasattr(_threads, "buffer"):
        _threads.buffer = memoryview(bytearray(BLOCK_BYTES))
    found: memoryview = _threads.buffer
    return found


class OpenShard:
    """A mapped shard that knows which of its blocks have been found sound: ``checked`` has a byte for each.

    Most samples lie in a shard of which all are, so ``is_sound`` says that without a look at some.
    """

    __slots__ = (
        "_checked",
        "_checksums",
        "_fetch",
        "_file",
        "_per_block",
        "begin",
        "end",
        "files",
        "is_sound",
        "name",
        "offsets",
        "tokens",
        "used",
    )

    def __init__(
        self, name: str, begin: int, file: TokenFile, index: ShardIndex, *,
        checked: bytearray, fetch: Callable[[int, int], None] | None,
    ) -> None:  # fmt: skip
        self.name = name
        self.begin = begin
        self.end = begin + index.tokens
        self.tokens = file.tokens
        self.offsets = index.offsets.data
        self.files = max(1, file.files + index.files + (_FILES_OF_A_COPY if fetch else 0))
        self.used = 0
        self._checksums = index.checksums
        self._per_block = BLOCK_BYTES // index.token_bytes
        self._file = file
        self._fetch = fetch
        self._checked = checked
        self.is_sound = 0 not in checked

    def stretch(self, start: int, stop: int) -> Tokens:
        """Tokens by their places in the row of all; :class:`DamagedShardError` if they are not what was written."""
        start, stop = start - self.begin, stop - self.begin
        if not self.is_sound:
            self._check(start // self._per_block, -(-stop // self._per_block))
        return self.tokens[start:stop]

    def borders(self, start: int, stop: int) -> list[int]:
        """Where documents begin, by their places in the row of all."""
        first, last = self._documents(start, stop)
        return [self.begin + place for place in self.offsets[first:last]]

    def border_array(self, start: int, stop: int) -> Offsets:
        """The same of many documents."""
        first, last = self._documents(start, stop)
        return np.asarray(self.offsets[first:last]) + self.begin

    def expect(self, start: int, stop: int) -> None:
        """Bring tokens nearer and compare them with their checksums; what differs is told to whoever reads it."""
        first, last = (start - self.begin) // self._per_block, -(-(stop - self.begin) // self._per_block)
        if self._fetch:
            self._fetch(first, last)
        self._file.announce(first * BLOCK_BYTES, last * BLOCK_BYTES)
        buffer = _own_buffer()
        for block in range(first, last):
            content = self._file.read_into(buffer, block * BLOCK_BYTES)
            if not self._checked[block] and zlib.crc32(content) == int(self._checksums[block]):
                self._checked[block] = 1
        self.is_sound = 0 not in self._checked

    def _documents(self, start: int, stop: int) -> tuple[int, int]:
        """Those that begin here, from the first to behind the last."""
        first = bisect_left(self.offsets, start - self.begin, 0, len(self.offsets) - 1)
        return first, bisect_left(self.offsets, stop - self.begin, first, len(self.offsets) - 1)

    def _check(self, first: int, last: int) -> None:
        if 0 not in self._checked[first:last]:
            return
        if self._fetch:
            self._fetch(first, last)
        for block in range(first, last):
            if not self._checked[block]:
                content = self.tokens[block * self._per_block : (block + 1) * self._per_block].data.cast("B")
                if zlib.crc32(content) != int(self._checksums[block]):
                    raise DamagedShardError(f"block {block} of {self.name} differs from its checksum")
                self._checked[block] = 1
        self.is_sound = 0 not in self._checked


class TokenStream:
    """The tokens of a data set, and where its documents begin. May be read from several threads."""

    def __init__(self, stored: StoredTokens, *, verify: bool = True, open_files: int = OPEN_FILES) -> None:
        self.stored = stored
        self.starts = [0, *accumulate(shard.tokens for shard in stored.manifest.shards)]
        self._verify = verify
        self._most_files = open_files
        self._open: dict[int, OpenShard] = {}
        self._files = 0
        self._checked: dict[int, bytearray] = {}
        self._lock = threading.Lock()
        self._turn = 0
        _streams.add(self)

    def __len__(self) -> int:
        return self.starts[-1]

    def stretch(self, start: int, stop: int) -> Tokens:
        """The tokens from ``start`` to before ``stop``: a view where they lie in one shard, else a copy."""
        number = bisect_right(self.starts, start) - 1
        shard = self._open.get(number) or self._shard(number)
        if stop <= shard.end:
            if not shard.is_sound:
                return shard.stretch(start, stop)
            shard.used = self._turn
            return shard.tokens[start - shard.begin : stop - shard.begin]
        joined: Tokens = np.concatenate([part.stretch(first, end) for part, first, end in self._parts(start, stop)])
        return joined

    def borders(self, start: int, stop: int) -> list[int]:
        """Where documents begin, from ``start`` to before ``stop``."""
        if start >= stop:
            return []
        shard = self._shard(bisect_right(self.starts, start) - 1)
        if stop <= shard.end:
            return shard.borders(start, stop)
        return [place for shard, first, end in self._parts(start, stop) for place in shard.borders(first, end)]

    def border_array(self, start: int, stop: int) -> Offsets:
        """The same of many documents."""
        parts = [shard.border_array(first, end) for shard, first, end in self._parts(start, stop)]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    def expect(self, start: int, stop: int) -> None:
        """Bring tokens nearer: from the store to this machine, and from its disk to memory; returns when they are."""
        for shard, first, end in self._parts(start, stop):
            shard.expect(first, end)

    def _parts(self, start: int, stop: int) -> Iterator[tuple[OpenShard, int, int]]:
        """The shards a stretch lies in, each with the part of it that it has."""
        number = bisect_right(self.starts, start) - 1
        while start < stop:
            end = min(stop, self.starts[number + 1])
            if end > start:
                yield self._shard(number), start, end
                start = end
            number += 1

    def _shard(self, number: int) -> OpenShard:
        found = self._open.get(number)
        if found is None:
            with self._lock:
                found = self._open.get(number) or self._opened(number)
        found.used = self._turn
        return found

    def _opened(self, number: int) -> OpenShard:
        """Open a shard; where too many files are open, some are let go of first."""
        most = min(self._most_files, _files_for_each())
        if self._files >= most:
            self._let_go_until(3 * most // 4)
        entry, place = self.stored.manifest.shards[number], self.stored.place
        index = read_index(place.local(entry.name + INDEX), check_offsets=self._verify)
        if (index.tokens, index.documents) != (entry.tokens, entry.documents):
            raise DamagedShardError(f"{entry.name} is not the shard that the manifest means")
        copy = place.shard(entry.name + TOKENS, index.tokens * index.token_bytes)
        found = self._open[number] = OpenShard(
            entry.name, self.starts[number], TokenFile(copy.path, index, may_change=copy.fetch is not None), index,
            checked=self._marks(number, len(index.checksums), copy.may_vanish), fetch=copy.fetch,
        )  # fmt: skip
        self._files += found.files
        self._turn += 1
        return found

    def _let_go_until(self, files: int) -> None:
        """Keep at most so many files open, those of the shards that were used last."""
        for unused in sorted(self._open, key=lambda one: self._open[one].used):
            if self._files > files:
                self._files -= self._open.pop(unused).files

    def _marks(self, number: int, blocks: int, may_vanish: bool) -> bytearray:
        """A byte for each block, 1 where it needs no check; kept beyond a shard's closing, unless copies may vanish."""
        if may_vanish:
            return bytearray(blocks)
        return self._checked.setdefault(number, bytearray([not self._verify]) * blocks)


def _files_for_each() -> int:
    """Half of what this process may open, among all its data sets: a mixture may have many."""
    may_open, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES if may_open == resource.RLIM_INFINITY else may_open // (2 * len(_streams))
