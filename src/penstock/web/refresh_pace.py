"""How often open pages look again: often while few are open, and never so often that nothing else gets done.

Every page draws itself anew when something happens. With hundreds of them in front of a busy platform that would be all
the server does, so together they may take a share of its time: the more pages there are and the longer a refresh takes,
the longer each waits for its next one.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SHARE = 0.25
_LONGEST_S = 15.0
_NEWEST = 0.1
_EARLY = 0.25
"""Part of the time between two refreshes that one may come late."""


class RefreshPace:
    """Paces the refreshes of all pages of one server."""

    def __init__(self, shortest_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._shortest_s = shortest_s
        self._clock = clock
        self._pages = 0
        self._takes_s = 0.0

    def opened(self) -> None:
        self._pages += 1

    def closed(self) -> None:
        self._pages -= 1

    @property
    def pause_s(self) -> float:
        """The time from one refresh of a page to its next."""
        return min(max(self._shortest_s, self._pages * self._takes_s / _SHARE), _LONGEST_S)

    @property
    def tick_s(self) -> float:
        """How often a page asks whether it is time: hundreds that ask four times a second are work as well."""
        return max(self._shortest_s, self.pause_s * _EARLY)

    @contextmanager
    def refreshing(self) -> Iterator[None]:
        """Measures one refresh; what it waited for counts as well, which is what a busy server needs."""
        began = self._clock()
        try:
            yield
        finally:
            self._takes_s += _NEWEST * (self._clock() - began - self._takes_s)
