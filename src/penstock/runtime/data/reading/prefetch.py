"""Batches that are read before anybody asks: one thread, a few batches ahead, in the order that was announced.

That thread also finds out what comes next, so that training pays for taking a batch and for nothing else. Whoever takes
a batch that was not announced gets it all the same, read there and then; so a world that changes, or a step that is
done again, costs one read and no more. Time spent waiting is recorded: it is what training lost.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

DEPTH = 4
_KEPT_WAITS = 10_000

T = TypeVar("T")
_ReadAhead = tuple[Sequence[int], T]
"""A batch, and the samples it was announced with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadingStats:
    """What loading cost: seconds that training waited in all and per batch, and how much was read."""

    batches: int
    samples: int
    stall_s: float
    read_s: float
    p50_s: float
    p99_s: float
    p999_s: float


class Prefetch(Generic[T]):
    """Reads batches by ``read(indices)``, ``depth`` of them ahead; ``deliver`` has the last word on one taken."""

    def __init__(
        self, read: Callable[[Sequence[int]], T], depth: int = DEPTH, deliver: Callable[[T], Any] = lambda batch: batch
    ) -> None:
        self._read = read
        self._deliver = deliver
        self._depth = depth
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="penstock-data") if depth else None
        self._announced: Iterator[Sequence[int]] = iter(())
        self._ahead: deque[Future[_ReadAhead[T] | None]] = deque()
        self._waits: deque[float] = deque(maxlen=_KEPT_WAITS)
        self._batches = self._samples = 0
        self._stall_s = self._read_s = 0.0

    def follow(self, announced: Iterable[Sequence[int]]) -> None:
        """What will be asked for from now on, in order; an endless iterable is welcome."""
        self._forget()
        self._announced = iter(announced)
        self._top_up()

    def take(self, indices: Sequence[int]) -> Any:
        """A batch, read ahead if it was announced, and delivered.

        The reading thread is woken last: from then on it may hold Python when whoever trains wants it.
        """
        began = time.perf_counter()
        found = self._ahead.popleft().result() if self._ahead else None
        if found is not None and tuple(found[0]) == tuple(indices):
            batch = found[1]
        else:
            self._forget()
            batch = self._timed(indices)
        waited = time.perf_counter() - began
        self._waits.append(waited)
        self._stall_s += waited
        self._batches += 1
        self._samples += len(indices)
        delivered = self._deliver(batch)
        self._top_up()
        return delivered

    def stats(self) -> LoadingStats:
        p50, p99, p999 = np.quantile(self._waits or [0.0], (0.5, 0.99, 0.999)).tolist()
        return LoadingStats(
            batches=self._batches, samples=self._samples, stall_s=self._stall_s, read_s=self._read_s,
            p50_s=p50, p99_s=p99, p999_s=p999,
        )  # fmt: skip

    def close(self) -> None:
        self._announced = iter(())
        self._forget()
        if self._thread is not None:
            self._thread.shutdown()

    def _top_up(self) -> None:
        while self._thread is not None and len(self._ahead) < self._depth:
            self._ahead.append(self._thread.submit(self._next, self._announced))

    def _next(self, announced: Iterator[Sequence[int]]) -> _ReadAhead[T] | None:
        indices = next(announced, None)
        return None if indices is None else (indices, self._timed(indices))

    def _forget(self) -> None:
        for future in self._ahead:
            future.cancel()
        self._ahead.clear()

    def _timed(self, indices: Sequence[int]) -> T:
        began = time.perf_counter()
        batch = self._read(indices)
        self._read_s += time.perf_counter() - began
        return batch
