"""What really happened on a cluster, job by job, whoever scheduled it: the input of an analysis.

A trace tells part of it, a platform's own log all of it. What is not known stays unknown: a study that needs it says
so instead of guessing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from penstock.policies import Floats
from penstock.simulate.traces import Ending, Trace, TraceJob

EARLY_S = 600.0
"""A job that fails within this time failed at its beginning: settings, imports, paths."""


class Hold(NamedTuple):
    """Devices that a job held for a while."""

    since: float
    until: float
    devices: int

    @property
    def device_s(self) -> float:
        return self.devices * (self.until - self.since)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedJob:
    """One job as it went. ``asked`` devices is what it wanted, ``holds`` what it had, empty where no start is known.

    ``run_s`` is how long it ran in all. ``cause`` names why it failed, ``lost_s`` are device-seconds whose work was
    done again; ``wasted_s`` those that brought nothing because it was wider than its speed justified, None where no
    speed is known.
    """

    id: str
    tenant: str
    asked: int
    submitted_at: float
    run_s: float
    type: str = ""
    ending: Ending = Ending.UNKNOWN
    cause: str = ""
    waited_s: float | None = None
    holds: tuple[Hold, ...] = ()
    lost_s: float = 0.0
    wasted_s: float | None = None

    @property
    def device_s(self) -> float:
        """What it held, or what it would have held had it run as it asked."""
        return sum(hold.device_s for hold in self.holds) if self.holds else self.asked * self.run_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Jobs of one cluster over one time. ``devices`` is how many there were, where that is known."""

    name: str
    jobs: Sequence[ObservedJob]
    devices: int | None = None
    notes: Sequence[str] = ()

    @property
    def since(self) -> float:
        return min((job.submitted_at for job in self.jobs), default=0.0)

    @property
    def device_s(self) -> float:
        return math.fsum(job.device_s for job in self.jobs)

    @property
    def knows_starts(self) -> bool:
        """Whether it is known of (nearly) every job that ran when it did; rejected and cancelled ones never did."""
        ran = [job for job in self.jobs if job.run_s > 0 or job.holds]
        return bool(ran) and sum(bool(job.holds) for job in ran) >= 0.95 * len(ran)

    @property
    def knows_endings(self) -> bool:
        return any(job.ending is not Ending.UNKNOWN for job in self.jobs)

    def column(self, name: str) -> Floats:
        """A figure of every job; what is not known is NaN."""
        values = (getattr(job, name) for job in self.jobs)
        return np.fromiter((math.nan if value is None else value for value in values), dtype=np.float64)


def observe_trace(trace: Trace, devices: int | None = None) -> Observed:
    """The jobs of a trace, as far as it says how they went."""
    told = [_observed(job) for job in trace if job.duration_s is not None]
    left_out = len(trace) - len(told)
    notes = [f"{count:,} rows with {reason} are left out" for reason, count in trace.skipped]
    notes += [f"{left_out:,} jobs without a run time are left out"] if left_out else []
    return Observed(name=trace.name, jobs=told, devices=devices, notes=notes)


def _observed(job: TraceJob) -> ObservedJob:
    run_s = job.duration_s or 0.0
    started = None if job.waited_s is None else job.submitted_at + job.waited_s
    return ObservedJob(
        id=job.id, tenant=job.tenant, asked=job.devices, submitted_at=job.submitted_at, run_s=run_s, type=job.type,
        ending=job.ending, waited_s=job.waited_s,
        holds=() if started is None else (Hold(started, started + run_s, job.devices),),
    )  # fmt: skip
