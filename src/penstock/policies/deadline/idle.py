"""What the plans leave idle, and which promised jobs may be disturbed for it.

A promised job may hold more than its plan says, but only if it is still in time when that is taken away again at once:
the change to more devices and the change back are paid without any gain. The same test says who may be moved to other
devices by a placement that tidies up.
"""

import heapq

import numpy as np

from penstock.policies.columns import PLAN_STEPS, Bools, Floats, Ints
from penstock.policies.deadline.calendar import from_now
from penstock.policies.deadline.inputs import PlanInputs
from penstock.policies.deadline.layout import followed_to
from penstock.policies.filling import usable
from penstock.tools import compiled, compiled_in_place

WORTH_A_MOVE = 1.2
"""Devices of another kind must be this many times as fast before a running job moves to them."""


@compiled_in_place
def level_of(levels: Ints, depth: int, width: int) -> int:
    """The index of a width among the levels; of one that is no level, the widest below it."""
    return max(usable(levels, depth, width), 0)


@compiled
def end_after(
    inputs: PlanInputs, job: int, kind: int, width: int, more: float, at: Floats, planned_width: Ints,
    planned_kind: Ints,
) -> float:  # fmt: skip
    """When a job is done at the latest that holds ``width`` of ``kind`` from now on, or loses them at any time.

    It then goes on as planned. ``more`` are further seconds in which it stands still.
    """
    times, widths = np.empty(PLAN_STEPS + 1), np.empty(PLAN_STEPS + 1, dtype=np.int64)
    count = from_now(at[job], planned_width[job], inputs.now, times, widths)
    if count == 0:
        return np.inf
    ready, plan_kind = inputs.ready[job], planned_kind[job]
    planned = widths[0]
    if width > 0 and (width != inputs.held[job] or kind != inputs.bound[job]):
        level = level_of(inputs.levels[kind, job], inputs.depth[kind, job], width)
        start = inputs.starts[job] if inputs.held[job] == 0 else 0.0
        ready = max(ready, inputs.now + inputs.pauses[kind, job, level] + start)
    if width > 0 and planned > 0 and (width != planned or kind != plan_kind):
        level = level_of(inputs.levels[plan_kind, job], inputs.depth[plan_kind, job], planned)
        ready += inputs.pauses[plan_kind, job, level]
    return followed_to(inputs, job, plan_kind, times, widths, count, planned, ready + more)


@compiled_in_place
def use_idle(
    certain: PlanInputs, likely: PlanInputs, promised: Bools, order: Ints, at: Floats, planned: Ints,
    planned_kind: Ints, widths: Ints, kinds: Ints, idle: Ints,
) -> None:  # fmt: skip
    """Give idle devices away, in this order: a first share, what is held already, more speed, a faster kind."""
    for job in order:
        if widths[job] == 0:
            kind = _kind_to_start_on(certain, likely, promised[job], job, at, planned, planned_kind, idle)
            if kind >= 0:
                kinds[job], widths[job] = kind, likely.levels[kind, job, 0]
                idle[kind] -= widths[job]
    for job in order:
        kind, held = kinds[job], likely.held[job]
        if kind != likely.bound[job] or not widths[job] < held <= widths[job] + idle[kind]:
            continue
        if likely.levels[kind, job, level_of(likely.levels[kind, job], likely.depth[kind, job], held)] == held:
            idle[kind] -= held - widths[job]
            widths[job] = held
    _widen(certain, likely, promised, order, at, planned, planned_kind, widths, kinds, idle)
    if len(idle) > 1:
        _move(certain, likely, promised, order, at, planned, planned_kind, widths, kinds, idle)


@compiled_in_place
def _kind_to_start_on(
    certain: PlanInputs, likely: PlanInputs, is_promised: bool, job: int, at: Floats, planned: Ints, planned_kind: Ints,
    idle: Ints,
) -> int:  # fmt: skip
    """Where a first share of idle devices does most for the job for what they are worth; -1 if nowhere."""
    best, most = -1, 0.0
    for kind in range(len(idle)):
        narrowest = likely.levels[kind, job, 0]
        if likely.depth[kind, job] == 0 or narrowest > idle[kind]:
            continue
        if likely.held[job] > 0 and likely.bound[job] == kind:
            return kind
        if is_promised and certain.again[job] >= 0.0 and not _in_time_from_now(certain, job, kind, 0):
            continue
        if is_promised and end_after(certain, job, kind, narrowest, 0.0, at, planned, planned_kind) == np.inf:
            continue
        speed = likely.rates[kind, job, 0] / (narrowest * likely.prices[kind])
        if speed > most:
            best, most = kind, speed
    return best


@compiled_in_place
def _in_time_from_now(inputs: PlanInputs, job: int, kind: int, level: int) -> bool:
    """Whether a job without devices is in time if it begins now on one width and keeps that."""
    still = inputs.pauses[kind, job, level] + inputs.starts[job] + inputs.ends[job]
    seconds = inputs.remaining[job] / inputs.rates[kind, job, level]
    return bool(inputs.now + still + seconds <= inputs.limit[job])


