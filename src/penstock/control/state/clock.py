"""Time that never goes back.

The order of the log is the order of time, so a wall clock that is set back, by a person or by a time server, must not
reach it. Between two readings time passes at least as fast as the machine's monotonic clock says, and never less.
"""

import time
from collections.abc import Callable


class SteadyClock:
    """Seconds since the epoch, following the wall clock forward and the monotonic clock where the wall lags behind."""

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._last = wall()
        self._read_at = monotonic()

    def __call__(self) -> float:
        elapsed = max(0.0, self._monotonic() - self._read_at)
        self._last = max(self._last + elapsed, self._wall())
        self._read_at = self._monotonic()
        return self._last

    def not_before(self, at: float) -> None:
        """Time has already been ``at``: what is read from now on is no earlier."""
        self._last = max(self._last, at)
