"""Taking jobs in order while they fit: the inner loop of every rigid policy."""

from collections.abc import Callable

import numpy as np

from penstock.policies.columns import Ints
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
