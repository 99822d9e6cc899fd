"""The state of the platform, as a fold over the log.

The state holds one scheduler and one record per job. Entries go in, in order; what comes out is what should be true of
the world: which runs should be alive, on which devices. It does no I/O and reads no clock, so reading the same log
twice gives the same state twice, and recovering from a crash is nothing but reading it again.
"""

import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from penstock.control.state.entries import (
    Absence,
    Cancelled,
    Configured,
    CostsLearned,
    CurveLearned,
    Entry,
    Launched,
    NodeCame,
    NodeLeft,
    Paused,
    Progressed,
    Quarantined,
    Resized,
    Resumed,
    RunFailed,
    RunFinished,
    RunSuspended,
    SaveFailed,
    Submitted,
    Ticked,
    WorkerLost,
    job_of,
)
from penstock.control.state.records import JobRecord, Wanted, job_id_of
from penstock.core import (
    Admit,
    Cluster,
    CostsChanged,
    Curve,
    CurveChanged,
    Deadline,
    Decline,
    Defer,
    DeviceSlot,
    Event,
    EventError,
    Goal,
    Grant,
    Instruction,
    Job,
    JobCancelled,
    JobFinished,
    JobSubmitted,
    NodeJoined,
    NodeLost,
    Progress,
    Quote,
    Resize,
    Resume,
    Start,
    Stop,
    Strictness,
    Suspend,
    Tick,
    Wake,
    Work,
    WorkerFailed,
    format_duration,
)
from penstock.policies import MeasureFirst, policy_named, weakest_source
from penstock.scheduler import ExpectedCosts, Scheduler, Story
from penstock.wire import JobPhase

_log = logging.getLogger(__name__)
_LEAST_WORK = 1e-9


