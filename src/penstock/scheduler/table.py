"""The jobs of one kind of device as columns.

A policy reads whole columns, events touch single rows: so the rows live in NumPy matrices of which a column is one
contiguous line, and a job that leaves is replaced by the last row. Projection of progress is one vector operation.
"""

from typing import Any

import numpy as np

from penstock.core import Job, Overhead
from penstock.policies import PLAN_STEPS, Floats, Ints, Plans, Standing, View

_FLOATS = (
    "submitted", "deadline", "remaining", "requested_rate", "rate", "resumes_at", "as_of", "finish_at", "executed",
    "attained", "stint_since", "waited_before", "unsaved_s", "progressed", "corrected",
)  # fmt: skip
_INTS = ("standing", "sequence", "requested", "width", "depth", "hard")
_SHOWN = (
    "standing", "sequence", "submitted", "deadline", "remaining", "requested", "requested_rate", "width", "executed",
    "attained", "stint_since", "waited_before", "levels", "rates", "depth", "plan_at", "plan_width",
)  # fmt: skip

OVERDUE_S = 1.0
"""A job that should be done but has not said so is taken to need this much longer, again and again."""
LEAST_WORK = 1e-6
"""Iterations left of a job that reports none: it still has to end by itself."""


class JobTable:
    """Rows of unfinished jobs; see :class:`~penstock.policies.View` for the meaning of the shared columns.

    Beyond those: ``rate`` now, ``resumes_at`` the end of a pause, ``as_of`` the time ``remaining`` refers to,
    ``finish_at`` the projected end, ``unsaved_s`` run time since the last checkpoint, ``progressed`` and ``corrected``
    the two sides of the conservation of work.
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
        self.finish_at[row] = np.inf
        self.sequence[row] = sequence
        self.set_curve(row, job, capacity)
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
        self.depth[row] = len(levels)
        requested = min(max(job.requested, counts[0]), max(at_most, counts[0]))
        self.requested[row] = requested
        self.requested_rate[row] = job.curve.rate(requested, self.kind)

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
        done = np.minimum(self.rate[used] * ran, self.remaining[used])
        self.remaining[used] -= done
        self.progressed[used] += done
        overdue = np.where(holding & (self.remaining[used] <= 0.0), self.rate[used] * OVERDUE_S, 0.0)
        self.remaining[used] += overdue
        self.corrected[used] += overdue
        self.unsaved_s[used] += ran
        self.executed[used] += held
        self.attained[used] += held * width
        as_of[:] = now

    def project_row(self, row: int, now: float) -> None:
        """:meth:`project` for a single row."""
        if self.width[row]:
            held = now - self.as_of[row]
            ran = max(0.0, now - max(self.as_of[row], self.resumes_at[row]))
            done = min(self.rate[row] * ran, self.remaining[row])
            self.remaining[row] -= done
            self.progressed[row] += done
            if self.remaining[row] <= 0.0:
                self.remaining[row] = self.rate[row] * OVERDUE_S
                self.corrected[row] += self.remaining[row]
            self.unsaved_s[row] += ran
            self.executed[row] += held
            self.attained[row] += held * self.width[row]
        self.as_of[row] = now

    def forecast(self) -> None:
        """Recompute the projected end of every row."""
        used = slice(len(self.jobs))
        rate = self.rate[used]
        start = np.maximum(self.as_of[used], self.resumes_at[used])
        self.finish_at[used] = np.inf
        np.divide(self.remaining[used], rate, out=self.finish_at[used], where=rate > 0)
        self.finish_at[used] += start

    def view(self, now: float, capacity: int, slot: float, interval: float, overhead: Overhead) -> View:
        """A read-only picture for a policy."""
        used = slice(len(self.jobs))
        shown: dict[str, Any] = {name: column[used] for name, column in self._windows().items()}
        return View(
            now=now, capacity=capacity, slot=slot, interval=interval, overhead=overhead, jobs=self.jobs,
            hard=self.hard[used].astype(bool), **shown,
        )  # fmt: skip

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

    def reconnect(self) -> None:
        """Give the lines of the matrices their names; a copied table needs that too."""
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
        self.plan_at = np.concatenate([self.plan_at, np.full_like(self.plan_at, np.inf)])
        self.plan_width = np.concatenate([self.plan_width, np.zeros_like(self.plan_width)])
        self.reconnect()

    def _widen(self, count: int) -> None:
        extra = count - self.levels.shape[1]
        self.levels = np.concatenate([self.levels, np.repeat(self.levels[:, -1:], extra, axis=1)], axis=1)
        self.rates = np.concatenate([self.rates, np.repeat(self.rates[:, -1:], extra, axis=1)], axis=1)
        self._read_only = None
