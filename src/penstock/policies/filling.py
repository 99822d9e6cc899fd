"""Progressive filling: the least devices that still finish a job in time, given what others have reserved.

This is ElasticFlow's minimum satisfactory share (Gu et al., ASPLOS'23, section 4) on continuous time: free capacity is
a step function over breakpoints instead of a list of slots, so a plan costs O(breakpoints), not O(slots). For each job
in turn the smallest level is sought at which running on ``min(level, what is free)`` from now on finishes by its limit;
that share is reserved, forward from now, and the next job sees what is left.

A profile is ``times[:count]``, ``free[:count]``: ``free[k]`` devices from ``times[k]`` until the next breakpoint, the
last segment without end. A plan is one row of ``plan_at``, ``plan_width``: widths from each time on, 0 at the end,
padded with (inf, 0). All functions are compiled.
"""

import numpy as np

from penstock.policies.columns import PLAN_STEPS, Bools, Floats, Ints
from penstock.tools import compiled, compiled_in_place

UNREACHABLE = -1
TOLERANCE_S = 1e-6
"""Rounding must not make a plan miss what it was made for."""


@compiled_in_place
def usable(levels: Ints, depth: int, free: int) -> int:
    """Index of the widest level that fits into ``free`` devices, or -1."""
    index = -1
    for i in range(depth):
        if levels[i] > free:
            break
        index = i
    return index


@compiled
def new_profile(now: float, capacity: int, plans: int) -> tuple[Floats, Ints]:
    """An empty cluster from now on, with room for ``plans`` reservations."""
    room = (PLAN_STEPS + 1) * plans + 2
    times, free = np.empty(room), np.empty(room, dtype=np.int64)
    times[0], free[0] = now, capacity
    return times, free


@compiled_in_place
def breakpoint_at(times: Floats, free: Ints, count: int, at: float) -> tuple[int, int]:
    """Make ``at`` a breakpoint; returns its index and the new number of breakpoints."""
    k = int(np.searchsorted(times[:count], at, side="right"))
    if times[k - 1] == at:
        return k - 1, count
    for i in range(count, k, -1):
        times[i] = times[i - 1]
        free[i] = free[i - 1]
    times[k], free[k] = at, free[k - 1]
    return k, count + 1


@compiled_in_place
def level_in(levels: Ints, depth: int, free: int, cap: int) -> int:
    """Index of the widest level that fits into ``free`` devices and is at most ``cap``, or -1."""
    return cap if levels[cap] <= free else usable(levels, depth, free)


@compiled
def finish_time(
    times: Floats, free: Ints, count: int, levels: Ints, rates: Floats, pauses: Floats, start: float, depth: int,
    cap: int, held: int, remaining: float, limit: float,
) -> float:  # fmt: skip
    """When ``remaining`` is done on at most level ``cap`` of what is free, starting from ``held`` devices.

    Every change of width costs its pause, and ``start`` besides if it had no devices. Infinite if after ``limit`` or in
    more steps than a plan can have.
    """
    steps, width, ready = 1, held, times[0]
    for k in range(count):
        if times[k] >= limit:
            return np.inf
        index = level_in(levels, depth, free[k], cap)
        wanted = levels[index] if index >= 0 else 0
        if wanted != width or k == 0:
            steps += 1
            if steps > PLAN_STEPS:
                return np.inf
            if wanted != width and index >= 0:
                ready = times[k] + pauses[index] + (start if width == 0 else 0.0)
            width = wanted
        if index < 0:
            continue
        begin = max(times[k], ready)
        finish = begin + remaining / rates[index]
        if k + 1 == count or finish <= times[k + 1]:
            return finish if finish <= limit else np.inf
        remaining -= rates[index] * max(times[k + 1] - begin, 0.0)
    return np.inf


