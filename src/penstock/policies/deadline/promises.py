"""Keeping promises and making new ones.

By induction a promise that was given is kept. The plan that backs it is in time at this decision, whatever the delays;
following it until the next decision leaves it in time there; another plan takes its place only if that is in time too;
and nobody gets devices, or loses any, in a way that would make it late. What can break this comes from outside: lost
devices, work that grew, speeds below what was stated.
"""

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from penstock.policies.columns import KEPT_WITHIN_S, Bools, Floats, Ints, Standing
from penstock.policies.deadline.inputs import PlanInputs, Terms
from penstock.policies.deadline.keeping import ends_as_planned, keep
from penstock.policies.deadline.layout import Layout, earliest_end, empty_layout, fit_in, lay_out
from penstock.policies.view import Offer, View

FRESH_ROWS = 300
"""Up to so many promised jobs are planned afresh at every decision: some milliseconds."""
REPLANNED_ROWS = 2000
"""Rows planned again per decision to make room for others."""
BEYOND_S = 1e-3


def _kept_plans(view: View, terms: Terms, rows: Ints) -> tuple[Layout, PlanInputs]:
    """Plans for those that have one: few rows are planned afresh if that reaches everybody, else they keep theirs."""
    strict, nobody = terms.strict, np.zeros(len(view), dtype=bool)
    within = strict._replace(limit=strict.limit + KEPT_WITHIN_S)
    if len(rows) <= FRESH_ROWS and not view.is_planned:
        cautious = _with_used_reserves(terms.cautious, strict, rows, ends_as_planned(view, within, rows))
        if (fresh := lay_out(view, cautious, rows, nobody)) is not None:
            return fresh, cautious
    kept = keep(view, within, rows)
    cautious = _with_used_reserves(terms.cautious, strict, rows, kept.finish)
    return (lay_out(view, cautious, rows, nobody) if len(kept.missed) else None) or kept, cautious


class WorkedOut(NamedTuple):
    """What admission leaves to the allocation of the same decision."""

    terms: Terms
    layout: Layout
    offers: Sequence[Offer]
    """Those beside which the layout was made."""


def worked_out_terms(view: View) -> Terms | None:
    """The terms of the admission of this decision, if it was about the same rows."""
    if not isinstance(view.worked_out, WorkedOut):
        return None
    terms = view.worked_out.terms
    return terms._replace(likely=terms.likely._replace(limit=terms.likely.limit.copy()))


def _worked_out_layout(view: View, rows: Ints) -> Layout | None:
    """The layout of the admission of this decision, if it has exactly these rows in time beside the same offers."""
    if not isinstance(view.worked_out, WorkedOut):
        return None
    _, layout, offers = view.worked_out
    is_same = len(offers) == len(view.offers) and all(map(operator.is_, offers, view.offers))
    if not is_same or not np.array_equal(layout.rows, rows) or len(layout.missed):
        return None
    return replace(layout, finish=layout.finish.copy(), plans=layout.plans.copy())


def promised_rows(view: View) -> Ints:
    return np.asarray((view.standing == Standing.PROMISED).nonzero()[0])


def kept_promises(view: View, terms: Terms) -> tuple[Layout, PlanInputs]:
    """A plan that reaches every promised job that can be reached, and the terms that a new promise must pass.

    Who cannot be in time any more holds what it takes to be done as early as possible.
    """
    rows, strict = promised_rows(view), terms.strict
    if (planned := _worked_out_layout(view, rows)) is not None:
        return planned, _with_used_reserves(terms.cautious, strict, rows, planned.finish)
    is_new = np.isinf(view.plan_at[rows, 0])
    kept, cautious = _kept_plans(view, terms, rows[~is_new] if is_new.any() else rows)
    layout = kept
    if len(kept.rows) < len(rows):
        layout = add_promises(view, cautious, kept, cheapest_first(strict.cost, rows[is_new]))
        layout = replace(layout, rows=rows)
    return (_repaired(view, cautious, strict, layout) if len(layout.missed) else layout), cautious


