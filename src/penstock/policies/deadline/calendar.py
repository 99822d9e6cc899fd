"""The devices of one kind that are still free from now on, and how a job may be planned on them.

Free capacity is a step function: ``free[k]`` devices from ``times[k]`` until the next breakpoint, the last one without
end. A plan is a row of ``(at, width)`` steps that ends with width 0.

Decisions are at least a slot apart, so a planned change may come up to a slot late, and every plan is made for that:
whatever the delays, at time t a job holds at least the narrowest width that its plan had in the slot before t. So wider
widths count from a slot after they are planned, narrower ones at once, and a peak shorter than a slot does not count.

A job that cannot resume does everything ``again`` when its devices change, so it is planned on one width from its
beginning to its end; ``again`` is negative for all others.
"""

import numpy as np

from penstock.policies.columns import PLAN_STEPS, ROUNDING_S, Floats, Ints
from penstock.policies.filling import breakpoint_at, level_in
from penstock.tools import compiled, compiled_in_place

UNREACHABLE = -1
SHORTEST_STEP_S = 1.0


@compiled_in_place
def released_at(finish: float, slot: float) -> float:
    """When the devices of a job that ends by ``finish`` count as free: at the next whole slot.

    Plans that begin and end on the same grid have few breakpoints, and decisions coincide.
    """
    return np.ceil((finish + ROUNDING_S) / slot) * slot if slot > 0 else finish + ROUNDING_S


@compiled_in_place
def share_in(levels: Ints, depth: int, free: int, cap: int, again: float) -> int:
    """Index of the level that a plan of at most level ``cap`` takes of what is free, or -1; exactly ``cap`` if it must
    not change later."""
    if again >= 0.0:
        return cap if levels[cap] <= free else UNREACHABLE
    return level_in(levels, depth, free, cap)


@compiled_in_place
def finish_time(
    times: Floats, free: Ints, count: int, levels: Ints, rates: Floats, pauses: Floats, start: float, depth: int,
    cap: int, held: int, ready: float, remaining: float, again: float, limit: float, slot: float,
) -> float:  # fmt: skip
    """The latest that ``remaining`` is done on at most level ``cap`` of what is free; infinite if after ``limit``.

    ``held`` devices make progress from ``ready`` on; -1 are some of another kind. Every change costs its pause, and
    ``start`` besides if there were no devices, or if the job was still starting. A plan that would have too many steps
    counts as unreachable.
    """
    planned = share_in(levels, depth, free[0], cap, again)
    current, wider, wider_at, steps = planned, UNREACHABLE, np.inf, 1
    if planned >= 0 and levels[planned] != held:
        ready = max(ready, times[0] + pauses[planned] + (start if held == 0 else 0.0))
    if again >= 0.0 and held != 0 and (planned < 0 or levels[planned] != held):
        remaining = again
    for k in range(count):
        if times[k] >= limit:
            return np.inf
        index = share_in(levels, depth, free[k], cap, again) if k else planned
        if index != planned:
            if again >= 0.0 and current >= 0:
                return np.inf
            planned = index
            steps += 1
            if steps >= PLAN_STEPS:
                return np.inf
            if index > current:
                wider_at = min(wider_at, times[k] + slot) if index <= wider else times[k] + slot
                wider = index
            else:
                if index >= 0 and index < current:
                    if ready > times[k]:  # a change that comes late in a pause makes the pause longer
                        ready = max(ready, min(ready, times[k] + slot) + pauses[index] + start)
                    else:
                        ready = times[k] + pauses[index]
                current, wider, wider_at = index, UNREACHABLE, np.inf
        begin, until = times[k], times[k + 1] if k + 1 < count else np.inf
        while begin < until:
            end = min(until, wider_at)
            if current >= 0:
                working = max(begin, ready)
                finish = working + remaining / rates[current]
                if finish <= end:
                    finish += pauses[wider] if wider >= 0 else 0.0
                    return finish if finish <= limit else np.inf
                remaining -= rates[current] * max(end - working, 0.0)
            if end == wider_at:
                ready = max(ready, end + pauses[wider] + (start if current < 0 or ready > end else 0.0))
                current, wider, wider_at = wider, UNREACHABLE, np.inf
            begin = end
    return np.inf


