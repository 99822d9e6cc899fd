"""The virtual world: arrivals and faults, jobs that run as projected or as they really do, and what became of them."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from penstock.core import (
    Cluster,
    DeviceLost,
    Event,
    EventError,
    Instruction,
    Job,
    JobAmended,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobPaused,
    JobResumed,
    JobSubmitted,
    NodeChanged,
    NodeJoined,
    NodeLost,
    Resize,
    Suspend,
    WorkerFailed,
)
from penstock.placement import Placement
from penstock.policies import AnyPolicy
from penstock.scheduler import UNEXPLAINED_BREACH, CostModel, ExpectedCosts, RateModel, Scheduler
from penstock.simulate.decision_log import DecisionLog
from penstock.simulate.forward import play_forward
from penstock.simulate.ledger import Ledger
from penstock.simulate.metrics import Effort, Summary, summarise
from penstock.simulate.outcomes import JobOutcome
from penstock.simulate.overhead import Metered
from penstock.simulate.run_fairness import RunFairness, TenantOutcome
from penstock.simulate.stopping_jobs import StoppingJobs
from penstock.simulate.timeline import Timeline
from penstock.simulate.true_progress import TrueProgress
from penstock.simulate.uncertainty import Uncertainty

_PROGRESS_EVERY = 256
_ROUNDING = 1e-9
_OF_USERS = (JobCancelled, JobPaused, JobResumed, JobAmended, JobFailed, WorkerFailed)
"""What happens to one job; to a job that is not in the state for it, it does not happen."""
_STOPPING = (NodeLost, NodeChanged, DeviceLost, WorkerFailed, JobPaused, JobAmended)
"""What may take the devices of jobs without a decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A finished simulation."""

    summary: Summary
    outcomes: list[JobOutcome]
    timeline: Timeline | None
    tenants: list[TenantOutcome] = field(default_factory=list)
    """What each tenant used and deserved while there were several; none where there was one."""
    decisions: list[dict[str, Any]] = field(default_factory=list)
    """One plain dictionary per decision, where they were asked for."""
    cluster: Cluster | None = None
    """As it was in the end, with the nodes that joined."""
    passed_over: int = 0
    """Events about single jobs that did not happen, since the job was over or not in the state for it."""


def simulate(
    jobs: Iterable[Job],
    cluster: Cluster,
    policy: AnyPolicy,
    *,
    slot: float = 60.0,
    costs: CostModel | None = None,
    rates: RateModel | None = None,
    placement: Placement | None = None,
    faults: Iterable[Event] = (),
    failures: Iterable[Event] = (),
    uncertainty: Uncertainty | None = None,
    stopping: StoppingJobs | None = None,
    timeline: bool = False,
    decisions: bool = False,
    validate: bool = False,
    on_progress: Callable[[int], None] | None = None,
) -> Result:
    """Run ``jobs`` (in order of submission) under ``policy`` on ``cluster``.

    ``faults`` are further events in order of time: node losses, leases, drains, worker failures, and what users do to
    jobs (pauses, edits, cancellations), as :meth:`TraceEvents.bind` gives them. All of them happen, except those about
    a job that is over by then. ``failures`` are node losses and returns that may go on without end and happen while
    there are jobs. With an ``uncertainty`` the scheduler is told of jobs with doubts and they run at their own speed,
    else as projected. With ``stopping`` some of them end when their metric says so. ``rates`` says how fast jobs run
    where they are placed. With ``decisions`` the result has every decision, and who got the devices of suspended jobs.
    ``validate`` checks all invariants after every decision; ``on_progress`` is called now and then with the number of
    jobs that are over.
    """
    metered = Metered(costs or ExpectedCosts())
    scheduler = Scheduler(
        cluster, policy, placement=placement, slot=slot, costs=metered, rates=rates, stories=decisions
    )  # fmt: skip
    drawing = Timeline() if timeline else None
    if uncertainty is not None:
        jobs = map(uncertainty.believed, jobs)
    if stopping is not None:
        jobs = map(stopping.believed, jobs)
    truth = _truth(scheduler, uncertainty, stopping)
    undone = stopping.undone if stopping is not None else _nothing
    log = DecisionLog() if decisions else None
    world = _World(scheduler, Ledger(cluster.device_count, drawing), jobs, faults, failures, truth, undone, log,
                   by_placement=rates is not None)  # fmt: skip
    cpu = time.process_time()
    world.run(validate, on_progress)
    cpu = time.process_time() - cpu
    settled = world.ledger.is_settled
    left_at = world.ledger.left_at if settled else scheduler.now
    outcomes = world.ledger.close(scheduler.now)
    tenants = world.fairness.outcomes(scheduler)
    effort = Effort(
        device_count=cluster.device_count, device_seconds=world.ledger.device_seconds,
        paused_device_seconds=metered.device_seconds, fragmentation=world.mean_fragmentation(),
        decision_s=world.decision_s, cpu_s=cpu, ended_at=left_at, tenants=scheduler.tenants(),
        available_s=world.available.total(up_to_last_end=settled), run_tenants=tenants,
    )  # fmt: skip
    return Result(
        summary=summarise(policy.name, outcomes, effort), outcomes=outcomes, timeline=drawing, tenants=tenants,
        decisions=log.entries if log else [], cluster=scheduler.cluster, passed_over=world.passed_over,
    )  # fmt: skip


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
        log: DecisionLog | None,
        *,
        by_placement: bool,
    ) -> None:
        self.scheduler = scheduler
        self.ledger = ledger
        self.decision_s: list[float] = []
        self.fairness = RunFairness()
        self.passed_over = 0
        self._log = log
        self._slow: set[str] | None = set() if by_placement else None
        """Jobs that have run slower than their curves say because of where they were placed."""
        self._applying_s = 0.0
        self._events: Sequence[Event] = ()
        self._unresumable: dict[str, float] = {}
        """Jobs that begin again when their devices change, with what was left of them before the decision."""
        self._fragile: set[str] = set()
        self.available = _Available(scheduler.cluster.device_count)
        self._changes_nodes = False
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
            self.decision_s.append(step.decision_s + self._applying_s)
            if self._log is not None:
                self._log.add(step, self._events, self.ledger)
            if self._unresumable:
                self._count_begun_again(step.instructions)
            self.ledger.carry_out(step.instructions, step.at)
            if self._slow is not None:
                self._note_slow(self._slow)
            if self.ledger.is_settled:
                self.available.ended()
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
        """Everything that happens by then, taken in in order; at equal times ends come first, users last."""
        events: list[Event] = list(finished)
        misfortunes = self._misfortunes(at)
        events.extend(misfortunes)
        if self._truth is not None:
            self._truth.expect_losses(at) if misfortunes else events.extend(self._truth.reports(at))
        events.extend(self._arrivals.pop_until(at))
        if len(events) > 1:
            events.sort(key=_when)
        self._observe(at)
        started = time.perf_counter()
        for event in events:
            self._take_in(event)
        self._applying_s = time.perf_counter() - started
        self._events = events
        if self._fragile:
            left = self.scheduler.remaining
            self._unresumable = {job_id: left(job_id, at) for job_id in self._fragile if self.ledger.grant_of(job_id)}
        return ()

    def _take_in(self, event: Event) -> None:
        """One event, by the books first where the scheduler forgets what the books need."""
        self.fairness.count_until(event.at, self.scheduler)
        self.available.count_until(event.at)
        if isinstance(event, JobFinished):
            self._finish(event)
        elif isinstance(event, JobSubmitted):
            self._submit(event.job)
        running = self._running(event) if isinstance(event, _STOPPING) else ()
        try:
            self.scheduler.apply(event)
        except EventError:
            if not isinstance(event, _OF_USERS):
                raise
            self.passed_over += 1
            return
        if self._changes_nodes and isinstance(event, NodeLost | NodeJoined | NodeChanged):
            self.available.changed(self.scheduler)
        for job_id, left, rate in running:
            self._count_stopped(event, job_id, left, rate)
        if isinstance(event, JobPaused | JobResumed | JobAmended):
            self._ask_again(event)

    def _running(self, event: Event) -> Sequence[tuple[str, float, float]]:
        """Jobs that hold devices and may lose them by an event: what is left of them, and how fast they are."""
        ask = self.scheduler
        jobs = [event.job_id] if isinstance(event, WorkerFailed | JobPaused | JobAmended) else self._holders(event)
        return [
            (job_id, ask.remaining(job_id, event.at), ask.rate_of(job_id))
            for job_id in jobs
            if self.ledger.grant_of(job_id) and ask.is_active(job_id) and ask.devices_of(job_id)
        ]

    def _holders(self, event: Event) -> list[str]:
        """The jobs with devices on the node that an event is about."""
        cluster = self.scheduler.cluster
        name = event.node.name if isinstance(event, NodeChanged) else getattr(event, "node", "")
        position = cluster.position(name)
        return self.ledger.holders(cluster.devices_of(position)) if position is not None else []

    def _count_stopped(self, event: Event, job_id: str, left: float, rate: float) -> None:
        if self.scheduler.devices_of(job_id):
            return
        self.ledger.stopped(job_id, paused=isinstance(event, JobPaused | JobAmended))
        self._count_lost(job_id, self.scheduler.remaining(job_id) - left, rate)

    def _count_begun_again(self, instructions: Sequence[Instruction]) -> None:
        """What jobs lost that cannot resume and were suspended or got other devices."""
        for each in instructions:
            if isinstance(each, Suspend | Resize):
                job_id = each.job_id if isinstance(each, Suspend) else each.grant.job_id
                before = self._unresumable.get(job_id)
                if before is not None and self.scheduler.is_active(job_id):
                    grant, job = self.ledger.grant_of(job_id), self.scheduler.job(job_id)
                    rate = job.curve.rate(grant.width, grant.kind, grant.nodes) if grant is not None else 0.0
                    self._count_lost(job_id, self.scheduler.remaining(job_id) - before, rate)

    def _count_lost(self, job_id: str, iterations: float, rate: float) -> None:
        if iterations > 0 and rate > 0 and (grant := self.ledger.grant_of(job_id)) is not None:
            self.ledger.lost(job_id, iterations / rate * grant.width)

    def _ask_again(self, event: JobPaused | JobResumed | JobAmended) -> None:
        if isinstance(event, JobAmended):
            if event.amendment.asks_again:
                self.ledger.asks_again(event.job_id, event.amendment.goal)
        else:
            self.ledger.asks_again(event.job_id, event.goal if isinstance(event, JobResumed) else None)

    def _finish(self, event: JobFinished) -> None:
        deserved_s = self.scheduler.deserved(event.job_id, event.at)
        self.ledger.finished(event.job_id, event.at, deserved_s, self._breach(event))
        self._fragile.discard(event.job_id)
        if self._truth is not None:
            self._truth.over(event.job_id)

    def _breach(self, event: JobFinished) -> str:
        """Return why a promise is broken by an end, as far as scheduler and world know; empty if none is."""
        breach = self.scheduler.breach(event.job_id, event.at)
        if breach != UNEXPLAINED_BREACH:
            return breach
        if self._truth is not None and self._truth.is_slow(event.job_id):
            return "it ran slower than its curve says"
        return "it ran slower where it was placed than its curve says" if event.job_id in (self._slow or ()) else breach

    def _note_slow(self, slow: set[str]) -> None:
        for job_id, grant in self.ledger.grants():
            rate = self.scheduler.job(job_id).curve.rate(grant.width, grant.kind)
            if self.scheduler.rate_of(job_id) < rate * (1 - _ROUNDING):
                slow.add(job_id)

    def _submit(self, job: Job) -> None:
        self.ledger.submitted(job, self._alone_s(job))
        self.fairness.know(job.tenant)
        if not job.resumable:
            self._fragile.add(job.id)
        if self._truth is not None:
            self._truth.submitted(job, self._undone(job))

    def _misfortunes(self, at: float) -> list[Event]:
        found = self._faults.pop_until(at)
        self._changes_nodes |= any(isinstance(event, NodeLost | NodeJoined | NodeChanged) for event in found)
        if self._next_failure_at <= at:
            failures = self._failures.pop_until(at)
            self._down += sum(isinstance(event, NodeLost) - isinstance(event, NodeJoined) for event in failures)
            found.extend(failures)
        return found

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


def _when(event: Event) -> tuple[float, int]:
    rank = 3 if isinstance(event, _OF_USERS) else 2 if isinstance(event, JobSubmitted) else 1
    return event.at, 0 if isinstance(event, JobFinished) else rank


class _Available:
    """Device-seconds there were since the first submission, where nodes join and leave by what the trace says."""

    def __init__(self, devices: int) -> None:
        self._devices = devices
        self._as_of = math.nan
        self._total = self._at_last_end = 0.0
        self._is_changing = False

    def count_until(self, at: float) -> None:
        if at > self._as_of:
            self._total += self._devices * (at - self._as_of)
        self._as_of = at if at > self._as_of or math.isnan(self._as_of) else self._as_of

    def ended(self) -> None:
        """No job is left at the moment counted up to."""
        self._at_last_end = self._total

    def changed(self, scheduler: Scheduler) -> None:
        """Nodes came or went."""
        self._devices = sum(scheduler.capacity(kind) for kind in scheduler.cluster.kinds)
        self._is_changing = True

    def total(self, *, up_to_last_end: bool) -> float:
        """NaN where the cluster stayed as it was, but for failures."""
        return (self._at_last_end if up_to_last_end else self._total) if self._is_changing else math.nan


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
