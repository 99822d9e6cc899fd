"""Large gangs among small jobs, and small tenants beside a greedy one: completion times, suspensions, fairness.

``python -m bench.sharing [gangs|tenants|cuts] [--policies unified,fifo] [--seeds 2]``. Progress, suspensions and
device-time of gangs and tenants are counted by the books of :mod:`bench.books`, not by the scheduler.

*gangs*: 64 nodes of 8 devices, two days; some 3,700 rigid jobs of 1 to 8 devices of eight tenants, and five gangs of
256 devices that run two hours, six hours apart. *tenants*: 64 devices, two days; one tenant submits a job every three
minutes, more than the cluster can do, nine others one every three hours. *cuts*: 300 jobs of public traces with drawn
deadlines and the tenants of the trace; under ``deadline`` fairness plays no part.
"""

import argparse
import itertools
import math
import os
import random
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from bench.books import Books, Entry
from bench.cuts import Cut, alibaba, philly, venus
from penstock.core import Cluster, Curve, Deadline, Job, Overhead, TenantChanged, Work
from penstock.policies import policy_named
from penstock.scheduler import ExpectedCosts
from penstock.simulate import simulate

MEASURED = Overhead(change_s=4.2, worst_s=4.2)
SLOT_S = 60.0
TWO_DAYS = 2 * 86_400.0
GANG, GANG_HOURS, GANGS = 256, 2.0, 5
DEVICES = 512
GREEDY_DEVICES, SMALL_TENANTS = 64, 9
CUT_JOBS, CUT_LOAD = 300, 1.5


def gang_jobs(seed: int, use: float) -> list[Job]:
    """Rigid jobs that ask for ``use`` of the devices, the gangs included."""
    rng, jobs = random.Random(f"gangs {seed} {use}"), list[Job]()
    gangs_s = GANG * GANG_HOURS * 3600.0 * GANGS
    small_s = use * DEVICES * TWO_DAYS - gangs_s
    shapes = [(rng.choice((1, 1, 2, 2, 4, 8)), min(rng.lognormvariate(7.9, 1.1), 36_000.0)) for _ in range(3701)]
    scale = small_s / sum(width * seconds for width, seconds in shapes)
    for number, (width, seconds) in enumerate(shapes):
        jobs.append(
            _rigid(f"small-{number}", width, seconds * scale, rng.uniform(0.0, TWO_DAYS), f"t{rng.randrange(8)}")
        )
    for number in range(GANGS):
        at = (4.0 + 6.0 * number) * 3600.0
        jobs.append(_rigid(f"gang-{number}", GANG, GANG_HOURS * 3600.0, at, f"t{number % 8}"))
    return sorted(jobs, key=lambda job: job.submitted_at)


def _rigid(name: str, width: int, seconds: float, at: float, tenant: str) -> Job:
    return Job(
        id=name, work=Work(max(seconds, 1.0)), curve=Curve.from_table({width: 1.0}), submitted_at=at, requested=width,
        at_least=width, at_most=width, tenant=tenant, checkpoint_every_s=600.0,
    )  # fmt: skip


TENANT_WORLDS = ("elastic", "elastic, the greedy tenant has deadlines", "rigid")


def tenant_jobs(seed: int, world: str) -> list[Job]:
    """Jobs that take about an hour on the four devices that they ask for."""
    elastic, due = world != "rigid", "deadlines" in world
    rng, jobs = random.Random(f"tenants {seed}"), list[Job]()
    for tenant in range(SMALL_TENANTS + 1):
        mean_s = 180.0 if tenant == 0 else 3 * 3600.0
        at = rng.expovariate(1 / mean_s)
        while at < TWO_DAYS:
            job = _hour_long(rng, f"{tenant}-{len(jobs)}", at, f"t{tenant}", elastic=elastic)
            if due and tenant == 0:
                job = replace(job, goal=Deadline(at + job.seconds_on(4, "gpu") * rng.uniform(1.0, 3.0)))
            jobs.append(job)
            at += rng.expovariate(1 / mean_s)
    return sorted(jobs, key=lambda job: job.submitted_at)


def _hour_long(rng: random.Random, name: str, at: float, tenant: str, *, elastic: bool) -> Job:
    table = {count: count**0.85 for count in ((1, 2, 4, 8) if elastic else (4,))}
    work = 4**0.85 * 3600.0 * rng.uniform(0.4, 1.6)
    return Job(
        id=name, work=Work(work), curve=Curve.from_table(table), submitted_at=at, requested=4,
        at_least=min(table), tenant=tenant,
    )  # fmt: skip


