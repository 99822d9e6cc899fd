"""The loop that plays a scheduler forward: the clock jumps from one thing that happens to the next.

Nothing ticks. Between two decisions every running job's end is known, so the clock goes straight to the next end,
planned change or outside event, and everything that happens before the scheduler may decide again is handed over at
once. A simulation brings arrivals and faults from outside; a forecast brings nothing and sees what is here end.
"""

import math
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from penstock.core import Event, Instruction, JobFinished, Tick, Wake
from penstock.scheduler import Scheduler


class ForwardStep(NamedTuple):
    """A moment the scheduler decided at: which jobs ended by then, each with its time, and what it instructed."""

    at: float
    finished: Sequence[JobFinished]
    instructions: list[Instruction]
    decision_s: float
    """How long deciding took on a real clock."""


class JobEnds(Protocol):
    """When running jobs end: as projected, which a scheduler says itself, or as they really do."""

    def next_finish_at(self) -> float:
        """When the first one ends if nothing changes; infinite if none runs."""

    def finishing_by(self, at: float) -> list[tuple[float, str]]:
        """Those that end by then, with their times, in order."""


class OutsideEvents(Protocol):
    """What happens besides jobs that end as projected."""

    @property
    def next_at(self) -> float:
        """When the next one happens; infinite if there is none."""

    @property
    def stop_at(self) -> float:
        """When the clock must stop, because what happens then changes projected ends."""

    def until(self, at: float, finished: Sequence[JobFinished]) -> Sequence[Event]:
        """All events up to ``at`` in order of time, with those of the jobs that finish."""


class NoOutsideEvents:
    """Jobs end as projected, and nothing else happens."""

    next_at = math.inf
    stop_at = math.inf

    def until(self, at: float, finished: Sequence[JobFinished]) -> Sequence[Event]:  # noqa: ARG002
        return finished


def play_forward(
    scheduler: Scheduler,
    outside: OutsideEvents,
    *,
    ends: JobEnds | None = None,
    wake_at: float = math.inf,
    until: float = math.inf,
) -> Iterator[ForwardStep]:
    """Step after step until nothing more happens by ``until``; the scheduler lives through it, so give a twin of a live
    one. Jobs end as projected unless ``ends`` says otherwise; ``wake_at`` is when to decide first even if nothing
    happens."""
    ends = ends or scheduler
    while (first := min(outside.next_at, ends.next_finish_at(), wake_at)) <= until and first < math.inf:
        now = scheduler.now
        at = min(max(scheduler.earliest_round(first), now), outside.stop_at)
        finished = [JobFinished(max(when, now), job_id) for when, job_id in ends.finishing_by(at)]
        events = outside.until(at, finished)
        started = time.perf_counter()
        instructions = scheduler.handle(*events, Tick(at))
        decision_s = time.perf_counter() - started
        last = instructions[-1] if instructions else None
        wake_at = last.at if isinstance(last, Wake) else math.inf
        yield ForwardStep(at, finished, instructions, decision_s)
