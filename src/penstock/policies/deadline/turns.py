"""In which order jobs get what the plans of the promised leave, and how far some may grow before others start."""

import heapq
from typing import NamedTuple

import numpy as np

from penstock.policies.base import Plans
from penstock.policies.columns import Bools, Floats, Ints
from penstock.policies.deadline.idle import gain_of_next
from penstock.policies.deadline.inputs import PlanInputs
from penstock.policies.deadline.layout import Calendar, end_on, write_plan
from penstock.policies.filling import take, usable
from penstock.policies.planning import widths_at
from penstock.tools import compiled


class Growth(NamedTuple):
    """How far jobs grow before those in ``order`` from ``begin`` on start: the devices that rows and tenants may have.

    ``tenants`` is the position of every row's tenant, ``rank`` puts the tenants in order.
    """

    begin: int
    most: Ints
    tenants: Ints
    share: Floats
    rank: Ints


class Turns(NamedTuple):
    """The order of all rows; the row for which devices are reserved if it cannot start, or -1; who grows first."""

    order: Ints
    head: int = -1
    growth: Growth | None = None

    def without(self, rows: Bools) -> "Turns":
        """The turns of all other rows."""
        if not rows.any():
            return self
        growth = self.growth
        if growth is not None:
            growth = growth._replace(begin=growth.begin - int(np.count_nonzero(rows[self.order[: growth.begin]])))
        return Turns(self.order[~rows[self.order]], self.head, growth)

    def parts(self) -> list[Ints]:
        """The order, cut where growth comes before the start of others."""
        if self.growth is None:
            return [self.order]
        return [self.order[: self.growth.begin], self.order[self.growth.begin :]]


def grow_first(
    inputs: PlanInputs, promised: Bools, order: Ints, growth: Growth, calendar: Calendar, finish: Floats, plans: Plans
) -> None:
    """Let jobs in ``order`` that begin now grow, the first tenants first, each time where it gains most per device."""
    _grow_first(
        inputs, promised, order, growth.most, growth.tenants, growth.share, growth.rank, calendar, finish, plans.at,
        plans.width, plans.kind,
    )  # fmt: skip


@compiled
def _grow_first(
    inputs: PlanInputs, promised: Bools, order: Ints, most: Ints, tenants: Ints, share: Floats, rank: Ints,
    calendar: Calendar, finish: Floats, at: Floats, width: Ints, kinds: Ints,
) -> None:  # fmt: skip
    """O(jobs x levels x log jobs)."""
    widths, held, free = widths_at(at, width, inputs.now), np.zeros(len(share)), calendar.free[:, 0].copy()
    for job in range(len(widths)):
        held[tenants[job]] += widths[job]
    planned, queue = widths.copy(), [(0, 0.0, 0)]
    queue.clear()
    for place in range(len(order)):
        _queue_growth(queue, inputs, promised, order[place], place, most, tenants, rank, free, kinds, widths)
    while queue:
        _, _, place = heapq.heappop(queue)
        job = order[place]
        kind, tenant = kinds[job], tenants[job]
        wider = _next_level(inputs, job, kind, widths[job])
        if held[tenant] >= share[tenant] or wider - widths[job] > free[kind]:
            continue
        free[kind] -= wider - widths[job]
        held[tenant] += wider - widths[job]
        widths[job] = wider
        _queue_growth(queue, inputs, promised, job, place, most, tenants, rank, free, kinds, widths)
    for job in order:
        if widths[job] > planned[job]:
            _widen_plan(inputs, job, widths[job], calendar, finish, at, width, kinds)


@compiled
def _queue_growth(
    queue: list[tuple[int, float, int]], inputs: PlanInputs, promised: Bools, job: int, place: int, most: Ints,
    tenants: Ints, rank: Ints, free: Ints, kinds: Ints, widths: Ints,
) -> None:  # fmt: skip
    if promised[job] or not 0 < widths[job] < most[job]:
        return
    gain = gain_of_next(inputs, job, kinds[job], widths[job], free[kinds[job]])
    if gain > 0.0 and _next_level(inputs, job, kinds[job], widths[job]) <= most[job]:
        heapq.heappush(queue, (rank[tenants[job]], -gain, place))


@compiled
def _next_level(inputs: PlanInputs, job: int, kind: int, width: int) -> int:
    """The devices of the level above ``width``, which is not the last."""
    levels, depth = inputs.levels[kind, job], inputs.depth[kind, job]
    return int(levels[min(usable(levels, depth, width) + 1, depth - 1)])


@compiled
def _widen_plan(
    inputs: PlanInputs, job: int, wanted: int, calendar: Calendar, finish: Floats, at: Floats, width: Ints, kinds: Ints
) -> None:
    """Exchange a plan for one on up to ``wanted`` devices; the old one stays if there is none."""
    kind = kinds[job]
    times, free = calendar.times[kind], calendar.free[kind]
    old_at, old_width = at[job].copy(), width[job].copy()
    calendar.sizes[kind] = take(times, free, calendar.sizes[kind], old_at, old_width, -1)
    level = usable(inputs.levels[kind, job], inputs.depth[kind, job], wanted)
    end = end_on(inputs, job, kind, level, calendar)
    if end < np.inf:
        write_plan(inputs, job, kind, level, inputs.now, end, calendar, finish, at, width, kinds)
    else:
        calendar.sizes[kind] = take(times, free, calendar.sizes[kind], old_at, old_width, 1)
