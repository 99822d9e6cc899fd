"""ElasticFlow the way its public artifact computes it, so that published figures can be replicated.

Source: Gu et al., "ElasticFlow" (ASPLOS'23, doi 10.1145/3575693.3575721) and the simulator of ``pkusys/ElasticFlow``
(Apache-2.0), re-implemented from its behaviour. It departs from the paper in two ways that move the numbers, and both
are kept here on purpose:

* the minimum satisfactory share has **two levels**: narrow first, and the next level up from the latest moment at which
  that still meets the deadline (the paper searches one level for the whole span);
* idle devices go to the job whose device time grows **most** per extra device (the paper wants the least growth).

Everything is pure: arrays in, arrays out, no clock and no simulator. Times are seconds as floats; an infinite deadline
means best effort. A *level* ``l`` stands for ``2**l`` devices, -1 for none. Free capacity over time (the *profile*) and
a job's width over time (its *plan*) are step functions: a value holds from its breakpoint to the next one, and every
breakpoint is ``now`` plus whole slots. Where the original would stop on an assertion (late jobs in odd corners), the
job takes what fits.

The compiled functions take plain tuples of arrays: numba's cache on disk breaks when a named tuple is renamed.

Cost: planning J jobs is O(J * levels * breakpoints) with at most 2J + 1 breakpoints; sharing idle devices costs as much
again for each widening.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.tools import compiled

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

Steps = tuple[FloatArray, IntArray]
"""A step function: breakpoints and values. Where it grows in place, the number in use is kept beside it."""

Frame = tuple[float, float, int]
"""When and on what the planning happens: now, slot, capacity."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """The jobs to plan, one row each; rows with equal deadlines are planned in the order given."""

    deadline: FloatArray
    """Seconds; infinite for best effort."""
    left: FloatArray
    """Iterations still to do."""
    rates: FloatArray
    """[jobs, levels] iterations per second on 1, 2, 4, ... devices; positive for every level a job may use."""
    top: IntArray
    """How many of the levels each job may use; 0 for a job that can not run."""


@dataclass(frozen=True, slots=True, eq=False)
class TwoLevelPlans:
    """What every row of a batch gets over time, and the capacity that remains."""

    frame: Frame
    order: IntArray
    """Rows in the artifact's order: by deadline, or by gain once idle devices were shared."""
    width: IntArray
    """Devices now."""
    end: FloatArray
    """Planned end, rounded up to whole slots."""
    real_end: FloatArray
    """End of the base plan in whole seconds; sharing idle devices does not move it (as in the artifact)."""
    device_time: FloatArray
    """Device-seconds of each plan, counted the artifact's way: a step lasts until the next even if the job ends."""
    first: IntArray
    """Where each row's steps begin in ``steps``."""
    count: IntArray
    """How many steps each row has; the first is at ``now``."""
    steps: Steps
    profile: Steps
    """Devices that no plan uses."""

    @property
    def next_change(self) -> float:
        """The first planned change of any width after now; infinite if there is none."""
        second = self.first[self.count > 1] + 1
        return float(self.steps[0][second].min(initial=np.inf))

    def steps_of(self, row: int) -> list[tuple[float, int]]:
        """The plan of one row as (from when, how many devices)."""
        span = slice(self.first[row], self.first[row] + self.count[row])
        times, widths = self.steps
        return list(zip(times[span].tolist(), widths[span].tolist(), strict=True))


def plan(now: float, slot: float, capacity: int, batch: Batch) -> TwoLevelPlans:
    """Give each job, in deadline order, the least it needs on what the jobs before it left over."""
    frame = (float(now), float(slot), int(capacity))
    order = np.argsort(batch.deadline, kind="stable")
    return TwoLevelPlans(frame, order, *_plan_all(frame, order, _columns(batch)))


def give_idle(plans: TwoLevelPlans, batch: Batch) -> TwoLevelPlans:
    """Double jobs, largest gain first, until nothing more fits into the devices that are idle now."""
    book = (
        plans.order.copy(), plans.width.copy(), plans.end.copy(),
        plans.device_time.copy(), plans.first.copy(), plans.count.copy(),
    )  # fmt: skip
    steps, profile = _share_idle(plans.frame, _columns(batch), book, plans.steps, plans.profile)
    order, width, end, device_time, first, count = book
    return TwoLevelPlans(plans.frame, order, width, end, plans.real_end, device_time, first, count, steps, profile)


