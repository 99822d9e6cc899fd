"""AFS: a contest between the shorter and the longer job for every device."""

from typing import ClassVar

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
    while idle > 0:
        winner, level = -1, 0
        for job in rows:
            if widths[job] == 0:
                continue
            at = usable(levels[job], depth[job], widths[job])
            if at + 1 >= depth[job] or levels[job][at + 1] - widths[job] > idle:
                continue
            if winner < 0 or beats(
                remaining[job], levels[job], rates[job], at, remaining[winner], levels[winner], rates[winner], level
            ):
                winner, level = job, at
        if winner < 0:
            return
        idle -= levels[winner][level + 1] - widths[winner]
        widths[winner] = levels[winner][level + 1]


@compiled
def beats(
    remaining: float, levels: Ints, rates: Floats, at: int, other_remaining: float, other_levels: Ints,
    other_rates: Floats, other_at: int,
) -> bool:  # fmt: skip
    """Whether a job on its level ``at`` gets devices rather than the other one."""
    added = (rates[at + 1] - rates[at]) / (levels[at + 1] - levels[at])
    other_added = (other_rates[other_at + 1] - other_rates[other_at]) / (
        other_levels[other_at + 1] - other_levels[other_at]
    )
    if remaining / rates[at] <= other_remaining / other_rates[other_at]:
        return bool(added / rates[at + 1] > other_added / other_rates[other_at])
    return bool(other_added / other_rates[other_at + 1] <= added / rates[at])
