"""The virtual world: arrivals and faults, jobs that run as projected or as they really do, and what became of them."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from penstock.core import (
    Cluster,
    Event,
    Job,
    JobCancelled,
    JobFinished,
    JobSubmitted,
    NodeJoined,
    NodeLost,
    WorkerFailed,
)
from penstock.placement import Placement
from penstock.policies import AnyPolicy
from penstock.scheduler import CostModel, ExpectedCosts, Scheduler
from penstock.simulate.forward import play_forward
from penstock.simulate.ledger import Ledger
from penstock.simulate.metrics import Effort, Summary, summarise
from penstock.simulate.outcomes import JobOutcome
from penstock.simulate.overhead import Metered
from penstock.simulate.stopping_jobs import StoppingJobs
from penstock.simulate.timeline import Timeline
from penstock.simulate.true_progress import TrueProgress
from penstock.simulate.uncertainty import Uncertainty

_PROGRESS_EVERY = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A finished simulation."""

    summary: Summary
    outcomes: list[JobOutcome]
    timeline: Timeline | None


def simulate(
    jobs: Iterable[Job],
    cluster: Cluster,
    policy: AnyPolicy,
    *,
    slot: float = 60.0,
    costs: CostModel | None = None,
    placement: Placement | None = None,
    faults: Iterable[Event] = (),
    failures: Iterable[Event] = (),
    uncertainty: Uncertainty | None = None,
    stopping: StoppingJobs | None = None,
    timeline: bool = False,
    validate: bool = False,
    on_progress: Callable[[int], None] | None = None,
) -> Result:
    """Run ``jobs`` (in order of submission) under ``policy`` on ``cluster``.

    ``faults`` are further events in order of time (node losses, worker failures, cancellations), all of which happen;
    ``failures`` are node losses and returns that may go on without end and happen while there are jobs. With an
    ``uncertainty`` the scheduler is told of jobs with doubts and they run at their own speed, else as projected.
    With ``stopping`` some of them end when their metric says so.
    ``validate`` checks all invariants after every decision; ``on_progress`` is called now and then with the number of
    jobs that are over.
    """
    metered = Metered(costs or ExpectedCosts())
    scheduler = Scheduler(cluster, policy, placement=placement, slot=slot, costs=metered, stories=False)
    drawing = Timeline() if timeline else None
    if uncertainty is not None:
        jobs = map(uncertainty.believed, jobs)
    if stopping is not None:
        jobs = map(stopping.believed, jobs)
    truth = _truth(scheduler, uncertainty, stopping)
    undone = stopping.undone if stopping is not None else _nothing
    world = _World(scheduler, Ledger(cluster.device_count, drawing), jobs, faults, failures, truth, undone)
    cpu = time.process_time()
    world.run(validate, on_progress)
    cpu = time.process_time() - cpu
    outcomes = world.ledger.close(scheduler.now)
    effort = Effort(
        device_count=cluster.device_count, device_seconds=world.ledger.device_seconds,
        paused_device_seconds=metered.device_seconds, fragmentation=world.mean_fragmentation(),
        decision_s=world.decision_s, cpu_s=cpu, ended_at=scheduler.now, tenants=scheduler.tenants(),
    )  # fmt: skip
    return Result(summary=summarise(policy.name, outcomes, effort), outcomes=outcomes, timeline=drawing)


def _truth(scheduler: Scheduler, uncertainty: Uncertainty | None, stopping: StoppingJobs | None) -> TrueProgress | None:
    """What jobs really do, where that is not what the scheduler believes."""
    wrong = uncertainty is not None and uncertainty.wrong_by > 0
    if not wrong and stopping is None:
        return None
    every = min(each.report_every_s for each in (uncertainty, stopping) if each is not None)
    speed = cache(uncertainty.speed) if uncertainty is not None and wrong else _as_believed
    return TrueProgress(scheduler, speed, every, stopping.outlook if stopping is not None else None)


def _as_believed(_job_id: str) -> float:
    return 1.0


def _nothing(_job: Job) -> float:
    return 0.0


