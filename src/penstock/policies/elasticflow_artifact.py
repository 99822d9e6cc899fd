"""ElasticFlow the way its public artifact computes it, so that published figures can be replicated.

Source: Gu et al., "ElasticFlow" (ASPLOS'23, doi 10.1145/3575693.3575721) and the simulator of ``pkusys/ElasticFlow``
(Apache-2.0), re-implemented from its behaviour. It departs from the paper in two ways that move the numbers, and both
are kept here on purpose:

* the minimum satisfactory share has **two levels**: narrow first, the next level up from the latest moment at which that
  still meets the deadline (the paper searches one level for the whole span);
* idle devices go to the job whose device time grows **most** per extra device (the paper wants the least growth).

Everything is pure: arrays in, arrays out, no clock and no simulator. Times are seconds as floats, an infinite deadline
means best effort. A *level* ``l`` stands for ``2**l`` devices, -1 for none. A *profile* is free capacity over time and a
*plan* is one job's width over time, both as breakpoints that hold until the next one. Every breakpoint is ``now`` plus
whole slots. Where the original stops on an assertion (late jobs in odd corners), the job simply takes what fits.

Cost: a plan of J jobs is O(J * levels * breakpoints) with at most 2J + 1 breakpoints; sharing idle devices repeats that
for each widening.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.core.jit import compiled

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """The jobs to plan, one row each; rows with equal deadlines are planned in the order given."""

    deadline: FloatArray
    """Seconds; infinite for best effort."""
    left: FloatArray
    """Iterations still to do."""
    rates: FloatArray
    """[jobs, levels] iterations per second on 1, 2, 4, ... devices."""
    top: IntArray
    """How many of the levels each job may use; 0 for a job that can not run."""


@dataclass(frozen=True, slots=True, eq=False)
class Plans:
    """What every row of a batch gets over time, and the capacity that remains."""

    now: float
    slot: float
    capacity: int
    order: IntArray
    """Rows in the artifact's order: by deadline, or by gain once idle devices were shared."""
    width: IntArray
    """Devices now."""
    end: FloatArray
    """Planned end, rounded up to whole slots."""
    real_end: FloatArray
    """Planned end of the base plan in whole seconds; sharing idle devices does not move it (as in the artifact)."""
    device_time: FloatArray
    """Device-seconds of each plan, counted the artifact's way: a step lasts until the next one even past the end."""
    step_first: IntArray
    step_count: IntArray
    step_time: FloatArray
    step_width: IntArray
    profile_time: FloatArray
    profile_free: IntArray
    next_change: float
    """The first planned change of any width after now; infinite if there is none."""

    def steps(self, row: int) -> list[tuple[float, int]]:
        """The plan of one row as (from when, how many devices)."""
        span = slice(self.step_first[row], self.step_first[row] + self.step_count[row])
        return list(zip(self.step_time[span].tolist(), self.step_width[span].tolist(), strict=True))


def plan(now: float, slot: float, capacity: int, batch: Batch) -> Plans:
    """Give each job, in deadline order, the least it needs on what the jobs before it left over."""
    order = np.argsort(batch.deadline, kind="stable")
    laid_out = _plan_all(now, slot, capacity, order, batch.deadline, batch.left, batch.rates, batch.top)
    return Plans(now, slot, capacity, order, *laid_out)


def give_idle(plans: Plans, batch: Batch) -> Plans:
    """Double jobs, largest gain first, until nothing more fits into the devices that are idle now."""
    order, width, end, device_time, *rest = _share_idle(
        plans.now,
        plans.slot,
        plans.capacity,
        plans.order,
        plans.width,
        plans.end,
        plans.device_time,
        plans.step_first,
        plans.step_count,
        plans.step_time,
        plans.step_width,
        plans.profile_time,
        plans.profile_free,
        batch.deadline,
        batch.left,
        batch.rates,
        batch.top,
    )
    return Plans(plans.now, plans.slot, plans.capacity, order, width, end, plans.real_end, device_time, *rest)


# -- breakpoints ------------------------------------------------------------------------------------------------------


@compiled
def _to_slot(start: float, moment: float, slot: float) -> float:
    """``moment`` rounded up to ``start`` plus whole slots."""
    return start + np.ceil((moment - start) / slot) * slot  # type: ignore[no-any-return]


@compiled
def _split(times: FloatArray, values: IntArray, n: int, moment: float) -> int:
    """Make ``moment`` (not before the first breakpoint) a breakpoint without changing the function."""
    k = n
    while times[k - 1] > moment:
        k -= 1
    if times[k - 1] == moment:
        return n
    for i in range(n, k, -1):
        times[i] = times[i - 1]
        values[i] = values[i - 1]
    times[k] = moment
    values[k] = values[k - 1]
    return n + 1