class PlatformState:
    """Everything known, and everything wanted."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobRecord] = {}
        self.engaged: dict[str, JobRecord] = {}
        """Jobs that have been given devices at some time and are not over: the few that can have a run."""

        self.kin: dict[str, dict[str, JobRecord]] = {}
        """Jobs that are not over, by fingerprint."""

        self.absent: dict[str, Absence] = {}
        self.quarantined: dict[int, Quarantined] = {}
        """Entries that could not be taken in, by number; they stay in the log and are passed over."""

        self.settings: Configured | None = None
        self.at = -math.inf
        self.wake_at = math.inf
        self.touched: set[str] = set()
        self._scheduler: Scheduler | None = None
        self._handlers = self._handling()

    def _handling(self) -> dict[type, Callable[[Any], None]]:
        return {
            Configured: self._on_configured,
            Submitted: self._on_submitted,
            Cancelled: self._on_cancelled,
            Paused: self._on_paused,
            Resumed: self._on_resumed,
            Launched: self._on_launched,
            Progressed: self._on_progressed,
            Resized: self._on_resized,
            WorkerLost: self._on_worker_lost,
            SaveFailed: self._on_save_failed,
            RunSuspended: self._on_run_suspended,
            RunFinished: self._on_run_finished,
            RunFailed: self._on_run_failed,
            CurveLearned: self._on_curve_learned,
            CostsLearned: self._on_costs_learned,
            Quarantined: self._on_quarantined,
            NodeLeft: self._on_node_left,
            NodeCame: self._on_node_came,
            Ticked: lambda entry: self._feed(Tick(entry.at)),
        }

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_handlers"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._handlers = self._handling()

    @property
    def scheduler(self) -> Scheduler:
        if self._scheduler is None:
            raise EventError("the log does not begin with a configuration")
        return self._scheduler

    def apply(self, entry: Entry) -> None:
        """Take in one entry. One that does not fit is passed over, now and whenever the log is read again."""
        if entry.at < self.at:
            raise EventError(f"{entry} is older than what the state already holds")
        try:
            self._handlers[type(entry)](entry)
        except EventError as error:
            _log.info("passed over %s: %s", type(entry).__name__, error)
        self.at = entry.at
        if (job_id := job_of(entry)) in self.jobs:
            self.touched.add(str(job_id))

    def record(self, job_id: str) -> JobRecord:
        try:
            return self.jobs[job_id]
        except KeyError:
            raise EventError(f"no job {job_id!r} in the state") from None

    def phase(self, record: JobRecord) -> JobPhase:
        return record.mark or JobPhase(self.scheduler.state_of(record.core_id).value)

    def wanted(self) -> dict[str, Wanted]:
        """Every run that should be alive now."""
        found = (record.wanted() for record in self.engaged.values())
        return {want.run_id: want for want in found if want is not None}

    def remaining(self, record: JobRecord, now: float) -> float:
        """Iterations left as projected for ``now``; the scheduler itself only projects to its last event."""
        if record.over:
            return 0.0
        if record.mark is JobPhase.PAUSED:
            return record.job.work.iterations
        return self.scheduler.remaining(record.core_id, now)

    def rate(self, record: JobRecord) -> float:
        """Iterations per second it is believed to make now."""
        grant = record.grant
        return record.job.curve.rate(grant.width, grant.kind, grant.nodes) if grant is not None else 0.0

    def story(self, record: JobRecord) -> Story:
        """What happened to a job, in the scheduler's words and ours together, in order of time."""
        story = Story(record.id)
        life = None if record.lives_told > record.incarnation else self.scheduler.why(record.core_id)
        notes = [*record.notes, *(life.entries if life is not None else ())]
        story.entries = sorted(notes, key=lambda note: note.at)
        story.now = self._standing(record, life.now if life is not None else "")
        return story

    def _standing(self, record: JobRecord, now: str) -> str:
        if record.mark is JobPhase.PAUSED:
            return "paused: it asks for devices again when somebody resumes it"
        if record.grant is not None and record.retry_at > self.at:
            return f"{now}; starts again in {format_duration(record.retry_at - self.at)}"
        return now

    def _feed(self, *events: Event) -> None:
        instructions = self.scheduler.handle(*events)
        self.wake_at = math.inf
        for instruction in instructions:
            self._obey(instruction)

    def _obey(self, instruction: Instruction) -> None:
        match instruction:
            case Wake(at):
                self.wake_at = at
            case Admit(quote) | Defer(quote) | Decline(quote):
                self._answer(quote, declined=isinstance(instruction, Decline))
            case Start(grant) | Resume(grant):
                self._engage(grant.job_id).take(grant, self._places(grant), self.scheduler.now)
            case Resize(grant):
                self._touch(grant.job_id).reshape(grant, self._places(grant), self.scheduler.now)
            case Suspend(core) | Stop(core, _):
                self._touch(core).lose_devices()

    def _places(self, grant: Grant) -> tuple[DeviceSlot, ...]:
        """Where a grant's devices are. The only place where the scheduler's indices become nodes and slots."""
        cluster = self.scheduler.cluster
        devices = [cluster.device(index) for index in grant.devices]
        return tuple(DeviceSlot(cluster.nodes[device.node].name, device.slot) for device in devices)

    def _touch(self, core: str) -> JobRecord:
        record = self.jobs[job_id_of(core)]
        self.touched.add(record.id)
        return record

    def _engage(self, core: str) -> JobRecord:
        record = self._touch(core)
        self.engaged[record.id] = record
        return record

    def _answer(self, quote: Quote, *, declined: bool) -> None:
        record = self._touch(quote.job_id)
        record.quote = replace(quote, job_id=record.id, speed=weakest_source(record.job))
        if declined:
            self._close(record, JobPhase.DECLINED, self.scheduler.now, quote.reason)

    def _close(self, record: JobRecord, phase: JobPhase, at: float, reason: str = "") -> None:
        record.mark = phase
        record.ended_at = at
        record.reason = reason
        record.lose_devices()
        self.engaged.pop(record.id, None)
        self.kin.get(record.fingerprint, {}).pop(record.id, None)

    def _live(self, job_id: str) -> JobRecord:
        record = self.record(job_id)
        if record.over:
            raise EventError(f"job {job_id!r} is already {record.mark}")
        return record

    def _withdraw(self, record: JobRecord, at: float) -> None:
        """Out of the scheduler, whatever becomes of the job."""
        if record.mark is not JobPhase.PAUSED:
            self._keep_story(record)
            self._feed(JobCancelled(at, record.core_id))

    def _keep_story(self, record: JobRecord) -> None:
        """What this life inside the scheduler told is ours to remember when it ends."""
        if record.lives_told <= record.incarnation:
            record.notes.extend(self.scheduler.why(record.core_id).entries)
            record.lives_told = record.incarnation + 1

    def _on_submitted(self, entry: Submitted) -> None:
        if entry.job.id in self.jobs:
            raise EventError(f"a job {entry.job.id!r} is already in the state")
        record = JobRecord(entry.job.id, len(self.jobs) + 1, entry, entry.job)
        self.jobs[record.id] = record
        if record.fingerprint:
            self.kin.setdefault(record.fingerprint, {})[record.id] = record
        self._feed(JobSubmitted(entry.at, entry.job))

    def _on_cancelled(self, entry: Cancelled) -> None:
        record = self._live(entry.job_id)
        self._withdraw(record, entry.at)
        record.tell(entry.at, f"cancelled by {entry.by}" if entry.by else "cancelled")
        self._close(record, JobPhase.CANCELLED, entry.at, "cancelled")

    def _on_paused(self, entry: Paused) -> None:
        record = self._live(entry.job_id)
        left = self.remaining(record, entry.at)
        self._withdraw(record, entry.at)
        record.job = replace(record.job, work=Work(max(left, _LEAST_WORK)))
        record.mark = JobPhase.PAUSED
        record.tell(entry.at, f"paused by {entry.by}" if entry.by else "paused")

    def _on_resumed(self, entry: Resumed) -> None:
        record = self._live(entry.job_id)
        if record.mark is not JobPhase.PAUSED:
            raise EventError(f"job {entry.job_id!r} is not paused")
        record.mark = None
        record.tell(entry.at, f"resumed by {entry.by}" if entry.by else "resumed")
        self._feed(JobSubmitted(entry.at, record.incarnate(entry.job)))

    def _on_launched(self, entry: Launched) -> None:
        record = self.record(entry.job_id)
        if entry.run_id not in record.runs:
            record.runs.append(entry.run_id)
        if record.started_at is None:
            record.started_at, record.expected_at = entry.at, entry.expected_at

    def _on_progressed(self, entry: Progressed) -> None:
        record = self._live(entry.job_id)
        if record.mark is JobPhase.PAUSED:
            record.job = replace(record.job, work=Work(max(entry.remaining, _LEAST_WORK)))
        else:
            self._feed(Progress(entry.at, record.core_id, entry.remaining))

    def _on_resized(self, entry: Resized) -> None:
        """The world we asked for has come about; any other is answered by asking again."""
        record = self._live(entry.job_id)
        if entry.run_id != record.run_id or record.grant is None or entry.generation < record.generation:
            return
        if entry.generation == record.generation and entry.width in (None, record.grant.width):
            record.settle()
            return
        record.tell(entry.at, f"{entry.width} of {record.grant.width} workers are left; the others are replaced")
        record.generation = entry.generation
        record.replace_lost(entry.at)

    def _on_worker_lost(self, entry: WorkerLost) -> None:
        record = self._live(entry.job_id)
        if entry.run_id == record.run_id:
            record.lose_worker(entry.worker)
        record.tell(entry.at, f"worker {entry.worker} ended{_ending(entry)}")

    def _on_save_failed(self, entry: SaveFailed) -> None:
        where = "" if entry.step is None else f" at step {entry.step}"
        self._live(entry.job_id).tell(entry.at, f"its state could not be saved{where}: {entry.reason}; it goes on")

    def _on_run_suspended(self, entry: RunSuspended) -> None:
        record = self._live(entry.job_id)
        record.count_energy(entry.energy_j, estimated=entry.energy_estimated)
        record.footprints.pop(entry.run_id, None)
        if entry.run_id == record.run_id:
            record.begin_again(entry.at)

    def _on_run_finished(self, entry: RunFinished) -> None:
        record = self._live(entry.job_id)
        record.count_energy(entry.energy_j, estimated=entry.energy_estimated)
        holds = record.mark is not JobPhase.PAUSED and self.scheduler.devices_of(record.core_id)
        if holds:
            self._feed(JobFinished(entry.at, record.core_id))
        else:
            self._withdraw(record, entry.at)
            record.tell(entry.at, "finished before it could be stopped")
        self._close(record, JobPhase.FINISHED, entry.at)

    def _on_run_failed(self, entry: RunFailed) -> None:
        record = self._live(entry.job_id)
        record.count_energy(entry.energy_j, estimated=entry.energy_estimated)
        record.footprints.pop(entry.run_id, None)
        if entry.run_id != record.run_id:
            return
        record.count_failure(entry)
        record.tell(entry.at, _failure(entry, record.failures))
        if entry.retry_at is None:
            self._withdraw(record, entry.at)
            self._close(record, JobPhase.FAILED, entry.at, entry.reason)
        elif record.grant is not None:
            self._feed(WorkerFailed(entry.at, record.core_id))

    def _on_curve_learned(self, entry: CurveLearned) -> None:
        """What one run shows is news for every job that would run the same way."""
        kin = list(self.kin.get(entry.fingerprint, {}).values()) if entry.fingerprint else [self._live(entry.job_id)]
        told = [record for record in kin if self._can_use(record, entry.curve)]
        for record in told:
            record.job = replace(record.job, curve=entry.curve)
        self._tell_scheduler(told, lambda record: CurveChanged(entry.at, record.core_id, entry.curve))

    def _on_costs_learned(self, entry: CostsLearned) -> None:
        told = [record for record in self.kin.get(entry.fingerprint, {}).values() if record.job.costs != entry.costs]
        for record in told:
            record.job = replace(record.job, costs=entry.costs)
        self._tell_scheduler(told, lambda record: CostsChanged(entry.at, record.core_id, entry.costs))

    def _can_use(self, record: JobRecord, curve: Curve) -> bool:
        if record.job.curve == curve or record.job.curve.kinds != curve.kinds:
            return False
        return record.mark is JobPhase.PAUSED or self.scheduler.can_use(record.core_id, curve)

    def _tell_scheduler(self, records: list[JobRecord], event: Callable[[JobRecord], Event]) -> None:
        if events := [event(record) for record in records if record.mark is not JobPhase.PAUSED]:
            self._feed(*events)

    def _on_quarantined(self, entry: Quarantined) -> None:
        self.quarantined[entry.seq] = entry
        if (record := self.jobs.get(entry.job_id or "")) is not None:
            record.tell(entry.at, f"{entry.kind} (event {entry.seq}) was set aside: {entry.why}")

    def _on_node_left(self, entry: NodeLeft) -> None:
        self._feed(NodeLost(entry.at, entry.node))
        if self.absent.get(entry.node) is not Absence.DRAINED:
            self.absent[entry.node] = entry.why

    def _on_node_came(self, entry: NodeCame) -> None:
        if self.absent.get(entry.node.name, entry.why) is not entry.why:
            return
        self._feed(NodeJoined(entry.at, entry.node))
        self.absent.pop(entry.node.name, None)

    def _on_configured(self, entry: Configured) -> None:
        """A new scheduler; those who are there ask again with what they have left, and are never turned away."""
        for record in self.jobs.values():
            self._keep_story(record)
        active = [record for record in self.jobs.values() if record.mark is None]
        asking = [JobSubmitted(entry.at, self._reborn(record, entry.at)) for record in active]
        names = {node.name for node in entry.nodes}
        self.absent = {name: why for name, why in self.absent.items() if name in names}
        self.settings = entry
        policy = policy_named(entry.policy)
        self._scheduler = Scheduler(
            Cluster(entry.nodes), policy, admission=MeasureFirst(policy), slot=entry.slot,
            costs=ExpectedCosts(entry.overhead),
        )  # fmt: skip
        self._feed(*(NodeLost(entry.at, name) for name in self.absent), *asking, Tick(entry.at))
        for record in active:
            if not record.over and not self.scheduler.devices_of(record.core_id):
                record.lose_devices()

    def _reborn(self, record: JobRecord, at: float) -> Job:
        left = Work(max(self.remaining(record, at), _LEAST_WORK))
        record.tell(at, "the platform was set up anew; it asks again")
        self.touched.add(record.id)
        return record.incarnate(replace(record.job, work=left, goal=_softened(record.job)))


def _softened(job: Job) -> Goal:
    """A deadline that may be missed: a promise made under other rules binds, but cannot be a reason to refuse."""
    if isinstance(job.goal, Deadline):
        return Deadline(job.goal.at, Strictness.SOFT)
    return job.goal


def _ending(entry: WorkerLost) -> str:
    if entry.signal is not None:
        return f" by signal {entry.signal}"
    return "" if entry.code is None else f" with code {entry.code}"


def _failure(entry: RunFailed, count: int) -> str:
    code = "" if entry.code is None else f" with code {entry.code}"
    wait = math.inf if entry.retry_at is None else max(0.0, entry.retry_at - entry.at)
    then = f"next try in {format_duration(wait)}" if math.isfinite(wait) else "giving up"
    return f"attempt {count} failed ({entry.reason}){code}; {then}"


def replay(entries: Iterable[Entry]) -> PlatformState:
    """The state that a log tells."""
    state = PlatformState()
    for entry in entries:
        state.apply(entry)
    return state
