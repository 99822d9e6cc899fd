"""Packed tokens as samples of one length: sample ``i`` is the same for everybody, and costs no more than a copy.

The tokens of all shards are one row, cut every ``sequence`` tokens. ``pack="concat"`` takes the pieces as they are;
``pack="best_fit"`` rearranges whole documents among the samples of a block, so that few are cut. Either way the number
of samples follows from the manifest alone, no sample is padded, and nothing has to be built when training starts.
"""

import logging
import threading
from collections import OrderedDict
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core import InputError, PenstockError, UnknownNameError
from penstock.runtime.data.reading.best_fit import Piece, best_fit
from penstock.runtime.data.reading.token_stream import TokenStream
from penstock.runtime.data.reading.windowed_order import WINDOW_BLOCKS, WindowedOrder
from penstock.runtime.data.storage.data_manifest import DataManifest
from penstock.runtime.data.storage.opening import open_tokens
from penstock.runtime.data.storage.shard_file import DamagedShardError

IGNORED = -100
"""The label that losses of PyTorch pass over."""
BLOCK_TOKENS = 2**20
"""What is read in one stretch, if shards are that long."""
MOST_DAMAGED = 0.001
_FEWEST_JUDGED = 1000
_MOST_TRIES = 64
_KEPT_ARRANGEMENTS = 2 * WINDOW_BLOCKS

_log = logging.getLogger(__name__)
Numbers = NDArray[np.int64]


class Packing(StrEnum):
    """How documents become samples."""

    CONCAT = "concat"
    BEST_FIT = "best_fit"


class TokenBatch(NamedTuple):
    """Samples in rows: tokens, the token that follows each, and how far into its document each one is.

    ``labels`` are -100 behind the end of a document. ``positions`` begin at 0 with every document in a row, and are
    ``None`` where boundaries are not wanted. Arrays of NumPy, or tensors in a training loop.
    """

    tokens: Any
    labels: Any
    positions: Any


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
        self._arranged: OrderedDict[int, list[list[tuple[int, int, bool]]]] = OrderedDict()
        self._lock = threading.Lock()
        self._told: set[str] = set()

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
        """The same into arrays with as many rows. Positions are steps of 1, but back to 0 at a border, added up."""
        fill = self._fill_plain if self.pack is Packing.CONCAT else self._fill_fitted
        if self.boundaries:
            batch.positions.fill(1)
            batch.positions[:, 0] = 0
        for row, index in enumerate(indices):
            self._fill_soundly(fill, int(index), batch, row)
        if self.boundaries:
            np.cumsum(batch.positions, axis=1, out=batch.positions)
        self._judge(len(indices))

    def expect(self, first: int, last: int) -> None:
        """Have the samples from ``first`` to before ``last`` read from the disk in the background."""
        self._stream.expect(first * self.sequence, min(last * self.sequence + 1, len(self._stream)))

    def state_dict(self) -> dict[str, Any]:
        """What must be the same for an order to be the same: attach the data set to a run, and others are refused."""
        return {"checksum": self.manifest.checksum, "sequence": self.sequence, "pack": str(self.pack)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state != self.state_dict():
            raise InputError(
                f"training began on other data than {self.location} (or on another sequence or packing)",
                "the data with checksum {checksum:.12}, sequence={sequence}, pack={pack}".format(**state),
                "Give the same data, or begin a new training",
            )  # fmt: skip

    def _fill_soundly(self, fill: Any, index: int, batch: TokenBatch, row: int) -> None:
        """Fill a row; instead of a damaged sample with the first sound one that lies blocks further on."""
        wanted = index
        for _ in range(_MOST_TRIES):
            try:
                fill(wanted, batch, row)
                return
            except DamagedShardError as problem:
                if wanted == index:
                    self.damaged += 1
                if str(problem) not in self._told:
                    self._told.add(str(problem))
                    _log.warning("%s: %s; other samples are taken instead", self.location, problem)
                if self.boundaries:
                    batch.positions[row] = 1
                    batch.positions[row, 0] = 0
                wanted = (wanted + self.block + 1) % self._samples
        raise TooMuchDamageError(
            f"sample {index} at {self.location} is damaged, and so are {_MOST_TRIES} that could replace it"
        )

    def _judge(self, samples: int) -> None:
        self._judged += samples
        if self.damaged > MOST_DAMAGED * max(self._judged, _FEWEST_JUDGED):
            raise TooMuchDamageError(
                f"{self.damaged} of {self._judged} samples read at {self.location} are damaged, "
                f"more than {MOST_DAMAGED:.1%}: `penstock data verify {self.location}` says where"
            )

    def _fill_plain(self, index: int, batch: TokenBatch, row: int) -> None:
        start = index * self.sequence
        stop = start + self.sequence
        tokens, labels = batch.tokens[row], batch.labels[row]
        self._copy(start, stop, stop == len(self._stream), tokens, labels)
        if self.boundaries:
            borders = self._stream.borders(start + 1, min(stop + 1, len(self._stream)))
            positions, before = batch.positions[row], start
            for border in borders:
                labels[border - start - 1] = IGNORED
                if border < stop:
                    positions[border - start] = 1 - border + before
                    before = border

    def _fill_fitted(self, index: int, batch: TokenBatch, row: int) -> None:
        block, within = divmod(index, self.block)
        tokens, labels = batch.tokens[row], batch.labels[row]
        at = 0
        for start, length, is_end in self._arrangement(block)[within]:
            end = at + length
            self._copy(start, start + length, is_end, tokens[at:end], labels[at:end])
            if self.boundaries and end < self.sequence:
                batch.positions[row, end] = 1 - length
            at = end

    def _copy(self, start: int, stop: int, is_end: bool, tokens: Numbers, labels: Numbers) -> None:
        """Tokens, and the ones that follow them, unless the last has no follower."""
        if is_end:
            found = self._stream.stretch(start, stop)
            tokens[:] = found
            labels[:-1] = found[1:]
            labels[-1] = IGNORED
        else:
            found = self._stream.stretch(start, stop + 1)
            tokens[:] = found[:-1]
            labels[:] = found[1:]

    def _arrangement(self, block: int) -> list[list[tuple[int, int, bool]]]:
        """Start, length and whether a document ends there, of each piece that the samples of a block are made of."""
        with self._lock:
            if block not in self._arranged:
                self._arranged[block] = self._arrange(block)
                while len(self._arranged) > _KEPT_ARRANGEMENTS:
                    self._arranged.popitem(last=False)
            return self._arranged[block]

    def _arrange(self, block: int) -> list[list[tuple[int, int, bool]]]:
        first, last = block * self.block, min((block + 1) * self.block, self._samples)
        start, stop = first * self.sequence, last * self.sequence
        edge = min(stop + 1, len(self._stream))
        ends = {*self._stream.borders(start, edge), len(self._stream)}
        borders = sorted({start, stop, *(end for end in ends if end < stop)})
        pieces = [Piece(a, b - a) for a, b in pairwise(borders)]
        packs = best_fit(pieces, last - first, self.sequence)
        return [[(start, length, start + length in ends) for start, length in pack] for pack in packs]


def _block(manifest: DataManifest, sequence: int) -> int:
    """About a mebitoken, but not more than a shard has, or a window would need more open shards than there may be."""
    return max(1, min(BLOCK_TOKENS, manifest.tokens // len(manifest.shards)) // sequence)
