"""Jobs are not stopped before they were worth starting, and not too often.

Stopping a job and starting it again costs it some seconds. Under every policy a job keeps its devices until it has held
them for :data:`STINT_COSTS` times what that costs it, so stopping and starting takes no more than a fifth of its time
on devices. Only what was promised to another job, or a quota whose owner asks, comes before that, and a job that cannot
resume is not stopped in its place. Jobs that were promised a deadline are not held: their plans back the promise, and
account for every change. Where nothing costs anything no job is held.

Under policies that bound suspensions every suspension of a job doubles that time, and after
:data:`~penstock.policies.columns.MOST_SUSPENSIONS` of them a job keeps devices until it ends.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from penstock.policies.base import Assignment
from penstock.policies.columns import MOST_SUSPENSIONS, Floats, Ints, Standing
from penstock.policies.greedy import still_held
from penstock.policies.guards.settled import SettledRows, settle
from penstock.policies.guards.undisturbed import ends_as_they_are
from penstock.policies.guards.within_bounds import quota_shortfall
from penstock.policies.view import View

STINT_COSTS = 4.0
"""A job holds its devices at least this many times as long as it takes to stop and to start it again."""
_ROUNDS = 4


def allocate_lasting(
    allocate: Callable[[View], Assignment], view: View, stint_costs: float, *, bounded: bool = False
) -> Assignment:
    """What ``allocate`` decides if no job is stopped too soon; asked again only where a job would be."""
    first = decided = allocate(view)
    if not ((view.width > 0) & (decided.widths == 0)).any():
        return first
    held: Ints = np.zeros(0, dtype=np.int64)
    ends = np.where(still_held(view) > 0, lasts_until(view, stint_costs, bounded=bounded), view.now)
    for left in reversed(range(_ROUNDS)):
        holds = (view.width > 0) & (ends > view.now)
        stopped = np.flatnonzero(holds & (decided.widths == 0))
        if not len(stopped):
            break
        held = np.union1d(held, stopped) if left else np.flatnonzero(holds)
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


def lasts_until(view: View, stint_costs: float, *, bounded: bool) -> Floats:
    """Until when each row keeps its devices at least; ``bounded`` if suspensions are."""
    changes_s = view.overhead.change_s + view.overhead.per_doubling_s * np.log2(np.maximum(view.width, 1))
    stint_s = stint_costs * (view.start_s + changes_s)
    if bounded:
        stint_s *= 2.0 ** np.minimum(view.suspensions, MOST_SUSPENSIONS)
    holds = (view.width > 0) & (view.standing != Standing.PROMISED)
    ends = np.where(holds, view.stint_since + stint_s, view.now)
    often = np.flatnonzero(holds & (view.suspensions >= MOST_SUSPENSIONS))
    if bounded and len(often):
        ends[often] = ends_as_they_are(view, often)
    return ends


def _woken(view: View, held: Ints, ends: Floats, decided: Assignment) -> tuple[float, ...]:
    """When jobs that are held may be stopped, there is something to decide."""
    wakes = list(decided.wake_at)
    for row in held.tolist():
        kind = int(view.bound[row])
        wakes[kind] = min(wakes[kind], float(ends[row]))
    return tuple(wakes)
