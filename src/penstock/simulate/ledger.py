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

    __slots__ = ("goal", "grant", "isolated_s", "load", "outcome", "since")

    def __init__(self, goal: Goal, outcome: JobOutcome, isolated_s: float, load: float) -> None:
        self.goal = goal
        self.outcome = outcome
        self.isolated_s = isolated_s
        self.load = load
        self.grant: Grant | None = None
        self.since = math.nan


class Ledger:
    """One account per job from submission to end."""

    def __init__(self, device_count: int, timeline: Timeline | None = None) -> None:
        self.closed: list[JobOutcome] = []
        self.device_seconds = 0.0
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
        self._open[job.id] = _Entry(job.goal, outcome, alone_s, self._load)

    def finished(self, job_id: str, at: float, deserved_s: float, breach: str = "") -> None:
        self._track_load(at)
        entry = self._open.pop(job_id)
        self._hold(entry, None, at)
        outcome = entry.outcome
        outcome.finished_at, outcome.deserved_s, outcome.breach = at, deserved_s, breach
        in_time = Fate.MET if at <= outcome.deadline + LATE_TOLERANCE_S else Fate.LATE
        outcome.fate = Fate.DONE if math.isinf(outcome.deadline) else in_time
        if isinstance(entry.goal, Deadline):
            outcome.value = entry.goal.value_at(at)
        outcome.fairness = self._fairness(entry)
        self.closed.append(outcome)

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

    def _admitted(self, instruction: Admit, _now: float) -> None:
        promised = instruction.quote.verdict is Verdict.PROMISED
        self._open[instruction.quote.job_id].outcome.promised = promised

    def _declined(self, instruction: Decline, now: float) -> None:
        self._out(instruction.quote.job_id, now, Fate.DECLINED)

    def _stopped(self, instruction: Stop, now: float) -> None:
        self._out(instruction.job_id, now, Fate.UNFINISHED)

    def _out(self, job_id: str, now: float, fate: Fate) -> None:
        self._track_load(now)
        entry = self._open.pop(job_id)
        self._hold(entry, None, now)
        entry.outcome.fate = fate
        self.closed.append(entry.outcome)

    def _granted(self, instruction: Start | Resume | Resize, now: float) -> None:
        entry = self._open[instruction.grant.job_id]
        if isinstance(instruction, Resize):
            entry.outcome.rescales += 1
        if math.isnan(entry.outcome.started_at):
            entry.outcome.started_at = now
        self._hold(entry, instruction.grant, now)

    def _suspended(self, instruction: Suspend, now: float) -> None:
        entry = self._open[instruction.job_id]
        entry.outcome.suspensions += 1
        self._hold(entry, None, now)

    def _hold(self, entry: _Entry, grant: Grant | None, now: float) -> None:
        """From now on the job holds ``grant``; what it held until now goes into the books."""
        if entry.grant is not None:
            used = entry.grant.width * (now - entry.since)
            entry.outcome.device_seconds += used
            self.device_seconds += used
            if self._timeline is not None:
                self._timeline.add(entry.grant, entry.since, now)
        entry.grant = grant
        entry.since = now

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
