"""Blocks of the next window are brought nearer while the present one is trained on, by a few readers at once.

They come as they lie, not as the window was drawn: whatever has to move a head or fill a stripe goes one way. What
there is to compute about the next window is done by one thread that often pauses: it holds Python, which training
wants, and has a whole window's time.
"""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from penstock.runtime.data.reading.windowed_order import EpochOrder
from penstock.runtime.data.storage.shard_file import DamagedShardError

READERS = 4
_log = logging.getLogger(__name__)


class BlockOrder(EpochOrder, Protocol):
    """An order that goes through data in windows of blocks."""

    @property
    def window(self) -> int: ...

    def blocks_at(self, epoch: int, position: int) -> list[tuple[int, int]]: ...


class NearableData(Protocol):
    """Data whose samples can be brought nearer."""

    def __len__(self) -> int: ...

    def expect(self, first: int, last: int) -> None: ...

    def prepare(self, first: int, last: int) -> None: ...


class ReadAhead:
    """Hears where training is going to be, and has the window behind that brought."""

    def __init__(self, data: NearableData, order: BlockOrder) -> None:
        self._data = data
        self._order = order
        self._at: tuple[int, int] | None = None
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="penstock-read-ahead")
        self._preparer = ThreadPoolExecutor(1, thread_name_prefix="penstock-prepare")

    def move_to(self, epoch: int, position: int) -> None:
        """Batches at this position of an epoch are about to be read."""
        here = (epoch, position // self._order.window)
        if here == self._at:
            return
        present = [] if self._at else self._order.blocks_at(epoch, position)
        self._at = here
        behind = position + self._order.window
        following = (
            self._order.blocks_at(epoch, behind) if behind < len(self._data) else self._order.blocks_at(epoch + 1, 0)
        )
        for first, last in (*sorted(present), *sorted(following)):
            self._readers.submit(self._bring, self._data.expect, first, last)
        for first, last in following:
            self._preparer.submit(self._bring, self._data.prepare, first, last)

    def close(self) -> None:
        for threads in (self._readers, self._preparer):
            threads.shutdown(cancel_futures=True)

    def _bring(self, how: Callable[[int, int], None], first: int, last: int) -> None:
        """What goes wrong here goes wrong again when the samples are read, where somebody hears of it."""
        try:
            how(first, last)
        except (OSError, DamagedShardError) as problem:
            _log.debug("samples %d to %d could not be brought: %s", first, last, problem)
