"""The most deadlines that any schedule could meet, known in advance: a bound that no policy can beat.

A mixed-integer program over the intervals between arrivals and deadlines. In each of them a job may divide its time
among the widths and kinds it can use; work done by its deadline decides whether the job counts. Rescheduling is free,
devices are anonymous, and the future is known: what real policies cannot have only makes the bound higher, never wrong.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from penstock.core import Cluster, Curve, InputError, Job, require
from penstock.policies import Floats, Ints
from penstock.simulate.metrics import Summary

OPTIMUM = "optimum"
"""What stands in the place of a policy's name."""
MOST_JOBS = 300
MOST_CHOICES = 200_000
"""Beyond these the program would take minutes to hours."""

_TOLERANCE = 1e-7

Point = tuple[str, int, float]
"""A kind, so many devices of it, and iterations per second there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimum:
    """At most ``met`` of the ``with_deadline`` deadlines can be met; ``is_exact`` if a schedule of that kind meets so
    many, else the search ended early and the truth may be lower."""

    jobs: int
    with_deadline: int
    met: int
    is_exact: bool
    solve_s: float

    def summary(self) -> Summary:
        """As a line beside those of policies; what a bound says nothing about is NaN or zero."""
        nothing: dict[str, Any] = dict.fromkeys((
            "value_missed", "best_effort_jct_s", "jct_mean_s", "jct_p50_s", "jct_p95_s", "jct_p99_s", "queueing_mean_s",
            "makespan_s", "utilisation", "fragmentation", "overhead_share", "fairness_mean", "fairness_worst",
            "tenant_fairness_least", "tenant_fairness_most", "lost_share", "decision_mean_ms", "decision_p99_ms",
        ), math.nan)  # fmt: skip
        ratio = self.met / self.with_deadline if self.with_deadline else math.nan
        return Summary(
            policy=OPTIMUM, jobs=self.jobs, met=self.met, ratio=ratio, declined=self.with_deadline - self.met, late=0,
            promises=0, broken=0, broken_worst_s=0.0, broken_causes={},
            best_effort=self.jobs - self.with_deadline, unfinished=0, rescales=0, suspensions=0,
            losses=0, benefits=0, rounds=0, cpu_s=self.solve_s, **nothing,
        )  # fmt: skip


def optimum(
    jobs: Sequence[Job], cluster: Cluster, *, speed: Callable[[str], float] = lambda _: 1.0, patience_s: float = 60.0
) -> Optimum:
    """The bound for jobs on a cluster; ``speed`` is how many times as fast as its curve a job really runs.

    Needs the ``optimum`` extra. After ``patience_s`` the best bound found so far is given.
    """
    require("scipy", extra="optimum", why="the optimum (--optimum)")
    dated = [job for job in jobs if math.isfinite(job.deadline)]
    if len(dated) > MOST_JOBS:
        raise _too_large(f"{len(dated)} jobs with a deadline", f"at most {MOST_JOBS}")
    started = time.process_time()
    met, is_exact = _Program.of(dated, cluster, speed).solve(patience_s) if dated else (0, True)
    return Optimum(
        jobs=len(jobs), with_deadline=len(dated), met=met, is_exact=is_exact, solve_s=time.process_time() - started
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Program:
    """One column per way to spend time in an interval, then one per job: whether it counts.

    ``time_row``: job and interval, ``capacity_row``: kind and interval, both numbered from zero.
    """

    jobs: int
    job: Ints
    rate: Floats
    width: Ints
    time_row: Ints
    time_s: Floats
    capacity_row: Ints
    capacity: Floats

    @classmethod
    def of(cls, jobs: Sequence[Job], cluster: Cluster, speed: Callable[[str], float]) -> "_Program":
        edges = sorted({at for job in jobs for at in (job.submitted_at, job.deadline)})
        lengths = np.diff(edges)
        choices, times = _choices(jobs, cluster, speed, edges)
        if choices.shape[0] > MOST_CHOICES:
            raise _too_large(f"{choices.shape[0]} choices", f"at most {MOST_CHOICES}: fewer jobs that overlap less")
        capacity = [cluster.capacity(kind) * length for kind in cluster.kinds for length in lengths]
        job, width, time_row, capacity_row = (choices[:, column].astype(np.int64) for column in (0, 2, 3, 4))
        return cls(len(jobs), job, choices[:, 1], width, time_row, times, capacity_row, np.array(capacity))

    def solve(self, patience_s: float) -> tuple[int, bool]:
        """How many jobs count at most, and whether that many do."""
        milp = require("scipy.optimize", extra="optimum", why="the optimum (--optimum)")
        count = len(self.job)
        integrality = np.concatenate((np.zeros(count), np.ones(self.jobs)))
        upper = np.concatenate((self.time_s[self.time_row], np.ones(self.jobs)))
        found = milp.milp(
            np.concatenate((np.zeros(count), -np.ones(self.jobs))), integrality=integrality,
            bounds=milp.Bounds(0.0, upper), constraints=list(self._constraints(milp)),
            options={"time_limit": patience_s, "mip_rel_gap": 0.0},
        )  # fmt: skip
        bound = -found.mip_dual_bound if found.mip_dual_bound is not None else self.jobs
        most = min(math.floor(bound + 1e-6), self.jobs)
        reached = round(-found.fun) if found.fun is not None else -1
        return most, reached == most

    def _constraints(self, milp: Any) -> Iterator[Any]:
        count = len(self.job)
        ones = np.ones(count)
        yield milp.LinearConstraint(self._matrix(self.time_row, ones, len(self.time_s)), -np.inf, self.time_s)
        capacity = self._matrix(self.capacity_row, self.width.astype(float), len(self.capacity))
        yield milp.LinearConstraint(capacity, -np.inf, self.capacity)
        counts = (np.arange(self.jobs), np.arange(self.jobs) + count, -np.full(self.jobs, 1.0 - _TOLERANCE))
        yield milp.LinearConstraint(self._matrix(self.job, self.rate, self.jobs, counts), 0.0, np.inf)

    def _matrix(self, rows: Ints, values: Floats, height: int, more: tuple[Ints, Ints, Floats] | None = None) -> Any:
        """The columns' ``values`` in ``rows``, and ``more`` as rows, columns and values."""
        sparse = require("scipy.sparse", extra="optimum", why="the optimum (--optimum)")
        columns = np.arange(len(self.job))
        if more is not None:
            rows, columns = np.concatenate((rows, more[0])), np.concatenate((columns, more[1]))
            values = np.concatenate((values, more[2]))
        return sparse.csr_array((values, (rows, columns)), shape=(height, len(self.job) + self.jobs))


