"""The jobs as columns, over all kinds of devices.

A policy reads whole columns, events touch single rows: so the rows live in NumPy matrices of which a column is one
contiguous line, and a job that leaves is replaced by the last row. Projection of progress is one vector operation.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from penstock.core import Job
from penstock.policies import PLAN_STEPS, VALUE_STEPS, Bools, Floats, Ints, Plans, Standing
from penstock.scheduler.options import OptionTable
from penstock.scheduler.windows import Windows
from penstock.tools import compiled

_FLOATS = (
    "submitted", "deadline", "remaining", "rate", "resumes_at", "as_of", "finish_at", "executed", "attained",
    "stint_since", "waited_before", "waited_s", "unsaved_s", "progressed", "corrected", "start_s", "resize_s", "end_s",
    "reserve_s", "trained_at", "whole", "deserved", "allowance",
)  # fmt: skip
_INTS = (
    "standing", "sequence", "width", "hard", "priority", "tenant", "bound", "plan_kind", "resumable", "useful",
    "suspensions",
)  # fmt: skip
_SHOWN = (
    "standing", "sequence", "submitted", "deadline", "width", "stint_since", "waited_before", "reserve_s", "plan_at",
    "plan_width", "plan_kind", "priority", "end_s", "whole", "step_at", "step_value",
    "allowance", "useful", "waited_s", "suspensions",
)  # fmt: skip

OVERDUE_S = 1.0
"""A job that should be done but has not said so is taken to need this much longer, again and again."""
LEAST_WORK = 1e-6
"""Iterations left of a job that reports none: it still has to end by itself."""


class EndedTraining(NamedTuple):
    """When rows did their last step, and the iterations that rows which should have ended by now get added."""

    trained_at: Floats
    more: Floats


class Projection(NamedTuple):
    """Progress of some rows up to ``now``: iterations left and done, seconds devices were held and worked."""

    now: float
    remaining: Floats
    done: Floats
    held: Floats
    ran: Floats
    ended: EndedTraining | None
    """For those that are through with their work, if anybody is."""


class JobTable:
    """Rows of unfinished jobs; see :class:`~penstock.policies.View` for the meaning of the shared columns.

    Beyond those: ``rate`` now, ``resumes_at`` the end of a pause, ``as_of`` the time ``remaining`` refers to,
    ``finish_at`` the projected end, ``unsaved_s`` run time since the last checkpoint, ``progressed`` and ``corrected``
    the two sides of the conservation of work, ``end_s`` what follows the last step and ``trained_at`` when that was.
    ``useful`` is the most devices a row could use, and ``deserved`` becomes what it deserved by adding what the account
    of fairness says of such rows.
    How a row could run is in ``options``, one table per kind; ``bound`` is the position of the kind it is meant for.
    """

    submitted: Floats
    deadline: Floats
    remaining: Floats
    rate: Floats
    resumes_at: Floats
    as_of: Floats
    finish_at: Floats
    executed: Floats
    attained: Floats
    stint_since: Floats
    waited_before: Floats
    waited_s: Floats
    unsaved_s: Floats
    progressed: Floats
    corrected: Floats
    start_s: Floats
    resize_s: Floats
    end_s: Floats
    reserve_s: Floats
    trained_at: Floats
    whole: Floats
    allowance: Floats
    deserved: Floats
    standing: Ints
    sequence: Ints
    width: Ints
    hard: Ints
    priority: Ints
    tenant: Ints
    bound: Ints
    plan_kind: Ints
    resumable: Ints
    useful: Ints
    suspensions: Ints

    def __init__(self, kinds: Sequence[str]) -> None:
        self.options = [OptionTable(kind) for kind in kinds]
        self.jobs: list[Job] = []
        self.row_of: dict[int, int] = {}
        self._floats: Floats = np.zeros((len(_FLOATS), 16))
        self._ints: Ints = np.zeros((len(_INTS), 16), dtype=np.int64)
        self.plan_at: Floats = np.full((16, PLAN_STEPS), np.inf)
        self.plan_width: Ints = np.zeros((16, PLAN_STEPS), dtype=np.int64)
        self.step_at: Floats = np.full((16, VALUE_STEPS), np.inf)
        self.step_value: Floats = np.zeros((16, VALUE_STEPS))
        self._windows: Windows | None = None
        self.reconnect()

    def __len__(self) -> int:
        return len(self.jobs)

    def add(self, job: Job, sequence: int, now: float, *, bound: int, tenant: int, sizes: Sequence[int]) -> int:
        """A new row for a job that just asked; ``sizes`` are the devices of each kind in the cluster."""
        row = len(self.jobs)
        if row == self._floats.shape[1]:
            self._grow()
        self.jobs.append(job)
        self.row_of[sequence] = row
        self._floats[:, row] = 0.0
        self._ints[:, row] = 0
        self.bound[row] = bound
        self.forget_plan(row)
        self.submitted[row] = job.submitted_at
        self.as_of[row] = self.resumes_at[row] = self.stint_since[row] = now
        self.remaining[row] = job.work.iterations
        self.finish_at[row] = self.trained_at[row] = np.inf
        self.sequence[row] = sequence
        self.tenant[row] = tenant
        for options in self.options:
            options.reset(row)
        self.set_job(row, job, sizes)
        return row

    def set_job(self, row: int, job: Job, sizes: Sequence[int]) -> None:
        """(Re)derive everything that follows from the job."""
        self.jobs[row] = job
        self.deadline[row] = job.deadline
        self.hard[row] = job.hard
        self._set_value_steps(row, job)
        self.priority[row] = job.priority
        self.whole[row] = job.work.iterations
        self.resumable[row] = job.resumable
        self.set_costs(row, job)
        for kind, size in enumerate(sizes):
            self.set_size(row, kind, size)

    def _set_value_steps(self, row: int, job: Job) -> None:
        self.step_at[row], self.step_value[row] = np.inf, 0.0
        for index, step in enumerate(job.value_steps):
            self.step_at[row, index], self.step_value[row, index] = step.at, step.value

    def set_size(self, row: int, kind: int, size: int) -> None:
        """(Re)derive how a row could run on so many devices of a kind."""
        self.options[kind].derive(row, self.jobs[row], size, bound=int(self.bound[row]) == kind)

    def most_useful(self, row: int) -> int:
        """The most devices that a row could use, of the kind it is bound to."""
        options = self.options[self.bound[row]]
        return int(options.levels[row, -1]) if options.depth[row] else 0

    def top_rate(self, row: int) -> float:
        """The fastest a row can run on any kind."""
        usable = [options for options in self.options if options.depth[row]]
        return max(float(options.rates[row, options.depth[row] - 1]) for options in usable)

    def add_kind(self, kind: str) -> None:
        """The cluster has devices of a kind it did not have; nobody has options on it yet."""
        self.options.append(OptionTable(kind, self._floats.shape[1]))

    def rows_of(self, kinds: Sequence[int]) -> Any:
        """The rows bound to these kinds: a slice where that is everybody."""
        count = len(self.jobs)
        if len(kinds) == len(self.options):
            return slice(count)
        return np.flatnonzero(np.isin(self.bound[:count], kinds))

    def rows_by_key(self, keys: Ints) -> Ints:
        return np.array([self.row_of[key] for key in keys.tolist()], dtype=np.int64)

    def set_costs(self, row: int, job: Job) -> None:
        """Take up what the job loses by starting, changing and ending."""
        self.jobs[row] = job
        costs = job.costs
        self.start_s[row], self.resize_s[row], self.end_s[row] = (
            costs.start.likely, costs.resize.likely, costs.end.likely
        )  # fmt: skip
        self.reserve_s[row] = costs.reserve_s

    def remove(self, row: int) -> None:
        """Drop a row; the last one takes its place."""
        last = len(self.jobs) - 1
        del self.row_of[int(self.sequence[row])]
        if row != last:
            self.jobs[row] = self.jobs[last]
            self.row_of[int(self.sequence[last])] = row
            self._floats[:, row] = self._floats[:, last]
            self._ints[:, row] = self._ints[:, last]
            for options in self.options:
                options.move(last, row)
            self.plan_at[row] = self.plan_at[last]
            self.plan_width[row] = self.plan_width[last]
            self.step_at[row], self.step_value[row] = self.step_at[last], self.step_value[last]
        self.jobs.pop()

    def projected(self, now: float, used: Any) -> Projection:
        """The progress of ``used`` rows up to ``now``, computed beside the table. O(rows), in one pass."""
        rate, ended = self.rate[used], None
        remaining, done, held, ran, trained, some_trained = _progress(
            now, self.as_of[used], self.resumes_at[used], self.width[used], rate, self.remaining[used]
        )
        if some_trained:
            ended = _end_training(now, trained, self.trained_at[used], rate * ran - done, rate, self.end_s[used])
            remaining += ended.more
        return Projection(now, remaining, done, held, ran, ended)

    def attained_by(self, projection: Projection, used: Any) -> Floats:
        """Device-seconds that ``used`` rows have held by then."""
        return np.asarray(self.attained[used] + projection.held * self.width[used])

    def adopt(self, projection: Projection, used: Any) -> None:
        """What was projected for these rows is how things stand now."""
        self.remaining[used] = projection.remaining
        self.progressed[used] += projection.done
        self.unsaved_s[used] += projection.ran
        self.executed[used] += projection.held
        self.attained[used] += projection.held * self.width[used]
        self.as_of[used] = projection.now
        if projection.ended is not None:
            self.trained_at[used] = projection.ended.trained_at
            self.corrected[used] += projection.ended.more

    def project_row(self, row: int, now: float) -> None:
        """Bring the progress of a single row up to ``now``."""
        if self.width[row]:
            held = now - self.as_of[row]
            ran = max(0.0, now - max(self.as_of[row], self.resumes_at[row]))
            able = self.rate[row] * ran
            done = min(able, self.remaining[row])
            self.remaining[row] -= done
            self.progressed[row] += done
            if self.remaining[row] <= 0.0:
                self._note_end(row, now, able - done)
            self.unsaved_s[row] += ran
            self.executed[row] += held
            self.attained[row] += held * self.width[row]
        self.as_of[row] = now

    def _note_end(self, row: int, now: float, excess: float) -> None:
        one = slice(row, row + 1)
        ended = _end_training(
            now, np.array([True]), self.trained_at[one], np.array([excess]), self.rate[one], self.end_s[one]
        )
        self.trained_at[one] = ended.trained_at
        self.remaining[one] += ended.more
        self.corrected[one] += ended.more

    def remaining_at(self, row: int, now: float, later: float) -> float:
        """Iterations left at ``later`` if nothing but time happens after ``now``."""
        left = float(self.projected(now, slice(row, row + 1)).remaining[0])
        ran = max(0.0, later - max(now, float(self.resumes_at[row])))
        return max(0.0, left - (float(self.rate[row]) * ran if self.width[row] else 0.0))

    def begin_again(self, row: int) -> float:
        """Everything is still to be done; returns the iterations that are lost by that."""
        lost = float(self.whole[row] - self.remaining[row])
        self.remaining[row] = self.whole[row]
        self.progressed[row] = self.corrected[row] = self.allowance[row] = 0.0
        return max(lost, 0.0)

    def forecast(self) -> None:
        """Recompute the projected end of every row."""
        used = slice(len(self.jobs))
        self.finish_at[used] = _projected_ends(
            self.as_of[used], self.resumes_at[used], self.rate[used], self.remaining[used], self.trained_at[used],
            self.end_s[used],
        )  # fmt: skip

    def _positions(self, used: Any) -> Ints:
        return np.asarray(np.arange(len(self.jobs))[used])

    def rows_left(self, used: Any, left: Ints | None) -> Any:
        """The rows of the table that are at ``left`` among ``used``."""
        return used if left is None else self._positions(used)[left]

    def change_s(self, now: float, width: Ints, used: Any) -> Floats:
        """Seconds that ``used`` rows lose if their devices change now: one that is still starting starts once more."""
        resize_s, starting = self.resize_s[used].copy(), (self.resumes_at[used] > now) & (width > 0)
        if np.count_nonzero(starting):
            resize_s[starting] = np.maximum(self.start_s[used], resize_s)[starting]
        return np.asarray(resize_s)

    def forget_plan(self, row: int) -> None:
        """What was laid out for this row no longer makes sense."""
        self.plan_at[row] = np.inf
        self.plan_width[row] = 0
        self.plan_kind[row] = self.bound[row]

    def keep(self, plans: Plans, used: Any) -> None:
        """Remember what the policy laid out for these rows."""
        self.plan_at[used] = plans.at
        self.plan_width[used] = plans.width
        self.plan_kind[used] = plans.kind

    @property
    def windows(self) -> Windows:
        """What views show as it is, made anew only when the columns have moved."""
        if self._windows is None:
            self._windows = Windows(self, _SHOWN)
        return self._windows

    def undecided(self, used: Any) -> Ints:
        """Positions among ``used`` rows of those that still wait for an answer, in order of arrival."""
        waiting = (self.standing[used] <= Standing.DEFERRED).nonzero()[0]
        if len(waiting) > 1:
            waiting = waiting[self.sequence[used][waiting].argsort(kind="stable")]
        return np.asarray(waiting)

    def copy(self) -> "JobTable":
        """An independent table; the jobs themselves never change and are shared."""
        other = JobTable.__new__(JobTable)
        other.options = [options.copy() for options in self.options]
        other.jobs, other.row_of = self.jobs.copy(), self.row_of.copy()
        other._floats, other._ints = self._floats.copy(), self._ints.copy()
        other.plan_at, other.plan_width = self.plan_at.copy(), self.plan_width.copy()
        other.step_at, other.step_value = self.step_at.copy(), self.step_value.copy()
        other.reconnect()
        return other

    def reconnect(self) -> None:
        """Make every column an attribute: a view of its line in the matrix of floats or of integers."""
        for name, column in zip(_FLOATS, self._floats, strict=True):
            setattr(self, name, column)
        for name, ints in zip(_INTS, self._ints, strict=True):
            setattr(self, name, ints)
        self._windows = None

    def _grow(self) -> None:
        self._floats = np.concatenate([self._floats, np.zeros_like(self._floats)], axis=1)
        self._ints = np.concatenate([self._ints, np.zeros_like(self._ints)], axis=1)
        for options in self.options:
            options.grow(self._floats.shape[1])
        self.plan_at = np.concatenate([self.plan_at, np.full_like(self.plan_at, np.inf)])
        self.plan_width = np.concatenate([self.plan_width, np.zeros_like(self.plan_width)])
        self.step_at = np.concatenate([self.step_at, np.full_like(self.step_at, np.inf)])
        self.step_value = np.concatenate([self.step_value, np.zeros_like(self.step_value)])
        self.reconnect()


@compiled
def _progress(
    now: float, as_of: Floats, resumes_at: Floats, width: Ints, rate: Floats, remaining: Floats
) -> tuple[Floats, Floats, Floats, Floats, Bools, bool]:
    """Iterations left and done, seconds devices were held and worked, and who is through with its work, if anybody."""
    holding = width > 0
    held = (now - as_of) * holding
    ran = np.maximum(now - np.maximum(as_of, resumes_at), 0.0) * holding
    done = np.minimum(rate * ran, remaining)
    left = remaining - done
    trained = (left <= 0.0) & holding
    return left, done, held, ran, trained, bool(trained.any())


@compiled
def _projected_ends(
    as_of: Floats, resumes_at: Floats, rate: Floats, remaining: Floats, trained_at: Floats, end_s: Floats
) -> Floats:
    """When each row will have ended if nothing changes; infinite without devices."""
    runs = rate > 0
    seconds = np.where(runs, remaining / np.where(runs, rate, 1.0), np.inf)
    return np.where(np.isfinite(trained_at), trained_at, np.maximum(as_of, resumes_at) + seconds) + end_s


def _end_training(
    now: float, trained: Bools, trained_at: Floats, excess: Floats, rate: Floats, end_s: Floats
) -> EndedTraining:
    """Of the rows that have ``trained`` all they should.

    A job ends ``end_s`` after its last step. One that has not said so by then is taken to need ``OVERDUE_S`` longer.
    """
    fresh = trained & np.isinf(trained_at)
    trained_at = trained_at.copy()
    trained_at[fresh] = now - excess[fresh] / rate[fresh]
    overdue = trained & (now >= trained_at + end_s)
    trained_at[overdue] = np.inf
    return EndedTraining(trained_at, np.where(overdue, rate * OVERDUE_S, 0.0))
