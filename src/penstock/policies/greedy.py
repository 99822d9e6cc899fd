"""Taking jobs in order while they fit, and growing them by what that gains: the inner loops of most policies."""

import heapq
from collections.abc import Callable

import numpy as np

from penstock.policies.columns import Floats, Ints
from penstock.policies.filling import usable
from penstock.policies.kind_view import KindView
from penstock.policies.view import View
from penstock.tools import compiled


def serve_in_order(view: KindView, order: Callable[[], Ints]) -> Ints:
    """Requested widths for the jobs that come first in ``order``, skipping those that no longer fit.

    The order only matters, and is only computed, when not everybody fits.
    """
    if int(view.requested.sum()) <= view.capacity:
        return view.requested.copy()
    return take_in_order(order(), view.requested, view.capacity)


def still_held(view: KindView | View) -> Ints:
    """What rows hold, as far as there will be devices for it.

    A node that is about to leave no longer counts in the capacity, so policies that interrupt no job may not keep all
    widths then. Jobs that begin again when stopped keep theirs first, then those that have held theirs longest.
    """
    if isinstance(view, KindView):
        bound, capacities = np.zeros(len(view), dtype=np.int64), [view.capacity]
    else:
        bound, capacities = view.bound, view.capacity.tolist()
    held = view.width.copy()
    for kind, capacity in enumerate(capacities):
        mine = np.flatnonzero((bound == kind) & (held > 0))
        if int(held[mine].sum()) > capacity:
            order = mine[np.lexsort((view.sequence[mine], view.stint_since[mine], view.resumable[mine]))]
            held[mine] = take_in_order(order, view.width, capacity)[mine]
    return held


def start_in_order(view: KindView, order: Ints) -> Ints:
    """Everybody keeps what it holds; who waits is started, in ``order``, on what is free. No job is interrupted."""
    held, waiting = still_held(view), order[view.width[order] == 0]
    return held + take_in_order(waiting, view.requested, view.capacity - int(held.sum()))


def by_priority(view: KindView | View, rows: Ints) -> list[Ints]:
    """The same rows in classes of equal priority, the highest first, each in the order given."""
    priority = view.priority[rows]
    if len(rows) == 0 or (priority == priority[0]).all():
        return [rows]
    return [rows[priority == each] for each in np.unique(priority)[::-1]]


@compiled
def take_in_order(order: Ints, demand: Ints, capacity: int) -> Ints:
    """Widths when each job in ``order`` gets its whole demand if that still fits, else nothing. O(jobs)."""
    widths = np.zeros(len(demand), dtype=np.int64)
    for job in order:
        if demand[job] <= capacity:
            widths[job] = demand[job]
            capacity -= demand[job]
            if capacity == 0:
                break
    return widths


@compiled
def grow_by_gain(widths: Ints, rows: Ints, gains: Floats, levels: Ints, depth: Ints, capacity: int) -> None:
    """Give idle devices to those of ``rows`` that hold some, each time where ``gains[job, level]`` of the next is most.

    Equal gains go by the order of ``rows``. O((rows + grants) log rows).
    """
    idle = capacity - widths.sum()
    heap = [(0.0, 0, 0) for _ in range(0)]
    for place in range(len(rows)):
        job = rows[place]
        level = usable(levels[job], depth[job], widths[job])
        if level >= 0 and level + 1 < depth[job] and gains[job][level] > 0:
            heap.append((-gains[job][level], place, level))
    heapq.heapify(heap)
    while idle > 0 and len(heap) > 0:
        _, place, level = heapq.heappop(heap)
        job = rows[place]
        added = levels[job][level + 1] - widths[job]
        if added > idle:
            continue
        widths[job] = levels[job][level + 1]
        idle -= added
        if level + 2 < depth[job] and gains[job][level + 1] > 0:
            heapq.heappush(heap, (-gains[job][level + 1], place, level + 1))