def add_promises(view: View, inputs: PlanInputs, layout: Layout, candidates: Ints) -> Layout:
    """The layout with every candidate that can be in time beside it, or if others make room; in the order given."""
    if not len(candidates):
        return layout
    longer = _planned_only(layout, fit_in(inputs, layout, candidates))
    others = candidates[np.isinf(longer.finish[candidates])]
    for row in others[: 1 + REPLANNED_ROWS // (1 + len(longer.rows))].tolist():
        if inputs.now + inputs.remaining[row] / _top_rate(inputs, row) < inputs.limit[row]:
            longer = _afresh(view, inputs, np.append(longer.rows, row), _late(longer)) or longer
    return longer


def protect(layout: Layout, inputs: PlanInputs, rows: Ints) -> tuple[Layout, PlanInputs]:
    """The layout with ``rows`` besides, each done as early as it can be, and the terms on which they stay that way."""
    limit = inputs.limit.copy()
    for row in rows.tolist():
        limit[row] = earliest_end(inputs, row, layout.calendar, True) + BEYOND_S
        layout = fit_in(inputs._replace(limit=limit), layout, np.array([row]))
    return layout, inputs._replace(limit=limit)


def cheapest_first(cost: Floats, rows: Ints) -> Ints:
    return rows[np.argsort(cost[rows], kind="stable")]


def _with_used_reserves(cautious: PlanInputs, strict: PlanInputs, rows: Ints, finish: Floats) -> PlanInputs:
    """Who has already used some of its reserve keeps what is left of it."""
    used = rows[finish[rows] > cautious.limit[rows]]
    if not len(used):
        return cautious
    limit = cautious.limit.copy()
    limit[used] = strict.limit[used]
    return cautious._replace(limit=limit)


def _repaired(view: View, cautious: PlanInputs, strict: PlanInputs, layout: Layout) -> Layout:
    """New plans for those whom the plan at hand does not reach, beside it or by planning everybody afresh."""
    for inputs in (cautious, strict):
        missing = cheapest_first(inputs.cost, layout.missed)
        layout = fit_in(inputs, layout, missing)
        if len(layout.missed):
            layout = _afresh(view, inputs, layout.rows, _late(layout)) or layout
        if not len(layout.missed):
            return layout
    return _as_early_as_possible(view, strict, layout)


def _afresh(view: View, inputs: PlanInputs, rows: Ints, forgiven: Bools) -> Layout | None:
    """New plans for ``rows``; where others keep their devices, if need be with everyone beginning as late as it may."""
    layout = lay_out(view, inputs, rows, forgiven)
    if layout is None and view.has_settled:
        layout = lay_out(view, inputs._replace(patient=np.ones_like(inputs.patient)), rows, forgiven)
    return layout


def _as_early_as_possible(view: View, inputs: PlanInputs, layout: Layout) -> Layout:
    """Those who will be late are the most urgent there are, as far as nobody else is late because of it."""
    limit = inputs.limit.copy()
    empty = empty_layout(view, layout.rows).calendar
    late = layout.missed
    for row in late.tolist():
        limit[row] = earliest_end(inputs, row, empty, True) + BEYOND_S
    inputs = inputs._replace(limit=limit)
    layout = lay_out(view, inputs, layout.rows, _late(layout)) or layout
    return protect(layout, inputs, layout.missed)[0]


def _planned_only(layout: Layout, longer: Layout) -> Layout:
    """Without the candidates that found no place."""
    stays = np.isfinite(longer.finish)
    stays[layout.rows] = True
    return replace(longer, rows=stays.nonzero()[0])


def _late(layout: Layout) -> Bools:
    late = np.zeros(len(layout.finish), dtype=bool)
    late[layout.missed] = True
    return late


def _top_rate(inputs: PlanInputs, row: int) -> float:
    return max(
        float(inputs.rates[kind, row, depth - 1]) for kind, depth in enumerate(inputs.depth[:, row].tolist()) if depth
    )
