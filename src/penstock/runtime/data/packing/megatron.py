"""The indexed data sets of Megatron-LM (``NAME.bin`` with ``NAME.idx``), to be taken over as they are.

The index is, after nine bytes of magic: a version (1), a code for the type of tokens, the number of sequences and of
document borders, the length of each sequence, its place in bytes, and the borders of documents counted in sequences.
"""

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core import InputError

_MAGIC = b"MMIDIDX\x00\x00"
_HEADER = struct.Struct("<QBQQ")
_TYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}


class MegatronPair:
    """One such pair, found by its index."""

    def __init__(self, index: Path) -> None:
        self._tokens_path = index.with_suffix(".bin")
        try:
            content = np.fromfile(index, dtype=np.uint8)
            magic, (version, code, sequences, borders) = (
                content[: len(_MAGIC)].tobytes(), _HEADER.unpack_from(content.data, len(_MAGIC))
            )  # fmt: skip
            if magic != _MAGIC or version != 1 or code not in _TYPES:
                raise ValueError("another magic, version or type")
            at = len(_MAGIC) + _HEADER.size
            self._lengths = np.frombuffer(content.data, "<i4", sequences, at)
            self._places = np.frombuffer(content.data, "<i8", sequences, at + 4 * sequences)
            self._borders = np.frombuffer(content.data, "<i8", borders, at + 12 * sequences)
            self._tokens = np.memmap(self._tokens_path, _TYPES[code], "r")
            self._check()
        except (OSError, ValueError, struct.error) as problem:
            raise InputError(
                f"{index} is no index of Megatron-LM with tokens beside it: {problem}", "NAME.idx beside NAME.bin",
                "Fetch or make both again, or leave them out",
            ) from None  # fmt: skip

    def _check(self) -> None:
        """What lies behind the end of a file would come out shorter than it was."""
        ends = self._places + self._lengths * self._tokens.itemsize
        if len(ends) and (self._places.min() < 0 or self._lengths.min() < 0 or ends.max() > self._tokens.nbytes):
            raise ValueError(f"its sequences do not lie within {self._tokens_path.name}")
        if len(self._borders) and (self._borders.min() < 0 or self._borders.max() > len(self._lengths)):
            raise ValueError("its documents are of sequences that it does not have")

    @property
    def documents(self) -> int:
        return max(0, len(self._borders) - 1)

    def document(self, number: int) -> NDArray[Any]:
        """The tokens of one document: of all its sequences."""
        first, last = int(self._borders[number]), int(self._borders[number + 1])
        return np.concatenate([self._sequence(one) for one in range(first, last)] or [self._tokens[:0]])

    def _sequence(self, number: int) -> NDArray[Any]:
        start = int(self._places[number]) // self._tokens.itemsize
        return np.asarray(self._tokens[start : start + int(self._lengths[number])])
