"""Documents into packs of one length with few cuts and nothing wasted.

Best fit, longest first: a document goes where it leaves least room. As many packs are made as the tokens fill exactly,
so in the end the holes that are left and the documents that found no place are of the same size, and those documents
are cut to fill the holes. O(n log n) for n documents, but for moving entries in a short sorted list.

A block may have tens of thousands of documents, so they are arrays throughout. Those that are longer than half a pack
never share one with each other, which places them all at once; only the others are gone through one by one.
"""

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PAUSE_PIECES = 128

Numbers = NDArray[np.int64]


class Packs(NamedTuple):
    """Stretches of tokens, those of a pack behind one another."""

    starts: Numbers
    lengths: Numbers
    firsts: Numbers
    """The first stretch of each pack, and the number of all stretches behind that."""


def go_on() -> None:
    """No pause: nobody waits for the processor or for Python."""


def best_fit(starts: Numbers, lengths: Numbers, packs: int, capacity: int, pause: Callable[[], None] = go_on) -> Packs:
    """Arrange documents, given as they lie, that add up to ``packs`` times ``capacity`` tokens; every pack is full.

    ``pause`` is called about every tenth of a millisecond, for those who work in the background of somebody else.
    """
    whole = lengths // capacity
    full = int(whole.sum())
    inside = np.arange(full) - np.repeat(np.cumsum(whole) - whole, whole)
    rest_starts, rest_lengths = _longest_first(starts + whole * capacity, lengths - whole * capacity)
    pause()
    numbers, room = _placed(rest_lengths, full, packs, capacity, pause)
    fits = numbers >= 0
    pause()
    cut = _cut_into_holes(rest_starts[~fits].tolist(), rest_lengths[~fits].tolist(), room, packs)
    pause()
    columns = (
        (np.repeat(starts, whole) + inside * capacity, np.full(full, capacity), np.arange(full)),
        (rest_starts[fits], rest_lengths[fits], numbers[fits]),
        np.array(cut, np.int64).reshape(-1, 3).T,
    )
    all_starts, all_lengths, all_numbers = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.argsort(all_numbers, kind="stable")
    firsts = np.concatenate(([0], np.cumsum(np.bincount(all_numbers, minlength=packs))))
    return Packs(all_starts[order], all_lengths[order], firsts)


def _longest_first(starts: Numbers, lengths: Numbers) -> tuple[Numbers, Numbers]:
    order = np.argsort(-lengths, kind="stable")[: np.count_nonzero(lengths)]
    return starts[order], lengths[order]


def _placed(
    lengths: Numbers, full: int, packs: int, capacity: int, pause: Callable[[], None]
) -> tuple[Numbers, list[int]]:
    """The pack of each document, -1 if there is no room for it; and the room that is left, in order.

    Room is the free length times ``packs`` plus the number of the pack: one number that sorts as the pair does.
    """
    long = int(np.count_nonzero(2 * lengths > capacity))
    alone = min(long, packs - full)
    free = np.full(packs - full, capacity)
    free[:alone] -= lengths[:alone]
    room: list[int] = np.sort(free * packs + np.arange(full, packs)).tolist()
    wanted: list[int] = (lengths[long:] * packs).tolist()
    found: list[int] = []
    for turn in range(0, len(wanted), PAUSE_PIECES):
        pause()
        for one in wanted[turn : turn + PAUSE_PIECES]:
            at = bisect_left(room, one)
            if at == len(room):
                found.append(-1)
                continue
            left = room.pop(at) - one
            found.append(left % packs)
            if left >= packs:
                insort(room, left, 0, at)
    return np.concatenate((np.arange(full, full + alone), np.full(long - alone, -1), np.array(found, np.int64))), room


def _cut_into_holes(starts: list[int], lengths: list[int], room: list[int], packs: int) -> list[tuple[int, int, int]]:
    """Parts of what found no place, the largest holes first: start, length and pack of each."""
    found: list[tuple[int, int, int]] = []
    for start, length in zip(starts, lengths, strict=True):
        while length:
            free, number = divmod(room.pop(), packs)
            taken = min(free, length)
            found.append((start, taken, number))
            start, length = start + taken, length - taken
            if free > taken:
                insort(room, (free - taken) * packs + number)
    return found
