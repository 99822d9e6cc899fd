"""The virtual world: arrivals and faults from a trace, jobs that run exactly as projected, and what became of them."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from penstock.core import Cluster, Event, Job, JobCancelled, JobFinished, JobSubmitted, WorkerFailed
from penstock.placement import Placement
from penstock.policies import AnyPolicy
from penstock.scheduler import CostModel, ExpectedCosts, Scheduler
from penstock.simulate.forward import play_forward
from penstock.simulate.ledger import Ledger
from penstock.simulate.metrics import Effort, Summary, summarise
from penstock.simulate.outcomes import JobOutcome
from penstock.simulate.overhead import Metered
from penstock.simulate.timeline import Timeline

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
    timeline: bool = False,
    validate: bool = False,
    on_progress: Callable[[int], None] | None = None,
) -> Result:
    """Run ``jobs`` (in order of submission) under ``policy`` on ``cluster``.

    ``faults`` are further events in order of time (node losses, worker failures, cancellations); ``validate`` checks
    all invariants after every decision; ``on_progress`` is called now and then with the number of jobs that are over.
    """
    metered = Metered(costs or ExpectedCosts())
    scheduler = Scheduler(cluster, policy, placement=placement, slot=slot, costs=metered, stories=False)
    drawing = Timeline() if timeline else None
    world = _World(scheduler, Ledger(cluster.device_count, drawing), jobs, faults)
    cpu = time.process_time()
    world.run(validate, on_progress)
    cpu = time.process_time() - cpu
    outcomes = world.ledger.close(scheduler.now)
    effort = Effort(
        device_count=cluster.device_count, device_seconds=world.ledger.device_seconds,
        paused_device_seconds=metered.device_seconds, fragmentation=world.mean_fragmentation(),
        decision_s=world.decision_s, cpu_s=cpu, ended_at=scheduler.now,
    )  # fmt: skip
    return Result(summary=summarise(policy.name, outcomes, effort), outcomes=outcomes, timeline=drawing)


class _World:
    """Feeds one scheduler from arrivals, projected ends and faults."""

    def __init__(self, scheduler: Scheduler, ledger: Ledger, jobs: Iterable[Job], faults: Iterable[Event]) -> None:
        self.scheduler = scheduler
        self.ledger = ledger
        self.decision_s: list[float] = []
        self._arrivals = _Queue(JobSubmitted(job.submitted_at, job) for job in jobs)
        self._faults = _Queue(iter(faults))
        self._fragmentation = 0.0
        self._observed_s = 0.0

    def run(self, validate: bool, on_progress: Callable[[int], None] | None) -> None:
        for number, step in enumerate(play_forward(self.scheduler, self), 1):
            self.decision_s.append(step.decision_s)
            self.ledger.carry_out(step.instructions, step.at)
            if validate:
                self.scheduler.validate()
            if on_progress is not None and number % _PROGRESS_EVERY == 0:
                on_progress(len(self.ledger.closed))

    def mean_fragmentation(self) -> float:
        return self._fragmentation / self._observed_s if self._observed_s else math.nan

    @property
    def next_at(self) -> float:
        return min(self._arrivals.at, self._faults.at)

    @property
    def stop_at(self) -> float:
        """The clock stops at every fault, so projected ends before it are certain."""
        return self._faults.at

    def until(self, at: float, finished: Sequence[JobFinished]) -> Sequence[Event]:
        """Everything that happens by then, in order; at equal times ends come first."""
        events: list[Event] = list(finished)
        events.extend(fault for fault in self._faults.pop_until(at) if self._can_happen(fault))
        events.extend(self._arrivals.pop_until(at))
        if len(events) > 1:
            events.sort(key=_when)
        for event in events:
            if isinstance(event, JobFinished):
                self.ledger.finished(event.job_id, event.at)
            elif isinstance(event, JobSubmitted):
                self.ledger.submitted(event.job, self._alone_s(event.job))
        self._observe(at)
        return events

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
