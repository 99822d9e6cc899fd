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

Cost: planning J jobs is O(J * levels * breakpoints) with at most 2J + 1 breakpoints; sharing idle devices costs as much
again for each widening.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.core.jit import compiled

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class Batch(NamedTuple):
    """The jobs to plan, one row each; rows with equal deadlines are planned in the order given."""

    deadline: FloatArray
    """Seconds; infinite for best effort."""
    left: FloatArray
    """Iterations still to do."""
    rates: FloatArray
    """[jobs, levels] iterations per second on 1, 2, 4, ... devices."""
    top: IntArray
    """How many of the levels each job may use; 0 for a job that can not run."""


class Frame(NamedTuple):
    """When and on what the planning happens."""

    now: float
    slot: float
    capacity: int


class Steps(NamedTuple):
    """A step function in preallocated arrays; how much of them is in use is kept beside it."""

    time: FloatArray
    value: IntArray


class Plans(NamedTuple):
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
    counts: IntArray
    """How many steps each row has; the first is at ``now``."""
    steps: Steps
    profile: Steps
    """Devices that no plan uses."""

    @property
    def next_change(self) -> float:
        """The first planned change of any width after now; infinite if there is none."""
        second = self.first[self.counts > 1] + 1
        return float(self.steps.time[second].min(initial=np.inf))

    def steps_of(self, row: int) -> list[tuple[float, int]]:
        """The plan of one row as (from when, how many devices)."""
        span = slice(self.first[row], self.first[row] + self.counts[row])
        return list(zip(self.steps.time[span].tolist(), self.steps.value[span].tolist(), strict=True))


def plan(now: float, slot: float, capacity: int, batch: Batch) -> Plans:
    """Give each job, in deadline order, the least it needs on what the jobs before it left over."""
    order = np.argsort(batch.deadline, kind="stable")
    return _plan_all(Frame(float(now), float(slot), int(capacity)), order, batch)


def give_idle(plans: Plans, batch: Batch) -> Plans:
    """Double jobs, largest gain first, until nothing more fits into the devices that are idle now."""
    return _share_idle(plans, batch)


# -- step functions ---------------------------------------------------------------------------------------------------


@compiled
def _steps(size: int) -> Steps:
    return Steps(np.empty(size, dtype=np.float64), np.empty(size, dtype=np.int64))


@compiled
def _grown(steps: Steps, need: int) -> Steps:
    """The same steps with room for at least ``need``."""
    if need <= len(steps.time):
        return steps
    larger = _steps(2 * need)
    larger.time[: len(steps.time)] = steps.time
    larger.value[: len(steps.time)] = steps.value
    return larger


@compiled
def _to_slot(start: float, moment: float, slot: float) -> float:
    """``moment`` rounded up to ``start`` plus whole slots."""
    return start + np.ceil((moment - start) / slot) * slot  # type: ignore[no-any-return]


@compiled
def _split(steps: Steps, n: int, moment: float) -> int:
    """Make ``moment`` (not before the first breakpoint) a breakpoint without changing the function."""
    k = n
    while steps.time[k - 1] > moment:
        k -= 1
    if steps.time[k - 1] == moment:
        return n
    for i in range(n, k, -1):
        steps.time[i] = steps.time[i - 1]
        steps.value[i] = steps.value[i - 1]
    steps.time[k] = moment
    steps.value[k] = steps.value[k - 1]
    return n + 1


@compiled
def _compact(steps: Steps, n: int) -> int:
    """Drop the breakpoints at which nothing changes."""
    kept = 1
    for k in range(1, n):
        if steps.value[k] != steps.value[kept - 1]:
            steps.time[kept] = steps.time[k]
            steps.value[kept] = steps.value[k]
            kept += 1
    return kept


@compiled
def _release(profile: Steps, n: int, held: Steps, end: float, capacity: int, out: Steps) -> int:
    """The profile as if the plan ``held``, which ends at ``end``, had not been reserved."""
    out.time[:n] = profile.time[:n]
    out.value[:n] = profile.value[:n]
    for moment in held.time:
        if moment < end:
            n = _split(out, n, moment)
    n = _split(out, n, end)
    step = 0
    for k in range(n):
        if out.time[k] >= end:
            break
        while step + 1 < len(held.time) and held.time[step + 1] <= out.time[k]:
            step += 1
        out.value[k] = min(out.value[k] + held.value[step], capacity)
    return _compact(out, n)


