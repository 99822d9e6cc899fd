"""What it costs to reschedule: seconds without progress.

The constants are those of ``pkusys/ElasticFlow`` (scheduler/utils.py, log.py): a base for everyone, a start-up that
grows with the width for a set of ranks that has not worked together since the trainers were last restarted, and a
surcharge at each restart.
"""

from collections.abc import Iterable

LARGE_CLUSTER = 256
"""Devices from which the dearer constants hold."""

Ranks = tuple[int, int]
"""(first rank, width): the artifact places jobs on consecutive ranks."""


def seconds(width: int, capacity: int, *, restart: bool = False, cached: bool = False) -> float:
    """Seconds a job of ``width`` devices loses at a scheduling event; ranks in the cache also dodge a restart."""
    large = capacity >= LARGE_CLUSTER
    base = 7.0 if large else 2.0
    if cached:
        return base
    surcharge = (47.0 if large else 27.0) if restart else 0.0
    return base + surcharge + 2.0 * width.bit_length()


class Restarts:
    """Says which scheduling events restart all trainers: every ``slot``-th one, a number of events, not seconds."""

    def __init__(self, slot: int) -> None:
        self._slot = slot
        self._events = 0

    def due(self) -> bool:
        restart = self._events > 0 and self._events % self._slot == 0
        self._events += 1
        return restart


class Trainers:
    """Elastic trainers, which remember the rank sets that have worked together."""

    def __init__(self, capacity: int, slot: int) -> None:
        self._capacity = capacity
        self._restarts = Restarts(slot)
        self._cache: set[Ranks] = set()
        widths = [1 << level for level in range(capacity.bit_length())]
        self._warm = seconds(1, capacity, cached=True)
        self._cold = {
            restart: {width: seconds(width, capacity, restart=restart) for width in widths} for restart in (False, True)
        }

    def charge(self, placed: Iterable[Ranks]) -> list[float]:
        """Seconds lost by each placed job at this event.

        Whether a set is known is settled before a restart empties the cache, so a known set restarts for free.
        """
        cold = self._cold[restart := self._restarts.due()]
        lost = []
        for ranks in placed:
            known = ranks in self._cache
            self._cache.add(ranks)
            lost.append(self._warm if known else cold[ranks[1]])
        if restart:
            self._cache.clear()
        return lost
