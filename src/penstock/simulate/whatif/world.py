"""The world of a replay: the past's arrivals, people and machines around a scheduler that decides anew.

What depended on the course of a job depends on it here too: a job that came after others comes when those are over, one
that failed for good fails when it has done as much as it had done, and jobs run as fast as they really did. What people
and machines did by the clock happens by the clock, if it still can.
"""

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from penstock.core import (
    Amendment,
    BestEffort,
    CostsChanged,
    CurveChanged,
    Decline,
    DeviceLost,
    DeviceRestored,
    Event,
    Instruction,
    JobAmended,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobPaused,
    JobResumed,
    JobSubmitted,
    Node,
    NodeChanged,
    NodeClosed,
    NodeJoined,
    NodeLost,
    ResumableChanged,
    Stop,
    Tenant,
    TenantChanged,
    WorkerFailed,
)
from penstock.scheduler import JobState, Scheduler
from penstock.simulate.ledger import Ledger
from penstock.simulate.true_progress import TrueProgress
from penstock.simulate.whatif.past import Past, PastJob
from penstock.simulate.whatif.scenario import Scenario

_MOST_REPORTS = 5000.0
_FASTEST_REPORT_S = 10.0
_ABOUT_JOBS = (
    JobCancelled | JobPaused | JobResumed | JobAmended | CurveChanged | CostsChanged | ResumableChanged | WorkerFailed
)
_ABOUT_NODES = NodeLost | NodeClosed | NodeJoined | NodeChanged | DeviceLost | DeviceRestored


