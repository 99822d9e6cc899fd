"""The state of the platform, as a fold over the log.

The state holds one scheduler and one record per job that is not over. Entries go in, in order; what comes out is what
should be true of the world: which runs should be alive, on which devices. It does no I/O, reads no clock and asks no
policy, so reading the same log twice gives the same state twice, whatever version reads it. Deciding is a question to
the state (:meth:`PlatformState.decision`) whose answer becomes an entry like any other.
"""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from penstock.control.state.active_jobs import ActiveJobs
from penstock.control.state.entries import (
    Absence,
    Cancelled,
    Configured,
    CostsLearned,
    CurveLearned,
    Decided,
    DecisionFailed,
    DeviceCame,
    DeviceLeft,
    Edited,
    Entry,
    Launched,
    NodeCame,
    NodeLeft,
    NodeReshaped,
    Paused,
    PreparationFailed,
    PreparationNoted,
    Prepared,
    Progressed,
    Quarantined,
    Recovered,
    Resized,
    ResumableLearned,
    Resumed,
    RunFailed,
    RunFinished,
    RunNoted,
    RunSuspended,
    SaveFailed,
    Submitted,
    Ticked,
    Unblocked,
    WorkerLost,
    job_of,
)
from penstock.control.state.records import JobRecord, Wanted
from penstock.control.state.rules import new_scheduler, take_up
from penstock.core import (
    Admit,
    CostsChanged,
    Curve,
    CurveChanged,
    Decline,
    Defer,
    DeviceLost,
    DeviceRestored,
    DeviceSlot,
    Event,
    EventError,
    Grant,
    Instruction,
    InvariantError,
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
    Progress,
    Quote,
    Resize,
    ResumableChanged,
    Resume,
    Source,
    Start,
    Stop,
    Suspend,
    Tick,
    Verdict,
    Withdraw,
    WorkerFailed,
    format_duration,
)
from penstock.policies import weakest_source
from penstock.scheduler import Scheduler, Story
from penstock.wire import JobPhase

_log = logging.getLogger(__name__)
_ROUNDING = 1e-9
_KNOWN_NOW = "its speed is known now; its deadline cannot be promised yet, it is asked again"