@compiled
def _compact(times: FloatArray, values: IntArray, n: int) -> int:
    """Drop the breakpoints at which nothing changes."""
    kept = 1
    for k in range(1, n):
        if values[k] != values[kept - 1]:
            times[kept] = times[k]
            values[kept] = values[k]
            kept += 1
    return kept


@compiled
def _release(
    times: FloatArray,
    free: IntArray,
    n: int,
    step_time: FloatArray,
    step_width: IntArray,
    end: float,
    capacity: int,
    out_time: FloatArray,
    out_free: IntArray,
) -> int:
    """The profile as if a job's plan, which ends at ``end``, had not been reserved."""
    out_time[:n] = times[:n]
    out_free[:n] = free[:n]
    steps = len(step_time)
    for s in range(steps):
        if step_time[s] < end:
            n = _split(out_time, out_free, n, step_time[s])
    n = _split(out_time, out_free, n, end)
    s = 0
    for k in range(n):
        if out_time[k] >= end:
            break
        while s + 1 < steps and step_time[s + 1] <= out_time[k]:
            s += 1
        out_free[k] = min(out_free[k] + step_width[s], capacity)
    return _compact(out_time, out_free, n)


# -- one job ----------------------------------------------------------------------------------------------------------


@compiled
def _fit(free: int, top: int) -> int:
    """The widest of ``top`` levels that fits into ``free`` devices."""
    level = -1
    while level + 1 < top and (1 << (level + 1)) <= free:
        level += 1
    return level


@compiled
def _width(level: int) -> int:
    return 1 << level if level >= 0 else 0


@compiled
def _latest_start(
    level: int,
    begin: int,
    due: int,
    deadline: float,
    left: float,
    rates: FloatArray,
    top: int,
    times: FloatArray,
    free: IntArray,
) -> int:
    """Walking back from the deadline, the first period from which ``level`` finishes the work; -1 if none does."""
    done = 0.0
    stop = deadline
    for k in range(due - 1, begin - 1, -1):
        usable = min(level, _fit(free[k], top))
        if usable >= 0:
            done += (stop - times[k]) * rates[usable]
            if done >= left:
                return k
        stop = times[k]
    return -1


@compiled
def _run_two_levels(
    level: int,
    pivot: int,
    begin: int,
    due: int,
    deadline: float,
    left: float,
    rates: FloatArray,
    top: int,
    times: FloatArray,
    free: IntArray,
    widths: IntArray,
) -> tuple[int, float]:
    """Run one level below ``level`` up to ``pivot``, then at it; returns the last period used and the end in it."""
    for k in range(begin, due):
        usable = min(level if k >= pivot else level - 1, _fit(free[k], top))
        widths[k] = _width(usable)
        if usable < 0:
            continue
        stop = deadline if k + 1 == due else times[k + 1]
        work = (stop - times[k]) * rates[usable]
        if k >= pivot and work >= left:
            return k, times[k] + np.ceil(left / rates[usable])
        left -= work
    # Only rounding can leave a crumb of work here; the artifact runs it after the deadline.
    usable = min(level, _fit(free[due], top))
    widths[due] = _width(usable)
    return due, times[due] + np.ceil(left / rates[usable]) if usable >= 0 else deadline


@compiled
def _run_late(
    begin: int,
    due: int,
    deadline: float,
    left: float,
    rates: FloatArray,
    top: int,
    last_level: int,
    times: FloatArray,
    free: IntArray,
    n: int,
    widths: IntArray,
) -> tuple[int, float]:
    """The deadline can not be met: as wide as fits, and ``last_level`` once everything else has ended."""
    for k in range(begin, n - 1):
        usable = _fit(free[k], top)
        widths[k] = _width(usable)
        if usable < 0:
            continue
        stop = deadline if k + 1 == due else times[k + 1]
        work = (stop - times[k]) * rates[usable]
        if k >= due and work >= left:
            return k, np.ceil(times[k] + left / rates[usable])
        left = max(left - work, 0.0)
    widths[n - 1] = _width(last_level)
    return n - 1, np.ceil(times[n - 1] + left / rates[last_level])


@compiled
def _reserve(
    periods: int,
    last: int,
    end: float,
    times: FloatArray,
    free: IntArray,
    n: int,
    widths: IntArray,
    step_time: FloatArray,
    step_width: IntArray,
) -> tuple[int, int, float]:
    """Write the plan held in ``widths`` down as steps and take it out of the profile until ``end``."""
    if end <= times[last]:
        widths[last] = 0
    steps = 0
    device_time = 0.0
    for k in range(periods):
        if steps == 0 or widths[k] != step_width[steps - 1]:
            step_time[steps] = times[k]
            step_width[steps] = widths[k]
            steps += 1
        stop = times[k + 1] if k + 1 < periods else end
        device_time += widths[k] * (stop - times[k])
    n = _split(times, free, n, max(end, times[last]))
    for k in range(last + 1):
        free[k] = max(free[k] - widths[k], 0)
    return _compact(times, free, n), steps, device_time


