"""How fast jobs really were: the work they did, over what their curves make of the devices they held.

Starting, changing devices and ending take their time, and failures cost what was done since the last checkpoint, here
as in a replay; what is left is the job's own speed as a multiple of its curve.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.core import Job
from penstock.simulate import Stretch

_SLOWEST, _FASTEST = 0.05, 20.0
"""Between these a job's own speed is believed; beyond them its time went elsewhere."""


@dataclass(frozen=True, slots=True)
class CurveWork:
    """Iterations that the curve makes of the devices a job held: kept in the end, and kept up to some moment."""

    total: float
    before: float


def curve_work(job: Job, held: Sequence[Stretch], failed_at: Sequence[float], since: float) -> CurveWork:
    """At the speed of the curve; what failures cost is left out."""
    total = before = 0.0
    for index, stretch in enumerate(held):
        follows = index > 0 and held[index - 1].until >= stretch.since
        last = index + 1 == len(held)
        if not job.resumable and index:
            total = before = 0.0
        pause = job.costs.resize.likely if follows else job.costs.start.likely
        rate = job.curve.rate(stretch.width, stretch.kind, stretch.nodes)
        ran = max(0.0, stretch.seconds - pause - (job.costs.end.likely if last else 0.0))
        total += rate * (ran - _lost_s(job, stretch, failed_at, ran))
        if stretch.until <= since:
            before = total
        elif stretch.since < since:
            before = total - rate * min(ran, stretch.until - since)
    return CurveWork(max(total, 0.0), min(max(before, 0.0), max(total, 0.0)))


def _lost_s(job: Job, stretch: Stretch, failed_at: Sequence[float], ran: float) -> float:
    """Seconds since the last checkpoint, where the stretch ended in a failure."""
    if not any(stretch.since < at <= stretch.until + 1.0 for at in failed_at):
        return 0.0
    return math.fmod(ran, job.checkpoint_every_s) if job.resumable else ran


def speed_of(done: float, by_curve: float) -> float:
    """How many times as fast as its curve a job was."""
    return min(max(done / by_curve, _SLOWEST), _FASTEST) if by_curve > 0 and done > 0 else 1.0