class GangFigures(NamedTuple):
    gang_h: list[float]
    gang_suspensions: list[int]
    small_h: float
    most_suspensions: int
    suspensions: int
    cpu_s: float
    decisions: int


def play_gangs(task: tuple[str, int, float]) -> GangFigures:
    policy, seed, use = task
    begun = time.process_time()
    cluster = Cluster.parse("64x8")
    books = Books.of(cluster, policy_named(policy), slot=SLOT_S, overhead=MEASURED, stories=False)
    books.play(gang_jobs(seed, use))
    entries = list(books.entries.values())
    gangs = [entry for entry in entries if entry.job.requested == GANG]
    small = [entry for entry in entries if entry.job.requested != GANG]
    return GangFigures(
        [_hours(entry) for entry in gangs], [entry.suspensions for entry in gangs],
        statistics.fmean(map(_hours, small)), max(entry.suspensions for entry in entries),
        sum(entry.suspensions for entry in entries), time.process_time() - begun, books.decisions,
    )  # fmt: skip


def _hours(entry: Entry) -> float:
    return (entry.finished_at - entry.job.submitted_at) / 3600.0


class TenantFigures(NamedTuple):
    least: float
    mean: float
    least_day: float
    greedy: float
    slowdown: float
    jct_h: float
    small_h: float
    cpu_s: float


def play_tenants(task: tuple[str, int, str]) -> TenantFigures:
    """Shares over the two days in which jobs arrive; mean completion over all jobs that arrive in them."""
    policy, seed, world = task
    begun = time.process_time()
    cluster = Cluster.parse(f"{GREEDY_DEVICES // 8}x8")
    books = Shares.of(cluster, policy_named(policy), slot=SLOT_S, overhead=MEASURED, stories=False)
    assert isinstance(books, Shares)
    books.play(tenant_jobs(seed, world))
    small = [f"t{tenant}" for tenant in range(1, SMALL_TENANTS + 1)]
    whole = books.fairness(0.0, TWO_DAYS)
    days = [books.fairness(at, at + 86_400.0) for at in (0.0, 21_600.0, 43_200.0, 64_800.0, 86_400.0)]
    entries = [entry for entry in books.entries.values() if not entry.is_gone]
    of_small = [entry for entry in entries if entry.job.tenant in small]
    slowdowns = [(entry.finished_at - entry.job.submitted_at) / entry.job.seconds_on(4, "gpu") for entry in of_small]
    return TenantFigures(
        min(whole[name] for name in small), statistics.fmean(whole[name] for name in small),
        min(day[name] for day in days for name in small), whole["t0"], statistics.fmean(slowdowns),
        statistics.fmean(map(_hours, entries)), statistics.fmean(map(_hours, of_small)), time.process_time() - begun,
    )  # fmt: skip


class Shares(Books):
    """Books that also count what tenants used and deserved: an equal share of all devices, as far as jobs could use it.

    The devices a job could use are the most its curve has; a tenant deserves no more than its jobs could use.
    """

    def play(self, jobs: Sequence[Job], events: Sequence[object] = ()) -> "Shares":  # type: ignore[override]
        self.steps: list[tuple[float, dict[str, float], dict[str, float]]] = []
        self._names = sorted({job.tenant for job in jobs})
        super().play(jobs, events)  # type: ignore[arg-type]
        return self

    def _step(self, at: float) -> None:
        super()._step(at)
        used, useful = dict.fromkeys(self._names, 0.0), dict.fromkeys(self._names, 0.0)
        for entry in self._present():
            used[entry.job.tenant] += len(entry.devices)
            useful[entry.job.tenant] += entry.job.curve.levels("gpu", entry.job.at_least)[-1][0]
        share = self.cluster.device_count / len(self._names)
        self.steps.append((at, used, {name: min(share, each) for name, each in useful.items()}))

    def _present(self) -> list[Entry]:
        return [entry for entry in self.entries.values() if math.isinf(entry.finished_at) and not entry.is_gone]

    def fairness(self, since: float, until: float) -> dict[str, float]:
        """Used over deserved device-time in a span."""
        used, deserved = dict.fromkeys(self._names, 0.0), dict.fromkeys(self._names, 0.0)
        for (at, mine, due), (end, _, _) in itertools.pairwise(self.steps):
            seconds = max(min(end, until) - max(at, since), 0.0)
            for name in self._names if seconds else ():
                used[name] += mine[name] * seconds
                deserved[name] += due[name] * seconds
        return {name: used[name] / deserved[name] if deserved[name] else 1.0 for name in self._names}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("world", nargs="?", choices=("gangs", "tenants", "cuts"))
    parser.add_argument("--policies", default="unified,deadline,fifo")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first", type=int, default=1)
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    if given.world in (None, "gangs"):
        _show_gangs(given.policies.split(","), seeds)
    if given.world in (None, "tenants"):
        _show_tenants(given.policies.split(","), seeds)
    if given.world in (None, "cuts"):
        _show_cuts(given.policies.split(","))