class _World:
    """Feeds one scheduler from arrivals, ends, faults and, where it is wrong about speeds, reports."""

    def __init__(
        self,
        scheduler: Scheduler,
        ledger: Ledger,
        jobs: Iterable[Job],
        faults: Iterable[Event],
        failures: Iterable[Event],
        truth: TrueProgress | None,
        undone: Callable[[Job], float],
    ) -> None:
        self.scheduler = scheduler
        self.ledger = ledger
        self.decision_s: list[float] = []
        self._arrivals = _Queue(JobSubmitted(job.submitted_at, job) for job in jobs)
        self._faults = _Queue(iter(faults))
        self._failures = _Queue(iter(failures))
        self._truth = truth
        self._undone = undone
        self._down = 0
        self._fragmentation = 0.0
        self._observed_s = 0.0

    def run(self, validate: bool, on_progress: Callable[[int], None] | None) -> None:
        for number, step in enumerate(play_forward(self.scheduler, self, ends=self._truth), 1):
            self.decision_s.append(step.decision_s)
            self.ledger.carry_out(step.instructions, step.at)
            if self._truth is not None:
                self._truth.follow(step.at, step.instructions)
            if validate:
                self.scheduler.validate()
            if on_progress is not None and number % _PROGRESS_EVERY == 0:
                on_progress(len(self.ledger.closed))

    def mean_fragmentation(self) -> float:
        return self._fragmentation / self._observed_s if self._observed_s else math.nan

    @property
    def next_at(self) -> float:
        report_at = math.inf if self._truth is None else self._truth.next_report_at
        return min(self._arrivals.at, self._faults.at, self._next_failure_at, report_at)

    @property
    def stop_at(self) -> float:
        """The clock stops at every fault, so ends before it are certain."""
        return min(self._faults.at, self._next_failure_at)

    @property
    def _next_failure_at(self) -> float:
        """Failures matter as long as somebody comes, runs, or waits for a node to be repaired."""
        if math.isinf(self._failures.at):
            return math.inf
        waited_for = self._down and self.scheduler.active_count()
        matter = waited_for or self.scheduler.devices_held() or math.isfinite(self._arrivals.at)
        return self._failures.at if matter else math.inf

    def until(self, at: float, finished: Sequence[JobFinished]) -> Sequence[Event]:
        """Everything that happens by then, in order; at equal times ends come first."""
        events: list[Event] = list(finished)
        misfortunes = self._misfortunes(at)
        events.extend(misfortunes)
        if self._truth is not None:
            self._truth.expect_losses(at) if misfortunes else events.extend(self._truth.reports(at))
        events.extend(self._arrivals.pop_until(at))
        if len(events) > 1:
            events.sort(key=_when)
        for event in events:
            if isinstance(event, JobFinished):
                self._finish(event)
            elif isinstance(event, JobSubmitted):
                self._submit(event.job)
        self._observe(at)
        return events

    def _finish(self, event: JobFinished) -> None:
        deserved_s = self.scheduler.deserved(event.job_id, event.at)
        self.ledger.finished(event.job_id, event.at, deserved_s, self.scheduler.breach(event.job_id, event.at))
        if self._truth is not None:
            self._truth.over(event.job_id)

    def _submit(self, job: Job) -> None:
        self.ledger.submitted(job, self._alone_s(job))
        if self._truth is not None:
            self._truth.submitted(job, self._undone(job))

    def _misfortunes(self, at: float) -> list[Event]:
        found = [fault for fault in self._faults.pop_until(at) if self._can_happen(fault)]
        if self._next_failure_at <= at:
            failures = self._failures.pop_until(at)
            self._down += sum(isinstance(event, NodeLost) - isinstance(event, NodeJoined) for event in failures)
            found.extend(failures)
        return found

    def _can_happen(self, fault: Event) -> bool:
        """Misfortune for a job that is gone, or holds nothing that could fail, does not happen."""
        if isinstance(fault, WorkerFailed):
            return self.scheduler.is_active(fault.job_id) and bool(self.scheduler.devices_of(fault.job_id))
        return not isinstance(fault, JobCancelled) or self.scheduler.is_active(fault.job_id)

    def _alone_s(self, job: Job) -> float:
        """Run time on what it asked for, as far as the cluster has that."""
        kind = self.scheduler.kind_for(job) or self.scheduler.cluster.kinds[0]
        least = job.curve.levels(kind)
        width = min(job.requested, self.scheduler.cluster.capacity(kind))
        return job.seconds_on(max(width, least[0][0] if least else 1), kind)

    def _observe(self, until: float) -> None:
        lasted = until - self.scheduler.now
        if math.isfinite(lasted) and lasted > 0 and self.scheduler.devices_held():
            self._fragmentation += self.scheduler.fragmentation() * lasted
            self._observed_s += lasted


def _when(event: Event) -> float:
    return event.at


class _Queue:
    """Events in order of time, of which the next one is visible."""

    def __init__(self, events: Iterator[Event]) -> None:
        self._events = events
        self._next = next(events, None)

    @property
    def at(self) -> float:
        return self._next.at if self._next is not None else math.inf

    def pop_until(self, until: float) -> list[Event]:
        popped = []
        while self._next is not None and self._next.at <= until:
            popped.append(self._next)
            self._next = next(self._events, None)
        return popped
