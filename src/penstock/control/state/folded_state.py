"""What the entries of the log have added up to: jobs, nodes and one scheduler, kept in line with each other.

Questions about it change nothing. What changes it are the steps at the end, each of which keeps every index right, so
that a reducer says what an entry means and not what has to be updated for it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.control.state.active_jobs import ActiveJobs
from penstock.control.state.entries import Absence, Configured
from penstock.control.state.records import JobRecord, Wanted
from penstock.core import (
    Admit,
    Curve,
    Decline,
    Defer,
    DeviceSlot,
    Event,
    EventError,
    Grant,
    Instruction,
    NodeHealth,
    Quote,
    Resize,
    Resume,
    Start,
    Stop,
    Suspend,
    Verdict,
    Withdraw,
    format_duration,
)
from penstock.policies import weakest_source
from penstock.scheduler import Scheduler, Story
from penstock.wire import JobPhase

Reducers = Mapping[type, Callable[[Any, Any], None]]
"""What each kind of entry does to a state."""


class FoldedState:
    """Everything known, and everything wanted."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobRecord] = {}
        """Jobs that are not over, and those that are but have not left for the archive yet."""

        self.active = ActiveJobs()
        """Jobs that are not over, by tenant and by array."""

        self.engaged: dict[str, JobRecord] = {}
        """Jobs that have been given devices at some time and are not over: the few that can have a run."""

        self.preparing: dict[str, JobRecord] = {}
        """Jobs that are blocked or being prepared, in the order they came; the scheduler does not know them yet."""

        self.evaluated: dict[str, JobRecord] = {}
        """Jobs that are not over and have checkpoints evaluated."""

        self.evaluations: dict[str, dict[str, JobRecord]] = {}
        """Evaluations that are not over, by the job they are of."""

        self.kin: dict[str, dict[str, JobRecord]] = {}
        """Jobs that are not over, by fingerprint."""

        self.absent: dict[str, Absence] = {}
        self.drained_because: dict[str, str] = {}
        self.health: dict[str, NodeHealth] = {}
        """Nodes that passed a check since they came, and the last they passed."""

        self.lost_devices: set[DeviceSlot] = set()
        """Devices that failed while their nodes went on."""

        self.settings: Configured | None = None
        self.at = -math.inf
        self.submitted = 0
        """How many jobs there have ever been."""

        self.touched: set[str] = set()
        """Jobs of which the stored list may show an older row."""

        self.changed: set[str] = set()
        """Jobs that changed since the journal last told its observers."""

        self._displaced: set[str] = set()
        self._scheduler: Scheduler | None = None

    @property
    def scheduler(self) -> Scheduler:
        if self._scheduler is None:
            raise EventError("the log does not begin with a configuration")
        return self._scheduler

    def set_up(self, settings: Configured, scheduler: Scheduler) -> None:
        """Begin with a scheduler that is already there."""
        self.settings, self._scheduler = settings, scheduler

    def adopt(self, record: JobRecord) -> None:
        """Take over the record of a job that the scheduler knows, or will when it has been prepared."""
        self.jobs[record.id] = record
        if not record.over:
            self.active.add(record)
            self._adopt_evaluation(record)
        if record.displaced:
            self._displaced.add(record.id)
        if not record.is_scheduled:
            self.preparing[record.id] = record
        elif record.fingerprint and not record.over:
            self.kin.setdefault(record.fingerprint, {})[record.id] = record

    def _adopt_evaluation(self, record: JobRecord) -> None:
        if record.has_evaluations:
            self.evaluated[record.id] = record
        if (evaluates := record.submission.evaluates) is not None:
            self.evaluations.setdefault(evaluates.job_id, {})[record.id] = record

    def asked_for(self, tenant: str) -> int:
        """How many jobs of a tenant are not over, without evaluations, which nobody submitted."""
        live = (each for some in self.evaluations.values() for each in some.values())
        return self.active.count(tenant) - sum(each.job.tenant == tenant for each in live)

    @property
    def wake_at(self) -> float:
        """When the next decision is due if nothing else happens."""
        return math.inf if self._scheduler is None else self._scheduler.due_at

    def record(self, job_id: str) -> JobRecord:
        try:
            return self.jobs[job_id]
        except KeyError:
            raise EventError(f"no job {job_id!r} in the state") from None

    def phase(self, record: JobRecord) -> JobPhase:
        return record.mark or JobPhase(self.scheduler.state_of(record.id).value)

    def wanted(self) -> dict[str, Wanted]:
        """Every run that should be alive now."""
        found = (record.wanted() for record in self.engaged.values())
        return {want.run_id: want for want in found if want is not None}

    def remaining(self, record: JobRecord, now: float) -> float:
        """Iterations left as projected for ``now``; the scheduler itself only projects to its last event."""
        if not record.is_scheduled:
            return record.work
        return 0.0 if record.over else self.scheduler.remaining(record.id, now)

    def rate(self, record: JobRecord) -> float:
        """Iterations per second it is believed to make now."""
        return 0.0 if record.over or not record.is_scheduled else self.scheduler.rate_of(record.id)

    def story(self, record: JobRecord) -> Story:
        """What happened to a job, in the scheduler's words and ours together, in order of time."""
        if record.over:
            return Story(record.id, list(record.notes))
        if record.mark is JobPhase.BLOCKED:
            return Story(record.id, list(record.notes), self._blocked_by(record))
        if record.mark is JobPhase.PREPARING:
            now = f"being prepared: {record.reason}" if record.reason else "waiting to be prepared"
            return Story(record.id, list(record.notes), now)
        told = self.scheduler.why(record.id)
        if record.pause_asked_at is not None:
            told.now += "; it is paused at its next checkpoint"
        if record.grant is None and record.mark is None and not record.released:
            told.now += self._nodes_out_of_use(record)
        told.entries = sorted([*record.notes, *told.entries], key=lambda note: note.at)
        if record.is_failing:
            told.now += "; its run has failed, and its output is being read for the cause"
        if record.grant is not None and record.retry_at > self.at:
            told.now += f"; starts again in {format_duration(record.retry_at - self.at)}"
        return told

    def unended(self, record: JobRecord) -> list[str]:
        """The jobs that a job comes after and that are not over."""
        return [job_id for job_id in record.submission.after if job_id in self.jobs and not self.jobs[job_id].over]

    def _blocked_by(self, record: JobRecord) -> str:
        left = [f"{job_id} ({self.phase(self.jobs[job_id])})" for job_id in self.unended(record)]
        how = "end" if record.submission.after_any else "finish"
        return f"blocked: it starts when these {how}: {listed(left)}" if left else "blocked: what it waits for is over"

    def availability(self, node: str) -> str:
        """Whether a node takes jobs: up, lost, draining while jobs on it end, or drained."""
        return "draining" if self.is_emptying(node) else str(self.absent.get(node, "up"))

    def is_emptying(self, node: str) -> bool:
        """Whether a drained node still has jobs that end there."""
        return node in self.absent and node in self.scheduler.emptying

    def _nodes_out_of_use(self, record: JobRecord) -> str:
        """Of a job that waits: the nodes that it could use if they were not drained or lost."""
        job, kinds = record.job, self.scheduler.cluster.kinds
        names = [
            node.name for _, node in self.scheduler.cluster.present()
            if job.nodes.allows(node.name) and any(node.kind == kind for kind in job.kinds or kinds)
        ]  # fmt: skip
        out = [f"{name} is {self._out_of_use(name)}" for name in names if name in self.absent]
        if not out:
            return ""
        if len(out) < len(names):
            return f"; not in use: {listed([name for name in names if name in self.absent])}"
        return f"; {'its only node' if len(out) == 1 else 'all nodes that it can use are out of use'}: {listed(out)}"

    def _out_of_use(self, node: str) -> str:
        because = self.drained_because.get(node)
        return self.availability(node) + (f" ({because})" if because else "")

    def feed(self, *events: Event) -> None:
        """Tell the scheduler, and take note of what follows at once; what is to be decided follows later."""
        try:
            for event in events:
                self.scheduler.apply(event)
        finally:
            self.obey()

    def obey(self) -> None:
        """Take note of what the scheduler has said since it was last asked."""
        for instruction in self.scheduler.collect():
            self.carry_out(instruction)

    def carry_out(self, instruction: Instruction) -> None:
        """What one instruction means for the job it is about."""
        match instruction:
            case Admit(quote) | Defer(quote) | Decline(quote) | Withdraw(quote):
                self._answer(quote, declined=isinstance(instruction, Decline))
            case Start(grant) | Resume(grant):
                self.engage(grant.job_id).take(grant, self.places(grant), self.scheduler.now)
            case Resize(grant):
                self._touch(grant.job_id).reshape(grant, self.places(grant), self.scheduler.now)
            case Suspend(job_id, why):
                self._touch(job_id).lose_devices(why)
            case Stop(job_id, _):
                self._touch(job_id).lose_devices()

    def displace(self, record: JobRecord, grant: Grant) -> None:
        """Its run stays where it was until the next decision, which moves or ends it."""
        record.stay_until_decided(grant)
        self._displaced.add(record.id)

    def end_displacements(self) -> None:
        """Something was decided: who was to move and got no devices has none."""
        for job_id in self._displaced:
            record = self.jobs[job_id]
            if record.displaced and not self.scheduler.devices_of(job_id):
                self._touch(job_id).lose_devices()
            record.displaced = False
        self._displaced.clear()

    def places(self, grant: Grant) -> tuple[DeviceSlot, ...]:
        """Where a grant's devices are. The only place where the scheduler's indices become nodes and slots."""
        cluster = self.scheduler.cluster
        devices = [cluster.device(index) for index in grant.devices]
        return tuple(DeviceSlot(cluster.nodes[device.node].name, device.slot) for device in devices)

    def renumber(self) -> None:
        """Devices have other indices: a job that goes on holds the same ones by those."""
        for record in self.engaged.values():
            held = () if record.grant is None or record.displaced else self.scheduler.devices_of(record.id)
            if record.grant is not None and held and held != record.grant.devices:
                record.grant = replace(record.grant, devices=held)
                self.mark_changed(record.id)

    def _touch(self, job_id: str) -> JobRecord:
        self.mark_changed(job_id)
        return self.jobs[job_id]

    def mark_changed(self, job_id: str) -> None:
        """Its row in the stored list is out of date, and its observers have not heard of it."""
        self.touched.add(job_id)
        self.changed.add(job_id)

    def engage(self, job_id: str) -> JobRecord:
        """From now on it can have a run."""
        record = self.engaged[job_id] = self._touch(job_id)
        return record

    def _answer(self, quote: Quote, *, declined: bool) -> None:
        record = self._touch(quote.job_id)
        record.quote = replace(quote, speed=weakest_source(record.job))
        if declined:
            self.close(record, JobPhase.DECLINED, self.scheduler.now, quote.reason)

    def close(self, record: JobRecord, phase: JobPhase, at: float, reason: str = "") -> None:
        """The job is over for the scheduler too, which forgets it; its story is ours to keep."""
        told = [] if self.preparing.pop(record.id, None) else self.forget(record).entries
        record.notes = sorted([*record.notes, *told], key=lambda note: note.at)
        record.mark = phase
        record.ended_at = at
        record.reason = reason
        if record.quote is not None and record.quote.verdict is Verdict.DEFERRED:
            record.quote = _answered_by_its_end(record, at)
        record.lose_devices()
        self.active.remove(record)
        self.engaged.pop(record.id, None)
        self.evaluated.pop(record.id, None)
        self._close_evaluation(record)
        if kin := self.kin.get(record.fingerprint):
            kin.pop(record.id, None)
            if not kin:
                del self.kin[record.fingerprint]

    def _close_evaluation(self, record: JobRecord) -> None:
        evaluates = record.submission.evaluates
        if evaluates is not None and (siblings := self.evaluations.get(evaluates.job_id)):
            siblings.pop(record.id, None)
            if not siblings:
                del self.evaluations[evaluates.job_id]

    def forget(self, record: JobRecord) -> Story:
        """The scheduler lets it go; what it had to tell about the job."""
        return self.scheduler.forget(record.id)

    def live(self, job_id: str) -> JobRecord:
        """The record of a job that is not over; an entry about any other does not fit."""
        record = self.record(job_id)
        if record.over:
            raise EventError(f"job {job_id!r} is already {record.mark}")
        return record

    def can_use(self, record: JobRecord, curve: Curve) -> bool:
        """Whether a curve is news for a job, and one that it can be scheduled by."""
        if record.job.curve == curve or record.job.curve.kinds != curve.kinds:
            return False
        return self.scheduler.can_use(record.id, curve)


def _answered_by_its_end(record: JobRecord, at: float) -> Quote:
    """The last answer to a job that ended before its deadline was answered."""
    late_s = at - record.job.deadline
    margin = f"{format_duration(abs(late_s))} {'after' if late_s > 0 else 'before'} its deadline"
    reason = f"nothing was promised: it ended {margin}, before it could be answered"
    return Quote(job_id=record.id, verdict=Verdict.BEST_EFFORT, reason=reason)


def listed(names: Sequence[str], most: int = 5) -> str:
    """Names one after the other, the first ones if there are many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
