"""Whoever can start now does, the cheapest first, on what the plans of the promised leave.

Where a job without a deadline is cheaper, plans of promised jobs are postponed as far as they may be, which leaves the
near future to whoever is cheap: a short job does not wait for a long one that could. In its turn a promised job takes
its plan back and begins now.
"""

import numpy as np

from penstock.policies.columns import PLAN_STEPS, Bools, Floats, Ints
from penstock.policies.deadline.inputs import PlanInputs
from penstock.policies.deadline.layout import Calendar, cheapest_share, share_on, write_plan
from penstock.policies.filling import take
from penstock.tools import compiled, compiled_in_place


@compiled_in_place
def bring_forward(
    certain: PlanInputs, likely: PlanInputs, promised: Bools, order: Ints, head: int, calendar: Calendar,
    finish: Floats, at: Floats, width: Ints, kinds: Ints,
) -> None:  # fmt: skip
    """Plan everybody in ``order`` who can start now; for the row ``head`` devices are reserved in any case.

    A job with a deadline that nobody promised takes the least that is likely to be in time. One without, and one that
    cannot be in time, takes the narrowest share there is.
    """
    for job in order:
        if promised[job]:
            if np.isfinite(finish[job]) and not (at[job, 0] <= certain.now and width[job, 0] > 0):
                _begin_promised(certain, job, calendar, finish, at, width, kinds)
        elif job == head or _can_begin(likely, job, calendar):
            kind, level, end = cheapest_share(likely, job, calendar)
            if kind < 0:
                likely.limit[job] = np.inf
                kind, level, end = cheapest_share(likely, job, calendar)
            if kind >= 0:
                write_plan(likely, job, kind, level, likely.now, end, calendar, finish, at, width, kinds)


@compiled_in_place
def _can_begin(inputs: PlanInputs, job: int, calendar: Calendar) -> bool:
    """Whether any kind has the narrowest share free now."""
    for kind in range(len(inputs.levels)):
        if inputs.depth[kind, job] > 0 and inputs.levels[kind, job, 0] <= calendar.free[kind, 0]:
            return True
    return False


@compiled
def _begin_promised(
    inputs: PlanInputs, job: int, calendar: Calendar, finish: Floats, at: Floats, width: Ints, kinds: Ints
) -> None:
    """Exchange a plan for one that begins now, on the same kind, if there is one."""
    kind = kinds[job]
    if calendar.free[kind, 0] < inputs.levels[kind, job, 0]:
        return
    old_at, old_width = np.empty(PLAN_STEPS), np.empty(PLAN_STEPS, dtype=np.int64)
    old_at[:], old_width[:] = at[job], width[job]
    times, free = calendar.times[kind], calendar.free[kind]
    calendar.sizes[kind] = take(times, free, calendar.sizes[kind], old_at, old_width, -1)
    level, end = share_on(inputs, job, kind, calendar)
    if level >= 0:
        write_plan(inputs, job, kind, level, inputs.now, end, calendar, finish, at, width, kinds)
    else:
        calendar.sizes[kind] = take(times, free, calendar.sizes[kind], old_at, old_width, 1)