# -- one job ----------------------------------------------------------------------------------------------------------


class Job(NamedTuple):
    """One row of a batch."""

    deadline: float
    left: float
    rates: FloatArray
    top: int


@compiled
def _row(batch: Batch, row: int) -> Job:
    return Job(batch.deadline[row], batch.left[row], batch.rates[row], batch.top[row])


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
def _latest_start(level: int, begin: int, due: int, job: Job, left: float, profile: Steps) -> int:
    """Walking back from the deadline, the first period from which ``level`` finishes the work; -1 if none does."""
    done = 0.0
    stop = job.deadline
    for k in range(due - 1, begin - 1, -1):
        usable = min(level, _fit(profile.value[k], job.top))
        if usable >= 0:
            done += (stop - profile.time[k]) * job.rates[usable]
            if done >= left:
                return k
        stop = profile.time[k]
    return -1


@compiled
def _run_two_levels(
    level: int,
    pivot: int,
    begin: int,
    due: int,
    job: Job,
    left: float,
    profile: Steps,
    widths: IntArray,
) -> tuple[int, float]:
    """Run one level below ``level`` up to ``pivot``, then at it; returns the last period used and the end in it."""
    for k in range(begin, due):
        usable = min(level if k >= pivot else level - 1, _fit(profile.value[k], job.top))
        widths[k] = _width(usable)
        if usable < 0:
            continue
        stop = job.deadline if k + 1 == due else profile.time[k + 1]
        work = (stop - profile.time[k]) * job.rates[usable]
        if k >= pivot and work >= left:
            return k, profile.time[k] + np.ceil(left / job.rates[usable])
        left -= work
    # Only rounding can leave a crumb of work here; the artifact runs it after the deadline.
    usable = min(level, _fit(profile.value[due], job.top))
    widths[due] = _width(usable)
    if usable < 0:
        return due, job.deadline
    return due, profile.time[due] + np.ceil(left / job.rates[usable])


@compiled
def _run_late(
    begin: int,
    due: int,
    job: Job,
    left: float,
    last_level: int,
    profile: Steps,
    n: int,
    widths: IntArray,
) -> tuple[int, float]:
    """The deadline can not be met: as wide as fits, and ``last_level`` once everything else has ended."""
    for k in range(begin, n - 1):
        usable = _fit(profile.value[k], job.top)
        widths[k] = _width(usable)
        if usable < 0:
            continue
        stop = job.deadline if k + 1 == due else profile.time[k + 1]
        work = (stop - profile.time[k]) * job.rates[usable]
        if k >= due and work >= left:
            return k, np.ceil(profile.time[k] + left / job.rates[usable])
        left = max(left - work, 0.0)
    widths[n - 1] = _width(last_level)
    return n - 1, np.ceil(profile.time[n - 1] + left / job.rates[last_level])


@compiled
def _reserve(
    periods: int, last: int, end: float, profile: Steps, n: int, widths: IntArray, out: Steps
) -> tuple[int, int, float]:
    """Write the plan held in ``widths`` down as steps and take it out of the profile until ``end``.

    Returns how many breakpoints the profile and how many steps the plan has, and the plan's device time.
    """
    if end <= profile.time[last]:
        widths[last] = 0
    count = 0
    device_time = 0.0
    for k in range(periods):
        if count == 0 or widths[k] != out.value[count - 1]:
            out.time[count] = profile.time[k]
            out.value[count] = widths[k]
            count += 1
        stop = profile.time[k + 1] if k + 1 < periods else end
        device_time += widths[k] * (stop - profile.time[k])
    n = _split(profile, n, max(end, profile.time[last]))
    for k in range(last + 1):
        profile.value[k] = max(profile.value[k] - widths[k], 0)
    return _compact(profile, n), count, device_time


