"""What will probably happen: the real scheduler, a copy of it, and time that runs ahead.

A promise says by when a job is done whatever happens; a forecast says when it will be, if nothing unforeseen does. It
is found by letting a copy of the scheduler live through the future: jobs end when they are projected to, devices go to
whoever the policy gives them to, until everybody asked about is done. Jobs that nobody has submitted yet are not in it.
"""

import math
import time
from collections.abc import Callable, Collection

from penstock.core import JobFinished, Tick, Wake
from penstock.scheduler import Scheduler

_MOST_ROUNDS = 10_000


def forecast(
    stage: Scheduler, jobs: Collection[str], *, within_s: float = 0.05, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """When each of these jobs will be done; ``stage`` is used up, so give a twin.

    After ``within_s`` of computing the rest is extrapolated: whatever is left to do, shared evenly among the devices.
    """
    left, ends, until = set(jobs), dict[str, float](), clock() + within_s
    wake_at = stage.now
    for _ in range(_MOST_ROUNDS):
        first = min(stage.next_finish_at(), wake_at)
        if not left or math.isinf(first) or clock() > until:
            break
        at = max(stage.earliest_round(first), stage.now)
        done = stage.finishing_by(at)
        ends |= {job_id: when for when, job_id in done if job_id in left}
        left -= {job_id for _, job_id in done}
        said = stage.handle(*(JobFinished(max(when, stage.now), job_id) for when, job_id in done), Tick(at))
        wake_at = next((each.at for each in said if isinstance(each, Wake)), math.inf)
        left = {job_id for job_id in left if stage.is_active(job_id)}
    return ends | _extrapolated(stage, left)


def _extrapolated(stage: Scheduler, jobs: Collection[str]) -> dict[str, float]:
    """Whoever runs ends as projected; who waits is reached when what is cheaper to do is done."""
    ends = dict[str, float]()
    for kind, waiting in stage.backlog().items():
        busy = 0.0
        for job_id, seconds, finish_at in waiting:
            busy += seconds
            if job_id in jobs:
                ends[job_id] = finish_at if math.isfinite(finish_at) else stage.now + busy / stage.capacity(kind)
    return ends
