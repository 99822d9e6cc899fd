"""What will probably happen: the real scheduler, a copy of it, and time that runs ahead.

A promise says by when a job is done whatever happens; a forecast says when it will be, if nothing unforeseen does. It
is found by letting a copy of the scheduler live through the future: jobs end when they are projected to, devices go to
whoever the policy gives them to, until everybody asked about is done. Jobs that nobody has submitted yet are not in it.
"""

import math
import time
from collections.abc import Callable, Collection, Iterator
from itertools import islice

from penstock.scheduler import Scheduler
from penstock.simulate import ForwardStep, NoOutsideEvents, play_forward

_MOST_STEPS = 10_000


def future(stage: Scheduler, since: float, until: float = math.inf) -> Iterator[ForwardStep]:
    """Step after step, from ``since`` on, until nothing more happens by ``until``; ``stage`` is used up."""
    steps = play_forward(stage, NoOutsideEvents(), wake_at=max(since, stage.now), until=until)
    return islice(steps, _MOST_STEPS)


def forecast(
    stage: Scheduler, jobs: Collection[str], *, within_s: float = 0.05, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """When each of these jobs will be done; ``stage`` is used up, so give a twin.

    After ``within_s`` of computing the rest is extrapolated: whatever is left to do, shared evenly among the devices.
    """
    left, ends, until = set(jobs), dict[str, float](), clock() + within_s
    steps = future(stage, stage.now)
    while left and clock() <= until and (step := next(steps, None)) is not None:
        ends |= {done.job_id: done.at for done in step.finished if done.job_id in left}
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
