"""A trace in a dozen numbers, to see at a glance what one is about to simulate."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

import numpy as np

from penstock.simulate.traces.records import Trace

QUANTILES = (0, 10, 50, 90, 99, 100)
"""The percentiles every distribution is described by; 0 and 100 are the smallest and the largest value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What :func:`describe` finds. Distributions are mappings from "p50" and so on; empty where nothing is known.

    ``slack`` is the time from submission to deadline in multiples of the duration: below 1 a job cannot finish in
    time on the devices it asks for.
    """

    name: str
    format: str
    jobs: int
    span_s: float
    device_hours: float
    sizes: Mapping[int, int]
    durations_s: Mapping[str, float]
    slack: Mapping[str, float]
    best_effort: float
    models: Mapping[str, int]
    tenants: int
    skipped: Mapping[str, int]

    def as_dict(self) -> dict[str, object]:
        """The same as plain values for JSON; the counts in ``sizes`` keep their order of size."""
        return asdict(self)


def describe(trace: Trace) -> Description:
    jobs = trace.jobs
    return Description(
        name=trace.name,
        format=trace.format,
        jobs=len(jobs),
        span_s=jobs[-1].submitted_at - jobs[0].submitted_at if jobs else 0.0,
        device_hours=sum(job.devices * (job.duration_s or 0.0) for job in jobs) / 3600,
        sizes=dict(sorted(Counter(job.devices for job in jobs).items())),
        durations_s=_quantiles(job.duration_s for job in jobs if job.duration_s is not None),
        slack=_quantiles(
            (job.deadline - job.submitted_at) / job.duration_s for job in jobs if job.deadline and job.duration_s
        ),
        best_effort=sum(job.deadline is None for job in jobs) / len(jobs) if jobs else 0.0,
        models=dict(Counter(job.model for job in jobs if job.model).most_common()),
        tenants=len({job.tenant for job in jobs}),
        skipped=dict(trace.skipped),
    )


def _quantiles(values: Iterable[float]) -> dict[str, float]:
    known = np.fromiter(values, dtype=float)
    if not known.size:
        return {}
    return {f"p{q}": float(value) for q, value in zip(QUANTILES, np.percentile(known, QUANTILES), strict=True)}
