"""Spot devices: what no reservation holds in this lease, for whoever gains most by it.

Jobs without a reservation, those without a deadline and those that have a reservation later share one queue, least
remaining device-time first. Whoever cannot make any of its deadlines comes last. Between two boundaries whoever runs
goes on; only a job that cannot wait for the boundary takes the place of a costlier one.
"""

import numpy as np

from penstock.policies.columns import Bools, Floats, Ints
from penstock.policies.greedy import take_in_order
from penstock.policies.kind_view import KindView
from penstock.policies.published.chronus.leases import LeaseNeeds


def spot_widths(view: KindView, needs: LeaseNeeds, guaranteed: Bools, reserved: Bools, *, is_boundary: bool) -> Ints:
    """Widths of everybody in this lease, those with a guarantee first."""
    cost = needs.seconds * view.requested
    turn = np.where(hopeless(view, needs), 2, 1)
    if not is_boundary:
        goes_on = view.width > 0
        turn = np.where(goes_on | cannot_wait(view, needs, reserved), turn - 1, turn + 1)
    turn = np.where(guaranteed, -1, turn)
    order = view.order(turn, np.where(guaranteed, 0, -view.priority), cost)
    return take_in_order(order, view.requested, view.capacity)


def done_at(view: KindView, needs: LeaseNeeds, begun: Floats | float) -> Floats:
    """When each row is done at its requested width if it begins, or goes on, at that time."""
    return np.asarray(begun + np.where(view.width > 0, view.still_s, view.start_s) + needs.seconds)


def hopeless(view: KindView, needs: LeaseNeeds) -> Bools:
    """Whose result is worth nothing any more, even if it begins now."""
    last = np.where(np.isfinite(view.step_at), view.step_at, -np.inf).max(axis=1, initial=-np.inf)
    counts = view.hard | np.isfinite(view.step_at[:, 1])
    return np.asarray(counts & (done_at(view, needs, view.now) > last))


def cannot_wait(view: KindView, needs: LeaseNeeds, reserved: Bools) -> Bools:
    """Who has no reservation and loses value by beginning only when this lease ends, or is done before that."""
    now, later = done_at(view, needs, view.now), done_at(view, needs, needs.clock.boundary)
    loses = view.value_when_done(now) > view.value_when_done(later)
    return np.asarray(~reserved & np.isfinite(view.deadline) & (loses | (now <= needs.clock.boundary)))
