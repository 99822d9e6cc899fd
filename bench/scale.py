"""How cost grows with jobs and devices.

`python -m bench.scale`            decision times of `deadline` and cost against jobs and devices (a few minutes)
`python -m bench.scale policies [POLICY …]`  decision times of policies, 2,000 active jobs of 100 tenants
`python -m bench.scale burst [POLICY …]`     first answer and decision times, 4,000 to 20,000 active jobs
`python -m bench.scale million`    a million jobs on 10,000 devices under FIFO, SRTF and Tiresias

Decision times are processor times: those of a quiet machine, whatever else runs.
"""

import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from rich.console import Console
from rich.table import Table

from penstock.core import BestEffort, Cluster, Curve, Deadline, Job, JobFinished, JobSubmitted, Tick, Work
from penstock.policies import POLICIES, policy_named
from penstock.scheduler import Scheduler
from penstock.simulate import simulate
from penstock.simulate.traces import Profiles, generate, interval_for_load, jobs_of

MILLION = 1_000_000
LARGE = "1250x8"
HUGE = "12500x8"
CROWD = 2000
CROWD_TENANTS = 100
SIZES = (1, 1, 2, 4, 8, 8, 16)
"""What the jobs of a crowd ask for: more than there is."""
SLOT_S = 60.0
BUDGET_S = 30.0
"""Processor time that is spent on the decisions of one policy at most."""


def main() -> None:
    if "million" in sys.argv:
        million()
    elif "policies" in sys.argv:
        crowd(sys.argv[2:] or sorted(POLICIES))
    elif "burst" in sys.argv:
        burst(sys.argv[2:] or ["unified"])
    else:
        decisions()
        growth()


def decisions() -> None:
    """Time of one decision of `deadline` with a given number of jobs active on 10,000 devices."""
    table = Table(
        "active jobs", "devices", "decisions", "mean ms", "p99 ms", "worst ms", title="`deadline`, one decision"
    )
    for active in (250, 500, 1000, 2000, 4000):
        times = np.array(_decision_times(active, Cluster.parse(LARGE), "deadline", JobMix())[1]) * 1e3
        table.add_row(
            str(active), "10000", str(len(times)), f"{times.mean():.1f}", f"{np.percentile(times, 99):.1f}",
            f"{times.max():.1f}",
        )  # fmt: skip
    Console(width=150).print(table)


def crowd(policies: Sequence[str]) -> None:
    """Time of one decision of each policy with many jobs of many tenants, half of them with a deadline."""
    title = f"One decision, {CROWD} active jobs of {CROWD_TENANTS} tenants on 10,000 devices"
    table = Table("policy", "decisions", "p50 ms", "p99 ms", "worst ms", title=title)
    for name in policies:
        jobs = JobMix(best_effort=0.5, tenants=CROWD_TENANTS, sizes=SIZES)
        times = np.array(_decision_times(CROWD, Cluster.parse(LARGE), name, jobs)[1]) * 1e3
        quantiles = [f"{np.percentile(times, each):.1f}" for each in (50, 99, 100)]
        table.add_row(name, str(len(times)), *quantiles)
        print(name, len(times), *quantiles, file=sys.stderr, flush=True)
    Console(width=150).print(table)


def burst(policies: Sequence[str]) -> None:
    """Time of the first answer when all jobs come at once, and of the decisions after it."""
    table = Table(
        "policy", "active jobs", "devices", "with a deadline", "tenants", "first answer s", "mean ms", "worst ms",
        title="A burst of jobs, then one decision per slot",
    )  # fmt: skip
    half, every = JobMix(best_effort=0.5, tenants=CROWD_TENANTS), JobMix()
    worlds = ((4000, LARGE, half), (20_000, LARGE, half), (20_000, LARGE, every), (20_000, HUGE, half))
    for name in policies:
        _decision_times(100, Cluster.parse("4x8"), name, half, decisions=3)
        for active, cluster, jobs in worlds:
            first, later = _decision_times(active, Cluster.parse(cluster), name, jobs, decisions=20)
            times = np.array(later) * 1e3
            table.add_row(
                name, str(active), str(Cluster.parse(cluster).device_count), f"{1 - jobs.best_effort:.0%}",
                str(jobs.tenants), f"{first:.2f}", f"{times.mean():.1f}", f"{times.max():.1f}",
            )  # fmt: skip
            print(name, active, cluster, f"{first:.2f}", times.round(1).tolist(), file=sys.stderr, flush=True)
    Console(width=150).print(table)


