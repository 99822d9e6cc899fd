"""What a placement strategy is, and the parts of choosing that strategies share.

A strategy decides on *which* devices a job runs, never on how many and never whether: the caller has made sure that
everything asked for fits by count, and a strategy always finds devices then, over several nodes if it must.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from penstock.core import InvariantError
from penstock.placement.occupancy import Masks, Occupancy, block_mask, blocks_of


@dataclass(frozen=True, slots=True)
class Ask:
    """A job that shall run on ``width`` devices and now holds ``held`` (nothing when it starts)."""

    key: int
    width: int
    held: tuple[int, ...] = ()


class Placement(Protocol):
    """Chooses devices for asks.

    Every width is at least 1 and all of them fit, counting what the asked jobs hold as free. ``place`` brings the
    occupancy up to date and returns the new devices of every job whose devices changed: asked ones, and others if
    the strategy moves them. An ask whose width is what it holds keeps its devices unless someone needs the room, and
    who is in ``occupancy.pinned`` keeps them in any case.
    The same occupancy and asks give the same answer.
    """

    name: str
    summary: str

    def place(self, occupancy: Occupancy, asks: Sequence[Ask]) -> dict[int, tuple[int, ...]]: ...


Choose = Callable[[Occupancy, Masks, int], Masks]
"""Devices for a job: from the occupancy without the job, what it held until now, and its width."""


def place_one_by_one(occupancy: Occupancy, asks: Sequence[Ask], choose: Choose) -> dict[int, tuple[int, ...]]:
    """The whole of a strategy that never moves a job nobody asked about."""
    changed: dict[int, tuple[int, ...]] = {}
    for ask in in_order(occupancy, asks):
        if ask.width == len(ask.held):
            continue
        held = occupancy.parts(ask.key)
        occupancy.release(ask.key)
        occupancy.assign(ask.key, choose(occupancy, held, ask.width))
        changed[ask.key] = occupancy.devices(ask.key)
    return changed


def in_order(occupancy: Occupancy, asks: Sequence[Ask]) -> Sequence[Ask]:
    """Shrinking asks first, since the others may need what they give back; then the widest, hardest to fit."""
    for ask in asks:
        if ask.width < 1 or ask.held != occupancy.devices(ask.key):
            raise InvariantError(f"{ask} does not fit a job that holds {occupancy.devices(ask.key)}")
    if len({ask.key for ask in asks}) < len(asks):
        raise InvariantError(f"two asks for one job in {asks}")
    if sum(ask.width - len(ask.held) for ask in asks) > occupancy.free:
        raise InvariantError(f"{occupancy.free} free devices are too few for {asks}")
    return sorted(asks, key=lambda ask: (ask.width >= len(ask.held), -ask.width, ask.key))


def round_up(width: int) -> int:
    """The smallest power of two that holds ``width``."""
    return 1 << (width - 1).bit_length()


@lru_cache(maxsize=1 << 16)
def carve(mask: int, count: int) -> int:
    """``count`` devices of a mask: from the smallest buddy block that holds them, else from the fewest blocks.

    >>> f"{carve(0b1111_0011, 2):b}", f"{carve(0b0111_0101, 3):b}"
    ('11', '110001')
    """
    blocks = blocks_of(mask)
    enough = [block for block in blocks if block[0] >= round_up(count)]
    if enough:
        return block_mask(count, min(enough)[1])
    size, start = max(blocks, key=lambda block: block[0])
    block = block_mask(size, start)
    return block | carve(mask & ~block, count - size)


def lowest(mask: int, count: int) -> int:
    """The first ``count`` devices of a mask, or all of them when there are fewer."""
    while mask.bit_count() > count:
        mask ^= 1 << (mask.bit_length() - 1)
    return mask
