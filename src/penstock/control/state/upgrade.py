"""Logs of the version before decisions were written down: read once, and put away as a snapshot of today's format.

Such a log holds what happened but not what was decided, so it is read as it was then: with the policies of today, which
have to stand for those of that time, and without the rule that jobs keep new devices for a while. The scheduler knew no
pause: a paused job was cancelled there and came back under another id (``j-x+1``), and under a new configuration every
job was submitted again in that way with a softer deadline. Where the outcome differs from what the server of that time
had told people, which stands in the listed jobs and the history of their grants, what was told counts. Nothing else in
the house knows of this.
"""

import contextlib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from penstock.control.state.entries import Configured, Quarantined, Resumed
from penstock.control.state.listed_outcomes import Outcome, adopt_listed_outcomes, outcome
from penstock.control.state.platform_state import PlatformState
from penstock.control.state.records import JobRecord
from penstock.control.state.rules import new_scheduler, scheduler_from_data
from penstock.control.state.store import Line, Store
from penstock.core import (
    Curve,
    Deadline,
    Event,
    EventError,
    Instruction,
    Job,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobPaused,
    JobSubmitted,
    NodeLost,
    Progress,
    Strictness,
    Tick,
    Verdict,
    Work,
    decode,
)
from penstock.scheduler import Story
from penstock.wire import JobPhase