@dataclass(frozen=True)
class JobMix:
    """What kinds of jobs come: one hour and more on one device, with deadlines of 0.4 to 2 times that."""

    best_effort: float = 0.0
    tenants: int = 1
    sizes: Sequence[int] = (1,)

    def draw(self, number: int, now: float, rng: np.random.Generator) -> JobSubmitted:
        curves = _curves()
        curve = curves[rng.integers(len(curves))]
        seconds = 3600.0 * 10 ** rng.uniform(0, 1.2)
        due = Deadline(now + seconds * rng.uniform(0.4, 2.0))
        job = Job(
            id=str(number), work=Work(seconds * curve.rate(1)), curve=curve, submitted_at=now,
            goal=BestEffort() if rng.random() < self.best_effort else due,
            tenant=f"tenant-{rng.integers(self.tenants)}", requested=int(rng.choice(self.sizes)),
        )  # fmt: skip
        return JobSubmitted(now, job)


@cache
def _curves() -> list[Curve]:
    return list(Profiles.builtin().curves.values())


def _decision_times(
    active: int, cluster: Cluster, policy: str, mix: JobMix, decisions: int = 150
) -> tuple[float, list[float]]:
    """Fill up to ``active`` jobs, then decide while one arrives per slot and others end: seconds that each takes."""
    rng = np.random.default_rng(1)
    scheduler = Scheduler(cluster, policy_named(policy), slot=SLOT_S, stories=False)
    burst = [mix.draw(number, 0.0, rng) for number in range(active)]
    started = time.process_time()
    scheduler.handle(*burst)
    first, times = time.process_time() - started, list[float]()
    for step in range(1, decisions + 1):
        now = SLOT_S * step
        ends = [JobFinished(at, job_id) for at, job_id in scheduler.finishing_by(now)]
        missing = active - len(scheduler.active()) + len(ends)
        arrivals = [mix.draw(active + step * 10_000 + i, now, rng) for i in range(max(missing, 1))]
        started = time.process_time()
        scheduler.handle(*ends, *arrivals, Tick(now))
        times.append(time.process_time() - started)
        if sum(times) > BUDGET_S:
            break
    return first, times


def growth() -> None:
    """CPU seconds of whole simulations against jobs and devices."""
    table = Table(
        "policy", "jobs", "devices", "rounds", "CPU s", "µs a job", title="Whole simulations, load 0.9, slot 60 s"
    )
    for policy in ("deadline", "elasticflow", "fifo", "tiresias"):
        for jobs, nodes in ((1000, 16), (4000, 16), (1000, 128), (4000, 128), (16000, 128)):
            cluster = Cluster.parse(f"{nodes}x8")
            summary = simulate(_jobs(jobs, cluster, 0.9), cluster, policy_named(policy), slot=60.0).summary
            table.add_row(
                policy, str(jobs), str(nodes * 8), str(summary.rounds), f"{summary.cpu_s:.2f}",
                f"{summary.cpu_s / jobs * 1e6:.0f}",
            )  # fmt: skip
    Console(width=150).print(table)


def million() -> None:
    cluster = Cluster.parse(LARGE)
    table = Table("policy", "jobs", "devices", "rounds", "CPU s", "wall s", "peak memory MB", "JCT mean h", "use")
    for policy in ("fifo", "srtf", "tiresias"):
        started = time.perf_counter()
        summary = simulate(_jobs(MILLION, cluster, 0.9), cluster, policy_named(policy), slot=60.0).summary
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        table.add_row(
            policy, str(summary.jobs), str(cluster.device_count), str(summary.rounds), f"{summary.cpu_s:.0f}",
            f"{time.perf_counter() - started:.0f}", f"{memory:.0f}", f"{summary.jct_mean_s / 3600:.2f}",
            f"{summary.utilisation:.3f}",
        )  # fmt: skip
    Console(width=150).print(table)


def _jobs(count: int, cluster: Cluster, load: float):  # type: ignore[no-untyped-def]
    profiles = Profiles.builtin()
    interval = interval_for_load(load, cluster.device_count)
    return jobs_of(generate(count, seed=3, profiles=profiles, mean_interval_s=interval), profiles)


if __name__ == "__main__":
    main()
