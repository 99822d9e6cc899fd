"""Laying out everybody's future, and never worse than before.

Planning afresh at every decision finds better plans most of the time, but greedy planning with indivisible widths is
not monotone: a job that got ahead may now be planned narrower for longer and stand in the way of another. So the plan
that backs the promises is kept, and followed whenever a fresh one would break a promise that the old one keeps.
"""

import math
from dataclasses import dataclass

import numpy as np

from penstock.policies.base import Plans
from penstock.policies.columns import Bools, Floats, Ints, Standing
from penstock.policies.filling import fill, follow, grow, profile_of, width_at
from penstock.policies.kind_view import KindView
from penstock.tools import compiled


@dataclass(frozen=True, slots=True, eq=False)
class PlanTerms:
    """What a plan counts on: speed at each level, what changing to it costs, and by when each job must be done.

    ``starts`` is what it costs besides to begin on devices after having none; ``work`` is what is left, with the time a
    job that has just begun or is about to end stands still counted as work.
    ``widest`` plans every job as wide as it can go instead of as narrow as it may.
    """

    rates: Floats
    pauses: Floats
    starts: Floats
    work: Floats
    limit: Floats
    widest: bool = False

    @classmethod
    def stated(cls, view: KindView, *, widest: bool = False) -> "PlanTerms":
        """The curves and deadlines as they are, rescheduling free."""
        no_pauses, no_starts = np.zeros_like(view.rates), np.zeros(len(view))
        return cls(view.rates, no_pauses, no_starts, view.remaining + view.allowance, view.deadline, widest)


@dataclass(frozen=True, slots=True, eq=False)
class PlanLayout:
    """A plan for some rows: when each ends (inf = not in time, or not planned) and its widths until then."""

    rows: Ints
    finish: Floats
    plans: Plans

    @property
    def missed(self) -> Bools:
        """Over all rows of the view: planned, but not in time."""
        missed = np.zeros(len(self.finish), dtype=bool)
        missed[self.rows] = np.isinf(self.finish[self.rows])
        return missed

    @property
    def planned(self) -> Bools:
        """Over all rows of the view: whether it is in this plan at all."""
        planned = np.zeros(len(self.finish), dtype=bool)
        planned[self.rows] = True
        return planned

    def in_time(self) -> "PlanLayout":
        """Without those it misses."""
        return PlanLayout(self.rows[~self.missed[self.rows]], self.finish, self.plans)

    def widths_at(self, now: float) -> Ints:
        return widths_at(self.plans.at, self.plans.width, now)


def promised_rows(view: KindView) -> Ints:
    return np.flatnonzero(view.standing == Standing.PROMISED)


def lay_out(view: KindView, rows: Ints, terms: PlanTerms) -> PlanLayout:
    """Plan ``rows`` afresh, the earliest limit first."""
    order = _by_limit(view, rows, terms)
    finish, at, width = fill(
        view.now, view.capacity, order, terms.work, terms.limit, view.width, view.levels, terms.rates, terms.pauses,
        terms.starts, view.depth, view.slot, terms.widest,
    )  # fmt: skip
    return PlanLayout(rows, finish, Plans.of_one_kind(at, width))


def keep_to(view: KindView, rows: Ints, terms: PlanTerms) -> PlanLayout:
    """The plan laid out last time; it misses everybody if the devices for it are no longer there."""
    _, free, count = profile_of(view.now, view.capacity, rows, view.plan_at, view.plan_width, 0)
    if free[:count].min() < 0:
        return PlanLayout(rows, np.full(len(view), math.inf), Plans.none(len(view)))
    finish = follow(
        view.now, rows, terms.work, terms.limit, view.width, view.levels, terms.rates, terms.pauses, terms.starts,
        view.depth, view.plan_at, view.plan_width,
    )  # fmt: skip
    plans = Plans.none(len(view))
    kept = rows[np.isfinite(finish[rows])]
    plans.at[kept], plans.width[kept] = view.plan_at[kept], view.plan_width[kept]
    return PlanLayout(rows, finish, plans)


def best_layout(view: KindView, rows: Ints, *by_caution: PlanTerms) -> PlanLayout:
    """The first plan that misses nobody: afresh or the one at hand, on the most cautious terms first; else the best."""
    tried: list[PlanLayout] = []
    for terms in by_caution:
        for make in (lay_out, keep_to):
            tried.append(make(view, rows, terms))
            if not tried[-1].missed.any():
                return tried[-1]
    return min(tried, key=lambda layout: int(layout.missed.sum()))


def extend(view: KindView, layout: PlanLayout, candidates: Ints, terms: PlanTerms) -> PlanLayout:
    """Plan afresh with every candidate that harms nobody who is in time under ``layout``, in the order given.

    ``layout`` itself is returned if nobody can be added.
    """
    if not len(candidates):
        return layout
    order = _by_limit(view, layout.rows, terms)
    longer = grow(
        view.now, view.capacity, order, candidates, layout.missed, terms.work, terms.limit, view.width, view.levels,
        terms.rates, terms.pauses, terms.starts, view.depth, view.slot, terms.widest,
    )  # fmt: skip
    return lay_out(view, longer, terms) if len(longer) > len(order) else layout


def _by_limit(view: KindView, rows: Ints, terms: PlanTerms) -> Ints:
    return rows[np.lexsort((view.sequence[rows], terms.limit[rows]))]


@compiled
def widths_at(plan_at: Floats, plan_width: Ints, now: float) -> Ints:
    widths = np.zeros(len(plan_at), dtype=np.int64)
    for job in range(len(plan_at)):
        widths[job] = width_at(plan_at[job], plan_width[job], now)
    return widths
