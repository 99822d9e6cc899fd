"""The jobs of one kind of device as columns.

A policy reads whole columns, events touch single rows: so the rows live in NumPy matrices of which a column is one
contiguous line, and a job that leaves is replaced by the last row. Projection of progress is one vector operation.
"""

from typing import Any

import numpy as np

from penstock.core import Job, Overhead
from penstock.policies import PLAN_STEPS, Bools, Floats, Ints, Plans, Standing, View

_FLOATS = (
    "submitted", "deadline", "remaining", "requested_rate", "rate", "resumes_at", "as_of", "finish_at", "executed",
    "attained", "stint_since", "waited_before", "unsaved_s", "progressed", "corrected", "start_s", "resize_s", "end_s",
    "reserve_s", "trained_at",
)  # fmt: skip
_INTS = ("standing", "sequence", "requested", "width", "depth", "hard")
_SHOWN = (
    "standing", "sequence", "submitted", "deadline", "remaining", "requested", "requested_rate", "width", "executed",
    "attained", "stint_since", "waited_before", "levels", "rates", "doubts", "depth", "reserve_s", "plan_at",
    "plan_width",
)  # fmt: skip

OVERDUE_S = 1.0
"""A job that should be done but has not said so is taken to need this much longer, again and again."""
LEAST_WORK = 1e-6
"""Iterations left of a job that reports none: it still has to end by itself."""


