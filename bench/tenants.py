"""What quotas of many tenants cost: decisions about 10,000 devices, 2,000 jobs of 100 tenants, with and without quotas.

`python -m bench.tenants [--policies fifo,srtf,fair] [--events 100]`

Jobs come and go one by one on a cluster that is full, so that somebody always borrows and somebody always asks for its
quota. The times are processor time of one decision with everything around it.
"""

import argparse
import random
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from penstock.core import Cluster, Curve, Job, JobFinished, JobSubmitted, Tenant, TenantChanged, Work
from penstock.policies import policy_named
from penstock.scheduler import Scheduler

NODES, PER_NODE, JOBS, TENANTS, GROUPS = 1250, 8, 2000, 100, 10
CURVE = Curve.from_table({1: 1.0, 2: 1.9, 4: 3.6, 8: 6.5, 16: 11.0})
QUOTA = 90


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policies", default="fifo,srtf,astraea")
    parser.add_argument("--events", type=int, default=100)
    asked = parser.parse_args()
    table = Table("policy", "quotas", "p50 ms", "p99 ms", "most ms")
    for name in asked.policies.split(","):
        for quotas in (False, True):
            times = 1e3 * np.array(_decisions(name, asked.events, quotas=quotas))
            figures = (np.median(times), np.quantile(times, 0.99), times.max())
            table.add_row(name, "yes" if quotas else "no", *(f"{figure:.1f}" for figure in figures))
    Console().print(table)


def _decisions(policy: str, events: int, *, quotas: bool) -> list[float]:
    rng, machine = random.Random(1), Scheduler(Cluster.parse(f"{NODES}x{PER_NODE}"), policy_named(policy))
    for tenant in range(TENANTS):
        settings = Tenant(
            name=f"t{tenant}", share=1.0 + tenant % 3, quota=QUOTA if quotas else None, group=f"g{tenant % GROUPS}"
        )
        machine.apply(TenantChanged(0.0, settings))
    for number in range(JOBS):
        machine.apply(JobSubmitted(0.0, _job(rng, number, 0.0)))
    machine.handle()
    times: list[float] = []
    now = 0.0
    for number in range(JOBS, JOBS + events):
        now += 60.0
        running = [name for name in rng.sample(machine.active(), 50) if machine.devices_of(name)]
        machine.apply(JobFinished(now, running[0]))
        started = time.process_time()
        machine.handle(JobSubmitted(now, _job(rng, number, now)))
        times.append(time.process_time() - started)
    machine.validate()
    return times[5:]


def _job(rng: random.Random, number: int, now: float) -> Job:
    """A few tenants ask for much more than the others."""
    tenant = min(int(rng.expovariate(0.04)), TENANTS - 1)
    width = rng.choice((4, 8, 8, 16))
    return Job(
        id=f"{number}", work=Work(rng.uniform(1e4, 1e6)), curve=CURVE, tenant=f"t{tenant}", submitted_at=now,
        requested=width, at_most=width,
    )  # fmt: skip


if __name__ == "__main__":
    main()
