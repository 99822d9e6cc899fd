"""What will probably happen: the real scheduler, a copy of it, and time that runs ahead.

A promise says by when a job is done whatever happens; a forecast says when it will be, if nothing unforeseen does. It
is found by letting a copy of the scheduler live through the future: jobs end when they are projected to, devices go to
whoever the policy gives them to, until everybody asked about is done. Jobs that nobody has submitted yet are not in it.
"""

import math
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from penstock.core import Instruction, JobFinished, Tick, Wake
from penstock.scheduler import Scheduler

_MOST_ROUNDS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A moment of the future: who is done by then, each with its time, and what the scheduler says to it."""

    at: float
    done: tuple[tuple[float, str], ...]
    said: tuple[Instruction, ...]


def future(stage: Scheduler, since: float, until: float = math.inf) -> Iterator[Round]:
    """Round after round, from ``since`` on, until nothing more happens by ``until``; ``stage`` is used up."""
    wake_at = max(since, stage.now)
    for _ in range(_MOST_ROUNDS):
        first = min(stage.next_finish_at(), wake_at)
        if first > until or math.isinf(first):
            return
        at = max(stage.earliest_round(first), stage.now)
        done = tuple((max(when, stage.now), job_id) for when, job_id in stage.finishing_by(at))
        said = tuple(stage.handle(*(JobFinished(when, job_id) for when, job_id in done), Tick(at)))
        wake_at = next((each.at for each in said if isinstance(each, Wake)), math.inf)
        yield Round(at=at, done=done, said=said)


def forecast(
    stage: Scheduler, jobs: Collection[str], *, within_s: float = 0.05, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """When each of these jobs will be done; ``stage`` is used up, so give a twin.

    After ``within_s`` of computing the rest is extrapolated: whatever is left to do, shared evenly among the devices.
    """
    left, ends, until = set(jobs), dict[str, float](), clock() + within_s
    rounds = future(stage, stage.now)
    while left and clock() <= until and (then := next(rounds, None)) is not None:
        ends |= {job_id: when for when, job_id in then.done if job_id in left}
        left = {job_id for job_id in left if stage.is_active(job_id)}
    return ends | _extrapolated(stage, left)


def _shared_s(device_seconds: float, devices: int) -> float:
    return device_seconds / devices if devices else math.inf


def _extrapolated(stage: Scheduler, jobs: Collection[str]) -> dict[str, float]:
    """Whoever runs ends as projected; who waits is reached when what is cheaper to do is done."""
    ends = dict[str, float]()
    for kind, waiting in stage.backlog().items():
        busy = 0.0
        for job_id, seconds, finish_at in waiting:
            busy += seconds
            if job_id in jobs:
                ends[job_id] = (
                    finish_at if math.isfinite(finish_at) else stage.now + _shared_s(busy, stage.capacity(kind))
                )
    return ends
