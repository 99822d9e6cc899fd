"""Jobs with speeds one can compute in one's head, and a simulation that checks itself after every decision."""

from collections.abc import Sequence
from typing import Any

from penstock.core import Cluster, Curve, Job, Work
from penstock.policies import policy_named
from penstock.simulate import JobOutcome, Result, simulate

PROPORTIONAL = Curve.from_table({1: 1.0, 2: 2.0, 4: 4.0})


def job(name: str, iterations: float = 100.0, at: float = 0.0, **changes: Any) -> Job:
    return Job(**({"id": name, "work": Work(iterations), "curve": PROPORTIONAL, "submitted_at": at} | changes))


def run(jobs: Sequence[Job], shape: str = "1x4", policy: str = "fifo", slot: float = 0.0, **options: Any) -> Result:
    return simulate(jobs, Cluster.parse(shape), policy_named(policy), slot=slot, validate=True, **options)


def by_name(result: Result) -> dict[str, JobOutcome]:
    return {outcome.id: outcome for outcome in result.outcomes}