Columns = tuple[FloatArray, FloatArray, FloatArray, IntArray]
"""The fields of a batch: deadline, left, rates, top."""

Row = tuple[float, float, FloatArray, int]
"""One job of a batch: deadline, left, rates, top."""


def _columns(batch: Batch) -> Columns:
    """The fields in the one layout the functions below are compiled for."""
    return (
        np.ascontiguousarray(batch.deadline, dtype=np.float64),
        np.ascontiguousarray(batch.left, dtype=np.float64),
        np.ascontiguousarray(batch.rates, dtype=np.float64),
        np.ascontiguousarray(batch.top, dtype=np.int64),
    )


# -- step functions ---------------------------------------------------------------------------------------------------


@compiled
def _steps(size: int) -> Steps:
    return np.empty(size, dtype=np.float64), np.empty(size, dtype=np.int64)


@compiled
def _grown(steps: Steps, need: int) -> Steps:
    """The same steps with room for at least ``need``."""
    times, values = steps
    if need <= len(times):
        return steps
    more_times, more_values = _steps(2 * need)
    more_times[: len(times)] = times
    more_values[: len(times)] = values
    return more_times, more_values


@compiled
def _part(steps: Steps, begin: int, end: int) -> Steps:
    return steps[0][begin:end], steps[1][begin:end]


@compiled
def _to_slot(start: float, moment: float, slot: float) -> float:
    """``moment`` rounded up to ``start`` plus whole slots."""
    return start + np.ceil((moment - start) / slot) * slot  # type: ignore[no-any-return]


@compiled
def _slot_end(start: float, real_end: float, slot: float) -> float:
    """The end of the slot in which work that began at ``start`` ends; a slot later even if there was hardly any."""
    return max(_to_slot(start, real_end, slot), start + slot)


@compiled
def _split(steps: Steps, n: int, moment: float) -> int:
    """Make ``moment`` (not before the first breakpoint) a breakpoint without changing the function."""
    times, values = steps
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
def _compact(steps: Steps, n: int) -> int:
    """Drop the breakpoints at which nothing changes."""
    times, values = steps
    kept = 1
    for k in range(1, n):
        if values[k] != values[kept - 1]:
            times[kept] = times[k]
            values[kept] = values[k]
            kept += 1
    return kept


@compiled
def _release(profile: Steps, n: int, held: Steps, end: float, capacity: int, out: Steps) -> int:
    """Write to ``out`` the profile as if the plan ``held``, which ends at ``end``, had not been reserved."""
    out[0][:n] = profile[0][:n]
    out[1][:n] = profile[1][:n]
    for moment in held[0]:
        if moment < end:
            n = _split(out, n, moment)
    n = _split(out, n, end)
    times, free = out
    step = 0
    for k in range(n):
        if times[k] >= end:
            break
        while step + 1 < len(held[0]) and held[0][step + 1] <= times[k]:
            step += 1
        free[k] = min(free[k] + held[1][step], capacity)
    return _compact(out, n)


# -- one job ----------------------------------------------------------------------------------------------------------


@compiled
def _row(batch: Columns, row: int) -> Row:
    deadline, left, rates, top = batch
    return deadline[row], left[row], rates[row], top[row]


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
def _latest_start(level: int, begin: int, due: int, job: Row, profile: Steps) -> int:
    """Walking back from the deadline, the first period from which ``level`` finishes the work; -1 if none does."""
    stop, left, rates, top = job
    times, free = profile
    done = 0.0
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
    level: int, pivot: int, begin: int, due: int, job: Row, profile: Steps, widths: IntArray
) -> tuple[int, float]:
    """Run one level below ``level`` up to ``pivot``, then at it; returns the last period used and the end in it."""
    deadline, left, rates, top = job
    times, free = profile
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
    if usable < 0:
        return due, deadline
    return due, times[due] + np.ceil(left / rates[usable])


