"""Keeps the books of a simulation: reads instructions and events, writes outcomes."""

import math
from collections.abc import Callable
from typing import ClassVar

from penstock.core import (
    LATE_TOLERANCE_S,
    Admit,
    Deadline,
    Decline,
    Goal,
    Grant,
    Instruction,
    Job,
    Resize,
    Resume,
    Start,
    Stop,
    Suspend,
    Verdict,
)
from penstock.simulate.outcomes import Fate, JobOutcome
from penstock.simulate.timeline import Timeline


class _Entry:
    """An open account."""

    __slots__ = ("goal", "grant", "is_powered", "isolated_s", "job", "load", "outcome", "since", "stopped")

    def __init__(self, job: Job, outcome: JobOutcome, isolated_s: float, load: float) -> None:
        self.job = job
        self.goal = job.goal
        self.outcome = outcome
        self.isolated_s = isolated_s
        self.load = load
        self.grant: Grant | None = None
        self.since = math.nan
        self.stopped = ""
        self.is_powered = any(scaling.watts for _, scaling in job.curve.scalings)
        if self.is_powered:
            outcome.energy_j = 0.0


class Ledger:
    """One account per job from submission to end."""

    def __init__(self, device_count: int, timeline: Timeline | None = None) -> None:
        self.closed: list[JobOutcome] = []
        self.device_seconds = 0.0
        self.left_at = -math.inf
        """When the last job left."""
        self._open: dict[str, _Entry] = {}
        self._timeline = timeline
        self._device_count = device_count
        self._load = 0.0
        self._load_at = math.nan

    def submitted(self, job: Job, alone_s: float) -> None:
        """Open an account; ``alone_s`` is the job's run time on the devices it asked for."""
        self._track_load(job.submitted_at)
        outcome = JobOutcome(
            id=job.id, fate=Fate.UNFINISHED, model=job.model, tenant=job.tenant, submitted_at=job.submitted_at,
            deadline=job.deadline, promised=False, requested=job.requested,
            value=0.0 if isinstance(job.goal, Deadline) else math.nan,
        )  # fmt: skip
        self._open[job.id] = _Entry(job, outcome, alone_s, self._load)

    def finished(self, job_id: str, at: float, deserved_s: float, breach: str = "") -> None:
        """Close the account of a job that is done; ``breach`` is why its promise is broken, if it is."""
        self._track_load(at)
        self.left_at = at
        entry = self._open.pop(job_id)
        self._hold(entry, None, at)
        outcome = entry.outcome
        outcome.finished_at, outcome.deserved_s, outcome.breach = at, deserved_s, breach
        in_time = at <= outcome.deadline + LATE_TOLERANCE_S
        outcome.fate = Fate.DONE if math.isinf(outcome.deadline) else Fate.MET if in_time else Fate.LATE
        if isinstance(entry.goal, Deadline):
            outcome.value = entry.goal.value_at(min(at, outcome.deadline) if in_time else at)
        outcome.fairness = self._fairness(entry)
        self.closed.append(outcome)

    def stopped(self, job_id: str, *, paused: bool) -> None:
        """An event, and no decision, takes all devices of a job: a pause by its user, or a failure."""
        entry = self._open[job_id]
        entry.stopped = "user" if paused else "failure"
        entry.outcome.pauses += paused
        entry.outcome.failures += not paused

    def stopper_of(self, job_id: str) -> str:
        """Who or what takes the devices of a job at this moment: "user", "failure", or else "policy"."""
        return self._open[job_id].stopped or "policy"

    def lost(self, job_id: str, device_s: float) -> None:
        """Device-seconds of work of a job have to be done again."""
        self._open[job_id].outcome.lost_device_s += device_s

    def asks_again(self, job_id: str, goal: Goal | None) -> None:
        """What the job was promised no longer counts; it has another goal if one is given."""
        entry = self._open[job_id]
        entry.outcome.promised = False
        if goal is not None:
            entry.goal = goal
            entry.outcome.deadline = goal.at if isinstance(goal, Deadline) else math.inf
            entry.outcome.value = 0.0 if isinstance(goal, Deadline) else math.nan

    def carry_out(self, instructions: list[Instruction], now: float) -> None:
        for instruction in instructions:
            reader = self._READERS.get(type(instruction))
            if reader is not None:
                reader(self, instruction, now)

    def close(self, at: float) -> list[JobOutcome]:
        """End of the simulation: what is still open stays unfinished."""
        for entry in self._open.values():
            self._hold(entry, None, at)
            self.closed.append(entry.outcome)
        self._open.clear()
        return self.closed

    def grant_of(self, job_id: str) -> Grant | None:
        """What an open account holds."""
        entry = self._open.get(job_id)
        return None if entry is None else entry.grant

    def grants(self) -> list[tuple[str, Grant]]:
        """Every job that holds devices, with what it holds."""
        return [(job_id, entry.grant) for job_id, entry in self._open.items() if entry.grant is not None]

    def holders(self, devices: range) -> list[str]:
        """The jobs that hold any of these devices."""
        return [
            job_id
            for job_id, entry in self._open.items()
            if entry.grant is not None and any(device in devices for device in entry.grant.devices)
        ]

    @property
    def is_settled(self) -> bool:
        """Whether every job submitted so far is over."""
        return not self._open

    def _admitted(self, instruction: Admit, _now: float) -> None:
        promised = instruction.quote.verdict is Verdict.PROMISED
        self._open[instruction.quote.job_id].outcome.promised = promised

    def _declined(self, instruction: Decline, now: float) -> None:
        self._out(instruction.quote.job_id, now, Fate.DECLINED)

    def _stopped(self, instruction: Stop, now: float) -> None:
        self._out(instruction.job_id, now, Fate.CANCELLED)

    def _out(self, job_id: str, now: float, fate: Fate) -> None:
        self._track_load(now)
        self.left_at = now
        entry = self._open.pop(job_id)
        self._hold(entry, None, now)
        entry.outcome.fate = fate
        self.closed.append(entry.outcome)

    def _granted(self, instruction: Start | Resume | Resize, now: float) -> None:
        entry, grant = self._open[instruction.grant.job_id], instruction.grant
        if isinstance(instruction, Resize):
            entry.outcome.rescales += 1
            entry.outcome.migrations += entry.grant is not None and entry.grant.width == grant.width
        if math.isnan(entry.outcome.started_at):
            entry.outcome.started_at = now
        self._hold(entry, grant, now)

    def _suspended(self, instruction: Suspend, now: float) -> None:
        entry = self._open[instruction.job_id]
        entry.outcome.suspensions += 1
        entry.outcome.preemptions += not entry.stopped
        entry.stopped = ""
        self._hold(entry, None, now)

    def _hold(self, entry: _Entry, grant: Grant | None, now: float) -> None:
        """From now on the job holds ``grant``; what it held until now goes into the books."""
        if entry.grant is not None:
            lasted = now - entry.since
            used = entry.grant.width * lasted
            if entry.is_powered:
                self._draw(entry, lasted)
            entry.outcome.device_seconds += used
            self.device_seconds += used
            if self._timeline is not None:
                self._timeline.add(entry.grant, entry.since, now)
        entry.grant = grant
        entry.since = now

    def _draw(self, entry: _Entry, seconds: float) -> None:
        """The energy of a stretch; one that nothing is known about makes that of the job unknown."""
        grant, curve = entry.grant, entry.job.curve
        if grant is not None:
            known = curve.has_watts(grant.kind)
            entry.outcome.energy_j += curve.watts(grant.width, grant.kind) * seconds if known else math.nan

    def _track_load(self, now: float) -> None:
        """Integral over time of the number of jobs in the system."""
        if not math.isnan(self._load_at):
            self._load += len(self._open) * (now - self._load_at)
        self._load_at = now

    def _fairness(self, entry: _Entry) -> float:
        """Completion time over that on 1/N of the cluster, N the mean number of jobs while it was here."""
        lived = entry.outcome.completion_s
        if lived <= 0:
            return math.nan
        company = max((self._load - entry.load) / lived, 1.0)
        requested = min(entry.outcome.requested, self._device_count)
        slowdown = max(1.0, requested * company / self._device_count)
        return lived / (entry.isolated_s * slowdown)

    _READERS: ClassVar[dict[type, Callable[..., None]]] = {
        Admit: _admitted,
        Decline: _declined,
        Stop: _stopped,
        Start: _granted,
        Resume: _granted,
        Resize: _granted,
        Suspend: _suspended,
    }
