"""Group commit: all who wait to have something written are written down together, in one transaction.

Making a commit last takes the disk some milliseconds, whatever is in it. The first who comes leads: with the lock held
it writes for everyone who has come by then, and hands the lead to the first of those who came meanwhile. Whoever has
been written goes on at once, and does not wait for the lock that the next leader holds.

A transaction and the decision in it cost the processor some milliseconds as well, whatever is in it. So while several
come at a time, commits are a moment apart, and more of them share one; whoever comes alone never waits for others.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from penstock.control.state.entries import Entry
from penstock.control.state.store import Key
from penstock.core import PenstockError

RUSH_S = 0.03
"""After a commit for several, the next one begins so much later."""


class CulpritError(PenstockError):
    """One of several entries cannot be taken in; nothing was written, and they have to come one by one."""


@dataclass(frozen=True, slots=True)
class Request:
    """An entry somebody wants written, and the word by which they would know it again."""

    entry: Entry
    key: Key | None = None


@dataclass(slots=True)
class _Waiting:
    """Somebody who waits to have something written; their ``turn`` comes to lead, or because it is done."""

    make: Callable[[], Request | None]
    done: bool = False
    error: Exception | None = None
    turn: threading.Event = field(default_factory=threading.Event)

    def ask(self) -> Request | None:
        """What to write; if nothing, or if that cannot be said, the wait is over."""
        try:
            request = self.make()
        except Exception as problem:
            self.finish(problem)
            return None
        if request is None:
            self.finish(None)
        return request

    def finish(self, error: Exception | None) -> None:
        self.error, self.done = error, True
        self.turn.set()


class GroupCommit:
    """Collects requests. ``write`` takes several, all of them or none, and is called with ``lock`` held; it raises
    :class:`CulpritError` where they have to come one by one."""

    def __init__(self, lock: AbstractContextManager[Any], write: Callable[[Sequence[Request]], None]) -> None:
        self._lock = lock
        self._write = write
        self._queue: deque[_Waiting] = deque()
        self._guard = threading.Lock()
        self._is_led = False
        self._rush_until = 0.0

    @property
    def waiting(self) -> int:
        """How many wait to be written."""
        return len(self._queue)

    def record(self, make: Callable[[], Request | None]) -> None:
        """Write what ``make`` says when it is called with the lock held; nothing if it says nothing."""
        waiting = _Waiting(make)
        with self._guard:
            self._queue.append(waiting)
            leads, self._is_led = not self._is_led, True
        if not leads:
            waiting.turn.wait()
        if not waiting.done:
            self._lead(waiting)
        if waiting.error is not None:
            raise waiting.error

    def _lead(self, waiting: _Waiting) -> None:
        try:
            time.sleep(max(0.0, self._rush_until - time.monotonic()))
            with self._lock:
                while not waiting.done:
                    self._commit_together()
        finally:
            with self._guard:
                self._is_led = bool(self._queue)
                if self._queue:
                    self._queue[0].turn.set()

    def _commit_together(self) -> None:
        """One transaction for everyone who waits; two requests with the same key come one after the other."""
        batch: list[tuple[_Waiting, Request]] = []
        again: list[_Waiting] = []
        keys: set[tuple[str, str]] = set()
        while self._queue:
            waiting = self._queue.popleft()
            request = waiting.ask()
            if request is None:
                continue
            if request.key is not None and (request.key.tenant, request.key.key) in keys:
                again.append(waiting)
                continue
            batch.append((waiting, request))
            if request.key is not None:
                keys.add((request.key.tenant, request.key.key))
        self._queue.extendleft(reversed(again))
        try:
            error = self._try([request for _, request in batch])
        except CulpritError:
            for waiting, request in batch:
                waiting.finish(self._try([request]))
        else:
            self._rush_until = time.monotonic() + RUSH_S if len(batch) > 1 else 0.0
            for waiting, _ in batch:
                waiting.finish(error)

    def _try(self, requests: Sequence[Request]) -> Exception | None:
        try:
            self._write(requests)
        except CulpritError:
            raise
        except Exception as problem:
            return problem
        return None