@compiled
def smallest_share(
    times: Floats, free: Ints, count: int, levels: Ints, rates: Floats, pauses: Floats, start: float, depth: int,
    held: int, remaining: float, limit: float,
) -> tuple[int, float]:  # fmt: skip
    """The lowest level index that finishes by ``limit``, and when; (-1, inf) if none does."""
    for cap in range(depth):
        if times[0] + remaining / rates[cap] > limit:
            continue
        finish = finish_time(times, free, count, levels, rates, pauses, start, depth, cap, held, remaining, limit)
        if finish < np.inf:
            return cap, finish
    return UNREACHABLE, np.inf


@compiled
def released(now: float, end: float, margin: float) -> float:
    """When the devices of a job that ends at ``end`` count as free: ``margin`` later, rounded up to whole margins.

    Decisions are that far apart. The rounding keeps the number of breakpoints down to the horizon over the margin.
    """
    return now + (np.ceil((end - now) / margin) + 1.0) * margin if margin > 0 else end


@compiled
def lay(
    times: Floats, free: Ints, count: int, levels: Ints, depth: int, cap: int, finish: float, margin: float,
    at: Floats, width: Ints,
) -> int:  # fmt: skip
    """Reserve at most level ``cap`` of what is free until the job's devices count as free again, and write the plan.

    After ``finish`` the job only lingers: it keeps its last width as long as that is there, so that a plan has no more
    steps than :func:`finish_time` counted. Returns the new number of breakpoints.
    """
    last, count = breakpoint_at(times, free, count, released(times[0], finish, margin))
    step = -1
    for k in range(last):
        index = level_in(levels, depth, free[k], cap)
        taken = levels[index] if index >= 0 else 0
        if step < 0 or width[step] != taken:
            if times[k] >= finish:
                last = k
                break
            step += 1
            at[step], width[step] = times[k], taken
        free[k] -= taken
    for k in range(step + 1, PLAN_STEPS):
        at[k], width[k] = np.inf, 0
    at[step + 1] = times[last]
    return count


@compiled
def share_of(
    times: Floats, free: Ints, count: int, levels: Ints, rates: Floats, pauses: Floats, start: float, depth: int,
    held: int, remaining: float, limit: float, widest: bool,
) -> tuple[int, float]:  # fmt: skip
    """Level and finish of one job: the least that is in time, or all it can use."""
    if not widest:
        return smallest_share(times, free, count, levels, rates, pauses, start, depth, held, remaining, limit)
    finish = finish_time(times, free, count, levels, rates, pauses, start, depth, depth - 1, held, remaining, limit)
    return depth - 1, finish


@compiled
def fill(
    now: float, capacity: int, order: Ints, remaining: Floats, limit: Floats, held: Ints, levels: Ints, rates: Floats,
    pauses: Floats, starts: Floats, depth: Ints, margin: float, widest: bool,
) -> tuple[Floats, Floats, Ints]:  # fmt: skip
    """Lay out the jobs in ``order``: when each ends (inf = not in time), and the plans.

    Capacity a job frees counts as free only ``margin`` later, because decisions are that far apart. With ``widest``
    each job takes all it can use instead of the least it needs.
    """
    jobs = len(remaining)
    times, free = new_profile(now, capacity, len(order))
    count = 1
    finish = np.full(jobs, np.inf)
    plan_at, plan_width = np.full((jobs, PLAN_STEPS), np.inf), np.zeros((jobs, PLAN_STEPS), dtype=np.int64)
    for job in order:
        level, end = share_of(
            times, free, count, levels[job], rates[job], pauses[job], starts[job], depth[job], held[job],
            remaining[job], limit[job], widest,
        )  # fmt: skip
        if end < np.inf:
            finish[job] = end
            count = lay(
                times, free, count, levels[job], depth[job], level, end, margin, plan_at[job],
                plan_width[job],
            )  # fmt: skip
    return finish, plan_at, plan_width


