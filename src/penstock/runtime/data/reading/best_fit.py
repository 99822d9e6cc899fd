"""Documents into packs of one length with few cuts and nothing wasted.

Best fit, longest first: a document goes where it leaves least room. As many packs are made as the tokens fill exactly,
so in the end the holes that are left and the documents that found no place are of the same size, and those documents
are cut to fill the holes. O(n log n) for n documents, but for moving entries in a short sorted list.

Pieces are plain tuples: a block may have tens of thousands, and a named one costs as much to make as to place.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence

Piece = tuple[int, int]
"""Where a stretch of tokens of one document starts, and its length."""
PAUSE_PIECES = 128


def best_fit(
    pieces: Sequence[Piece], packs: int, capacity: int, pause: Callable[[], None] | None = None
) -> list[list[Piece]]:
    """Arrange pieces that add up to ``packs`` times ``capacity`` tokens; every pack comes out full.

    ``pause`` is called after every few pieces by those who work in the background of somebody else.
    """
    arranged, rest = _cut_to(pieces, capacity)
    room = [(capacity, number) for number in range(len(arranged), packs)]
    arranged += [[] for _ in room]
    left_over: list[Piece] = []
    for turn, (minus_length, start) in enumerate(sorted(rest)):
        if pause and not turn % PAUSE_PIECES:
            pause()
        at = bisect_left(room, (-minus_length,))
        if at == len(room):
            left_over.append((start, -minus_length))
            continue
        free, number = room.pop(at)
        arranged[number].append((start, -minus_length))
        if free + minus_length:
            insort(room, (free + minus_length, number))
    _fill_holes(arranged, room, left_over)
    return arranged


def _cut_to(pieces: Sequence[Piece], capacity: int) -> tuple[list[list[Piece]], list[Piece]]:
    """Packs that one piece fills alone; and of the rest, all shorter than one, the negative length and the start."""
    full: list[list[Piece]] = []
    rest: list[Piece] = []
    for start, length in pieces:
        if length < capacity:
            rest.append((-length, start))
            continue
        whole, short = divmod(length, capacity)
        full += [[(start + number * capacity, capacity)] for number in range(whole)]
        if short:
            rest.append((-short, start + whole * capacity))
    return full, rest


def _fill_holes(arranged: list[list[Piece]], room: list[tuple[int, int]], left_over: list[Piece]) -> None:
    """Cut what found no place, the largest holes first."""
    for start, length in left_over:
        while length:
            free, number = room.pop()
            taken = min(free, length)
            arranged[number].append((start, taken))
            start, length = start + taken, length - taken
            if free > taken:
                insort(room, (free - taken, number))