@compiled
def _fill(
    frame: Frame, job: Job, first: int, profile: Steps, n: int, widths: IntArray, out: Steps
) -> tuple[int, int, float, float, float]:
    """Plan one job on a profile, in place: level ``first`` (unless -1) up to the first change, then two levels.

    Returns how many breakpoints the profile and how many steps the plan has, the end in whole slots, the real end and
    the device time of the plan.
    """
    now, slot = frame.now, frame.slot
    reach = _fit(frame.capacity, job.top) + 1
    left = job.left
    if reach == 0 or left <= 0:
        out.time[0] = now
        out.value[0] = 0
        end = now if left <= 0 else np.inf
        return n, 1, end, end, 0.0
    aligned = _to_slot(now, job.deadline, slot)
    change = profile.time[1] if n > 1 else max(aligned, now)
    if aligned >= now:
        n = _split(profile, n, aligned)
    due = int(np.searchsorted(profile.time[:n], aligned))
    widths[:n] = 0
    begin = 0
    if first >= 0:
        real_end = np.ceil(now + left / job.rates[first])
        end = _to_slot(now, real_end, slot)
        ends_at_first = change >= end and (job.deadline >= real_end or change > aligned)
        begin = int(np.searchsorted(profile.time[:n], end if ends_at_first else change))
        widths[:begin] = _width(first)
        if ends_at_first:
            n, count, spent = _reserve(begin, begin - 1, end, profile, n, widths, out)
            return n, count, end, real_end, spent
        until = job.deadline if change == aligned else change
        left -= max(until - now, 0.0) * job.rates[first]
    level = 0
    pivot = _latest_start(level, begin, due, job, left, profile)
    while pivot < 0 and level + 1 < reach:
        level += 1
        pivot = _latest_start(level, begin, due, job, left, profile)
    if pivot >= 0:
        last, real_end = _run_two_levels(level, pivot, begin, due, job, left, profile, widths)
        periods = max(due, last + 1)
    else:
        last_level = first if first >= 0 else reach - 1
        last, real_end = _run_late(begin, due, job, left, last_level, profile, n, widths)
        periods = last + 1
    end = _to_slot(profile.time[last], real_end, slot)
    n, count, spent = _reserve(periods, last, end, profile, n, widths, out)
    return n, count, end, real_end, spent


# -- all jobs ---------------------------------------------------------------------------------------------------------


@compiled
def _plan_all(frame: Frame, order: IntArray, batch: Batch) -> Plans:
    jobs = len(order)
    size = 2 * jobs + 4  # each job adds its deadline and its end at most
    profile = _steps(size)
    profile.time[0] = frame.now
    profile.value[0] = frame.capacity
    n = 1
    widths = np.empty(size, dtype=np.int64)
    width = np.empty(jobs, dtype=np.int64)
    end = np.empty(jobs, dtype=np.float64)
    real_end = np.empty(jobs, dtype=np.float64)
    device_time = np.empty(jobs, dtype=np.float64)
    first = np.empty(jobs, dtype=np.int64)
    counts = np.empty(jobs, dtype=np.int64)
    steps = _steps(4 * size)
    used = 0
    for j in order:
        steps = _grown(steps, used + n + 3)
        out = Steps(steps.time[used:], steps.value[used:])
        n, counts[j], end[j], real_end[j], device_time[j] = _fill(frame, _row(batch, j), -1, profile, n, widths, out)
        width[j] = out.value[0]
        first[j] = used
        used += counts[j]
    return Plans(
        frame, order, width, end, real_end, device_time, first, counts,
        Steps(steps.time[:used], steps.value[:used]), Steps(profile.time[:n], profile.value[:n]),
    )  # fmt: skip


# -- idle devices -----------------------------------------------------------------------------------------------------


class Scratch(NamedTuple):
    """Room to try a plan without touching the one in force."""

    profile: Steps
    steps: Steps
    widths: IntArray


class Growth(NamedTuple):
    """How far each row has grown, may grow, and what its next level would gain."""

    level: IntArray
    top: IntArray
    gain: FloatArray


