"""Small data sets to read."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from penstock.data import TokenWriter

Documents = list[NDArray[np.int64]]


def documents(count: int = 300, *, longest: int = 90, seed: int = 1, vocabulary: int = 1000) -> Documents:
    draw = np.random.default_rng(seed)
    return [draw.integers(0, vocabulary, draw.integers(1, longest + 1)) for _ in range(count)]


def write(place: Path | str, given: Documents, *, shard_bytes: int = 2**12, vocabulary: int = 1000) -> None:
    with TokenWriter(place, vocabulary=vocabulary, shard_bytes=shard_bytes) as writer:
        for document in given:
            writer.add(document)


def flip(path: Path, byte: int) -> None:
    """Damage one byte of a file."""
    content = bytearray(path.read_bytes())
    content[byte] ^= 0xFF
    path.write_bytes(content)