def _choices(
    jobs: Sequence[Job], cluster: Cluster, speed: Callable[[str], float], edges: Sequence[float]
) -> tuple[Floats, Floats]:
    """Lines of job, share of its work per second, width, row of time, row of capacity; and the seconds of time rows."""
    place_of = {edge: place for place, edge in enumerate(edges)}
    kinds = {kind: position * (len(edges) - 1) for position, kind in enumerate(cluster.kinds)}
    lines: list[tuple[float, ...]] = []
    times: list[float] = []
    for number, job in enumerate(jobs):
        faster, points = speed(job.id) / job.work.iterations, _useful(job, cluster)
        for place in range(place_of[job.submitted_at], place_of[job.deadline]):
            row = len(times)
            times.append(edges[place + 1] - edges[place])
            lines.extend((number, rate * faster, width, row, kinds[kind] + place) for kind, width, rate in points)
    return np.array(lines, dtype=float).reshape(-1, 5), np.array(times)


def _useful(job: Job, cluster: Cluster) -> list[Point]:
    """The ways to run a job that no mixture of others beats: the upper hull of speed over devices, kind by kind."""
    allowed = [kind for kind in cluster.kinds if not job.kinds or kind in job.kinds]
    return [
        (kind, count, rate)
        for kind in allowed
        for count, rate in _hull(
            job.curve, kind, cluster.capacity(kind), job.requested, job.at_least, job.at_most or cluster.capacity(kind)
        )
    ]


@lru_cache(maxsize=4096)
def _hull(
    curve: Curve, kind: str, capacity: int, requested: int, at_least: int, at_most: int
) -> tuple[tuple[int, float], ...]:
    scaling = curve.scaling(kind)
    if scaling is None:
        return ()
    counts = {count for count in scaling.counts if at_least <= count <= at_most} | {requested, at_least}
    best = {count: _fastest(curve, count, kind) for count in counts if count <= capacity}
    hull: list[tuple[int, float]] = [(0, 0.0)]
    for count, rate in sorted((count, rate) for count, rate in best.items() if rate > 0):
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) <= _slope(hull[-2], (count, rate)):
            hull.pop()
        if rate > hull[-1][1]:
            hull.append((count, rate))
    return tuple(hull[1:])


def _fastest(curve: Curve, count: int, kind: str) -> float:
    """On ``count`` devices however they are placed."""
    scaling = curve.scaling(kind)
    spread = [rate for at, _, rate in scaling.spread if at == count] if scaling is not None else []
    return max(curve.rate(count, kind), *spread, 0.0)


def _slope(one: tuple[int, float], two: tuple[int, float]) -> float:
    return (two[1] - one[1]) / (two[0] - one[0])


def _too_large(given: str, allowed: str) -> InputError:
    return InputError(f"an optimum over {given}", allowed, "Cut the trace: the optimum is for small cases")