class PastWorld:
    """Everything from outside that a replay brings to its scheduler, and the books of what comes of it."""

    def __init__(self, past: Past, scenario: Scenario, scheduler: Scheduler, ledger: Ledger) -> None:
        self.ledger = ledger
        self._scheduler = scheduler
        self._jobs = {job.id: job for job in past.jobs}
        self._events = list(reversed(_events(past, scenario)))
        self._waits_for = {job.id: set(job.after) & self._jobs.keys() for job in past.jobs}
        self._followers: dict[str, list[str]] = {}
        self._arrivals: list[tuple[float, int, str]] = []
        self._number = 0
        for job in past.jobs:
            for before in self._waits_for[job.id]:
                self._followers.setdefault(before, []).append(job.id)
            if not self._waits_for[job.id]:
                self._arrive(job.arrives_at, job.id)
        every = max(_FASTEST_REPORT_S, (past.until - past.since) / _MOST_REPORTS)
        self.truth = TrueProgress(scheduler, self._speed, every)
        self.rules_at = math.inf
        """When other rules hold; the clock stops there."""

    @property
    def next_at(self) -> float:
        return min(self._next_arrival_at, self._next_event_at, self.truth.next_report_at)

    @property
    def stop_at(self) -> float:
        return min(self._next_event_at, self._next_arrival_at, self.rules_at)

    def until(self, at: float, finished: Sequence[JobFinished]) -> Sequence[Event]:
        """Everything that happens by then, in order; at equal times ends come first."""
        ends = [self._end(event) for event in finished]
        outside = list(self._happening(at, {end.job_id for end in ends}))
        if outside:
            self.truth.expect_losses(at)
        else:
            outside.extend(self.truth.reports(at))
        events: list[Event] = sorted([*ends, *outside, *self._arriving(at)], key=_when)
        for event in events:
            if isinstance(event, JobFinished):
                deserved_s = self._scheduler.deserved(event.job_id, event.at)
                self.ledger.finished(event.job_id, event.at, deserved_s, self._scheduler.breach(event.job_id, event.at))
                self.truth.over(event.job_id)
                self._over(event.job_id, event.at)
        return events

    def follow(self, at: float, instructions: list[Instruction]) -> None:
        """After a decision: keep the books, and let everybody run on what it holds."""
        self.ledger.carry_out(instructions, at)
        self.truth.follow(at, instructions)
        for each in instructions:
            if isinstance(each, Stop | Decline):
                self._over(each.job_id if isinstance(each, Stop) else each.quote.job_id, at)

    @property
    def _next_arrival_at(self) -> float:
        return self._arrivals[0][0] if self._arrivals else math.inf

    @property
    def _next_event_at(self) -> float:
        return self._events[-1].at if self._events else math.inf

    def _end(self, event: JobFinished) -> JobFinished | JobFailed:
        return JobFailed(event.at, event.job_id) if self._jobs[event.job_id].undone else event

    def _happening(self, at: float, ended: set[str]) -> Iterable[Event]:
        while self._events and self._events[-1].at <= at:
            event = self._events.pop()
            if self._can_happen(event, ended):
                if isinstance(event, JobCancelled):
                    ended.add(event.job_id)
                yield event

    def _can_happen(self, event: Event, ended: set[str]) -> bool:
        """What was done to a job that is gone, or is not where it was then, is not done."""
        if not isinstance(event, _ABOUT_JOBS):
            return True
        if event.job_id in ended or not self._scheduler.is_active(event.job_id):
            return False
        paused = self._scheduler.state_of(event.job_id) is JobState.PAUSED
        match event:
            case WorkerFailed():
                return bool(self._scheduler.devices_of(event.job_id))
            case JobPaused():
                return not paused
            case JobResumed():
                return paused
            case CurveChanged():
                return self._scheduler.can_use(event.job_id, event.curve)
        return True

    def _arrive(self, at: float, job_id: str) -> None:
        self._number += 1
        heapq.heappush(self._arrivals, (at, self._number, job_id))

    def _arriving(self, at: float) -> Iterable[Event]:
        while self._next_arrival_at <= at:
            arrives_at, _, job_id = heapq.heappop(self._arrivals)
            past = self._jobs[job_id]
            yield from self._asking(past, max(arrives_at, self._scheduler.now))

    def _asking(self, past: PastJob, at: float) -> Iterable[Event]:
        job = past.job
        kind = self._scheduler.kind_for(job)
        if job.deadline <= at:
            job = replace(job, goal=BestEffort())
        self.ledger.submitted(past.job, job.seconds_on(job.requested, kind or ""))
        self.truth.submitted(job, past.undone)
        yield JobSubmitted(at, job)
        if past.carried and kind is not None:
            yield JobAmended(at, job.id, Amendment(goal=job.goal))

    def _over(self, job_id: str, at: float) -> None:
        """Those that came after it come when all they waited for is over."""
        for follower in self._followers.pop(job_id, ()):
            self._waits_for[follower].discard(job_id)
            if not self._waits_for[follower]:
                self._arrive(at + self._jobs[follower].lag_s, follower)

    def _speed(self, job_id: str) -> float:
        """How many times as fast as the scheduler believes it runs on what it holds."""
        past, believed = self._jobs[job_id], self._scheduler.rate_of(job_id)
        devices = self._scheduler.devices_of(job_id)
        if not devices:
            return past.speed
        cluster = self._scheduler.cluster
        places = [cluster.device(index) for index in devices]
        true = past.curve.rate(len(devices), places[0].kind, len({place.node for place in places}))
        return past.speed * true / believed if true else past.speed


def _when(event: Event) -> float:
    return event.at


def _events(past: Past, scenario: Scenario) -> list[Event]:
    """What happens by the clock on the cluster of the scenario, after what is so from the beginning."""
    cluster = scenario.cluster_from(past.cluster)
    nodes = {node.name: node for _, node in cluster.present()}
    before = {node.name: node for _, node in past.cluster.present()}
    first: list[Event] = [
        TenantChanged(past.since, Tenant(name=name, share=share)) for name, share in scenario.shares.items()
    ]
    for event in past.events:
        if isinstance(event, _ABOUT_NODES):
            if not scenario.cluster and _is_same(event, nodes, before):
                first.append(event)
        elif isinstance(event, TenantChanged) and event.tenant.name in scenario.shares:
            first.append(TenantChanged(event.at, replace(event.tenant, share=scenario.shares[event.tenant.name])))
        else:
            first.append(event)
    return first


def _is_same(event: _ABOUT_NODES, nodes: Mapping[str, Node], before: Mapping[str, Node]) -> bool:
    """Whether the node that something happened to is what it was; one that lost devices to a scenario never leaves."""
    name = event.node.name if isinstance(event.node, Node) else event.node
    return nodes.get(name) == before.get(name)