def the_cuts() -> list[Cut]:
    """Eleven cuts of public traces, as far as these are at hand."""
    cuts = [philly(CUT_JOBS, CUT_LOAD, day) for day in (1, 6, 10)]
    cuts += [venus(CUT_JOBS, CUT_LOAD, seed) for seed in (1, 2)]
    cuts += [venus(CUT_JOBS, CUT_LOAD, seed, source) for source, seed in (("Seren", 1), ("Seren", 2), ("Kalos", 1))]
    cuts += [alibaba(first, CUT_JOBS, CUT_LOAD) for first in (500, 2500, 4500)]
    return [cut for cut in cuts if cut is not None]


def play_cut(task: tuple[int, str]) -> tuple[str, float, int, int]:
    """Cut, share of deadlines met, promises, broken ones."""
    number, policy = task
    cut = the_cuts()[number]
    jobs = cut.workload(deadlines=(0.8, 3.0)).jobs()
    shares = [TenantChanged(jobs[0].submitted_at, tenant) for tenant in cut.tenants]
    result = simulate(
        jobs, cut.cluster, policy_named(policy), slot=SLOT_S, costs=ExpectedCosts(MEASURED), faults=shares
    )
    return str(cut), result.summary.ratio, result.summary.promises, result.summary.broken


def _show_cuts(policies: Sequence[str]) -> None:
    table = Table("cut", *policies, "broken", title="share of deadlines met on cuts of public traces")
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        numbers = range(len(the_cuts()))
        runs = list(pool.map(play_cut, [(number, policy) for number in numbers for policy in policies]))
    rows = [runs[at : at + len(policies)] for at in range(0, len(runs), len(policies))]
    for row in rows:
        table.add_row(row[0][0], *(f"{each[1]:.3f}" for each in row), str(sum(each[3] for each in row)))
    means = [statistics.fmean(row[place][1] for row in rows) for place in range(len(policies))] if rows else []
    table.add_row("mean", *(f"{mean:.3f}" for mean in means), "")
    Console(width=140).print(table)


def _show_gangs(policies: Sequence[str], seeds: Sequence[int]) -> None:
    table = Table(
        "use", "policy", "gang h", "worst", "suspensions", "small h", "most", "all", "CPU s", "ms", title="gangs"
    )
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for use in (0.68, 0.89):
            for policy in policies:
                runs = list(pool.map(play_gangs, [(policy, seed, use) for seed in seeds]))
                hours = [hour for run in runs for hour in run.gang_h]
                stops = [each for run in runs for each in run.gang_suspensions]
                row = (
                    f"{use:.2f}", policy, f"{statistics.fmean(hours):.2f}", f"{max(hours):.1f}",
                    f"{statistics.fmean(stops):.1f}, at most {max(stops)}",
                    f"{statistics.fmean(run.small_h for run in runs):.3f}",
                    str(max(run.most_suspensions for run in runs)),
                    f"{statistics.fmean(run.suspensions for run in runs):.0f}",
                    f"{statistics.fmean(run.cpu_s for run in runs):.1f}",
                    f"{1e3 * sum(run.cpu_s for run in runs) / sum(run.decisions for run in runs):.2f}",
                )  # fmt: skip
                print(" | ".join(row), flush=True)
                table.add_row(*row)
    Console(width=140).print(table)


def _show_tenants(policies: Sequence[str], seeds: Sequence[int]) -> None:
    columns = ("least", "mean of small", "least of any day", "greedy", "slowdown", "mean h", "small h", "CPU s")
    table = Table("jobs", "policy", *columns, title="nine small tenants beside a greedy one: used over deserved")
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for world in TENANT_WORLDS:
            for policy in policies:
                runs = list(pool.map(play_tenants, [(policy, seed, world) for seed in seeds]))
                means = [statistics.fmean(column) for column in zip(*runs, strict=True)]
                means[0], means[2] = min(run.least for run in runs), min(run.least_day for run in runs)
                row = (world, policy, *(f"{mean:.2f}" for mean in means))
                print(" | ".join(row), flush=True)
                table.add_row(*row)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