class PlatformState:
    """Everything known, and everything wanted."""

    _handlers: "ClassVar[Mapping[type, Callable[[Any, Any], None]]]"
    """What each kind of entry does."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobRecord] = {}
        """Jobs that are not over, and those that are but have not left for the archive yet."""

        self.active = ActiveJobs()
        """Jobs that are not over, by tenant and by array."""

        self.engaged: dict[str, JobRecord] = {}
        """Jobs that have been given devices at some time and are not over: the few that can have a run."""

        self.preparing: dict[str, JobRecord] = {}
        """Jobs that are blocked or being prepared, in the order they came; the scheduler does not know them yet."""

        self.kin: dict[str, dict[str, JobRecord]] = {}
        """Jobs that are not over, by fingerprint."""

        self.absent: dict[str, Absence] = {}
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
        if not record.is_scheduled:
            self.preparing[record.id] = record
        elif record.fingerprint and not record.over:
            self.kin.setdefault(record.fingerprint, {})[record.id] = record

    @property
    def wake_at(self) -> float:
        """When the next decision is due if nothing else happens."""
        return math.inf if self._scheduler is None else self._scheduler.due_at

    def apply(self, entry: Entry) -> None:
        """Take in one entry. One that does not fit is passed over, now and whenever the log is read again."""
        if entry.at < self.at:
            raise EventError(f"{entry} is older than what the state already holds")
        try:
            self._handlers[type(entry)](self, entry)
        except EventError as error:
            _log.info("passed over %s: %s", type(entry).__name__, error)
        self.at = entry.at
        if (job_id := job_of(entry)) in self.jobs:
            self._mark_changed(str(job_id))

    def decision(self, at: float) -> Decided | None:
        """What should be decided now, if anything is due; nothing changes by asking. The only place that asks."""
        if self._scheduler is None or self._scheduler.due_at > at + _ROUNDING:
            return None
        return Decided(at=at, decision=self._scheduler.decide(at))

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
        told.entries = sorted([*record.notes, *told.entries], key=lambda note: note.at)
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

    def _feed(self, *events: Event) -> None:
        """Tell the scheduler, and take note of what follows at once; what is to be decided follows later."""
        try:
            for event in events:
                self.scheduler.apply(event)
        finally:
            self._obey()

    def _obey(self) -> None:
        for instruction in self.scheduler.collect():
            self._carry_out(instruction)

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case Admit(quote) | Defer(quote) | Decline(quote) | Withdraw(quote):
                self._answer(quote, declined=isinstance(instruction, Decline))
            case Start(grant) | Resume(grant):
                self._engage(grant.job_id).take(grant, self.places(grant), self.scheduler.now)
            case Resize(grant):
                self._touch(grant.job_id).reshape(grant, self.places(grant), self.scheduler.now)
            case Suspend(job_id) | Stop(job_id, _):
                self._touch(job_id).lose_devices()

    def places(self, grant: Grant) -> tuple[DeviceSlot, ...]:
        """Where a grant's devices are. The only place where the scheduler's indices become nodes and slots."""
        cluster = self.scheduler.cluster
        devices = [cluster.device(index) for index in grant.devices]
        return tuple(DeviceSlot(cluster.nodes[device.node].name, device.slot) for device in devices)

    def _touch(self, job_id: str) -> JobRecord:
        self._mark_changed(job_id)
        return self.jobs[job_id]

    def _mark_changed(self, job_id: str) -> None:
        self.touched.add(job_id)
        self.changed.add(job_id)

    def _engage(self, job_id: str) -> JobRecord:
        record = self.engaged[job_id] = self._touch(job_id)
        return record

    def _answer(self, quote: Quote, *, declined: bool) -> None:
        record = self._touch(quote.job_id)
        record.quote = replace(quote, speed=weakest_source(record.job))
        if declined:
            self._close(record, JobPhase.DECLINED, self.scheduler.now, quote.reason)

    def _close(self, record: JobRecord, phase: JobPhase, at: float, reason: str = "") -> None:
        """The job is over for the scheduler too, which forgets it; its story is ours to keep."""
        told = [] if self.preparing.pop(record.id, None) else self._forget(record).entries
        record.notes = sorted([*record.notes, *told], key=lambda note: note.at)
        record.mark = phase
        record.ended_at = at
        record.reason = reason
        record.lose_devices()
        self.active.remove(record)
        self.engaged.pop(record.id, None)
        if kin := self.kin.get(record.fingerprint):
            kin.pop(record.id, None)
            if not kin:
                del self.kin[record.fingerprint]

    def _forget(self, record: JobRecord) -> Story:
        return self.scheduler.forget(record.id)

    def _live(self, job_id: str) -> JobRecord:
        record = self.record(job_id)
        if record.over:
            raise EventError(f"job {job_id!r} is already {record.mark}")
        return record

    def _on_submitted(self, entry: Submitted) -> None:
        if entry.job.id in self.jobs:
            raise EventError(f"a job {entry.job.id!r} is already in the state")
        mark = JobPhase.BLOCKED if entry.after else JobPhase.PREPARING if entry.preparing else None
        record = JobRecord(entry.job.id, self.submitted + 1, entry, entry.job, mark)
        self.adopt(record)
        self.submitted += 1
        if entry.after:
            record.reason = f"it comes after {listed(entry.after)}"
            record.tell(entry.at, f"submitted: {record.reason}")
        if mark is None:
            self._feed(JobSubmitted(entry.at, entry.job))

    def _on_recovered(self, entry: Recovered) -> None:
        """Its runs keep their ids; one that still lives saves its state and ends."""
        job = entry.submission.job
        if job.id in self.jobs:
            raise EventError(f"a job {job.id!r} is already in the state")
        record = JobRecord(job.id, self.submitted + 1, entry.submission, job, runs=list(entry.runs))
        record.stint = max(
            (int(number) for run in entry.runs if (number := run.rpartition(".")[2]).isdigit()), default=0
        )
        record.started_at = entry.started_at
        record.tell(entry.at, "the platform's history was lost; this is what its runs tell")
        self.submitted += 1
        if entry.over:
            record.mark, record.ended_at, record.reason = JobPhase(entry.over), entry.ended_at or entry.at, entry.reason
            self.adopt(record)
            return
        record.mark = JobPhase.PAUSED
        self.adopt(record)
        self._feed(JobSubmitted(entry.at, job), JobPaused(entry.at, job.id))
        self._engage(job.id)

    def _on_unblocked(self, entry: Unblocked) -> None:
        record = self._live(entry.job_id)
        if record.mark is not JobPhase.BLOCKED:
            raise EventError(f"job {record.id!r} is not blocked")
        record.mark, record.reason = JobPhase.PREPARING, ""
        record.tell(entry.at, "what it waited for is over")

    def _in_preparation(self, job_id: str) -> JobRecord:
        if job_id not in self.preparing or self.preparing[job_id].mark is JobPhase.BLOCKED:
            raise EventError(f"job {job_id!r} is not being prepared")
        return self.preparing[job_id]

    def _on_preparation_noted(self, entry: PreparationNoted) -> None:
        record = self._in_preparation(entry.job_id)
        record.reason = entry.text
        record.tell(entry.at, entry.text)

    def _on_prepared(self, entry: Prepared) -> None:
        """Its deadline counts from its submission; what it can be promised, from now."""
        record = self._in_preparation(entry.job_id)
        del self.preparing[record.id]
        record.submission = replace(record.submission, recipe=entry.recipe)
        record.job = replace(record.job, curve=entry.curve, costs=entry.costs)
        record.mark, record.reason = None, ""
        if not record.submission.after:
            record.tell(entry.at, f"prepared after {format_duration(entry.at - record.submission.at)}")
        self.adopt(record)
        self._feed(JobSubmitted(entry.at, record.job))

    def _on_preparation_failed(self, entry: PreparationFailed) -> None:
        record = self._in_preparation(entry.job_id)
        record.tell(entry.at, f"it could not be prepared: {entry.reason}")
        record.tail = entry.tail
        self._close(record, JobPhase.FAILED, entry.at, entry.reason)

    def _on_cancelled(self, entry: Cancelled) -> None:
        record = self._live(entry.job_id)
        if record.id not in self.preparing:
            self._feed(JobCancelled(entry.at, record.id))
        said = f"cancelled by {entry.by}" if entry.by else "cancelled"
        record.tell(entry.at, f"{said}: {entry.reason}" if entry.reason else said)
        self._close(record, JobPhase.CANCELLED, entry.at, entry.reason or "cancelled")

    def _on_paused(self, entry: Paused) -> None:
        record = self._live(entry.job_id)
        if record.id in self.preparing:
            raise EventError(f"job {record.id!r} is being prepared")
        self._feed(JobPaused(entry.at, record.id))
        record.mark = JobPhase.PAUSED
        record.tell(entry.at, f"paused by {entry.by}" if entry.by else "paused")

    def _on_resumed(self, entry: Resumed) -> None:
        record = self._live(entry.job_id)
        if record.mark is not JobPhase.PAUSED:
            raise EventError(f"job {entry.job_id!r} is not paused")
        record.tell(entry.at, f"resumed by {entry.by}" if entry.by else "resumed")
        record.mark = None
        self._feed(JobResumed(entry.at, record.id, entry.goal))
        if not record.over:
            record.job = self.scheduler.job(record.id)

    def _on_edited(self, entry: Edited) -> None:
        record = self._live(entry.job_id)
        if record.id in self.preparing:
            record.job = entry.amendment.applied_to(record.job)
        else:
            self._feed(JobAmended(entry.at, record.id, entry.amendment))
            record.job = self.scheduler.job(record.id)
        record.submission = replace(record.submission, name=entry.name, spec=entry.spec)
        if entry.amendment.asks_again:
            record.quote = None
        record.tell(entry.at, f"edited{f' by {entry.by}' if entry.by else ''}: {entry.what}")

    def _on_launched(self, entry: Launched) -> None:
        record = self.record(entry.job_id)
        if entry.run_id not in record.runs:
            record.runs.append(entry.run_id)
        if record.started_at is None:
            record.started_at, record.expected_at = entry.at, entry.expected_at

    def _on_progressed(self, entry: Progressed) -> None:
        self._feed(Progress(entry.at, self._live(entry.job_id).id, entry.remaining))

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

    def _on_run_noted(self, entry: RunNoted) -> None:
        self._live(entry.job_id).tell(entry.at, entry.text)

    def _on_run_suspended(self, entry: RunSuspended) -> None:
        record = self._live(entry.job_id)
        record.count_energy(entry.energy_j, estimated=entry.energy_estimated)
        record.footprints.pop(entry.run_id, None)
        if entry.run_id == record.run_id:
            record.begin_again(entry.at)

    def _on_run_finished(self, entry: RunFinished) -> None:
        record = self._live(entry.job_id)
        held = record.grant is not None
        self._feed(JobFinished(entry.at, record.id))
        record.count_energy(entry.energy_j, estimated=entry.energy_estimated)
        if not held:
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
            self._feed(JobFailed(entry.at, record.id, entry.reason))
            self._close(record, JobPhase.FAILED, entry.at, entry.reason)
        elif record.grant is not None:
            self._feed(WorkerFailed(entry.at, record.id))

    def _on_curve_learned(self, entry: CurveLearned) -> None:
        """What one run shows is news for every job that would run the same way."""
        kin = list(self.kin.get(entry.fingerprint, {}).values()) if entry.fingerprint else [self._live(entry.job_id)]
        told = [record for record in kin if self._can_use(record, entry.curve)]
        for record in told:
            record.job = replace(record.job, curve=entry.curve)
        self._feed(*(CurveChanged(entry.at, record.id, entry.curve) for record in told))
        for record in told:
            if record.quote is not None and record.quote.speed is Source.GUESSED:
                reason = _KNOWN_NOW if record.quote.verdict is Verdict.DEFERRED else record.quote.reason
                record.quote = replace(record.quote, speed=weakest_source(record.job), reason=reason)
                self.touched.add(record.id)

    def _on_costs_learned(self, entry: CostsLearned) -> None:
        told = [record for record in self.kin.get(entry.fingerprint, {}).values() if record.job.costs != entry.costs]
        for record in told:
            record.job = replace(record.job, costs=entry.costs)
        self._feed(*(CostsChanged(entry.at, record.id, entry.costs) for record in told))

    def _on_resumable_learned(self, entry: ResumableLearned) -> None:
        record = self._live(entry.job_id)
        record.job = replace(record.job, resumable=True)
        self._feed(ResumableChanged(entry.at, record.id, resumable=True))

    def _can_use(self, record: JobRecord, curve: Curve) -> bool:
        if record.job.curve == curve or record.job.curve.kinds != curve.kinds:
            return False
        return self.scheduler.can_use(record.id, curve)

    def _on_decided(self, entry: Decided) -> None:
        try:
            self.scheduler.apply_decision(entry.decision)
        except EventError as error:
            raise InvariantError(f"a decision in the log does not fit what happened before it: {error}") from error
        self._obey()

    def _on_quarantined(self, entry: Quarantined) -> None:
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

    def _on_node_reshaped(self, entry: NodeReshaped) -> None:
        """Its devices are others; one that is drained stays so."""
        name = entry.node.name
        before = self.scheduler.cluster.position(name)
        self._feed(NodeChanged(entry.at, entry.node))
        if self.scheduler.cluster.position(name) != before:
            self.lost_devices = {place for place in self.lost_devices if place.node != name}
        if self.absent.get(name) is Absence.DRAINED:
            self._feed(NodeLost(entry.at, name))
        else:
            self.absent.pop(name, None)

    def _on_device_left(self, entry: DeviceLeft) -> None:
        self._feed(DeviceLost(entry.at, entry.node, entry.slot))
        self.lost_devices.add(DeviceSlot(entry.node, entry.slot))

    def _on_device_came(self, entry: DeviceCame) -> None:
        self._feed(DeviceRestored(entry.at, entry.node, entry.slot))
        self.lost_devices.discard(DeviceSlot(entry.node, entry.slot))

    def _on_configured(self, entry: Configured) -> None:
        """Rules change under the jobs that are there; what was promised is kept, or withdrawn and said so."""
        if self._scheduler is None:
            self._scheduler = new_scheduler(entry)
        else:
            take_up(self._scheduler, entry)
            for record in self.jobs.values():
                if not record.over:
                    record.tell(entry.at, f"the platform was set up anew: it runs under {entry.policy}")
                    self._mark_changed(record.id)
            self._obey()
        self.settings = entry


PlatformState._handlers = {
    Configured: PlatformState._on_configured,
    Submitted: PlatformState._on_submitted,
    Recovered: PlatformState._on_recovered,
    Unblocked: PlatformState._on_unblocked,
    PreparationNoted: PlatformState._on_preparation_noted,
    Prepared: PlatformState._on_prepared,
    PreparationFailed: PlatformState._on_preparation_failed,
    Cancelled: PlatformState._on_cancelled,
    Paused: PlatformState._on_paused,
    Resumed: PlatformState._on_resumed,
    Edited: PlatformState._on_edited,
    Launched: PlatformState._on_launched,
    Progressed: PlatformState._on_progressed,
    Resized: PlatformState._on_resized,
    WorkerLost: PlatformState._on_worker_lost,
    SaveFailed: PlatformState._on_save_failed,
    RunNoted: PlatformState._on_run_noted,
    RunSuspended: PlatformState._on_run_suspended,
    RunFinished: PlatformState._on_run_finished,
    RunFailed: PlatformState._on_run_failed,
    CurveLearned: PlatformState._on_curve_learned,
    CostsLearned: PlatformState._on_costs_learned,
    ResumableLearned: PlatformState._on_resumable_learned,
    Decided: PlatformState._on_decided,
    DecisionFailed: lambda _state, _entry: None,
    Quarantined: PlatformState._on_quarantined,
    NodeLeft: PlatformState._on_node_left,
    NodeCame: PlatformState._on_node_came,
    NodeReshaped: PlatformState._on_node_reshaped,
    DeviceLeft: PlatformState._on_device_left,
    DeviceCame: PlatformState._on_device_came,
    Ticked: lambda state, entry: state._feed(Tick(entry.at)),
}


def listed(names: Sequence[str], most: int = 5) -> str:
    """Names one after the other, the first ones if there are many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


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