@compiled
def all_in_time(
    now: float, capacity: int, order: Ints, forgiven: Bools, remaining: Floats, limit: Floats, held: Ints, levels: Ints,
    rates: Floats, pauses: Floats, starts: Floats, depth: Ints, margin: float, widest: bool,
) -> bool:  # fmt: skip
    """Whether :func:`fill` would reach everybody in ``order`` but those ``forgiven``; stops at the first it misses."""
    times, free = new_profile(now, capacity, len(order))
    at, width = np.empty(PLAN_STEPS), np.empty(PLAN_STEPS, dtype=np.int64)
    count = 1
    for job in order:
        level, end = share_of(
            times, free, count, levels[job], rates[job], pauses[job], starts[job], depth[job], held[job],
            remaining[job], limit[job], widest,
        )  # fmt: skip
        if end < np.inf:
            count = lay(times, free, count, levels[job], depth[job], level, end, margin, at, width)
        elif not forgiven[job]:
            return False
    return True


@compiled
def grow(
    now: float, capacity: int, order: Ints, candidates: Ints, forgiven: Bools, remaining: Floats, limit: Floats,
    held: Ints, levels: Ints, rates: Floats, pauses: Floats, starts: Floats, depth: Ints, margin: float, widest: bool,
) -> Ints:  # fmt: skip
    """``order`` with every candidate that fits, each tested in turn and inserted by its limit."""
    for job in candidates:
        if now + remaining[job] / rates[job][depth[job] - 1] > limit[job]:
            continue
        place = 0
        while place < len(order) and limit[order[place]] <= limit[job]:
            place += 1
        longer = np.empty(len(order) + 1, dtype=np.int64)
        longer[:place], longer[place], longer[place + 1 :] = order[:place], job, order[place:]
        if all_in_time(
            now, capacity, longer, forgiven, remaining, limit, held, levels, rates, pauses, starts, depth, margin,
            widest,
        ):  # fmt: skip
            order = longer
    return order


@compiled_in_place
def width_at(at: Floats, width: Ints, now: float) -> int:
    """What a plan grants at ``now``."""
    granted = 0
    for k in range(PLAN_STEPS):
        if at[k] > now:
            break
        granted = width[k]
    return granted


@compiled
def follow(
    now: float, order: Ints, remaining: Floats, limit: Floats, held: Ints, levels: Ints, rates: Floats, pauses: Floats,
    starts: Floats, depth: Ints, plan_at: Floats, plan_width: Ints,
) -> Floats:  # fmt: skip
    """When each job in ``order`` ends if it sticks to the plan it has; inf if that is after its limit."""
    finish = np.full(len(remaining), np.inf)
    for job in order:
        left, width = remaining[job], held[job]
        for k in range(PLAN_STEPS - 1):
            begin, end = max(plan_at[job][k], now), plan_at[job][k + 1]
            if end <= begin:
                continue
            if plan_width[job][k] == 0:
                width = 0
                continue
            index = usable(levels[job], depth[job], plan_width[job][k])
            if plan_width[job][k] != width:
                begin += pauses[job][index] + (starts[job] if width == 0 else 0.0)
                width = plan_width[job][k]
            if begin + left / rates[job][index] <= end + TOLERANCE_S:
                finish[job] = begin + left / rates[job][index]
                break
            left -= rates[job][index] * max(end - begin, 0.0)
        if finish[job] > limit[job]:
            finish[job] = np.inf
    return finish


@compiled
def profile_of(
    now: float, capacity: int, order: Ints, plan_at: Floats, plan_width: Ints, extra: int
) -> tuple[Floats, Ints, int]:
    """What the plans of ``order`` leave free from ``now`` on, with room for ``extra`` more plans."""
    times, free = new_profile(now, capacity, len(order) + extra)
    count = 1
    for job in order:
        count = take(times, free, count, plan_at[job], plan_width[job], 1)
    return times, free, count


@compiled_in_place
def take(times: Floats, free: Ints, count: int, at: Floats, width: Ints, sign: int) -> int:
    """Subtract a plan from a profile, or with ``sign`` -1 give it back; returns the new number of breakpoints."""
    now = times[0]
    for k in range(PLAN_STEPS - 1):
        begin, end = max(at[k], now), at[k + 1]
        if width[k] == 0 or end <= begin:
            continue
        first, count = breakpoint_at(times, free, count, begin)
        last, count = breakpoint_at(times, free, count, end)
        for i in range(first, last):
            free[i] -= sign * width[k]
    return count
