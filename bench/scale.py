"""How cost grows with jobs and devices.

`python -m bench.scale`            decision times of `deadline` and cost against jobs and devices (a few minutes)
`python -m bench.scale million`    a million jobs on 10,000 devices under FIFO, SRTF and Tiresias
"""

import resource
import sys
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from penstock.core import Cluster, Deadline, Job, JobSubmitted, Tick, Work
from penstock.policies import policy_named
from penstock.scheduler import Scheduler
from penstock.simulate import simulate
from penstock.simulate.traces import Profiles, generate, interval_for_load, jobs_of

MILLION = 1_000_000
LARGE = "1250x8"


def main() -> None:
    if "million" in sys.argv:
        million()
    else:
        decisions()
        growth()


def decisions() -> None:
    """Time of one decision of `deadline` with a given number of jobs active on 10,000 devices."""
    table = Table(
        "active jobs", "devices", "decisions", "mean ms", "p99 ms", "worst ms", title="`deadline`, one decision"
    )
    for active in (250, 500, 1000, 2000, 4000):
        times = np.array(_decision_times(active, Cluster.parse(LARGE))) * 1e3
        table.add_row(
            str(active), "10000", str(len(times)), f"{times.mean():.1f}", f"{np.percentile(times, 99):.1f}",
            f"{times.max():.1f}",
        )  # fmt: skip
    Console(width=150).print(table)


def _decision_times(active: int, cluster: Cluster, decisions: int = 150) -> list[float]:
    """Fill up to ``active`` promised jobs, then time decisions while one arrives per slot and others end."""
    rng = np.random.default_rng(1)
    scheduler = Scheduler(cluster, policy_named("deadline"), slot=60.0, stories=False)
    curves = list(Profiles.builtin().curves.values())

    def job(number: int, now: float) -> JobSubmitted:
        curve = curves[rng.integers(len(curves))]
        seconds = 3600.0 * 10 ** rng.uniform(0, 1.2)
        goal = Deadline(now + seconds * rng.uniform(0.4, 2.0))
        work = Work(seconds * curve.rate(1))
        return JobSubmitted(now, Job(id=str(number), work=work, curve=curve, goal=goal, submitted_at=now))

    scheduler.handle(*(job(number, 0.0) for number in range(active)))
    times = []
    for step in range(1, decisions + 1):
        now = 60.0 * step
        from penstock.core import JobFinished

        ends = [JobFinished(at, job_id) for at, job_id in scheduler.finishing_by(now)]
        missing = active - len(scheduler.active()) + len(ends)
        arrivals = [job(active + step * 1000 + i, now) for i in range(max(missing, 1))]
        started = time.perf_counter()
        scheduler.handle(*ends, *arrivals, Tick(now))
        times.append(time.perf_counter() - started)
    return times


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
