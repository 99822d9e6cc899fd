"""Where in a buffer one of many literals may be, at the speed of a few passes over it.

Looking for hundreds of literals one by one costs hundreds of passes, and a regular expression of alternatives tries
each at every byte. Here a buffer is read as machine words: every literal of at least seven bytes covers a whole
four-byte word wherever it begins, so it is enough to look at every fourth byte and to know, for each literal, four
words of it, one per alignment. A word is looked up in a table of bits by its hash; what passes is compared exactly, and
what passes that is worth a look at its line. O(bytes / 4) with a small constant, independent of how many literals there
are; letters count without regard to case.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from penstock.diagnose.signatures.literals import LEAST_ANCHOR

_WORD = 4
_FOLD = np.uint32(0x20202020)
"""Sets the bit that tells small letters from capitals, in each byte of a word."""
_MULTIPLIER = np.uint32(0x9E3779B1)
_BITS = 18
_ORDINARY = (
    b"2024-05-01 12:00:00,123 INFO [rank0]: iteration 123/ 50000 | consumed samples: 12641280 | elapsed time per "
    b"iteration (ms): 612.3 | learning rate: 1.5E-04 | global batch size: 512 | lm loss: 2.345E+00 | loss scale: 1.0 | "
    b"grad norm: 0.3 | number of skipped iterations: 0 | number of nan iterations: 0 | epoch 1 step 100 train_loss=0.1 "
    b"val_acc=0.9 eta 0:10 throughput tokens/s samples/sec gpu memory allocated max cuda device model training data "
    b"loading validation error warning: checkpoint saved to file /path/output/model.pt torch.distributed python3 lib "
    b"site-packages NCCL INFO Channel NET/IB : Using via P2P/IPC comm rank nranks init complete ERROR WARN failed "
    b"Failed Error: with the time not from for "
)
"""What lines say that mean nothing: words of theirs are the last to be chosen."""


class GramFilter:
    """Finds the words that the given literals have; ``owners`` says which literals have a word."""

    def __init__(self, literals: Iterable[str]) -> None:
        self.owners: dict[int, list[bytes]] = {}
        ordinary = set(_words(_ORDINARY.lower()))
        for literal in dict.fromkeys(literals):
            data = literal.lower().encode()
            if len(data) < LEAST_ANCHOR:
                raise ValueError(f"{literal!r} has fewer than {LEAST_ANCHOR} bytes")
            for word in _chosen(data, ordinary):
                self.owners.setdefault(word, []).append(data)
        self._known = np.array(sorted(self.owners), dtype=np.uint32)
        self._table = np.zeros(1 << _BITS, dtype=np.bool_)
        self._table[_hash(self._known)] = True

    def hits(self, buffer: bytes) -> tuple[Sequence[int], Sequence[int]]:
        """Offsets of words that some literal has, ascending, and the words."""
        words = np.frombuffer(buffer, dtype="<u4", count=len(buffer) // _WORD) | _FOLD
        places = np.flatnonzero(self._table[_hash(words)])
        found: npt.NDArray[np.uint32] = words[places]
        exact = np.isin(found, self._known)
        return (places[exact] * _WORD).tolist(), found[exact].tolist()


def _hash(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    mixed: npt.NDArray[np.uint32] = words * _MULTIPLIER
    mixed >>= np.uint32(32 - _BITS)
    return mixed


def _words(data: bytes) -> list[int]:
    """Every four bytes of some text, folded."""
    return [int.from_bytes(data[at : at + _WORD], "little") | int(_FOLD) for at in range(len(data) - _WORD + 1)]


def _chosen(data: bytes, ordinary: set[int]) -> list[int]:
    """For each alignment the word of a literal that ordinary lines have least."""
    words = _words(data)
    return [min(words[residue::_WORD], key=ordinary.__contains__) for residue in range(_WORD)]
