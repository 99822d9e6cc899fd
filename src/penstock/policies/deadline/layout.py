"""Plans for many jobs at once, on all kinds of devices, and the rule that keeps promises.

The plan that backs the promises is kept from decision to decision, and another takes its place only if it reaches
everybody whom the old one reaches. Nobody who can be in time is given up for somebody else, whatever fresh planning
would prefer: planning greedily with indivisible widths is not monotone, a job that got ahead may come out worse.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from penstock.core import HeldPlan
from penstock.policies.base import Plans
from penstock.policies.columns import PLAN_STEPS, Bools, Floats, Ints
from penstock.policies.deadline.calendar import (
    UNREACHABLE,
    finish_time,
    later_start,
    reserve,
    smallest_share,
)
from penstock.policies.deadline.inputs import PlanInputs
from penstock.policies.filling import take, usable
from penstock.policies.view import View
from penstock.tools import compiled, compiled_in_place


class Calendar(NamedTuple):
    """Free devices of every kind over time: ``free[kind, k]`` from ``times[kind, k]`` on, ``sizes[kind]`` of them."""

    times: Floats
    free: Ints
    sizes: Ints

    def with_room(self, plans: int) -> "Calendar":
        """An independent copy in which so many more plans can be reserved."""
        used, kinds = int(self.sizes.max()), len(self.sizes)
        room = used + (PLAN_STEPS + 2) * plans
        longer = Calendar(np.empty((kinds, room)), np.empty((kinds, room), dtype=np.int64), self.sizes.copy())
        longer.times[:, :used], longer.free[:, :used] = self.times[:, :used], self.free[:, :used]
        return longer


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Plans of some rows of a view, when each ends at the latest (inf = not in time), and what they leave free.

    ``soonest`` is when a row that was planned anew would end if it began now and nobody else came.
    """

    rows: Ints
    finish: Floats
    soonest: Floats
    plans: Plans
    calendar: Calendar

    @property
    def missed(self) -> Ints:
        """Rows that should be planned but cannot be in time."""
        return self.rows[np.isinf(self.finish[self.rows])]


def empty_layout(view: View, rows: Ints) -> Layout:
    """Nobody is planned yet; there is room for plans of ``rows``."""
    never = np.full(len(view), np.inf)
    return Layout(rows, never, never.copy(), Plans.none(len(view)), new_calendar(view, len(rows)))


def lay_out(view: View, inputs: PlanInputs, rows: Ints, forgiven: Bools) -> Layout | None:
    """Plan ``rows`` afresh, the earliest limit first; ``None`` as soon as one is missed that is not ``forgiven``."""
    layout = empty_layout(view, rows)
    return layout if _plan(inputs, layout, by_limit(view, inputs, rows), forgiven) else None


def by_limit(view: View, inputs: PlanInputs, rows: Ints) -> Ints:
    """The earliest limit first, then arrival."""
    return rows[np.lexsort((view.sequence[rows], inputs.limit[rows]))]


def fit_in(inputs: PlanInputs, layout: Layout, candidates: Ints) -> Layout:
    """Plan every candidate that can be in time on what the layout leaves, in the order given; nobody else changes."""
    if not len(candidates):
        return layout
    either, room = np.zeros(len(layout.finish), dtype=bool), layout.calendar.with_room(len(candidates))
    either[layout.rows] = either[candidates] = True
    rows = either.nonzero()[0]
    longer = Layout(rows, layout.finish.copy(), layout.soonest.copy(), layout.plans.copy(), room)
    _plan(inputs, longer, candidates, np.ones(len(layout.finish), dtype=bool))
    return longer


def new_calendar(view: View, plans: int) -> Calendar:
    """Everything that works is free, until leases end, but for held offers; there is room for so many plans."""
    kinds = len(view.kinds)
    steps = [view.capacity_steps(kind) for kind in range(kinds)]
    room = (PLAN_STEPS + 2) * (plans + len(view.offers)) + max(len(each) for each in steps) + 2
    calendar = Calendar(
        np.empty((kinds, room)), np.empty((kinds, room), dtype=np.int64), np.zeros(kinds, dtype=np.int64)
    )
    for kind, each in enumerate(steps):
        _write_capacity(calendar, kind, each)
    _reserve_offers(view, calendar)
    return calendar


def _reserve_offers(view: View, calendar: Calendar) -> None:
    """Keep the devices of held offers free, as far as they are there."""
    for offer in view.offers:
        held = offer.quote.held
        if held is not None and held.kind in view.kinds:
            at, width = steps_of_offer(held)
            reserve_if_free(calendar, view.kinds.index(held.kind), np.maximum(at, view.now), width)