@compiled
def _run_late(
    begin: int, due: int, job: Row, last_level: int, profile: Steps, n: int, widths: IntArray
) -> tuple[int, float]:
    """The deadline can not be met: as wide as fits, and ``last_level`` once everything else has ended."""
    deadline, left, rates, top = job
    times, free = profile
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
    periods: int, last: int, end: float, profile: Steps, n: int, widths: IntArray, out: Steps
) -> tuple[int, int, float]:
    """Write the plan held in ``widths`` to ``out`` as steps and take it out of the profile until ``end``.

    Returns how many breakpoints the profile and how many steps the plan has, and the plan's device time.
    """
    times, free = profile
    count = 0
    device_time = 0.0
    for k in range(periods):
        if count == 0 or widths[k] != out[1][count - 1]:
            out[0][count] = times[k]
            out[1][count] = widths[k]
            count += 1
        stop = times[k + 1] if k + 1 < periods else end
        device_time += widths[k] * (stop - times[k])
    n = _split(profile, n, end)
    for k in range(last + 1):
        free[k] = max(free[k] - widths[k], 0)
    return _compact(profile, n), count, device_time


@compiled
def _fill(
    frame: Frame, job: Row, first: int, profile: Steps, n: int, widths: IntArray, out: Steps
) -> tuple[int, int, float, float, float]:
    """Plan one job on a profile, in place: level ``first`` (unless -1) up to the first change, then two levels.

    Returns how many breakpoints the profile and how many steps the plan has, the end in whole slots, the real end and
    the device time of the plan.
    """
    now, slot, capacity = frame
    deadline, left, rates, top = job
    times = profile[0]
    reach = _fit(capacity, top) + 1
    if reach == 0 or left <= 0:
        out[0][0] = now
        out[1][0] = 0
        end = now if left <= 0 else np.inf
        return n, 1, end, end, 0.0
    aligned = _to_slot(now, deadline, slot)
    change = times[1] if n > 1 else max(aligned, now)
    if aligned >= now:
        n = _split(profile, n, aligned)
    due = int(np.searchsorted(times[:n], aligned))
    widths[:n] = 0
    begin = 0
    if first >= 0:
        real_end = np.ceil(now + left / rates[first])
        end = _slot_end(now, real_end, slot)
        ends_at_first = change >= end and (deadline >= real_end or change > aligned)
        begin = int(np.searchsorted(times[:n], end if ends_at_first else change))
        widths[:begin] = _width(first)
        if ends_at_first:
            n, count, spent = _reserve(begin, begin - 1, end, profile, n, widths, out)
            return n, count, end, real_end, spent
        until = deadline if change == aligned else change
        left -= max(until - now, 0.0) * rates[first]
    job = (deadline, left, rates, top)
    level = 0
    pivot = _latest_start(level, begin, due, job, profile)
    while pivot < 0 and level + 1 < reach:
        level += 1
        pivot = _latest_start(level, begin, due, job, profile)
    if pivot >= 0:
        last, real_end = _run_two_levels(level, pivot, begin, due, job, profile, widths)
        periods = max(due, last + 1)
    else:
        last_level = first if first >= 0 else reach - 1
        last, real_end = _run_late(begin, due, job, last_level, profile, n, widths)
        periods = last + 1
    end = _slot_end(times[last], real_end, slot)
    n, count, spent = _reserve(periods, last, end, profile, n, widths, out)
    return n, count, end, real_end, spent


# -- all jobs ---------------------------------------------------------------------------------------------------------


@compiled
def _plan_all(
    frame: Frame, order: IntArray, batch: Columns
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray, IntArray, IntArray, Steps, Steps]:
    """Plan the rows in ``order``; returns the fields of :class:`TwoLevelPlans` from ``width`` on."""
    jobs = len(order)
    size = 2 * jobs + 4  # each job adds its deadline and its end at most
    profile = _steps(size)
    profile[0][0] = frame[0]
    profile[1][0] = frame[2]
    n = 1
    widths = np.empty(size, dtype=np.int64)
    width = np.empty(jobs, dtype=np.int64)
    end = np.empty(jobs, dtype=np.float64)
    real_end = np.empty(jobs, dtype=np.float64)
    device_time = np.empty(jobs, dtype=np.float64)
    first = np.empty(jobs, dtype=np.int64)
    count = np.empty(jobs, dtype=np.int64)
    steps = _steps(4 * size)
    used = 0
    for j in order:
        steps = _grown(steps, used + n + 3)
        out = _part(steps, used, len(steps[0]))
        n, count[j], end[j], real_end[j], device_time[j] = _fill(frame, _row(batch, j), -1, profile, n, widths, out)
        width[j] = out[1][0]
        first[j] = used
        used += count[j]
    return width, end, real_end, device_time, first, count, _part(steps, 0, used), _part(profile, 0, n)


# -- idle devices -----------------------------------------------------------------------------------------------------

