"""Who will hold which devices if nobody submits anything: the real scheduler, a copy of it, and time that runs ahead.

Where :mod:`penstock.control.forecast` says when jobs end, this keeps the whole picture. Nothing is estimated beside
the policy: the copy decides as the original would, so this is the plan that stands behind the promises.
"""

import math
import time
from dataclasses import dataclass, field

from penstock.control.records import job_id_of
from penstock.core import Grant, Instruction, JobFinished, Resize, Resume, Start, Stop, Suspend, Tick, Wake
from penstock.scheduler import Scheduler
from penstock.simulate import Bar, Timeline

_MOST_ROUNDS = 400
_LONGEST_S = 0.25
"""CPU seconds after which looking further is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """Who will hold what from ``now`` to ``until``, and when each job that ends by then ends."""

    now: float
    until: float
    bars: tuple[Bar, ...]
    ends: dict[str, float]


def look_ahead(stage: Scheduler, now: float, horizon_s: float = math.inf) -> Ahead:
    """Play ``stage`` forward; it must be a :meth:`~penstock.scheduler.Scheduler.twin`, and is used up."""
    walk = _Walk(stage, max(now, stage.now))
    until = walk.go(now + horizon_s)
    return Ahead(now=now, until=until, bars=tuple(walk.timeline.bars), ends=walk.ends)


@dataclass(slots=True)
class _Walk:
    stage: Scheduler
    at: float
    timeline: Timeline = field(default_factory=Timeline)
    ends: dict[str, float] = field(default_factory=dict)
    _held: dict[str, tuple[Grant, float]] = field(default_factory=dict)
    _wake_at: float = math.inf

    def go(self, until: float) -> float:
        """How far it came: to ``until``, to the last end, or as far as was affordable."""
        enough = time.thread_time() + _LONGEST_S
        for job_id in self.stage.active():
            self._hold(job_id, self.stage.devices_of(job_id))
        self._follow(self.stage.handle(Tick(self.at)))
        for _ in range(_MOST_ROUNDS):
            first = min(self.stage.next_finish_at(), self._wake_at)
            if first > until or math.isinf(first) or time.thread_time() > enough:
                break
            self._step(max(self.at, self.stage.earliest_round(first)))
        reached = self.stage.next_finish_at() > until and math.isfinite(until)
        self.at = max(self.at, until) if reached else self.at
        for job_id in list(self._held):
            self._let_go(job_id)
        return self.at

    def _step(self, at: float) -> None:
        done = [JobFinished(max(end, self.at), job_id) for end, job_id in self.stage.finishing_by(at)]
        for event in done:
            self.at = event.at
            self._let_go(event.job_id)
            self.ends[job_id_of(event.job_id)] = event.at
        self.at = at
        self._follow(self.stage.handle(*done, Tick(at)))

    def _follow(self, instructions: list[Instruction]) -> None:
        self._wake_at = math.inf
        for instruction in instructions:
            match instruction:
                case Wake(at):
                    self._wake_at = at
                case Start(grant) | Resume(grant) | Resize(grant):
                    self._let_go(grant.job_id)
                    self._hold(grant.job_id, grant.devices)
                case Suspend(job_id) | Stop(job_id, _):
                    self._let_go(job_id)

    def _hold(self, job_id: str, devices: tuple[int, ...]) -> None:
        if devices:
            self._held[job_id] = Grant(job_id_of(job_id), "", tuple(sorted(devices)), 0), self.at

    def _let_go(self, job_id: str) -> None:
        if job_id in self._held:
            grant, since = self._held.pop(job_id)
            self.timeline.add(grant, since, self.at)