class JobTable:
    """Rows of unfinished jobs; see :class:`~penstock.policies.View` for the meaning of the shared columns.

    Beyond those: ``rate`` now, ``resumes_at`` the end of a pause, ``as_of`` the time ``remaining`` refers to,
    ``finish_at`` the projected end, ``unsaved_s`` run time since the last checkpoint, ``progressed`` and ``corrected``
    the two sides of the conservation of work, ``end_s`` what follows the last step and ``trained_at`` when that was.
    """

    submitted: Floats
    deadline: Floats
    remaining: Floats
    requested_rate: Floats
    rate: Floats
    resumes_at: Floats
    as_of: Floats
    finish_at: Floats
    executed: Floats
    attained: Floats
    stint_since: Floats
    waited_before: Floats
    unsaved_s: Floats
    progressed: Floats
    corrected: Floats
    start_s: Floats
    resize_s: Floats
    end_s: Floats
    reserve_s: Floats
    trained_at: Floats
    standing: Ints
    sequence: Ints
    requested: Ints
    width: Ints
    depth: Ints
    hard: Ints

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.jobs: list[Job] = []
        self.row_of: dict[int, int] = {}
        self._floats: Floats = np.zeros((len(_FLOATS), 16))
        self._ints: Ints = np.zeros((len(_INTS), 16), dtype=np.int64)
        self.levels: Ints = np.ones((16, 1), dtype=np.int64)
        self.rates: Floats = np.ones((16, 1))
        self.doubts: Floats = np.zeros((16, 1))
        self.plan_at: Floats = np.full((16, PLAN_STEPS), np.inf)
        self.plan_width: Ints = np.zeros((16, PLAN_STEPS), dtype=np.int64)
        self._read_only: dict[str, Any] | None = None
        self.reconnect()

    def __len__(self) -> int:
        return len(self.jobs)

    def add(self, job: Job, sequence: int, now: float, capacity: int) -> int:
        """A new row for a job that just asked."""
        row = len(self.jobs)
        if row == self._floats.shape[1]:
            self._grow()
        self.jobs.append(job)
        self.row_of[sequence] = row
        self._floats[:, row] = 0.0
        self._ints[:, row] = 0
        self.forget_plan(row)
        self.submitted[row] = job.submitted_at
        self.deadline[row] = job.deadline
        self.hard[row] = job.hard
        self.remaining[row] = job.work.iterations
        self.as_of[row] = self.resumes_at[row] = self.stint_since[row] = now
        self.finish_at[row] = self.trained_at[row] = np.inf
        self.sequence[row] = sequence
        self.set_curve(row, job, capacity)
        self.set_costs(row, job)
        return row

    def set_curve(self, row: int, job: Job, capacity: int) -> None:
        """(Re)derive everything that follows from the job's curve and bounds."""
        self.jobs[row] = job
        at_most = capacity if job.at_most is None else min(job.at_most, capacity)
        levels = job.curve.levels(self.kind, job.at_least, max(at_most, job.at_least))
        if len(levels) > self.levels.shape[1]:
            self._widen(len(levels))
        counts, rates = [c for c, _ in levels], [r for _, r in levels]
        padding = self.levels.shape[1] - len(levels)
        self.levels[row] = counts + counts[-1:] * padding
        self.rates[row] = rates + rates[-1:] * padding
        doubts = [job.curve.doubt(count, self.kind) for count in counts]
        self.doubts[row] = doubts + doubts[-1:] * padding
        self.depth[row] = len(levels)
        requested = min(max(job.requested, counts[0]), max(at_most, counts[0]))
        self.requested[row] = requested
        self.requested_rate[row] = job.curve.rate(requested, self.kind)

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
            self.levels[row] = self.levels[last]
            self.rates[row] = self.rates[last]
            self.doubts[row] = self.doubts[last]
            self.plan_at[row] = self.plan_at[last]
            self.plan_width[row] = self.plan_width[last]
        self.jobs.pop()

    def project(self, now: float) -> None:
        """Bring every row's progress up to ``now``: one pass of vector arithmetic."""
        used = slice(len(self.jobs))
        width, as_of = self.width[used], self.as_of[used]
        holding = width > 0
        held = np.where(holding, now - as_of, 0.0)
        ran = np.where(holding, np.maximum(now - np.maximum(as_of, self.resumes_at[used]), 0.0), 0.0)
        able = self.rate[used] * ran
        done = np.minimum(able, self.remaining[used])
        self.remaining[used] -= done
        self.progressed[used] += done
        self._note_end(used, now, holding & (self.remaining[used] <= 0.0), able - done)
        self.unsaved_s[used] += ran
        self.executed[used] += held
        self.attained[used] += held * width
        as_of[:] = now

    def _note_end(self, used: slice, now: float, trained: Bools, excess: Floats) -> None:
        """Those that are through with their work end some seconds later; who should have ended needs longer."""
        if not trained.any():
            return
        trained_at, rate = self.trained_at[used], self.rate[used]
        fresh = trained & np.isinf(trained_at)
        trained_at[fresh] = now - excess[fresh] / rate[fresh]
        overdue = trained & (now >= trained_at + self.end_s[used])
        trained_at[overdue] = np.inf
        more = np.where(overdue, rate * OVERDUE_S, 0.0)
        self.remaining[used] += more
        self.corrected[used] += more

    def project_row(self, row: int, now: float) -> None:
        """:meth:`project` for a single row."""
        if self.width[row]:
            held = now - self.as_of[row]
            ran = max(0.0, now - max(self.as_of[row], self.resumes_at[row]))
            able = self.rate[row] * ran
            done = min(able, self.remaining[row])
            self.remaining[row] -= done
            self.progressed[row] += done
            one = slice(row, row + 1)
            self._note_end(one, now, self.remaining[one] <= 0.0, np.array([able - done]))
            self.unsaved_s[row] += ran
            self.executed[row] += held
            self.attained[row] += held * self.width[row]
        self.as_of[row] = now

    def remaining_at(self, row: int, now: float) -> float:
        """Iterations left at ``now``; nothing is changed."""
        ran = max(0.0, now - max(float(self.as_of[row]), float(self.resumes_at[row])))
        return max(0.0, float(self.remaining[row] - (self.rate[row] * ran if self.width[row] else 0.0)))

    def forecast(self) -> None:
        """Recompute the projected end of every row."""
        used = slice(len(self.jobs))
        rate, trained_at = self.rate[used], self.trained_at[used]
        start = np.maximum(self.as_of[used], self.resumes_at[used])
        self.finish_at[used] = np.inf
        np.divide(self.remaining[used], rate, out=self.finish_at[used], where=rate > 0)
        self.finish_at[used] += start
        np.copyto(self.finish_at[used], trained_at, where=np.isfinite(trained_at))
        self.finish_at[used] += self.end_s[used]

    def view(self, now: float, capacity: int, slot: float, interval: float, overhead: Overhead) -> View:
        """A read-only picture for a policy."""
        used = slice(len(self.jobs))
        shown: dict[str, Any] = {name: column[used] for name, column in self._windows().items()}
        return View(
            now=now, capacity=capacity, slot=slot, interval=interval, overhead=overhead, jobs=self.jobs,
            hard=self.hard[used].astype(bool), start_s=self.start_s[used] + self.end_s[used],
            resize_s=self.change_s(now), still_s=self._still(used, now), **shown,
        )  # fmt: skip

    def change_s(self, now: float) -> Floats:
        """Seconds each row loses if its devices change now: one that has not begun to train has to start once more."""
        used = slice(len(self.jobs))
        starting = (self.width[used] > 0) & (self.resumes_at[used] > now)
        return np.where(starting, np.maximum(self.start_s[used], self.resize_s[used]), self.resize_s[used])

    def _still(self, used: slice, now: float) -> Floats:
        """Seconds that whoever holds devices is going to spend on them without progress."""
        trained_at = self.trained_at[used]
        passed = np.where(np.isfinite(trained_at), now - trained_at, 0.0)
        pause = np.maximum(self.resumes_at[used] - now, 0.0)
        return np.where(self.width[used] > 0, pause + np.maximum(self.end_s[used] - passed, 0.0), 0.0)

    def forget_plan(self, row: int) -> None:
        """What was laid out for this row no longer makes sense."""
        self.plan_at[row] = np.inf
        self.plan_width[row] = 0

    def keep(self, plans: Plans) -> None:
        """Remember what the policy laid out."""
        self.plan_at[: len(self.jobs)] = plans.at
        self.plan_width[: len(self.jobs)] = plans.width

    def _windows(self) -> dict[str, Any]:
        """Read-only windows on whole columns, made anew only when the columns have moved."""
        if self._read_only is None:
            self._read_only = {name: getattr(self, name).view() for name in _SHOWN}
            for window in self._read_only.values():
                window.flags.writeable = False
        return self._read_only

    def undecided(self) -> Ints:
        """Rows that still wait for an answer, in order of arrival."""
        rows = np.flatnonzero(self.standing[: len(self.jobs)] <= Standing.DEFERRED)
        return rows[np.argsort(self.sequence[rows], kind="stable")]

    def copy(self) -> "JobTable":
        """An independent table; the jobs themselves never change and are shared."""
        other = JobTable.__new__(JobTable)
        other.kind, other.jobs, other.row_of = self.kind, self.jobs.copy(), self.row_of.copy()
        other._floats, other._ints = self._floats.copy(), self._ints.copy()
        other.levels, other.rates, other.doubts = self.levels.copy(), self.rates.copy(), self.doubts.copy()
        other.plan_at, other.plan_width = self.plan_at.copy(), self.plan_width.copy()
        other.reconnect()
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Without the names: they are windows on the matrices, and would become copies."""
        names = {*_FLOATS, *_INTS, "_read_only"}
        return {name: value for name, value in self.__dict__.items() if name not in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.reconnect()

    def reconnect(self) -> None:
        """Give the lines of the matrices their names."""
        for name, column in zip(_FLOATS, self._floats, strict=True):
            setattr(self, name, column)
        for name, ints in zip(_INTS, self._ints, strict=True):
            setattr(self, name, ints)
        self._read_only = None

    def _grow(self) -> None:
        self._floats = np.concatenate([self._floats, np.zeros_like(self._floats)], axis=1)
        self._ints = np.concatenate([self._ints, np.zeros_like(self._ints)], axis=1)
        self.levels = np.concatenate([self.levels, np.ones_like(self.levels)])
        self.rates = np.concatenate([self.rates, np.ones_like(self.rates)])
        self.doubts = np.concatenate([self.doubts, np.zeros_like(self.doubts)])
        self.plan_at = np.concatenate([self.plan_at, np.full_like(self.plan_at, np.inf)])
        self.plan_width = np.concatenate([self.plan_width, np.zeros_like(self.plan_width)])
        self.reconnect()

    def _widen(self, count: int) -> None:
        extra = count - self.levels.shape[1]
        self.levels = np.concatenate([self.levels, np.repeat(self.levels[:, -1:], extra, axis=1)], axis=1)
        self.rates = np.concatenate([self.rates, np.repeat(self.rates[:, -1:], extra, axis=1)], axis=1)
        self.doubts = np.concatenate([self.doubts, np.repeat(self.doubts[:, -1:], extra, axis=1)], axis=1)
        self._read_only = None
