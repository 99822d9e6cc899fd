"""What became of the jobs, as arrays in the order of submission: the same row is the same job under every policy."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.core import Cluster, Job
from penstock.policies import Bools, Floats, Ints
from penstock.simulate.engine import Result
from penstock.simulate.metrics import Summary
from penstock.simulate.outcomes import Fate
from penstock.simulate.timeline import Timeline

FATES = (Fate.MET, Fate.LATE, Fate.DECLINED, Fate.DONE, Fate.UNFINISHED, Fate.CANCELLED)
"""The code of a fate in arrays and on the page is its place here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """The jobs themselves, whatever policy they met. ``deadline`` is infinite for best effort.

    ``fastest_s`` is the run time alone on the empty cluster, on the width that suits the job best; ``size_s`` the
    device-seconds it takes on the devices it asked for.
    """

    ids: Sequence[str]
    models: Sequence[str]
    tenants: Sequence[str]
    submitted: Floats
    deadline: Floats
    requested: Ints
    fastest_s: Floats
    size_s: Floats

    @classmethod
    def of(cls, jobs: Sequence[Job], cluster: Cluster) -> "Crowd":
        return cls(
            ids=[job.id for job in jobs], models=[job.model for job in jobs], tenants=[job.tenant for job in jobs],
            submitted=_floats(job.submitted_at for job in jobs), deadline=_floats(job.deadline for job in jobs),
            requested=np.array([job.requested for job in jobs], dtype=np.int64),
            fastest_s=_floats(_fastest_s(job, cluster) for job in jobs),
            size_s=_floats(_size_s(job, cluster) for job in jobs),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def possible(self) -> Bools:
        """Whether its deadline could be met alone on the empty cluster."""
        return self.submitted + self.fastest_s <= self.deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """The same jobs under one policy; NaN where it did not come to that."""

    summary: Summary
    fate: Ints
    promised: Bools
    started: Floats
    finished: Floats
    wait_s: Floats
    jct_s: Floats
    device_seconds: Floats
    rescales: Ints
    timeline: Timeline | None

    @classmethod
    def of(cls, result: Result, crowd: Crowd) -> "Outcomes":
        found = {outcome.id: outcome for outcome in result.outcomes}
        rows = [found[name] for name in crowd.ids]
        started, finished = _floats(row.started_at for row in rows), _floats(row.finished_at for row in rows)
        return cls(
            summary=result.summary, fate=np.array([FATES.index(row.fate) for row in rows], dtype=np.int64),
            promised=np.array([row.promised for row in rows], dtype=np.bool_), started=started, finished=finished,
            wait_s=started - crowd.submitted, jct_s=finished - crowd.submitted,
            device_seconds=_floats(row.device_seconds for row in rows),
            rescales=np.array([row.rescales for row in rows], dtype=np.int64), timeline=result.timeline,
        )  # fmt: skip

    @property
    def policy(self) -> str:
        return self.summary.policy

    def ended(self, fate: Fate) -> Bools:
        return np.asarray(self.fate == FATES.index(fate))

    def count(self, fate: Fate) -> int:
        return int(self.ended(fate).sum())


def _floats(values: Iterable[float]) -> Floats:
    return np.fromiter(values, dtype=np.float64)


def _fastest_s(job: Job, cluster: Cluster) -> float:
    rates = [levels[-1][1] for _, levels in _usable(job, cluster)]
    return job.work.iterations / max(rates) if rates else math.inf


def _size_s(job: Job, cluster: Cluster) -> float:
    for kind, levels in _usable(job, cluster):
        width = min(max(job.requested, levels[0][0]), cluster.capacity(kind))
        return width * job.seconds_on(width, kind)
    return math.inf


def _usable(job: Job, cluster: Cluster) -> Iterable[tuple[str, tuple[tuple[int, float], ...]]]:
    """Kinds of device the job can run on here, with the widths worth using."""
    for kind in cluster.kinds:
        size = cluster.capacity(kind)
        levels = job.curve.levels(kind, job.at_least, min(job.at_most or size, size))
        if levels and (not job.kinds or kind in job.kinds):
            yield kind, levels