Book = tuple[IntArray, IntArray, FloatArray, FloatArray, IntArray, IntArray]
"""What sharing idle devices changes in place: order, width, end, device time, and first and count of the steps."""

Growth = tuple[IntArray, IntArray, FloatArray]
"""Per row: the level it has, how many it may use, and what the next one would gain."""

Scratch = tuple[Steps, Steps, IntArray]
"""Room to try a plan without touching the one in force: profile, steps, widths."""


@compiled
def _growth(width: IntArray, left: FloatArray, top: IntArray) -> Growth:
    level = np.empty(len(width), dtype=np.int64)
    for j in range(len(width)):
        level[j] = _fit(width[j], top[j])
    return level, np.where(left > 0, top, 0), np.full(len(width), -np.inf)


@compiled
def _extra(growth: Growth, row: int, spare: int) -> int:
    """Devices that the next level takes on top; 0 if there is no next level or not enough is spare."""
    level, top, _ = growth
    if level[row] + 1 >= top[row]:
        return 0
    more = _width(level[row] + 1) - _width(level[row])
    return more if more <= spare else 0


@compiled
def _fill_wider(
    frame: Frame,
    batch: Columns,
    book: Book,
    row: int,
    level: int,
    steps: Steps,
    profile: Steps,
    n: int,
    trial: Steps,
    widths: IntArray,
    out: Steps,
) -> tuple[int, int, float, float, float]:
    """Plan a row again, at ``level`` to begin with, on what is free without its present plan."""
    _, _, end, _, first, count = book
    held = _part(steps, first[row], first[row] + count[row])
    m = _release(profile, n, held, end[row], frame[2], trial)
    return _fill(frame, _row(batch, row), level, trial, m, widths, out)


@compiled
def _weigh(
    frame: Frame,
    batch: Columns,
    book: Book,
    growth: Growth,
    spare: int,
    steps: Steps,
    profile: Steps,
    n: int,
    scratch: Scratch,
) -> None:
    """Bring the gains up to date; a row at its top level keeps the gain it last had, and so its place in the order."""
    order, width, _, device_time, _, _ = book
    level, top, gain = growth
    trial, trial_steps, widths = scratch
    for j in order:
        if level[j] + 1 >= top[j]:
            continue
        more = _extra(growth, j, spare)
        if more == 0:
            gain[j] = -np.inf
        elif width[j] == 0:
            gain[j] = np.inf
        else:
            filled = _fill_wider(frame, batch, book, j, level[j] + 1, steps, profile, n, trial, widths, trial_steps)
            gain[j] = (filled[4] - device_time[j]) / more


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
def _first_to_grow(order: IntArray, growth: Growth, spare: int) -> int:
    for j in order:
        if _extra(growth, j, spare) > 0:
            return j  # type: ignore[no-any-return]
    return -1


@compiled
def _share_idle(frame: Frame, batch: Columns, book: Book, steps: Steps, profile: Steps) -> tuple[Steps, Steps]:
    """Widen rows while devices are spare, in ``book``; returns the steps and the profile that come of it."""
    order, width, end, device_time, first, count = book
    spare = frame[2] - width.sum()
    # Breakpoints are now, a deadline per job, and an end per job or widening: no other ever appears.
    size = 2 * len(order) + min(len(order) * batch[2].shape[1], spare) + 8
    used = len(steps[0])
    n = len(profile[0])
    profile = _grown(profile, size)
    trial, trial_steps, widths = _steps(len(profile[0])), _steps(size), np.empty(size, dtype=np.int64)
    growth = _growth(width, batch[1], batch[3])
    level, _, gain = growth
    j = 0 if spare > 0 else -1
    while j >= 0:
        _weigh(frame, batch, book, growth, spare, steps, profile, n, (trial, trial_steps, widths))
        _sort_by_gain(order, gain)
        j = _first_to_grow(order, growth, spare)
        if j >= 0:
            steps = _grown(steps, used + size)
            out = _part(steps, used, len(steps[0]))
            n, count[j], end[j], _, device_time[j] = _fill_wider(
                frame, batch, book, j, level[j] + 1, steps, profile, n, trial, widths, out
            )
            profile, trial = trial, profile
            first[j] = used
            used += count[j]
            spare -= _extra(growth, j, spare)
            level[j] += 1
            width[j] = _width(level[j])
    return _part(steps, 0, used), _part(profile, 0, n)