_log = logging.getLogger(__name__)
_LEAST_WORK = 1e-9
_LAST_VERSION = 1
"""Of lines in logs without decisions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgraded:
    """The state after the last entry of the old format."""

    state: PlatformState
    seq: int


def is_old(line: Line) -> bool:
    """Whether a line was written by the version before."""
    return line.payload.get("v") in range(_LAST_VERSION + 1)


def upgrade(store: Store) -> Upgraded:
    """Read the old part of a log; the store itself is not changed."""
    lines = list(_old_lines(store))
    aside = {line.payload["seq"] for line in lines if line.kind == Quarantined.__name__}
    fold = _read(lines, aside)
    _log.warning("upgraded a log of %d entries to one with decisions", len(lines))
    state = fold.converted()
    adopt_listed_outcomes(state, store, fold.outcomes)
    state.touched = set(state.jobs)
    return Upgraded(state=state, seq=lines[-1].seq)


def _old_lines(store: Store) -> Iterable[Line]:
    for line in store.log.read():
        if not is_old(line):
            return
        yield line


def _read(lines: list[Line], aside: set[int]) -> "_OldState":
    """One more entry is passed over for each that a policy of today fails on."""
    while True:
        state = _OldState()
        for line in lines:
            if line.seq in aside:
                continue
            try:
                state.apply(decode(line.payload))
            except Exception:
                _log.exception("event %d of the old log is passed over", line.seq)
                aside.add(line.seq)
                break
            state.note_outcome(line)
        else:
            return state


class _OldState(PlatformState):
    """The fold as it was: every event is followed by a decision, and ids carry the number of a job's life."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: dict[str, set[Outcome]] = {}
        """What could have been told about each job at some time."""

        self._lives: dict[str, int] = {}
        self._left: dict[str, float] = {}
        self._told: set[str] = set()
        self._goals: dict[str, Deadline] = {}

    def note_outcome(self, line: Line) -> None:
        for job_id in self.touched | ({line.job_id} if line.job_id in self.jobs else set()):
            record = self.jobs[str(job_id)]
            self.outcomes.setdefault(record.id, set()).add(outcome(self, record))
        self.touched.clear()

    def phase(self, record: JobRecord) -> JobPhase:
        return record.mark or JobPhase(self.scheduler.state_of(self._core_id(record.id)).value)

    def _core_id(self, job_id: str) -> str:
        life = self._lives.get(job_id, 0)
        return f"{job_id}+{life}" if life else job_id

    def feed(self, *events: Event) -> None:
        translated = [event for event in map(self._translate, events) if event is not None]
        if translated:
            self._handle(*translated)

    def _handle(self, *events: Event) -> None:
        """Whoever was stopped then was not told for whom."""
        scheduler = self.scheduler
        for event in events:
            scheduler.apply(event)
        if scheduler.is_due:
            scheduler.apply_decision(replace(scheduler.decide(scheduler.now), reasons=()))
        for instruction in scheduler.collect():
            self.carry_out(_renamed(instruction))

    def _translate(self, event: Any) -> Event | None:
        """What the scheduler of that time was told; it knew nothing of jobs that were paused."""
        job_id: str | None = getattr(event, "job_id", None)
        if job_id is None:
            return cast("Event", event)
        core, paused = self._core_id(job_id), self.jobs[job_id].mark is JobPhase.PAUSED
        if paused:
            if isinstance(event, Progress):
                self._left[job_id] = max(event.remaining, _LEAST_WORK)
            return None
        if isinstance(event, JobPaused):
            self._left[job_id] = max(self.scheduler.remaining(core, event.at), _LEAST_WORK)
        if isinstance(event, JobFinished) and self.scheduler.devices_of(core):
            return JobFinished(event.at, core)
        if isinstance(event, JobPaused | JobFailed | JobCancelled | JobFinished):
            self._keep_story(self.jobs[job_id])
            return JobCancelled(event.at, core)
        return cast("Event", replace(event, job_id=core))

    def _keep_story(self, record: JobRecord) -> None:
        core = self._core_id(record.id)
        if core not in self._told:
            self._told.add(core)
            record.notes.extend(self.scheduler.why(core).entries)

    def forget(self, record: JobRecord) -> Story:
        self._keep_story(record)
        return Story(record.id)

    def can_use(self, record: JobRecord, curve: Curve) -> bool:
        if record.job.curve == curve or record.job.curve.kinds != curve.kinds:
            return False
        return record.mark is JobPhase.PAUSED or self.scheduler.can_use(self._core_id(record.id), curve)

    def _on_resumed(self, entry: Resumed) -> None:
        record = self.live(entry.job_id)
        if record.mark is not JobPhase.PAUSED or entry.job is None:
            raise EventError(f"job {entry.job_id!r} is not paused")
        record.mark = None
        record.tell(entry.at, f"resumed by {entry.by}" if entry.by else "resumed")
        self._goals.pop(record.id, None)
        self._handle(JobSubmitted(entry.at, self._reborn(record, entry.job)))

    def _on_configured(self, entry: Configured) -> None:
        for record in self.jobs.values():
            self._keep_story(record)
        active = [record for record in self.jobs.values() if record.mark is None]
        asking = [JobSubmitted(entry.at, self._softened(record, entry.at)) for record in active]
        names = {node.name for node in entry.nodes}
        self.absent = {name: why for name, why in self.absent.items() if name in names}
        self.set_up(entry, new_scheduler(entry, stint_costs=0.0))
        self._handle(*(NodeLost(entry.at, name) for name in self.absent), *asking, Tick(entry.at))
        for record in active:
            if not record.over and not self.scheduler.devices_of(self._core_id(record.id)):
                record.lose_devices()

    def _softened(self, record: JobRecord, at: float) -> Job:
        left = Work(max(self.scheduler.remaining(self._core_id(record.id), at), _LEAST_WORK))
        record.tell(at, "the platform was set up anew; it asks again")
        goal = record.job.goal
        if isinstance(goal, Deadline):
            self._goals.setdefault(record.id, goal)
            goal = Deadline(goal.at, Strictness.SOFT)
        return self._reborn(record, replace(record.job, work=left, goal=goal))

    def _reborn(self, record: JobRecord, job: Job) -> Job:
        self._lives[record.id] = self._lives.get(record.id, 0) + 1
        record.job = replace(job, id=record.id)
        return replace(job, id=self._core_id(record.id))

    def converted(self) -> PlatformState:
        """The same in today's form: one id per job, paused jobs known to the scheduler, deadlines as hard as given."""
        state = PlatformState()
        state.at, state.absent, state.submitted = self.at, self.absent, len(self.jobs)
        if self.settings is not None:
            state.set_up(self.settings, scheduler_from_data(self._scheduler_data(), self.settings))
        for record in self.jobs.values():
            record.notes.sort(key=lambda note: note.at)
            if record.id in self._goals and _is_promised(record):
                record.job = replace(record.job, goal=self._goals[record.id])
            state.adopt(record)
        state.engaged = self.engaged
        return state

    def _scheduler_data(self) -> dict[str, Any]:
        jobs = {self._core_id(record.id): record for record in self.jobs.values() if not record.over}
        for record in jobs.values():
            self._keep_story(record)
        self._forget_the_past()
        for record in jobs.values():
            if record.mark is JobPhase.PAUSED:
                self._pause(record)
        data = self.scheduler.to_data()
        names = {core: record for core, record in jobs.items() if record.mark is None}
        data["records"] = [self._renamed_record(each, names) for each in data["records"]]
        data["broken"] = []
        return data

    def _forget_the_past(self) -> None:
        for record in self.jobs.values():
            for life in range(self._lives.get(record.id, 0) + 1):
                core = f"{record.id}+{life}" if life else record.id
                with contextlib.suppress(EventError):
                    self.scheduler.forget(core)

    def _pause(self, record: JobRecord) -> None:
        """As if it had been submitted and paused just now, with what is left to do."""
        at, scheduler = max(self.at, self.scheduler.now), self.scheduler
        scheduler.apply(JobSubmitted(at, record.job))
        scheduler.apply(JobPaused(at, record.id))
        scheduler.apply(Progress(at, record.id, self._left.get(record.id, record.job.work.iterations)))
        scheduler.collect()

    def _renamed_record(self, data: Mapping[str, Any], names: Mapping[str, JobRecord]) -> dict[str, Any]:
        core = data["job"]["id"]
        record = names.get(core) or self.jobs[core]
        job = {**data["job"], "id": record.id}
        if record.id in self._goals and _is_promised(record):
            job["goal"] = {**job["goal"], "strictness": self._goals[record.id].strictness.value}
        quote = data["quote"] and {**data["quote"], "job_id": record.id}
        return {**data, "job": job, "quote": quote, "has_run": bool(record.stint), "story": []}


_OldState.reducers = {
    **PlatformState.reducers,
    Configured: _OldState._on_configured,
    Resumed: _OldState._on_resumed,
}


def _is_promised(record: JobRecord) -> bool:
    return record.quote is not None and record.quote.verdict is Verdict.PROMISED


def _renamed(instruction: Any) -> Instruction:
    """The instruction as it concerns the job and not one of its lives."""
    renamed = instruction
    for name in ("grant", "quote"):
        if (inner := getattr(instruction, name, None)) is not None:
            renamed = type(instruction)(replace(inner, job_id=_job_id(inner.job_id)))
    if hasattr(instruction, "job_id"):
        renamed = replace(instruction, job_id=_job_id(instruction.job_id))
    return cast("Instruction", renamed)


def _job_id(core: str) -> str:
    return core.partition("+")[0]