@compiled_in_place
def smallest_share(
    times: Floats, free: Ints, count: int, levels: Ints, rates: Floats, pauses: Floats, start: float, depth: int,
    held: int, ready: float, remaining: float, again: float, limit: float, slot: float,
) -> tuple[int, float]:  # fmt: skip
    """The lowest level index that finishes by ``limit``, and when; (-1, inf) if none does."""
    if depth == 0 or times[0] + remaining / rates[depth - 1] > limit:
        return UNREACHABLE, np.inf
    for cap in range(depth):
        if times[0] + remaining / rates[cap] > limit:
            continue
        finish = finish_time(
            times, free, count, levels, rates, pauses, start, depth, cap, held, ready, remaining, again, limit, slot
        )  # fmt: skip
        if finish < np.inf:
            return cap, finish
    return UNREACHABLE, np.inf


@compiled
def later_start(
    times: Floats, free: Ints, count: int, levels: Ints, rates: Floats, pauses: Floats, start: float, depth: int,
    cap: int, held: int, ready: float, remaining: float, again: float, limit: float, slot: float,
) -> tuple[float, float]:  # fmt: skip
    """The latest time, in whole slots, from which level ``cap`` still finishes by ``limit``, and when it does then.

    (now, inf) if it cannot wait at all, or has no limit. Devices that are held go back until then.
    """
    now, step = times[0], max(slot, SHORTEST_STEP_S)
    if limit == np.inf:
        return now, np.inf
    later, free_later = np.empty(count + 2), np.empty(count + 2, dtype=np.int64)
    early, late = 0, int(max(limit - now - remaining / rates[cap], 0.0) / step)
    found, end = now, np.inf
    while early < late:
        middle = (early + late + 1) // 2
        since = np.ceil(now / step) * step + (middle - 1) * step
        k = int(np.searchsorted(times[:count], since, side="right"))
        later[0], free_later[0], later[1], free_later[1] = now, 0, since, free[k - 1]
        later[2 : 2 + count - k], free_later[2 : 2 + count - k] = times[k:count], free[k:count]
        finish = finish_time(
            later, free_later, 2 + count - k, levels, rates, pauses, start, depth, cap, held, ready, remaining, again,
            limit, slot,
        ) if since > now else np.inf  # fmt: skip
        if finish < np.inf:
            early, found, end = middle, since, finish
        else:
            late = middle - 1
    return found, end


@compiled_in_place
def reserve(
    times: Floats, free: Ints, count: int, levels: Ints, pauses: Floats, depth: int, cap: int, again: float,
    since: float, finish: float, slot: float, at: Floats, width: Ints,
) -> int:  # fmt: skip
    """Take at most level ``cap`` of what is free, from ``since`` until it counts as free again, and write the plan.

    A peak that is over before the job has made up for the pause is left out: it may come as late as a slot after it is
    planned, so no plan counts on it, but carried out at once it would cost what the job does meanwhile. Between
    ``finish`` and then the job keeps its last width as long as that is there. Returns the new number of breakpoints.
    """
    first, count = breakpoint_at(times, free, count, since)
    last, count = breakpoint_at(times, free, count, released_at(finish, slot))
    step, before = -1, UNREACHABLE
    for k in range(first, last):
        index = share_in(levels, depth, free[k], cap, again)
        if again < 0.0 and k > 0 and index > before:
            until = times[k] + slot + pauses[index]
            for later in range(k + 1, last):
                if times[later] >= until or index <= before:
                    break
                index = min(index, share_in(levels, depth, free[later], cap, again))
            index = max(index, before)
        before = index
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


@compiled_in_place
def from_now(at: Floats, width: Ints, now: float, times: Floats, widths: Ints) -> int:
    """The steps of a plan that are left, the first of them at ``now``; returns their number, 0 without a plan."""
    if not np.isfinite(at[0]):
        return 0
    count = 1
    times[0], widths[0] = now, 0
    for k in range(PLAN_STEPS):
        if not np.isfinite(at[k]):
            break
        if at[k] <= now:
            widths[0] = width[k]
        else:
            times[count], widths[count] = at[k], width[k]
            count += 1
    return count