@compiled
def _growth(plans: Plans, batch: Batch) -> Growth:
    jobs = len(plans.order)
    level = np.empty(jobs, dtype=np.int64)
    for j in range(jobs):
        level[j] = _fit(plans.width[j], batch.top[j])
    return Growth(level, np.where(batch.left > 0, batch.top, 0), np.full(jobs, -np.inf))


@compiled
def _extra(growth: Growth, row: int, spare: int) -> int:
    """Devices that the next level takes on top; 0 if there is no next level or not enough is spare."""
    level = growth.level[row]
    if level + 1 >= growth.top[row]:
        return 0
    more = _width(level + 1) - _width(level)
    return more if more <= spare else 0


@compiled
def _fill_anew(
    plans: Plans, n: int, batch: Batch, row: int, first: int, scratch: Scratch, out: Steps
) -> tuple[int, int, float, float, float]:
    """Plan a row again, at level ``first`` to begin with, on what is free without its present plan."""
    span = slice(plans.first[row], plans.first[row] + plans.counts[row])
    held = Steps(plans.steps.time[span], plans.steps.value[span])
    m = _release(plans.profile, n, held, plans.end[row], plans.frame.capacity, scratch.profile)
    return _fill(plans.frame, _row(batch, row), first, scratch.profile, m, scratch.widths, out)


@compiled
def _weigh(plans: Plans, n: int, batch: Batch, growth: Growth, spare: int, scratch: Scratch) -> None:
    """Bring the gains up to date; a row at its top level keeps the gain it last had, and so its place in the order."""
    for j in plans.order:
        if growth.level[j] + 1 >= growth.top[j]:
            continue
        more = _extra(growth, j, spare)
        if more == 0:
            growth.gain[j] = -np.inf
        elif plans.width[j] == 0:
            growth.gain[j] = np.inf
        else:
            spent = _fill_anew(plans, n, batch, j, growth.level[j] + 1, scratch, scratch.steps)[4]
            growth.gain[j] = (spent - plans.device_time[j]) / more


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
def _share_idle(plans: Plans, batch: Batch) -> Plans:
    frame = plans.frame
    jobs = len(plans.order)
    spare = frame.capacity - plans.width.sum()
    # Breakpoints are now, a deadline per job, and an end per job or widening: no other ever appears.
    size = 2 * jobs + min(jobs * batch.rates.shape[1], spare) + 8
    n = len(plans.profile.time)
    used = len(plans.steps.time)
    plans = Plans(
        frame, plans.order.copy(), plans.width.copy(), plans.end.copy(), plans.real_end, plans.device_time.copy(),
        plans.first.copy(), plans.counts.copy(), plans.steps, _grown(plans.profile, size),
    )  # fmt: skip
    scratch = Scratch(_steps(len(plans.profile.time)), _steps(size), np.empty(size, dtype=np.int64))
    growth = _growth(plans, batch)
    j = 0 if spare > 0 else -1
    while j >= 0:
        _weigh(plans, n, batch, growth, spare, scratch)
        _sort_by_gain(plans.order, growth.gain)
        j = _first_to_grow(plans.order, growth, spare)
        if j < 0:
            break
        more = _extra(growth, j, spare)
        steps = _grown(plans.steps, used + size)
        out = Steps(steps.time[used:], steps.value[used:])
        n, count, plans.end[j], _, plans.device_time[j] = _fill_anew(
            plans, n, batch, j, growth.level[j] + 1, scratch, out
        )
        plans.first[j] = used
        plans.counts[j] = count
        used += count
        growth.level[j] += 1
        plans.width[j] += more
        spare -= more
        profile = scratch.profile
        scratch = Scratch(plans.profile, scratch.steps, scratch.widths)
        plans = Plans(
            frame, plans.order, plans.width, plans.end, plans.real_end, plans.device_time,
            plans.first, plans.counts, steps, profile,
        )  # fmt: skip
    return Plans(
        frame, plans.order, plans.width, plans.end, plans.real_end, plans.device_time, plans.first, plans.counts,
        Steps(plans.steps.time[:used], plans.steps.value[:used]),
        Steps(plans.profile.time[:n], plans.profile.value[:n]),
    )  # fmt: skip