@compiled_in_place
def _stays(inputs: PlanInputs, job: int) -> bool:
    """Whether it holds devices and would begin again on others."""
    return bool(inputs.again[job] >= 0.0 and inputs.held[job] > 0)


@compiled_in_place
def gain_of_next(likely: PlanInputs, job: int, kind: int, width: int, idle: int) -> float:
    """Speed per device that the next level adds, relative to the narrowest; 0 if it does not pay or fit."""
    levels, rates, depth = likely.levels[kind, job], likely.rates[kind, job], likely.depth[kind, job]
    level = usable(levels, depth, width)
    if level < 0 or level + 1 >= depth or levels[level + 1] - width > idle or _stays(likely, job):
        return 0.0
    pause = likely.pauses[kind, job, level + 1]
    if likely.held[job] == 0:
        pause -= likely.resizes[job]
    elif levels[level + 1] == likely.held[job] and kind == likely.bound[job]:
        pause = 0.0
    slow, fast = rates[level], rates[level + 1]
    if likely.remaining[job] / slow - likely.remaining[job] / fast <= pause:
        return 0.0
    return float((fast - slow) / (rates[0] * (levels[level + 1] - width)))


@compiled
def _widen(
    certain: PlanInputs, likely: PlanInputs, promised: Bools, order: Ints, at: Floats, planned: Ints,
    planned_kind: Ints, widths: Ints, kinds: Ints, idle: Ints,
) -> None:  # fmt: skip
    """One level at a time to the job that gains most speed per device, as long as it lives to earn back the pause."""
    queue = [(0.0, 0)]
    queue.clear()
    for place in range(len(order)):
        job = order[place]
        if widths[job] > 0 and idle[kinds[job]] > 0:
            gain = gain_of_next(likely, job, kinds[job], widths[job], idle[kinds[job]])
            if gain > 0.0:
                heapq.heappush(queue, (-gain, place))
    while queue:
        _, place = heapq.heappop(queue)
        job = order[place]
        kind = kinds[job]
        levels = likely.levels[kind, job]
        wider = levels[usable(levels, likely.depth[kind, job], widths[job]) + 1]
        if wider - widths[job] > idle[kind]:
            continue
        if promised[job] and end_after(certain, job, kind, wider, 0.0, at, planned, planned_kind) == np.inf:
            continue
        idle[kind] -= wider - widths[job]
        widths[job] = wider
        gain = gain_of_next(likely, job, kind, wider, idle[kind])
        if gain > 0.0:
            heapq.heappush(queue, (-gain, place))


@compiled_in_place
def _move(
    certain: PlanInputs, likely: PlanInputs, promised: Bools, order: Ints, at: Floats, planned: Ints,
    planned_kind: Ints, widths: Ints, kinds: Ints, idle: Ints,
) -> None:  # fmt: skip
    """Whoever would run much faster on idle devices of another kind, and long enough to earn back the pause, moves."""
    for job in order:
        here = kinds[job]
        if widths[job] == 0 or _stays(likely, job):
            continue
        rate = likely.rates[here, job, level_of(likely.levels[here, job], likely.depth[here, job], widths[job])]
        best, best_level, fastest = -1, -1, rate * WORTH_A_MOVE
        for kind in range(len(idle)):
            level = usable(likely.levels[kind, job], likely.depth[kind, job], idle[kind])
            if kind != here and level >= 0 and likely.rates[kind, job, level] > fastest:
                best, best_level, fastest = kind, level, likely.rates[kind, job, level]
        if best < 0:
            continue
        pause = likely.pauses[best, job, best_level] if likely.held[job] > 0 else 0.0
        wanted = likely.levels[best, job, best_level]
        if likely.remaining[job] / rate - likely.remaining[job] / fastest <= pause:
            continue
        if promised[job] and end_after(certain, job, best, wanted, 0.0, at, planned, planned_kind) == np.inf:
            continue
        idle[here] += widths[job]
        idle[best] -= wanted
        kinds[job], widths[job] = best, wanted


@compiled
def immovable(
    inputs: PlanInputs, rows: Ints, at: Floats, planned: Ints, planned_kind: Ints, widths: Ints, kinds: Ints
) -> Bools:  # fmt: skip
    """Which of ``rows`` would be late if their devices were exchanged once, over all rows of the view."""
    pinned = np.zeros(len(widths), dtype=np.bool_)
    for job in rows:
        if widths[job] == 0:
            continue
        kind = kinds[job]
        pause = inputs.pauses[kind, job, level_of(inputs.levels[kind, job], inputs.depth[kind, job], widths[job])]
        late = end_after(inputs, job, kind, widths[job], pause, at, planned, planned_kind) == np.inf
        pinned[job] = late or _stays(inputs, job)
    return pinned
