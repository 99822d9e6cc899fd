"""Laying out everybody's future, and never worse than before.

Planning afresh at every decision finds better plans most of the time, but greedy planning with indivisible widths is
not monotone: a job that got ahead may now be planned narrower for longer and stand in the way of another. So the plan
that backs the promises is kept, and followed whenever a fresh one would break a promise that the old one keeps.
"""

from dataclasses import dataclass

import numpy as np

from penstock.core.jit import compiled
from penstock.policies.base import Plans
from penstock.policies.filling import fill, follow, profile_of, width_at
from penstock.policies.view import Floats, Ints, View


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """What a plan counts on: speed at each level, what changing to it costs, and by when each job must be done."""

    rates: Floats
    pauses: Floats
    limit: Floats

    @classmethod
    def stated(cls, view: View) -> "Terms":
        """The curve and the deadline as they are, rescheduling free."""
        return cls(view.rates, np.zeros_like(view.rates), view.deadline)


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A plan for some rows: when each ends (inf = not in time, or not planned) and its widths until then."""

    finish: Floats
    plans: Plans

    def widths_at(self, now: float) -> Ints:
        return _widths_at(self.plans.at, self.plans.width, now)


def lay_out(view: View, order: Ints, terms: Terms, *, widest: bool = False) -> Layout:
    """Plan the rows in ``order`` afresh: each its smallest sufficient share (or all it can use) of what is left."""
    _, finish, at, width = fill(
        view.now, view.capacity, order, view.remaining, terms.limit, view.width, view.levels, terms.rates, terms.pauses,
        view.depth, view.slot, widest,
    )  # fmt: skip
    return Layout(finish, Plans(at, width))


def held_layout(view: View, order: Ints, terms: Terms) -> Layout | None:
    """The plan laid out last time, if the devices for it are still there."""
    _, free, count = profile_of(view.now, view.capacity, order, view.plan_at, view.plan_width, 0)
    if free[:count].min() < 0:
        return None
    finish = follow(
        view.now, order, view.remaining, terms.limit, view.width, view.levels, terms.rates, terms.pauses, view.depth,
        view.plan_at, view.plan_width,
    )  # fmt: skip
    at, width = np.full_like(view.plan_at, np.inf), np.zeros_like(view.plan_width)
    at[order], width[order] = view.plan_at[order], view.plan_width[order]
    return Layout(finish, Plans(at, width))


def best_layout(view: View, order: Ints, terms: Terms, *, widest: bool = False) -> Layout:
    """A fresh plan unless the one at hand keeps more deadlines."""
    fresh = lay_out(view, order, terms, widest=widest)
    missed = np.isinf(fresh.finish[order]).sum()
    if missed == 0:
        return fresh
    held = held_layout(view, order, terms)
    if held is None or np.isinf(held.finish[order]).sum() >= missed:
        return fresh
    return held


@compiled
def _widths_at(plan_at: Floats, plan_width: Ints, now: float) -> Ints:
    widths = np.zeros(len(plan_at), dtype=np.int64)
    for job in range(len(plan_at)):
        widths[job] = width_at(plan_at[job], plan_width[job], now)
    return widths
