"""Packed tokens as samples of one length: sample ``i`` is the same for everybody, and costs no more than a copy.

The tokens of all shards are one row, cut every ``sequence`` tokens. ``pack="concat"`` takes the pieces as they are;
``pack="best_fit"`` rearranges whole documents among the samples of a block, so that few are cut. Either way the number
of samples follows from the manifest alone, no sample is padded, and nothing has to be built when training starts.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core import InputError, PenstockError, UnknownNameError
from penstock.runtime.data.reading.best_fit import best_fit, go_on
from penstock.runtime.data.reading.token_batch import IGNORED, TokenBatch
from penstock.runtime.data.reading.token_stream import TokenStream
from penstock.runtime.data.reading.windowed_order import WINDOW_BLOCKS, WindowedOrder
from penstock.runtime.data.storage.data_manifest import DataManifest
from penstock.runtime.data.storage.opening import open_tokens
from penstock.runtime.data.storage.shard_file import DamagedShardError

BLOCK_TOKENS, BLOCK_SHARDS = 2**20, 8
"""What is read in one stretch: so many tokens, if so many shards are that long."""
MOST_DAMAGED = 0.001
_FEWEST_JUDGED = 1000
_MOST_TRIES = 64
_KEPT_ARRANGEMENTS = 2 * WINDOW_BLOCKS

_PAUSE_S = 1e-5

_log = logging.getLogger(__name__)


class Packing(StrEnum):
    """How documents become samples."""

    CONCAT = "concat"
    BEST_FIT = "best_fit"


class Arrangement(NamedTuple):
    """What the samples of a block are made of: tens of thousands of pieces, perhaps, so they are kept as numbers."""

    pieces: NDArray[np.int64]
    """In each row the start of a piece, its length, and whether a document ends with it."""
    firsts: list[int]
    """The first piece of each sample, and the number of all pieces behind that."""

    def of(self, sample: int) -> list[list[int]]:
        found: list[list[int]] = self.pieces[self.firsts[sample] : self.firsts[sample + 1]].tolist()
        return found


class TooMuchDamageError(PenstockError):
    """More of a data set is damaged than a training should pass over."""


class TokenDataset:
    """``TokenDataset("corpus", sequence=2048)``: a map-style data set whose items are rows of :class:`TokenBatch`.

    ``boundaries=False`` gives plain text: labels run on from one document into the next, without positions. ``verify``
    compares what is first read with its checksum. A sample that is damaged is replaced by one further on, the same for
    everybody who meets it, so the order of all others stays; beyond one in a thousand training stops.
    """

    concurrent = True
    """May be read in a thread of its own while training goes on."""

    def __init__(
        self, location: str | Path, *, sequence: int = 2048, pack: str = Packing.CONCAT, boundaries: bool = True,
        verify: bool = True,
    ) -> None:  # fmt: skip
        if sequence < 1:
            raise InputError(f"sequence={sequence}", "at least 1 token")
        if pack not in list(Packing):
            raise UnknownNameError.of("packing", pack, list(Packing))
        stored = open_tokens(location)
        if stored.manifest.tokens <= sequence:
            raise InputError(
                f"{stored.manifest.tokens} tokens at {location}", f"more than the {sequence} of a sample",
                "Pack more text, or give a shorter sequence",
            )  # fmt: skip
        self.location = str(location)
        self.manifest: DataManifest = stored.manifest
        self.sequence = sequence
        self.pack = Packing(pack)
        self.boundaries = boundaries
        self.damaged = 0
        self._judged = 0
        self._stream = TokenStream(stored, verify=verify)
        self._samples = len(self._stream) // sequence
        self.block = _block(self.manifest, sequence)
        """Samples that are read in one stretch."""
        self._arranged: OrderedDict[int, Arrangement] = OrderedDict()
        self._lock = threading.Lock()
        self._told: set[str] = set()
        self._places = np.arange(sequence)

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> TokenBatch:
        if not -self._samples <= index < self._samples:
            raise IndexError(f"sample {index} of {self._samples}")
        rows = self.read([index % self._samples])
        return TokenBatch(*(None if rows_ is None else rows_[0] for rows_ in rows))

    @property
    def vocabulary(self) -> int:
        return self.manifest.tokenizer.vocabulary

    @property
    def token_bytes(self) -> int:
        """Bytes of a token on disk."""
        return self.manifest.token_bytes

    def order(self, seed: int) -> WindowedOrder:
        """The order in which epochs go through the data."""
        return WindowedOrder(samples=self._samples, block=self.block, seed=seed)

    def empty(self, rows: int) -> TokenBatch:
        """Room for a batch."""
        shape = (rows, self.sequence)
        return TokenBatch(np.empty(shape, np.int64), np.empty(shape, np.int64),
                          np.empty(shape, np.int64) if self.boundaries else None)  # fmt: skip

    def read(self, indices: Any) -> TokenBatch:
        """Samples by their indices, as arrays."""
        batch = self.empty(len(indices))
        self.read_into(indices, batch)
        return batch

    def read_into(self, indices: Any, batch: TokenBatch) -> None:
        """The same into arrays with as many rows."""
        for row, index in enumerate(indices):
            self.read_row(int(index), batch, row)

    def expect(self, first: int, last: int) -> None:
        """Have the samples from ``first`` to before ``last`` read from the disk."""
        self._stream.expect(first * self.sequence, min(last * self.sequence + 1, len(self._stream)))

    def prepare(self, first: int, last: int) -> None:
        """Arrange these samples in the background of whoever trains."""
        if self.pack is Packing.BEST_FIT:
            for block in range(first // self.block, -(-last // self.block)):
                self._arrangement(block, lambda: time.sleep(_PAUSE_S))

    def state_dict(self) -> dict[str, Any]:
        """What must be the same for an order to be the same: attach the data set to a run, and others are refused."""
        return {
            "checksum": self.manifest.checksum, "sequence": self.sequence, "pack": str(self.pack), "block": self.block
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """A state that names no block is from when a block was of one shard."""
        began = {"block": _block(self.manifest, self.sequence, shards=1), **state}
        if began == self.state_dict():
            return
        if began == self.state_dict() | {"block": began["block"]}:
            raise InputError(
                f"training on {self.location} began in blocks of {began['block']} samples", f"blocks of {self.block}",
                "Its order is that of an earlier version: end it with that one, or begin a new training",
            )  # fmt: skip
        raise InputError(
            f"training began on other data than {self.location} (or on another sequence or packing)",
            "the data with checksum {checksum:.12}, sequence={sequence}, pack={pack}".format(**state),
            "Give the same data, or begin a new training",
        )

    def read_row(self, index: int, batch: TokenBatch, row: int) -> None:
        """A sample into a row; instead of a damaged one the first sound one that lies blocks further on."""
        fill = self._fill_plain if self.pack is Packing.CONCAT else self._fill_fitted
        wanted = index
        for _ in range(_MOST_TRIES):
            try:
                fill(wanted, batch, row)
                self._judged += 1
                return self._judge() if self.damaged else None
            except DamagedShardError as problem:
                if wanted == index:
                    self.damaged += 1
                if str(problem) not in self._told:
                    self._told.add(str(problem))
                    _log.warning("%s: %s; other samples are taken instead", self.location, problem)
                wanted = (wanted + self.block + 1) % self._samples
        raise TooMuchDamageError(
            f"sample {index} at {self.location} is damaged, and so are {_MOST_TRIES} that could replace it"
        )

    def _judge(self) -> None:
        """Stop if too many of all samples that were read are damaged."""
        if self.damaged > MOST_DAMAGED * max(self._judged, _FEWEST_JUDGED):
            raise TooMuchDamageError(
                f"{self.damaged} of {self._judged} samples read at {self.location} are damaged, "
                f"more than {MOST_DAMAGED:.1%}: `penstock data verify {self.location}` says where"
            )

    def _fill_plain(self, index: int, batch: TokenBatch, row: int) -> None:
        start = index * self.sequence
        behind = min(start + self.sequence + 1, len(self._stream))
        found = self._stream.stretch(start, behind)
        labels = batch.labels[row]
        batch.tokens[row] = found[: self.sequence]
        labels[: behind - start - 1] = found[1:]
        if behind == start + self.sequence:
            labels[-1] = IGNORED
        if self.boundaries:
            positions, begin = batch.positions[row], 0
            for border in self._stream.borders(start + 1, behind):
                end = border - start
                labels[end - 1] = IGNORED
                positions[begin:end] = self._places[: end - begin]
                begin = end
            positions[begin:] = self._places[: self.sequence - begin]

    def _fill_fitted(self, index: int, batch: TokenBatch, row: int) -> None:
        """One call joins the pieces; labels are what it made, moved by one place, but for the last of each piece."""
        block, within = divmod(index, self.block)
        parts, positions, last_labels, behind = [], [], [], -1
        for start, length, is_end in self._arrangement(block).of(within):
            behind += length
            positions.append(self._places[:length])
            if is_end:
                parts.append(self._stream.stretch(start, start + length))
                last_labels.append((behind, IGNORED))
            else:
                found = self._stream.stretch(start, start + length + 1)
                parts.append(found[:-1])
                last_labels.append((behind, int(found[-1])))
        tokens, labels = batch.tokens[row], batch.labels[row]
        np.concatenate(parts, out=tokens)
        if self.boundaries:
            np.concatenate(positions, out=batch.positions[row])
        labels[:-1] = tokens[1:]
        for place, label in last_labels:
            labels[place] = label

    def _arrangement(self, block: int, pause: Callable[[], None] = go_on) -> Arrangement:
        """How the samples of a block are made; two who ask at once may both work it out, and find the same."""
        if (found := self._arranged.get(block)) is None:
            found = self._arrange(block, pause)
            with self._lock:
                self._arranged[block] = found
                while len(self._arranged) > _KEPT_ARRANGEMENTS:
                    self._arranged.popitem(last=False)
        return found

    def _arrange(self, block: int, pause: Callable[[], None] = go_on) -> Arrangement:
        first, last = block * self.block, min((block + 1) * self.block, self._samples)
        start, stop = first * self.sequence, last * self.sequence
        inner = self._stream.border_array(start + 1, min(stop + 1, len(self._stream)))
        borders = np.concatenate(([start], inner, [stop]))
        pause()
        packs = best_fit(borders[:-1], np.diff(borders), last - first, self.sequence, pause)
        pause()
        ends, stops = np.append(inner, len(self._stream)), packs.starts + packs.lengths
        is_end = ends[np.searchsorted(ends, stops)] == stops
        return Arrangement(np.column_stack((packs.starts, packs.lengths, is_end)), packs.firsts.tolist())


def _block(manifest: DataManifest, sequence: int, shards: int = BLOCK_SHARDS) -> int:
    """About a mebitoken, but no more shards than this, or a window would need more open files than there may be."""
    tokens = min(BLOCK_TOKENS, shards * (manifest.tokens // len(manifest.shards)), manifest.tokens)
    return max(1, tokens // sequence)
