"""AFS: a contest between the shorter and the longer job for every device."""

from typing import ClassVar

import numpy as np

from penstock.policies.base import Allocation, KindPolicy
from penstock.policies.columns import Floats, Ints
from penstock.policies.filling import usable
from penstock.policies.greedy import by_priority, take_in_order
from penstock.policies.kind_view import KindView
from penstock.tools import compiled


class Afs(KindPolicy):
    """Everybody one share, the shortest first; then a contest for every further one.

    Of two jobs the shorter one gets the devices if they speed it up, against its speed afterwards, by more than they
    would speed up the longer one against its speed now; else the longer one. So short jobs are favoured as SRTF does,
    but not where their curves are flat (Hwang et al., NSDI'21, the algorithm AFS-L). Here a job grows by one level of
    its curve at a time and speed-ups count per device added. All is decided anew at every event; the paper's runtime,
    which makes resizes cheap, is the platform's. O(grants x jobs), at most O(devices x jobs).
    """

    name: ClassVar[str] = "afs"
    summary: ClassVar[str] = "elastic: devices by contests between shorter and longer jobs"
    paper: ClassVar[str] = "Hwang et al., NSDI'21"

    def allocate(self, view: KindView) -> Allocation:
        order = view.order_by_priority(view.remaining / view.rates[:, 0])
        widths = take_in_order(order, view.levels[:, 0], view.capacity)
        for rows in by_priority(view, view.order()):
            _hold_contests(widths, rows, view.remaining, view.levels, view.rates, view.depth, view.capacity)
        return Allocation(widths)


@compiled
def _hold_contests(
    widths: Ints, rows: Ints, remaining: Floats, levels: Ints, rates: Floats, depth: Ints, capacity: int
) -> None:
    """Give idle devices to the winner over all of ``rows``, a level at a time, until nobody can take any."""
    idle = capacity - widths.sum()
    left, after, before = np.zeros(len(widths)), np.zeros(len(widths)), np.zeros(len(widths))
    step = np.zeros(len(widths), dtype=np.int64)
    for job in rows:
        step[job], left[job], after[job], before[job] = _bid(
            widths[job], remaining[job], levels[job], rates[job], depth[job]
        )
    while idle > 0:
        winner = -1
        for job in rows:
            if 0 < step[job] <= idle and (
                winner < 0 or beats(left[job], after[job], before[job], left[winner], after[winner], before[winner])
            ):
                winner = job
        if winner < 0:
            return
        idle -= step[winner]
        widths[winner] += step[winner]
        step[winner], left[winner], after[winner], before[winner] = _bid(
            widths[winner], remaining[winner], levels[winner], rates[winner], depth[winner]
        )


@compiled
def _bid(width: int, remaining: float, levels: Ints, rates: Floats, depth: int) -> tuple[int, float, float, float]:
    """Devices to the next level (0 if there is none), time left, and the speed-up by each of them.

    The speed-up is told against the speed afterwards and against the speed now.
    """
    at = usable(levels, depth, width) if width > 0 else depth
    if at + 1 >= depth:
        return 0, 0.0, 0.0, 0.0
    step = levels[at + 1] - width
    faster = (rates[at + 1] - rates[at]) / step
    return step, remaining / rates[at], faster / rates[at + 1], faster / rates[at]


@compiled
def beats(left: float, after: float, before: float, other_left: float, other_after: float, other_before: float) -> bool:
    """Whether a job gets devices rather than the other one: the shorter by its speed-up afterwards, the longer now."""
    return after > other_before if left <= other_left else other_after <= before
