"""Keeping promises and making new ones.

By induction a promise that was given is kept. The plan that backs it is in time at this decision, whatever the delays;
following it until the next decision leaves it in time there; another plan takes its place only if that is in time too;
and nobody gets devices, or loses any, in a way that would make it late. What can break this comes from outside: lost
devices, work that grew, speeds below what was stated.
"""

from dataclasses import replace

import numpy as np

from penstock.policies.columns import KEPT_WITHIN_S, Bools, Floats, Ints, Standing
from penstock.policies.deadline.inputs import PlanInputs, Terms, device_seconds
from penstock.policies.deadline.keeping import keep
from penstock.policies.deadline.layout import Layout, earliest_end, empty_layout, fit_in, lay_out
from penstock.policies.view import View

FRESH_ROWS = 300
"""Up to so many promised jobs are planned afresh at every decision: some milliseconds."""
REPLANNED_ROWS = 2000
"""Rows planned again per decision to make room for others."""
BEYOND_S = 1e-3


def promised_rows(view: View) -> Ints:
    return np.flatnonzero(view.standing == Standing.PROMISED)


def kept_promises(view: View, terms: Terms) -> tuple[Layout, PlanInputs]:
    """A plan that reaches every promised job that can be reached, and the terms that a new promise must pass.

    Who cannot be in time any more holds what it takes to be done as early as possible.
    """
    rows, strict = promised_rows(view), terms.strict
    is_new = np.isinf(view.plan_at[rows, 0])
    kept = keep(view, strict._replace(limit=strict.limit + KEPT_WITHIN_S), rows[~is_new])
    cautious = _with_used_reserves(terms.cautious, strict, kept)
    if len(kept.missed) or (len(rows) <= FRESH_ROWS and not view.is_planned):
        kept = lay_out(view, cautious, kept.rows, np.zeros(len(view), dtype=bool)) or kept
    layout = kept
    if is_new.any():
        layout = add_promises(view, cautious, kept, cheapest_first(device_seconds(strict), rows[is_new]))
        layout = replace(layout, rows=rows)
    return (_repaired(view, cautious, strict, layout) if len(layout.missed) else layout), cautious


def add_promises(view: View, inputs: PlanInputs, layout: Layout, candidates: Ints) -> Layout:
    """The layout with every candidate that can be in time beside it, or if others make room; in the order given."""
    if not len(candidates):
        return layout
    longer = _planned_only(layout, fit_in(inputs, layout, candidates))
    others = candidates[~longer.planned[candidates]]
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


def _with_used_reserves(cautious: PlanInputs, strict: PlanInputs, kept: Layout) -> PlanInputs:
    """Who has already used some of its reserve keeps what is left of it."""
    used = np.zeros(len(kept.finish), dtype=bool)
    used[kept.rows] = kept.finish[kept.rows] > cautious.limit[kept.rows]
    return cautious._replace(limit=np.where(used, strict.limit, cautious.limit))


def _repaired(view: View, cautious: PlanInputs, strict: PlanInputs, layout: Layout) -> Layout:
    """New plans for those whom the plan at hand does not reach, beside it or by planning everybody afresh."""
    for inputs in (cautious, strict):
        missing = cheapest_first(device_seconds(inputs), layout.missed)
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
    found = longer.rows[longer.planned[longer.rows]]
    return replace(longer, rows=np.union1d(layout.rows, found))


def _late(layout: Layout) -> Bools:
    late = np.zeros(len(layout.finish), dtype=bool)
    late[layout.missed] = True
    return late


def _top_rate(inputs: PlanInputs, row: int) -> float:
    return max(
        float(inputs.rates[kind, row, depth - 1]) for kind, depth in enumerate(inputs.depth[:, row].tolist()) if depth
    )
