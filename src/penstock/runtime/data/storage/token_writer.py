"""Documents in, shards out; a manifest in the end.

A shard takes documents until it has reached its size, is written beside its place, and gets its name when it is whole.
After each of them a journal says how far the writer has come, so that whoever feeds it can go on from there. What has
no manifest is no data set, so a writer that is interrupted leaves nothing that could be taken for one. A data set that
is to be replaced stays what it is until the new manifest takes its place.
"""

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.core import InputError
from penstock.runtime.data.storage.data_manifest import (
    MANIFEST,
    DataManifest,
    ShardEntry,
    TokenizerNote,
    shard_rows,
    shards_from_rows,
)
from penstock.runtime.data.storage.opening import JOURNAL
from penstock.runtime.data.storage.places import Place, place_of
from penstock.runtime.data.storage.shard_file import (
    BLOCK_BYTES,
    INDEX,
    TOKENS,
    index_bytes,
    shard_name,
    token_type,
)
from penstock.tools import sync_file

SHARD_BYTES = 256 * 2**20
SMALLEST_SHARD_BYTES = 2**10
_SMALL_VOCABULARY = 2**16
_ANOTHER_SERIES = "-b"

Cursors = Callable[[int], Any]


class TokenWriter:
    """Writes packed tokens: ``with TokenWriter("corpus", vocabulary=50_257) as writer: writer.add(tokens)``.

    ``location`` must hold no data set, unless ``force`` is given; where another writer with the same ``settings`` was
    interrupted, this one goes on behind its last whole shard, and ``cursor`` is what its feeder had said then.
    """

    def __init__(
        self, location: str | Path, *, vocabulary: int, shard_bytes: int = SHARD_BYTES,
        tokenizer: TokenizerNote | None = None, settings: Mapping[str, Any] | None = None, force: bool = False,
    ) -> None:  # fmt: skip
        if not 1 <= vocabulary <= 2**32:
            raise InputError(f"a vocabulary of {vocabulary}", "1 to 2^32 tokens")
        if shard_bytes < SMALLEST_SHARD_BYTES:
            raise InputError(f"shards of {shard_bytes} bytes", f"at least {SMALLEST_SHARD_BYTES}", "256 MiB are usual")
        self.tokenizer = tokenizer or TokenizerNote(name="none", vocabulary=vocabulary)
        self._type = token_type(2 if vocabulary <= _SMALL_VOCABULARY else 4)
        self._limit = max(1, shard_bytes // self._type.itemsize)
        self._settings = {"shard_bytes": shard_bytes, "vocabulary": vocabulary, **(settings or {})}
        self._place = place_of(location)
        self._shards: list[ShardEntry] = []
        self._open: _OpenShard | None = None
        self.cursor: Any = None
        self._series = ""
        self._replaced: frozenset[str] = frozenset()
        self._claim = self._place.claim()
        try:
            self._begin(location, force)
        except BaseException:
            self._claim.release()
            raise

    @property
    def documents(self) -> int:
        """Documents in whole shards."""
        return sum(shard.documents for shard in self._shards)

    def add(self, tokens: ArrayLike) -> None:
        """One document."""
        given = np.asarray(tokens)
        self.extend(given, [len(given)])

    def extend(
        self, tokens: NDArray[Any], lengths: Sequence[int] | NDArray[Any], cursors: Cursors | None = None
    ) -> None:
        """Several documents, one behind the other, empty ones left out; ``cursors(n)`` says where to go on behind n."""
        counts = np.asarray(lengths, dtype=np.int64)
        ends = np.cumsum(counts[counts > 0])
        if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < self.tokenizer.vocabulary:
            raise InputError(
                f"tokens from {int(tokens.min())} to {int(tokens.max())}",
                f"0 to {self.tokenizer.vocabulary - 1}, as the vocabulary has it", "Check which tokenizer made them",
            )  # fmt: skip
        done = 0
        while done < len(ends):
            shard = self._open = self._open or _OpenShard(
                self._place, shard_name(len(self._shards), self._series), self._type
            )
            begin = int(ends[done - 1]) if done else 0
            fits = int(np.searchsorted(ends, begin + self._limit - shard.tokens)) + 1
            taken = min(fits, len(ends))
            shard.write(tokens[begin : int(ends[taken - 1])], ends[done:taken] - begin)
            done = taken
            if shard.tokens >= self._limit:
                self._close_shard(cursors(done) if cursors else None)

    def finish(self) -> DataManifest:
        """Write the last shard and the manifest."""
        if self._open is not None:
            self._close_shard(self.cursor)
        manifest = DataManifest(
            token_bytes=self._type.itemsize, tokenizer=self.tokenizer, shards=tuple(self._shards)
        )  # fmt: skip
        if not manifest.tokens:
            self.abandon()
            raise InputError(
                "no tokens were given", "at least one document with text in it", "Check that the inputs are not empty"
            )
        self._place.write(MANIFEST, manifest.to_text())
        for name in (JOURNAL, *self._replaced):
            self._place.remove(name)
        self._claim.release()
        return manifest

    def abandon(self) -> None:
        """Drop the shard that is being written; whole ones stay for whoever goes on."""
        if self._open is not None:
            self._open.drop()
            self._open = None
        self._claim.release()

    def __enter__(self) -> "TokenWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()
        else:
            self.abandon()

    def _begin(self, location: str | Path, force: bool) -> None:
        names = set(self._place.names())
        if force:
            self._make_way(names)
            return
        for name in names:
            if name.startswith(".shard-") and name.endswith(".partial"):
                self._place.remove(name)
        if MANIFEST in names:
            raise InputError(
                f"{location} holds packed tokens", "a new place", "Give --force (force=True) to replace them"
            )
        if JOURNAL in names:
            self._go_on(location)

    def _make_way(self, names: set[str]) -> None:
        """Remove what is ours but for a whole data set, which goes when there is another."""
        kept: set[str] = set()
        with suppress(FileNotFoundError, ValueError):
            kept = {shard.name for shard in DataManifest.parse(self._place.text(MANIFEST)).shards}
        self._series = _ANOTHER_SERIES if shard_name(0) in kept else ""
        self._replaced = frozenset(name + suffix for name in kept for suffix in (TOKENS, INDEX))
        for name in names - self._replaced - ({MANIFEST} if kept else set()):
            is_draft = name.startswith(".shard-") and name.endswith(".partial")
            if is_draft or name in (MANIFEST, JOURNAL) or name.endswith((TOKENS, INDEX)):
                self._place.remove(name)

    def _go_on(self, location: str | Path) -> None:
        try:
            journal = json.loads(self._place.text(JOURNAL))
            settings, rows, cursor = journal["settings"], journal["shards"], journal["cursor"]
        except (ValueError, KeyError, TypeError):
            settings, rows, cursor = None, [], None
        if settings != json.loads(json.dumps(self._settings)):
            raise InputError(
                f"{location} holds an unfinished packing of other inputs or settings", "the same ones, or a new place",
                "Give --force (force=True) to begin anew",
            )  # fmt: skip
        self._shards, self.cursor = list(shards_from_rows(rows)), cursor

    def _close_shard(self, cursor: Any) -> None:
        assert self._open is not None
        self._shards.append(self._open.close())
        self._open, self.cursor = None, cursor
        journal = {"settings": self._settings, "cursor": cursor, "shards": shard_rows(self._shards)}
        self._place.write(JOURNAL, json.dumps(journal))


class _OpenShard:
    """A shard that is being written."""

    def __init__(self, place: Place, name: str, kind: "np.dtype[np.unsignedinteger[Any]]") -> None:
        self.name = name
        self.tokens = 0
        self._place = place
        self._type = kind
        self._draft = place.draft(name + TOKENS)
        self._file: BinaryIO = self._draft.open("wb")
        self._ends: list[NDArray[np.int64]] = [np.zeros(1, dtype=np.int64)]
        self._sums: list[int] = []
        self._sum, self._summed = 0, 0

    def write(self, tokens: NDArray[Any], ends: NDArray[np.int64]) -> None:
        data = np.ascontiguousarray(tokens, dtype=self._type).data.cast("B")
        self._file.write(data)
        self._add_up(data)
        self._ends.append(ends + self.tokens)
        self.tokens += len(tokens)

    def close(self) -> ShardEntry:
        if self._summed:
            self._sums.append(self._sum)
        sync_file(self._file)
        self._file.close()
        offsets = np.concatenate(self._ends)
        index = index_bytes(offsets, np.array(self._sums, dtype=np.uint32), self._type.itemsize)
        draft = self._place.draft(self.name + INDEX)
        draft.write_bytes(index)
        self._place.put(self._draft, self.name + TOKENS)
        self._place.put(draft, self.name + INDEX)
        return ShardEntry(
            name=self.name, tokens=self.tokens, documents=len(offsets) - 1, index_crc=zlib.crc32(index)
        )  # fmt: skip

    def drop(self) -> None:
        self._file.close()
        self._draft.unlink(missing_ok=True)

    def _add_up(self, data: memoryview) -> None:
        while len(data):
            part = data[: BLOCK_BYTES - self._summed]
            self._sum = zlib.crc32(part, self._sum)
            self._summed += len(part)
            data = data[len(part) :]
            if self._summed == BLOCK_BYTES:
                self._sums.append(self._sum)
                self._sum, self._summed = 0, 0
