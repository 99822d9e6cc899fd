"""GENIE-like: a speed model says how few devices meet each deadline."""

import math
from typing import ClassVar

import numpy as np

from penstock.policies.base import Allocation, KindPolicy
from penstock.policies.columns import Bools, Ints
from penstock.policies.greedy import still_held, take_in_order
from penstock.policies.kind_view import KindView

_ROUNDING = 1e-6


class Genie(KindPolicy):
    """Jobs start in order of laxity on the fewest devices with which the speed model meets their deadlines.

    Laxity is the time until the deadline less the least time the job could take. Once started a job is neither resized
    nor interrupted. Jobs without a deadline, and those that can no longer meet theirs, follow in order of remaining
    time on the devices they asked for. Nothing is promised: there is no plan beyond now, so a job may find its devices
    taken, which is what admission control and reservations (``elasticflow``, ``deadline``) add.

    After Chen et al. (TPDS 2020), reconstructed from its summary. Left out: choosing devices by predicted
    interference, and scaling by measured response latency. O(jobs x levels + jobs log jobs) per decision.
    """

    name: ClassVar[str] = "genie"
    summary: ClassVar[str] = "least laxity first on the fewest devices that meet the deadline; never interrupted"
    paper: ClassVar[str] = "Chen et al., TPDS'20 (GENIE-like)"

    def allocate(self, view: KindView) -> Allocation:
        meets = levels_in_time(view)
        in_time: Bools = np.asarray(meets.any(axis=1))
        fewest = view.levels[np.arange(len(view)), meets.argmax(axis=1)]
        demand = np.where(in_time, fewest, view.requested)
        laxity = view.deadline - view.now - view.alone_s
        order = view.order_by_priority(np.where(in_time, 0, 1), np.where(in_time, laxity, view.rigid_seconds))
        waiting = order[view.width[order] == 0]
        held = still_held(view)
        widths = held + take_in_order(waiting, demand, view.capacity - int(held.sum()))
        return Allocation(widths, _last_chance(view, widths, in_time))


def levels_in_time(view: KindView) -> Bools:
    """(rows, L) with which levels a job that starts now meets its deadline; none without a deadline."""
    left = np.where(np.isfinite(view.deadline), view.deadline, -math.inf) - view.now - view.start_s
    return np.asarray(view.remaining[:, None] / view.rates <= left[:, None])


def _last_chance(view: KindView, widths: Ints, in_time: Bools) -> float:
    """When the first job that waits for more devices than are free can no longer be in time and takes what it gets."""
    waits = (widths == 0) & in_time
    return float((view.deadline - view.alone_s).min(initial=math.inf, where=waits)) + _ROUNDING