@compiled
def _fill(
    now: float,
    slot: float,
    capacity: int,
    deadline: float,
    left: float,
    rates: FloatArray,
    top: int,
    first: int,
    times: FloatArray,
    free: IntArray,
    n: int,
    widths: IntArray,
    step_time: FloatArray,
    step_width: IntArray,
) -> tuple[int, int, float, float, float]:
    """Plan one job on a profile, in place: at level ``first`` until the first change if given, then two levels.

    Returns the new number of breakpoints, the number of steps, the end in whole slots, the real end and the device
    time of the plan.
    """
    reach = _fit(capacity, top) + 1
    if reach == 0 or left <= 0:
        step_time[0] = now
        step_width[0] = 0
        end = now if left <= 0 else np.inf
        return n, 1, end, end, 0.0
    aligned = _to_slot(now, deadline, slot)
    change = times[1] if n > 1 else max(aligned, now)
    if aligned >= now:
        n = _split(times, free, n, aligned)
    due = np.searchsorted(times[:n], aligned)
    widths[:n] = 0
    begin = 0
    if first >= 0:
        real_end = np.ceil(now + left / rates[first])
        end = _to_slot(now, real_end, slot)
        ends_first = change >= end and (deadline >= real_end or change > aligned)
        begin = np.searchsorted(times[:n], end if ends_first else change)
        widths[:begin] = _width(first)
        if ends_first:
            n, steps, spent = _reserve(begin, begin - 1, end, times, free, n, widths, step_time, step_width)
            return n, steps, end, real_end, spent
        until = deadline if change == aligned else change
        left -= max(until - now, 0.0) * rates[first]
    pivot = -1
    level = -1
    while pivot < 0 and level + 1 < reach:
        level += 1
        pivot = _latest_start(level, begin, due, deadline, left, rates, top, times, free)
    if pivot >= 0:
        last, real_end = _run_two_levels(level, pivot, begin, due, deadline, left, rates, top, times, free, widths)
        periods = max(due, last + 1)
    else:
        last_level = first if first >= 0 else reach - 1
        last, real_end = _run_late(begin, due, deadline, left, rates, top, last_level, times, free, n, widths)
        periods = last + 1
    end = _to_slot(times[last], real_end, slot)
    n, steps, spent = _reserve(periods, last, end, times, free, n, widths, step_time, step_width)
    return n, steps, end, real_end, spent


# -- all jobs ---------------------------------------------------------------------------------------------------------


@compiled
def _grown_floats(array: FloatArray, need: int) -> FloatArray:
    if need <= len(array):
        return array
    larger = np.empty(2 * need, dtype=np.float64)
    larger[: len(array)] = array
    return larger


@compiled
def _grown_ints(array: IntArray, need: int) -> IntArray:
    if need <= len(array):
        return array
    larger = np.empty(2 * need, dtype=np.int64)
    larger[: len(array)] = array
    return larger


@compiled
def _next_change(now: float, step_first: IntArray, step_count: IntArray, step_time: FloatArray) -> float:
    soonest = np.inf
    for j in range(len(step_first)):
        if step_count[j] > 1:
            soonest = min(soonest, step_time[step_first[j] + 1])
    return soonest


@compiled
def _plan_all(
    now: float,
    slot: float,
    capacity: int,
    order: IntArray,
    deadline: FloatArray,
    left: FloatArray,
    rates: FloatArray,
    top: IntArray,
) -> tuple[
    IntArray,
    FloatArray,
    FloatArray,
    FloatArray,
    IntArray,
    IntArray,
    FloatArray,
    IntArray,
    FloatArray,
    IntArray,
    float,
]:
    jobs = len(order)
    size = 2 * jobs + 4  # each job adds its deadline and its end at most
    times = np.empty(size, dtype=np.float64)
    free = np.empty(size, dtype=np.int64)
    widths = np.empty(size, dtype=np.int64)
    times[0] = now
    free[0] = capacity
    n = 1
    width = np.zeros(jobs, dtype=np.int64)
    end = np.empty(jobs, dtype=np.float64)
    real_end = np.empty(jobs, dtype=np.float64)
    device_time = np.empty(jobs, dtype=np.float64)
    step_first = np.empty(jobs, dtype=np.int64)
    step_count = np.empty(jobs, dtype=np.int64)
    step_time = np.empty(4 * size, dtype=np.float64)
    step_width = np.empty(4 * size, dtype=np.int64)
    used = 0
    for j in order:
        step_time = _grown_floats(step_time, used + n + 3)
        step_width = _grown_ints(step_width, used + n + 3)
        n, steps, end[j], real_end[j], device_time[j] = _fill(
            now, slot, capacity, deadline[j], left[j], rates[j], top[j], -1,
            times, free, n, widths, step_time[used:], step_width[used:],
        )  # fmt: skip
        width[j] = step_width[used]
        step_first[j] = used
        step_count[j] = steps
        used += steps
    change = _next_change(now, step_first, step_count, step_time)
    return (
        width, end, real_end, device_time, step_first, step_count, step_time[:used], step_width[:used],
        times[:n], free[:n], change,
    )  # fmt: skip