def steps_of_offer(held: HeldPlan) -> tuple[Floats, Ints]:
    """The plan as a row of times and one of widths."""
    at, width = np.full(PLAN_STEPS, np.inf), np.zeros(PLAN_STEPS, dtype=np.int64)
    for step, (since, count) in enumerate(held.plan.steps):
        at[step], width[step] = since, count
    at[len(held.plan.steps)] = held.plan.end
    return at, width


@compiled_in_place
def reserve_if_free(calendar: Calendar, kind: int, at: Floats, width: Ints) -> bool:
    """Subtract a plan from the calendar, unless there are too few devices for it."""
    if not has_room(calendar, kind, at, width):
        return False
    calendar.sizes[kind] = take(calendar.times[kind], calendar.free[kind], calendar.sizes[kind], at, width, 1)
    return True


@compiled_in_place
def has_room(calendar: Calendar, kind: int, at: Floats, width: Ints) -> bool:
    """Whether the calendar has so many devices free whenever the plan wants them."""
    for step in range(PLAN_STEPS - 1):
        if not np.isfinite(at[step + 1]):
            return True
        first = max(int(np.searchsorted(calendar.times[kind, : calendar.sizes[kind]], at[step], side="right")) - 1, 0)
        for k in range(first, calendar.sizes[kind]):
            if calendar.times[kind, k] >= at[step + 1]:
                break
            if calendar.free[kind, k] < width[step]:
                return False
    return True


def _write_capacity(calendar: Calendar, kind: int, steps: Sequence[tuple[float, int]]) -> None:
    count = 0
    for at, devices in steps:
        if count and calendar.times[kind, count - 1] == at:
            count -= 1
        calendar.times[kind, count], calendar.free[kind, count] = at, devices
        count += 1
    calendar.sizes[kind] = count


def _plan(inputs: PlanInputs, layout: Layout, order: Ints, forgiven: Bools) -> bool:
    plans = layout.plans
    return bool(
        plan_each(
            inputs, order, forgiven, layout.calendar, layout.finish, layout.soonest, plans.at, plans.width, plans.kind
        )
    )


@compiled_in_place
def plan_each(
    inputs: PlanInputs, order: Ints, forgiven: Bools, calendar: Calendar, finish: Floats, soonest: Floats, at: Floats,
    width: Ints, kinds: Ints,
) -> bool:  # fmt: skip
    """Plan the jobs in ``order``, each where it is cheapest; false at the first that is missed."""
    for job in order:
        kind, level, soonest[job] = cheapest_share(inputs, job, calendar)
        if kind >= 0:
            since, end = inputs.now, soonest[job]
            if inputs.patient[job]:
                since, end = _latest(inputs, job, kind, level, end, calendar)
            write_plan(inputs, job, kind, level, since, end, calendar, finish, at, width, kinds)
        elif not forgiven[job]:
            return False
    return True


@compiled_in_place
def cheapest_share(inputs: PlanInputs, job: int, calendar: Calendar) -> tuple[int, int, float]:
    """Kind, level and end of the plan that is in time and takes the least worth of devices; (-1, -1, inf) if none."""
    best, best_level, best_end, least = -1, UNREACHABLE, np.inf, np.inf
    for kind in range(len(inputs.levels)):
        level, end = share_on(inputs, job, kind, calendar)
        if level < 0:
            continue
        seconds = inputs.remaining[job] / inputs.rates[kind, job, level]
        if kind != inputs.bound[job] and inputs.held[job] > 0:
            seconds += inputs.pauses[kind, job, level]
        worth = inputs.levels[kind, job, level] * seconds * inputs.prices[kind]
        if worth < least:
            best, best_level, best_end, least = kind, level, end, worth
    return best, best_level, best_end


@compiled_in_place
def share_on(inputs: PlanInputs, job: int, kind: int, calendar: Calendar) -> tuple[int, float]:
    """Level and end of the least share of one kind that is in time; (-1, inf) if none is."""
    level, last_step = smallest_share(
        calendar.times[kind], calendar.free[kind], calendar.sizes[kind], inputs.levels[kind, job],
        inputs.rates[kind, job], inputs.pauses[kind, job], inputs.starts[job], inputs.depth[kind, job],
        held_on(inputs, job, kind), inputs.ready[job], inputs.remaining[job], inputs.again[job],
        inputs.limit[job] - inputs.ends[job], inputs.slot,
    )  # fmt: skip
    return level, last_step + inputs.ends[job]


