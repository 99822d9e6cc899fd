"""Who will hold which devices if nobody submits anything: the same future as a forecast's, drawn while it passes.

Where :mod:`~penstock.control.future.forecast` says when jobs end, this keeps the whole picture. Nothing is estimated
beside the policy: the copy decides as the original would, so this is the plan that stands behind the promises.
"""

import math
import time
from dataclasses import dataclass, field
from itertools import islice

from penstock.control.future.forecast import future
from penstock.core import Grant, Resize, Resume, Start, Stop, Suspend
from penstock.scheduler import Scheduler
from penstock.simulate import Bar, ForwardStep, Timeline

_MOST_STEPS = 400
_LONGEST_S = 0.25
"""CPU seconds after which looking further is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTimeline:
    """Who will hold what from ``now`` to ``until``, and when each job that ends by then ends."""

    now: float
    until: float
    bars: tuple[Bar, ...]
    ends: dict[str, float]


def plan_timeline(stage: Scheduler, now: float, horizon_s: float = math.inf) -> PlannedTimeline:
    """Play ``stage`` forward; it must be a :meth:`~penstock.scheduler.Scheduler.twin`, and is used up."""
    until, enough = now + horizon_s, time.thread_time() + _LONGEST_S
    sketch = _Sketch(max(now, stage.now))
    for job_id in stage.active():
        sketch.hold(job_id, stage.devices_of(job_id))
    for step in islice(future(stage, sketch.at, until), _MOST_STEPS):
        sketch.draw(step)
        if time.thread_time() > enough:
            break
    if stage.next_finish_at() > until and math.isfinite(until):
        sketch.at = max(sketch.at, until)
    return PlannedTimeline(now=now, until=sketch.at, bars=sketch.finished(), ends=sketch.ends)


@dataclass(slots=True)
class _Sketch:
    """The picture so far."""

    at: float
    ends: dict[str, float] = field(default_factory=dict)
    _timeline: Timeline = field(default_factory=Timeline)
    _held: dict[str, tuple[Grant, float]] = field(default_factory=dict)

    def draw(self, step: ForwardStep) -> None:
        for done in step.finished:
            self.at = self.ends[done.job_id] = done.at
            self._let_go(done.job_id)
        self.at = step.at
        for instruction in step.instructions:
            match instruction:
                case Start(grant) | Resume(grant) | Resize(grant):
                    self._let_go(grant.job_id)
                    self.hold(grant.job_id, grant.devices)
                case Suspend(job_id) | Stop(job_id, _):
                    self._let_go(job_id)

    def finished(self) -> tuple[Bar, ...]:
        for job_id in list(self._held):
            self._let_go(job_id)
        return tuple(self._timeline.bars)

    def hold(self, job_id: str, devices: tuple[int, ...]) -> None:
        if devices:
            self._held[job_id] = Grant(job_id, "", tuple(sorted(devices)), 0), self.at

    def _let_go(self, job_id: str) -> None:
        if job_id in self._held:
            grant, since = self._held.pop(job_id)
            self._timeline.add(grant, since, self.at)
