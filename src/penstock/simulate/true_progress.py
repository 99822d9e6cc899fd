"""What jobs really do where the scheduler's curves are wrong: true rates, true ends, and reports of what is left.

The scheduler keeps its own books by the curves it believes. This module keeps the true ones beside them: a job's true
rate is the believed one times the job's speed, pauses are as the scheduler charged them, and work that a failure costs
is the work that was really done since the last checkpoint.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from penstock.core import (
    Decline,
    Instruction,
    Job,
    Outlook,
    OutlookChanged,
    Progress,
    Resize,
    Resume,
    Start,
    Stop,
    Suspend,
)
from penstock.scheduler import Scheduler

_SAME = 1e-9
"""Iterations, as a share of a job's work, below which a report would tell nothing."""
_LEAST_LEFT = 0.02
"""Of the work that may be left, what is believed to be left of a job that its metric should have ended by now."""


@dataclass(slots=True)
class _TrueRun:
    """One job: iterations left at ``as_of``, and how fast they go from ``resumes_at`` on.

    Of those left it never does the ``undone`` ones: it fails before, or its metric says that it is enough.
    """

    work: float
    undone: float
    end_s: float
    remaining: float
    as_of: float
    speed: float = 1.0
    rate: float = 0.0
    resumes_at: float = -math.inf
    outlook: Outlook | None = None

    @property
    def finish_at(self) -> float:
        if not self.rate:
            return math.inf
        left = max(0.0, self.remaining - self.undone)
        return max(self.as_of, self.resumes_at) + left / self.rate + self.end_s

    def remaining_at(self, at: float) -> float:
        return max(0.0, self.remaining - self.rate * max(0.0, at - max(self.as_of, self.resumes_at)))

    def advance(self, at: float) -> None:
        self.remaining, self.as_of = self.remaining_at(at), at


class TrueProgress:
    """The ends of jobs as they come, and the reports that tell the scheduler how far it is off. O(running) per step.

    ``speed_of`` says how many times as fast as believed a job runs on what it holds now, ``outlook_of`` what its metric
    tells once so many iterations are done.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        speed_of: Callable[[str], float],
        report_every_s: float,
        outlook_of: Callable[[Job, float], Outlook | None] | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._speed_of = speed_of
        self._outlook_of = outlook_of
        self._report_every_s = report_every_s
        self._runs: dict[str, _TrueRun] = {}
        self._unreported: set[str] = set()
        """Jobs that run, or ran since the last report."""
        self._before: dict[str, float] = {}
        self._report_at = -math.inf

    def submitted(self, job: Job, undone: float = 0.0) -> None:
        """A job is there; one that will fail for good leaves the ``undone`` iterations."""
        work = job.work.iterations
        end_s = 0.0 if undone else job.costs.end.likely
        self._runs[job.id] = _TrueRun(work, undone, end_s, work, job.submitted_at)

    def over(self, job_id: str) -> None:
        """The job is done, declined or stopped."""
        self._runs.pop(job_id, None)
        self._unreported.discard(job_id)

    def is_slow(self, job_id: str) -> bool:
        """Whether a job runs slower than its curve says."""
        return self._runs[job_id].speed < 1.0

    def next_finish_at(self) -> float:
        return min((self._runs[job_id].finish_at for job_id in self._running()), default=math.inf)

    def finishing_by(self, at: float) -> list[tuple[float, str]]:
        ends = ((self._runs[job_id].finish_at, job_id) for job_id in self._running())
        return sorted(end for end in ends if end[0] <= at)

    @property
    def next_report_at(self) -> float:
        return self._report_at if self._unreported else math.inf

    def reports(self, at: float) -> Sequence[Progress | OutlookChanged]:
        """What jobs that are not over by then tell about themselves at the last report time up to ``at``."""
        every = self._report_every_s
        if self.next_report_at > at:
            return ()
        told_at = max(math.floor(at / every) * every, self._scheduler.now)
        self._report_at = told_at + every
        found: list[Progress | OutlookChanged] = []
        for job_id in sorted(self._unreported):
            run = self._runs[job_id]
            if run.finish_at <= told_at or run.resumes_at > told_at:
                continue
            left = run.remaining_at(told_at)
            if (foreseen := self._foreseen(job_id, run, left, told_at)) is not None:
                found.append(foreseen)
            elif abs(left - self._scheduler.remaining(job_id, told_at)) > _SAME * run.work:
                found.append(Progress(told_at, job_id, left))
            if not run.rate:
                self._unreported.discard(job_id)
        return found

    def _foreseen(self, job_id: str, run: _TrueRun, left: float, at: float) -> OutlookChanged | None:
        """What the metric of a job says is left of it, as far as it says anything."""
        if self._outlook_of is None:
            return None
        done = run.work - left
        run.outlook = self._outlook_of(self._scheduler.job(job_id), done) or run.outlook
        if run.outlook is None:
            return None
        remaining = max(run.outlook.expected - done, _LEAST_LEFT * left)
        allowance = max(run.outlook.safe - done - remaining, 0.0)
        return OutlookChanged(at, job_id, remaining, allowance, run.outlook.reach)

    def expect_losses(self, at: float) -> None:
        """Something fails: remember what is believed to be left of everybody, to see afterwards what was lost."""
        self._before = {job_id: self._scheduler.remaining(job_id, at) for job_id in self._running()}

    def follow(self, at: float, instructions: Iterable[Instruction]) -> None:
        """After a decision: everybody runs as fast as it may on what it now holds."""
        touched = set()
        for each in instructions:
            if isinstance(each, Stop | Decline):
                self.over(each.job_id if isinstance(each, Stop) else each.quote.job_id)
            elif isinstance(each, Suspend):
                touched.add(each.job_id)
            elif isinstance(each, Start | Resume | Resize):
                touched.add(each.grant.job_id)
        for job_id, before in self._before.items():
            if job_id in self._runs and (lost := self._scheduler.remaining(job_id) - before) > 0:
                run = self._runs[job_id]
                run.advance(at)
                run.remaining = min(run.remaining + lost * run.speed, run.work)
        self._before = {}
        for job_id in self._runs.keys() & touched.union(self._running()):
            self._adopt(job_id, self._runs[job_id], at)

    def _adopt(self, job_id: str, run: _TrueRun, at: float) -> None:
        if believed := self._scheduler.rate_of(job_id):
            run.speed = self._speed_of(job_id)
        rate = run.speed * believed
        resumes_at = self._scheduler.pause_ends_at(job_id)
        if (rate, resumes_at) == (run.rate, run.resumes_at):
            return
        run.advance(at)
        run.rate, run.resumes_at = rate, resumes_at
        if not self._unreported:
            every = self._report_every_s
            self._report_at = (math.floor(at / every) + 1) * every
        self._unreported.add(job_id)

    def _running(self) -> list[str]:
        return [job_id for job_id in self._unreported if self._runs[job_id].rate]
