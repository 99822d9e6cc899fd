"""Where in a buffer one of many literals may be, at the speed of a few passes over it.

Looking for hundreds of literals one by one costs hundreds of passes, and a regular expression of alternatives tries
each at every byte. Here a buffer is read as machine words: every literal of at least seven bytes covers a whole
four-byte word wherever it begins, so it is enough to look at every fourth byte and to know, for each literal, four
words of it, one per alignment. A word is looked up in a table of bits by its hash; what passes is compared exactly, and
what has the right words on either side too is worth a look at its line. O(bytes / 4) with a small constant, independent
of how many literals there are; letters count without regard to case.
"""

from collections.abc import Iterable, Iterator

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
    """Finds where literals may be: four bytes of one are there for certain, and up to four on either side."""

    def __init__(self, literals: Iterable[str]) -> None:
        ordinary = set(_words(_ORDINARY.lower()))
        self._literals = [literal.lower().encode() for literal in dict.fromkeys(literals)]
        if short := [literal for literal in self._literals if len(literal) < LEAST_ANCHOR]:
            raise ValueError(f"{short[0]!r} has fewer than {LEAST_ANCHOR} bytes")
        traits = sorted(
            trait for number, data in enumerate(self._literals) for trait in _traits(number, data, ordinary)
        )
        columns = np.array(traits, dtype=np.uint32).reshape(-1, 6).T
        self._before_mask, self._before, self._after_mask, self._after, self._owner = columns[1:]
        self._known, self._first, self._count = np.unique(columns[0], return_index=True, return_counts=True)
        self._table = np.zeros(1 << _BITS, dtype=np.bool_)
        self._table[_hash(self._known)] = True

    def hits(self, buffer: bytes) -> Iterator[tuple[int, bytes]]:
        """Offsets in a buffer, ascending, with a literal that may be there."""
        padded = buffer + bytes(2 * _WORD - len(buffer) % _WORD)
        words = np.frombuffer(padded, dtype="<u4") | _FOLD
        places = np.flatnonzero(self._table[_hash(words)])
        entries = np.searchsorted(self._known, words[places])
        is_known = self._known[np.minimum(entries, len(self._known) - 1)] == words[places]
        places, entries = places[is_known], entries[is_known]
        return iter(sorted(self._confirmed(words, places, entries)))

    def _confirmed(
        self, words: npt.NDArray[np.uint32], places: npt.NDArray[np.intp], entries: npt.NDArray[np.intp]
    ) -> Iterator[tuple[int, bytes]]:
        """Those with the right words on either side; a word may be that of several literals."""
        befores, afters = words[np.maximum(places - 1, 0)], words[np.minimum(places + 1, len(words) - 1)]
        counts = self._count[entries]
        which = np.repeat(np.arange(len(entries)), counts)
        at = np.arange(len(which)) + np.repeat(self._first[entries] - (np.cumsum(counts) - counts), counts)
        fits = (befores[which] & self._before_mask[at]) == self._before[at]
        which, at = which[fits], at[fits]
        fits = (afters[which] & self._after_mask[at]) == self._after[at]
        owners = self._owner[at[fits]].tolist()
        for place, owner in zip(places[which[fits]].tolist(), owners, strict=True):
            yield place * _WORD, self._literals[owner]


def _hash(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    mixed: npt.NDArray[np.uint32] = words * _MULTIPLIER
    mixed >>= np.uint32(32 - _BITS)
    return mixed


def _words(data: bytes) -> list[int]:
    """Every four bytes of some text, folded."""
    return [int.from_bytes(data[at : at + _WORD], "little") | int(_FOLD) for at in range(len(data) - _WORD + 1)]


def _traits(number: int, data: bytes, ordinary: set[int]) -> Iterator[tuple[int, int, int, int, int, int]]:
    """For each alignment a word of a literal, the one that ordinary lines have least, and what is known beside it."""
    words = _words(data)
    for residue in range(_WORD):
        at = min(range(residue, len(words), _WORD), key=lambda place: (words[place] in ordinary, _spread(place, data)))
        before, after = data[max(0, at - _WORD) : at], data[at + _WORD : at + 2 * _WORD]
        low = 8 * (_WORD - len(before))
        before_mask, after_mask = (2 ** (8 * len(before)) - 1) << low, 2 ** (8 * len(after)) - 1
        fold = int(_FOLD)
        yield (
            words[at], before_mask, (int.from_bytes(before, "little") << low | fold) & before_mask,
            after_mask, (int.from_bytes(after, "little") | fold) & after_mask, number,
        )  # fmt: skip


def _spread(place: int, data: bytes) -> int:
    """How unevenly a word divides its literal: one in the middle has known bytes on both sides."""
    return abs(place - (len(data) - _WORD) // 2)
