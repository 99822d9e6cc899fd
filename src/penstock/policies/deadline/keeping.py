"""The plans at hand: which of them are still in time, and what they leave free."""

from dataclasses import replace

import numpy as np

from penstock.policies.base import Plans
from penstock.policies.columns import PLAN_STEPS, Floats, Ints
from penstock.policies.deadline.calendar import from_now, released_at
from penstock.policies.deadline.inputs import PlanInputs
from penstock.policies.deadline.layout import (
    Calendar,
    Layout,
    by_limit,
    empty_layout,
    followed_to,
    held_on,
    new_calendar,
    reserve_if_free,
)
from penstock.policies.view import View
from penstock.tools import compiled, compiled_in_place


def keep(view: View, inputs: PlanInputs, rows: Ints) -> Layout:
    """The plans laid out before, as far as they are in time and the devices for them are there.

    Who is ahead of its plan gives back what it no longer needs at the end. O(rows log rows), more if devices were lost.
    """
    layout, order, old = empty_layout(view, rows), by_limit(view, inputs, rows), _plans_at_hand(view)
    plans = layout.plans
    follow_all(inputs, rows, old.at, old.width, old.kind, layout.finish, plans.at, plans.width, plans.kind)
    for inside in (view, view.without_offers()) if view.offers else (view,):
        if inside is not view:
            layout = replace(layout, calendar=new_calendar(inside, len(rows)))
        if take_all(order, layout.calendar, plans.at, plans.width, plans.kind):
            return layout
    layout = replace(layout, calendar=new_calendar(inside, len(rows)))
    take_what_fits(order, layout.calendar, layout.finish, plans.at, plans.width, plans.kind)
    return layout


def ends_as_planned(view: View, inputs: PlanInputs, rows: Ints) -> Floats:
    """When ``rows`` end if they follow the plans laid out before; infinite if after their limits. O(rows)."""
    finish, plans = np.full(len(view), np.inf), _plans_at_hand(view)
    follow_all(inputs, rows, plans.at, plans.width, plans.kind, finish, plans.at, plans.width, plans.kind)
    return finish


def _plans_at_hand(view: View) -> Plans:
    return Plans(view.plan_at, view.plan_width, view.plan_kind).copy()


@compiled
def follow_all(
    inputs: PlanInputs, rows: Ints, old_at: Floats, old_width: Ints, old_kind: Ints, finish: Floats, at: Floats,
    width: Ints, kinds: Ints,
) -> None:  # fmt: skip
    """The plans that are still in time, from now on and cut where their jobs will have ended."""
    times, widths = np.empty(PLAN_STEPS + 1), np.empty(PLAN_STEPS + 1, dtype=np.int64)
    for job in rows:
        kind = old_kind[job]
        count = from_now(old_at[job], old_width[job], inputs.now, times, widths)
        if count == 0 or inputs.depth[kind, job] == 0:
            continue
        end = followed_to(inputs, job, kind, times, widths, count, held_on(inputs, job, kind), inputs.ready[job])
        if end == np.inf:
            continue
        finish[job], kinds[job] = end, kind
        last, steps = min(times[count - 1], released_at(end, inputs.slot)), 0
        while steps < min(count, PLAN_STEPS - 1) and times[steps] < last:
            at[job, steps], width[job, steps] = times[steps], widths[steps]
            steps += 1
        at[job, steps], width[job, steps] = last, 0


@compiled_in_place
def take_all(order: Ints, calendar: Calendar, at: Floats, width: Ints, kinds: Ints) -> bool:
    """Subtract the plans from the calendar, all at once; false if there are not enough devices for them."""
    enough = True
    for kind in range(len(calendar.sizes)):
        enough &= _take_kind(order, kind, calendar, at, width, kinds)
    return enough


@compiled
def _take_kind(order: Ints, kind: int, calendar: Calendar, at: Floats, width: Ints, kinds: Ints) -> bool:
    """In order of time: capacity as it changes, and what plans take and give back."""
    times, free, now = calendar.times[kind], calendar.free[kind], calendar.times[kind, 0]
    count = calendar.sizes[kind]
    most = count + 2 * PLAN_STEPS * len(order)
    when, change = np.empty(most), np.empty(most, dtype=np.int64)
    for k in range(count):
        when[k], change[k] = times[k], free[k] - (free[k - 1] if k else 0)
    for job in order:
        for k in range(PLAN_STEPS - 1):
            if kinds[job] != kind or not np.isfinite(at[job, k + 1]):
                break
            begin, end = max(at[job, k], now), at[job, k + 1]
            if width[job, k] > 0 and end > begin:
                when[count], change[count] = begin, -width[job, k]
                when[count + 1], change[count + 1] = end, width[job, k]
                count += 2
    size, left = 0, 0
    for k in np.argsort(when[:count], kind="mergesort"):
        left += change[k]
        if size == 0 or times[size - 1] != when[k]:
            size += 1
        times[size - 1], free[size - 1] = when[k], left
    calendar.sizes[kind] = size
    return bool(free[:size].min() >= 0)


@compiled_in_place
def take_what_fits(order: Ints, calendar: Calendar, finish: Floats, at: Floats, width: Ints, kinds: Ints) -> None:
    """Subtract the plans for which there are devices, the first in ``order`` first; the others are missed."""
    for job in order:
        if not np.isfinite(finish[job]):
            continue
        if not reserve_if_free(calendar, kinds[job], at[job], width[job]):
            finish[job], at[job], width[job] = np.inf, np.inf, 0