@compiled_in_place
def _latest(
    inputs: PlanInputs, job: int, kind: int, level: int, end: float, calendar: Calendar
) -> tuple[float, float]:  # fmt: skip
    """The latest beginning of such a plan, and its end; now, and the end it has, if it cannot wait."""
    since, last_step = later_start(
        calendar.times[kind], calendar.free[kind], calendar.sizes[kind], inputs.levels[kind, job],
        inputs.rates[kind, job], inputs.pauses[kind, job], inputs.starts[job], inputs.depth[kind, job], level,
        held_on(inputs, job, kind), inputs.ready[job], inputs.remaining[job], inputs.again[job],
        inputs.limit[job] - inputs.ends[job], inputs.slot,
    )  # fmt: skip
    return (since, last_step + inputs.ends[job]) if last_step < np.inf else (inputs.now, end)


@compiled_in_place
def end_on(inputs: PlanInputs, job: int, kind: int, level: int, calendar: Calendar) -> float:
    """When a job ends that takes at most a level of what is free from now on; infinite if after its limit."""
    return float(inputs.ends[job]) + finish_time(
        calendar.times[kind], calendar.free[kind], calendar.sizes[kind], inputs.levels[kind, job],
        inputs.rates[kind, job], inputs.pauses[kind, job], inputs.starts[job], inputs.depth[kind, job], level,
        held_on(inputs, job, kind), inputs.ready[job], inputs.remaining[job], inputs.again[job],
        inputs.limit[job] - inputs.ends[job], inputs.slot,
    )  # fmt: skip


@compiled_in_place
def write_plan(
    inputs: PlanInputs, job: int, kind: int, level: int, since: float, end: float, calendar: Calendar, finish: Floats,
    at: Floats, width: Ints, kinds: Ints,
) -> None:  # fmt: skip
    """Reserve the share of a job in the calendar and write its plan down."""
    finish[job], kinds[job] = end, kind
    calendar.sizes[kind] = reserve(
        calendar.times[kind], calendar.free[kind], calendar.sizes[kind], inputs.levels[kind, job],
        inputs.pauses[kind, job],
        inputs.depth[kind, job], level, inputs.again[job], since, end, inputs.slot, at[job], width[job],
    )  # fmt: skip


@compiled_in_place
def held_on(inputs: PlanInputs, job: int, kind: int) -> int:
    """Devices of a kind that a job holds; -1 if it holds some of another."""
    if inputs.bound[job] == kind or inputs.held[job] == 0:
        return int(inputs.held[job])
    return -1


@compiled_in_place
def followed_to(
    inputs: PlanInputs, job: int, kind: int, times: Floats, widths: Ints, count: int, held: int, ready: float
) -> float:
    """When a job that sticks to these steps of its plan ends at the latest; infinite if after its limit."""
    depth, end, again = inputs.depth[kind, job], float(inputs.ends[job]), inputs.again[job]
    cap = depth - 1
    if again >= 0.0:
        widest = widths[0]
        for step in range(1, count):
            widest = max(widest, widths[step])
        cap = max(usable(inputs.levels[kind, job], depth, widest), 0)
    return end + finish_time(
        times, widths, count, inputs.levels[kind, job], inputs.rates[kind, job], inputs.pauses[kind, job],
        inputs.starts[job], depth, cap, held, ready, inputs.remaining[job], again, inputs.limit[job] - end, inputs.slot,
    )  # fmt: skip


@compiled
def earliest_ends(inputs: PlanInputs, rows: Ints, calendar: Calendar) -> Floats:
    """For each of ``rows`` the earliest end beside the plans in the calendar, once it has given back what it holds."""
    ends = np.empty(len(rows))
    for place in range(len(rows)):
        ends[place] = earliest_end(inputs, rows[place], calendar, False)
    return ends


@compiled_in_place
def earliest_end(inputs: PlanInputs, job: int, calendar: Calendar, held: bool) -> float:
    """When a job could be done at the latest if it took all it can use of what is free, on the best kind.

    Without ``held`` it gives back what it holds now.
    """
    earliest, again, remaining = np.inf, inputs.again[job], inputs.remaining[job]
    if again >= 0.0 and not held:
        remaining = again
    for kind in range(len(inputs.levels)):
        depth = inputs.depth[kind, job]
        for cap in range(0 if again >= 0.0 else max(depth - 1, 0), depth):
            end = finish_time(
                calendar.times[kind], calendar.free[kind], calendar.sizes[kind], inputs.levels[kind, job],
                inputs.rates[kind, job], inputs.pauses[kind, job], inputs.starts[job], depth, cap,
                held_on(inputs, job, kind) if held else 0, inputs.ready[job] if held else inputs.now, remaining, again,
                np.inf, inputs.slot,
            )  # fmt: skip
            earliest = min(earliest, end)
    return earliest + float(inputs.ends[job])
