"""First come, first served, with backfill."""

from typing import ClassVar

import numpy as np

from penstock.policies.base import Allocation, KindPolicy
from penstock.policies.columns import Floats, Ints
from penstock.policies.greedy import still_held
from penstock.policies.kind_view import KindView
from penstock.tools import compiled


class Fifo(KindPolicy):
    """Jobs start in order of arrival on the devices they asked for and are never interrupted.

    A job that does not fit yet is given a reservation at the earliest time enough devices will be free; later jobs may
    overtake it only if they do not delay that (EASY backfilling; Lifka, JSSPP'95). Higher priorities come first in the
    queue. O(jobs log jobs) per decision.
    """

    name: ClassVar[str] = "fifo"
    summary: ClassVar[str] = "first come, first served; later jobs fill gaps without delaying the first in line"
    paper: ClassVar[str] = "Lifka, JSSPP'95 (EASY backfilling)"
    placement: ClassVar[str] = "best-fit"

    def allocate(self, view: KindView) -> Allocation:
        waiting = np.flatnonzero(view.width == 0)
        waiting = waiting[np.lexsort((view.sequence[waiting], -view.priority[waiting]))]
        widths = still_held(view)
        _start_waiting(widths, waiting, view.requested, view.rigid_seconds, view.capacity)
        return Allocation(widths)


@compiled
def _start_waiting(widths: Ints, waiting: Ints, demand: Ints, seconds: Floats, capacity: int) -> None:
    free = capacity - widths.sum()
    head = 0
    while head < len(waiting) and demand[waiting[head]] <= free:
        widths[waiting[head]] = demand[waiting[head]]
        free -= demand[waiting[head]]
        head += 1
    if head == len(waiting) or free == 0:
        return
    shadow, spare = _reservation(widths, seconds, free, demand[waiting[head]])
    for job in waiting[head + 1 :]:
        if demand[job] > free:
            continue
        if seconds[job] > shadow:
            if demand[job] > spare:
                continue
            spare -= demand[job]
        widths[job] = demand[job]
        free -= demand[job]
        if free == 0:
            return


@compiled
def _reservation(widths: Ints, seconds: Floats, free: int, wanted: int) -> tuple[float, int]:
    """Seconds until ``wanted`` devices are free as running jobs end, and what is then left over."""
    running = np.flatnonzero(widths)
    for job in running[np.argsort(seconds[running])]:
        free += widths[job]
        if free >= wanted:
            return seconds[job], free - wanted
    return np.inf, free
