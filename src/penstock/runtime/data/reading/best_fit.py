"""Documents into packs of one length with few cuts and nothing wasted.

Best fit, longest first: a document goes where it leaves least room. As many packs are made as the tokens fill exactly,
so in the end the holes that are left and the documents that found no place are of the same size, and those documents
are cut to fill the holes. O(n log n) for n documents, but for moving entries in a short sorted list.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import NamedTuple


class Piece(NamedTuple):
    """A stretch of tokens, ``length`` of them from ``start`` on; of one document."""

    start: int
    length: int


def best_fit(pieces: Sequence[Piece], packs: int, capacity: int) -> list[list[Piece]]:
    """Arrange pieces that add up to ``packs`` times ``capacity`` tokens; every pack comes out full."""
    full, rest = _cut_to(pieces, capacity)
    arranged = [[piece] for piece in full] + [[] for _ in range(packs - len(full))]
    room = [(capacity, number) for number in range(len(full), packs)]
    left_over: list[Piece] = []
    for piece in sorted(rest, key=lambda piece: (-piece.length, piece.start)):
        at = bisect_left(room, (piece.length, -1))
        if at == len(room):
            left_over.append(piece)
            continue
        free, number = room.pop(at)
        arranged[number].append(piece)
        if free > piece.length:
            insort(room, (free - piece.length, number))
    _fill_holes(arranged, room, left_over)
    return arranged


def _cut_to(pieces: Sequence[Piece], capacity: int) -> tuple[list[Piece], list[Piece]]:
    """Pieces that fill a pack alone, and the rest, all shorter than one."""
    full: list[Piece] = []
    rest: list[Piece] = []
    for start, length in pieces:
        whole = length // capacity
        full += [Piece(start + number * capacity, capacity) for number in range(whole)]
        if length % capacity:
            rest.append(Piece(start + whole * capacity, length % capacity))
    return full, rest


def _fill_holes(arranged: list[list[Piece]], room: list[tuple[int, int]], left_over: list[Piece]) -> None:
    """Cut what found no place, the largest holes first."""
    for start, length in left_over:
        while length:
            free, number = room.pop()
            taken = min(free, length)
            arranged[number].append(Piece(start, taken))
            start, length = start + taken, length - taken
            if free > taken:
                insort(room, (free - taken, number))
