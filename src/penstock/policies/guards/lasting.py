"""No ping-pong: a job that just got its devices is not stopped before they were worth getting.

Stopping a job and starting it again costs it some seconds. Under every policy a job keeps its devices until it has held
them for :data:`STINT_COSTS` times what that costs it, so stopping and starting takes no more than a fifth of its time
on devices. Only what was promised to another job, or a quota whose owner asks, comes before that, and a job that cannot
resume is not stopped in its place. Jobs that were promised a deadline are not held: their plans back the promise, and
account for every change. Where nothing costs anything no job is held.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from penstock.policies.base import Assignment
from penstock.policies.columns import Floats, Ints, Standing
from penstock.policies.guards.settled import SettledRows, settle
from penstock.policies.guards.within_bounds import quota_shortfall
from penstock.policies.view import View

STINT_COSTS = 4.0
"""A job holds its devices at least this many times as long as it takes to stop and to start it again."""
_ROUNDS = 4


def allocate_lasting(allocate: Callable[[View], Assignment], view: View, stint_costs: float) -> Assignment:
    """What ``allocate`` decides if nobody is stopped too soon; asked again only where somebody would be."""
    first = decided = allocate(view)
    held: Ints = np.zeros(0, dtype=np.int64)
    ends, unpromised = lasts_until(view, stint_costs), view.standing != Standing.PROMISED
    for _ in range(_ROUNDS):
        stopped = np.flatnonzero((view.width > 0) & (decided.widths == 0) & (ends > view.now) & unpromised)
        if not len(stopped):
            break
        held = np.union1d(held, stopped)
        decided = settle(view, SettledRows.as_they_are(view, held, ends[held]), allocate)
    if not len(held):
        return first
    if not decided.keeps_promises_of(first) or quota_shortfall(view, decided.widths) > quota_shortfall(
        view, first.widths
    ):
        return first
    begins_again = ~view.resumable & (view.width > 0) & (decided.widths == 0) & (first.widths > 0)
    if begins_again.any():
        return first
    return replace(decided, wake_at=_woken(view, held, ends, decided))


def lasts_until(view: View, stint_costs: float) -> Floats:
    """Until when each row keeps its devices at least."""
    cost = view.start_s + view.overhead.change_s
    return np.where(view.width > 0, view.stint_since + stint_costs * cost, view.now)


def _woken(view: View, held: Ints, ends: Floats, decided: Assignment) -> tuple[float, ...]:
    """Somebody was held: when that is over, there is something to decide."""
    wakes = list(decided.wake_at)
    for row in held.tolist():
        kind = int(view.bound[row])
        wakes[kind] = min(wakes[kind], float(ends[row]))
    return tuple(wakes)
