"""A shuffled order of samples that reads disks in long stretches, needs no list of samples, and can begin anywhere.

Two levels: blocks of neighbouring samples are permuted over the whole data set, and the samples of sixteen blocks that
come together are shuffled among each other. The order is a function of (seed, epoch, position) and nothing else: no
state but a position, the same for any number of ranks, and the same under any version of NumPy (its generators promise
no such thing). Blocks are permuted by a Feistel network, which knows the place of one block without a list of all:
what is held in memory is one window, for a thousand samples as for a billion.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

WINDOW_BLOCKS = 16
_ROUNDS = 4
_MASK = (1 << 64) - 1
_KEPT_WINDOWS = 3

Samples = NDArray[np.int64]


class EpochOrder(Protocol):
    """The order of the samples of every epoch."""

    def stretch(self, epoch: int, start: int, stop: int) -> Samples:
        """The samples at these positions of an epoch."""
        ...


def mixed(*values: int) -> int:
    """One number of 64 bits out of several (SplitMix64): neighbours in, unrelated ones out."""
    state = 0
    for value in values:
        state = (state + value + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state


@dataclass(frozen=True, slots=True)
class BlockPermutation:
    """A permutation of ``count`` numbers by a keyed Feistel network; what falls outside is sent through it again."""

    count: int
    key: int

    @property
    def _half(self) -> int:
        return max(1, -(-max(1, (self.count - 1).bit_length()) // 2))

    def __call__(self, number: int) -> int:
        while (number := self._forth(number)) >= self.count:
            pass
        return number

    def inverse(self, number: int) -> int:
        while (number := self._back(number)) >= self.count:
            pass
        return number

    def _forth(self, number: int) -> int:
        half = self._half
        left, right = number >> half, number & ((1 << half) - 1)
        for turn in range(_ROUNDS):
            left, right = right, left ^ (mixed(self.key, turn, right) & ((1 << half) - 1))
        return left << half | right

    def _back(self, number: int) -> int:
        half = self._half
        left, right = number >> half, number & ((1 << half) - 1)
        for turn in reversed(range(_ROUNDS)):
            left, right = right ^ (mixed(self.key, turn, left) & ((1 << half) - 1)), left
        return left << half | right


def shuffled(count: int, *key: int) -> Samples:
    """The numbers below ``count`` in an order that the key alone decides."""
    draws = np.arange(count, dtype=np.uint64) + np.uint64(mixed(*key))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        draws = (draws ^ (draws >> np.uint64(shift))) * np.uint64(factor)
    return np.argsort(draws ^ (draws >> np.uint64(31)), kind="stable")


@dataclass(slots=True, kw_only=True)
class WindowedOrder:
    """The order of ``samples`` in blocks of ``block``; the last block may be shorter, and lies anywhere.

    May be asked by several threads: windows are replaced under a lock, and the place of the short block is one value.
    """

    samples: int
    block: int
    seed: int
    window_blocks: int = WINDOW_BLOCKS
    _windows: "OrderedDict[tuple[int, int], Samples]" = field(init=False, default_factory=OrderedDict)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock, repr=False, compare=False)
    _short: tuple[int, int] = field(init=False, default=(-1, 0))

    def stretch(self, epoch: int, start: int, stop: int) -> Samples:
        """The samples at the positions from ``start`` to ``stop`` of an epoch; O(stop - start), and one window."""
        found: list[Samples] = []
        while start < stop:
            window, within = self._place(epoch, start)
            samples = self._window(epoch, window)
            found.append(samples[within : within + stop - start])
            start += len(found[-1])
        return found[0] if len(found) == 1 else np.concatenate(found or [np.zeros(0, np.int64)])

    def overall(self, start: int, stop: int) -> Samples:
        """The samples at positions that are counted through all epochs."""
        found: list[Samples] = []
        while start < stop:
            epoch, position = divmod(start, self.samples)
            end = min(self.samples, position + stop - start)
            found.append(self.stretch(epoch, position, end))
            start += end - position
        return np.concatenate(found)

    def blocks_at(self, epoch: int, position: int) -> list[tuple[int, int]]:
        """The samples, from first to behind last, of each block of the window that a position lies in."""
        if position >= self.samples:
            return []
        window, _ = self._place(epoch, position)
        return [self._bounds(block) for block in self._blocks(epoch, window)]

    @property
    def window(self) -> int:
        """Samples that are shuffled among each other."""
        return self.block * self.window_blocks

    @property
    def _count(self) -> int:
        return -(-self.samples // self.block)

    def _permutation(self, epoch: int) -> BlockPermutation:
        return BlockPermutation(self._count, mixed(self.seed, epoch, 1))

    def _place(self, epoch: int, position: int) -> tuple[int, int]:
        """The window of a position, and its place there. One window may have the shorter block in it."""
        missing = self._count * self.block - self.samples
        if position >= (self._short_window(epoch) + 1) * self.window - missing:
            position += missing
        window = position // self.window
        return window, position - window * self.window

    def _short_window(self, epoch: int) -> int:
        """The window with the shorter block in it."""
        known_epoch, window = self._short
        if known_epoch != epoch:
            window = self._permutation(epoch).inverse(self._count - 1) // self.window_blocks
            self._short = (epoch, window)
        return window

    def _blocks(self, epoch: int, window: int) -> list[int]:
        permutation, first = self._permutation(epoch), window * self.window_blocks
        return [permutation(number) for number in range(first, min(first + self.window_blocks, self._count))]

    def _bounds(self, block: int) -> tuple[int, int]:
        return block * self.block, min((block + 1) * self.block, self.samples)

    def _window(self, epoch: int, window: int) -> Samples:
        key = (epoch, window)
        with self._lock:
            if key not in self._windows:
                bounds = [self._bounds(block) for block in self._blocks(epoch, window)]
                samples = np.concatenate([np.arange(*bound, dtype=np.int64) for bound in bounds])
                self._windows[key] = samples[shuffled(len(samples), self.seed, epoch, 2, window)]
                while len(self._windows) > _KEPT_WINDOWS:
                    self._windows.popitem(last=False)
            return self._windows[key]
