"""What PyTorch's caching allocator holds while tensors come and go, by its own rules on the recorded sequence.

Blocks of up to 1 MB share segments of 2 MB, larger ones up to 10 MB segments of 20 MB, still larger ones get their own,
in multiples of 2 MB. A free block that is large enough is split; neighbours that are free are joined again. Nothing is
given back to the device, so what is held is the sum of all segments.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field

ALLOCATION = 512
"""Every size is rounded up to a multiple of this."""
_MB = 1 << 20
_SMALL, _SMALL_SEGMENT = _MB, 2 * _MB
_MEDIUM, _MEDIUM_SEGMENT = 10 * _MB, 20 * _MB
_ROUND = 2 * _MB

Event = tuple[int, int]
"""A storage's number and its bytes; no bytes where it goes."""


@dataclass(slots=True, eq=False)
class _Block:
    start: int
    size: int
    small: bool
    free: bool = False
    before: "_Block | None" = None
    after: "_Block | None" = None


@dataclass(slots=True)
class CachingAllocator:
    """Segments held so far (``reserved``), and the blocks in them."""

    reserved: int = 0
    _free: dict[bool, list[tuple[int, int]]] = field(default_factory=lambda: {True: [], False: []})
    _blocks: dict[int, _Block] = field(default_factory=dict)
    """Free blocks by where they begin."""
    _held: dict[int, _Block] = field(default_factory=dict)
    """Blocks in use by the storage that uses them."""

    def follow(self, events: Iterable[Event]) -> None:
        """O(log blocks) for each event, and moving the list of free blocks."""
        for key, size in events:
            if size:
                self._take(key, size)
            else:
                self._give_back(key)

    def _take(self, key: int, size: int) -> None:
        small = size <= _SMALL
        pool = self._free[small]
        place = bisect_left(pool, (size, 0))
        block = self._blocks.pop(pool.pop(place)[1]) if place < len(pool) else self._segment(size, small)
        self._held[key] = self._split(block, size)

    def _segment(self, size: int, small: bool) -> _Block:
        room = _SMALL_SEGMENT if small else _MEDIUM_SEGMENT if size < _MEDIUM else -(-size // _ROUND) * _ROUND
        block = _Block(start=self.reserved, size=room, small=small)
        self.reserved += room
        return block

    def _split(self, block: _Block, size: int) -> _Block:
        rest = block.size - size
        if rest >= ALLOCATION if block.small else rest > _SMALL:
            other = _Block(block.start + size, rest, block.small, before=block, after=block.after)
            if block.after is not None:
                block.after.before = other
            block.after, block.size = other, size
            self._offer(other)
        block.free = False
        return block

    def _give_back(self, key: int) -> None:
        block = self._held.pop(key, None)
        if block is None:
            return
        for neighbour in (block.before, block.after):
            if neighbour is not None and neighbour.free:
                self._free[neighbour.small].remove((neighbour.size, neighbour.start))
                del self._blocks[neighbour.start]
                block = _joined(block, neighbour)
        self._offer(block)

    def _offer(self, block: _Block) -> None:
        block.free = True
        insort(self._free[block.small], (block.size, block.start))
        self._blocks[block.start] = block


def _joined(one: _Block, other: _Block) -> _Block:
    left, right = (one, other) if one.start < other.start else (other, one)
    left.size += right.size
    left.after = right.after
    if right.after is not None:
        right.after.before = left
    return left