# -- idle devices -----------------------------------------------------------------------------------------------------


@compiled
def _sort_by_gain(order: IntArray, gain: FloatArray) -> None:
    """Largest gain first; equal gains keep their order."""
    for i in range(1, len(order)):
        j = order[i]
        k = i
        while k > 0 and gain[order[k - 1]] < gain[j]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = j


@compiled
def _share_idle(
    now: float,
    slot: float,
    capacity: int,
    order: IntArray,
    width: IntArray,
    end: FloatArray,
    device_time: FloatArray,
    step_first: IntArray,
    step_count: IntArray,
    step_time: FloatArray,
    step_width: IntArray,
    profile_time: FloatArray,
    profile_free: IntArray,
    deadline: FloatArray,
    left: FloatArray,
    rates: FloatArray,
    top: IntArray,
) -> tuple[
    IntArray,
    IntArray,
    FloatArray,
    FloatArray,
    IntArray,
    IntArray,
    FloatArray,
    IntArray,
    FloatArray,
    IntArray,
    float,
]:
    order, width, end, device_time = order.copy(), width.copy(), end.copy(), device_time.copy()
    step_first, step_count = step_first.copy(), step_count.copy()
    jobs = len(order)
    spare = capacity - width.sum()
    used = len(step_time)
    # Breakpoints are now, a deadline per job, and an end per job or widening: none other ever appears.
    size = 2 * jobs + min(jobs * rates.shape[1], spare) + 8
    times = np.empty(size, dtype=np.float64)
    free = np.empty(size, dtype=np.int64)
    n = len(profile_time)
    times[:n] = profile_time
    free[:n] = profile_free
    trial_time = np.empty(size, dtype=np.float64)
    trial_free = np.empty(size, dtype=np.int64)
    trial_step_time = np.empty(size, dtype=np.float64)
    trial_step_width = np.empty(size, dtype=np.int64)
    widths = np.empty(size, dtype=np.int64)
    level = np.empty(jobs, dtype=np.int64)
    for j in range(jobs):
        level[j] = _fit(width[j], top[j])
    gain = np.full(jobs, -np.inf)
    chosen = 0 if spare > 0 else -1
    while chosen >= 0:
        for j in order:
            # A job at its top level keeps the gain it last had: that decides ties, hence placement.
            if level[j] + 1 >= top[j]:
                continue
            more = _width(level[j] + 1) - width[j]
            gain[j] = -np.inf
            if more > spare:
                continue
            if width[j] == 0:
                gain[j] = np.inf
                continue
            first, last = step_first[j], step_first[j] + step_count[j]
            m = _release(
                times, free, n, step_time[first:last], step_width[first:last], end[j], capacity, trial_time, trial_free
            )  # fmt: skip
            spent = _fill(
                now, slot, capacity, deadline[j], left[j], rates[j], top[j], level[j] + 1,
                trial_time, trial_free, m, widths, trial_step_time, trial_step_width,
            )[4]  # fmt: skip
            gain[j] = (spent - device_time[j]) / more
        _sort_by_gain(order, gain)
        chosen = -1
        for j in order:
            if level[j] + 1 < top[j] and _width(level[j] + 1) - width[j] <= spare:
                chosen = j
                break
        if chosen < 0:
            break
        j = chosen
        first, last = step_first[j], step_first[j] + step_count[j]
        m = _release(
            times, free, n, step_time[first:last], step_width[first:last], end[j], capacity, trial_time, trial_free
        )  # fmt: skip
        step_time = _grown_floats(step_time, used + m + 3)
        step_width = _grown_ints(step_width, used + m + 3)
        n, steps, end[j], _, device_time[j] = _fill(
            now, slot, capacity, deadline[j], left[j], rates[j], top[j], level[j] + 1,
            trial_time, trial_free, m, widths, step_time[used:], step_width[used:],
        )  # fmt: skip
        times, trial_time = trial_time, times
        free, trial_free = trial_free, free
        step_first[j] = used
        step_count[j] = steps
        used += steps
        level[j] += 1
        spare -= _width(level[j]) - width[j]
        width[j] = _width(level[j])
    change = _next_change(now, step_first, step_count, step_time)
    return (
        order, width, end, device_time, step_first, step_count, step_time[:used], step_width[:used],
        times[:n], free[:n], change,
    )  # fmt: skip
