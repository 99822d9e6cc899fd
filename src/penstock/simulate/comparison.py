"""Several policies on the same workload, side by side, each in a process of its own."""

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing.sharedctypes import SynchronizedArray
from typing import Any

from penstock.core import Cluster, InputError, Job, Tenant, TenantChanged
from penstock.placement import placement_named
from penstock.policies import policy_named
from penstock.simulate.catalogue import check_policies, label_of
from penstock.simulate.engine import Result, simulate
from penstock.simulate.failures import NodeFailures
from penstock.simulate.optimum import Optimum, optimum
from penstock.simulate.overhead import OverheadModel
from penstock.simulate.placement_rates import AS_CURVES, PlacementRates
from penstock.simulate.replicas import REPLICAS
from penstock.simulate.stop_knowledge import StopKnowledge
from penstock.simulate.stopping_jobs import StoppingJobs
from penstock.simulate.tenant_settings import check_tenants
from penstock.simulate.uncertainty import Uncertainty
from penstock.simulate.watts import with_watts
from penstock.simulate.workload import Workload

Progress = Callable[[Sequence[int]], None]
"""Told now and then how many jobs are over under each policy."""

_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The world the policies are compared in."""

    cluster: Cluster
    slot: float = 60.0
    overhead: str = "none"
    """A named model, costs such as "change=17s,per-doubling=9s,start=30s", or a file of costs by model and size."""
    rates: PlacementRates = AS_CURVES
    """How fast jobs run where they are placed; what their curves say by default."""
    watts: tuple[tuple[str, float], ...] = ()
    """What a device at work draws, by kind ("*" for any other), where the curves of the jobs do not say."""
    placement: str | None = None
    wrong_by: float = 0.0
    """Jobs really run at up to this share more or less than the speed that the scheduler believes."""
    doubts: float = 0.0
    """The share by which the scheduler is told that speeds may turn out lower."""
    report_every_s: float = 600.0
    failures: NodeFailures | None = None
    until: float = 0.0
    """The share of the jobs that end when their metric says so, of which the scheduler knows what the metric tells."""
    knowledge: StopKnowledge = StopKnowledge.FORECAST
    timeline: bool = False
    decisions: bool = False
    """Whether results have every decision."""
    tenants: tuple[Tenant, ...] = ()
    """Shares, quotas and groups; whoever is not named has a share of 1."""

    @property
    def is_exact(self) -> bool:
        """Whether everything happens as the scheduler believes."""
        return not (self.wrong_by or self.doubts or self.failures or self.until or self.rates.is_different)

    def stopping(self, seed: int) -> StoppingJobs | None:
        if not self.until:
            return None
        return StoppingJobs(share=self.until, knowledge=self.knowledge, report_every_s=self.report_every_s, seed=seed)

    def uncertainty(self, seed: int) -> Uncertainty | None:
        if not (self.wrong_by or self.doubts):
            return None
        return Uncertainty(
            wrong_by=self.wrong_by, doubts=self.doubts, report_every_s=self.report_every_s, seed=seed
        )  # fmt: skip


def run_policy(
    name: str, workload: Workload, setting: Setting, on_progress: Callable[[int], None] | None = None
) -> Result:
    """Simulate one policy; names ending in ``-artifact`` run in the world of the public simulator."""
    check_policies([name])
    workload.check_kinds(setting.cluster)
    if name in REPLICAS:
        if not setting.is_exact or setting.tenants or workload.events:
            raise InputError(
                f"{name} in a world with wrong curves, doubts, failures, metrics, rates, tenants or events",
                "a policy, not a replica",
            )
        from penstock.simulate.replicas import replay

        return replay(name, workload, setting.cluster, int(setting.slot))
    cluster, overhead = setting.cluster, OverheadModel.parse(setting.overhead)
    jobs = [with_watts(overhead.charged(job), setting.watts, cluster.kinds) for job in workload.jobs()]
    check_tenants(setting.tenants, {job.tenant for job in jobs} if setting.tenants else ())
    failures = setting.failures.events(cluster, workload.seed, _first_at(jobs)) if setting.failures else ()
    tenants = [TenantChanged(_first_at(jobs), tenant) for tenant in setting.tenants]
    result = simulate(
        jobs, cluster, policy_named(name), slot=setting.slot, failures=failures,
        faults=sorted([*tenants, *workload.events], key=lambda event: event.at),
        uncertainty=setting.uncertainty(workload.seed), stopping=setting.stopping(workload.seed),
        costs=overhead.costs(cluster, setting.slot), rates=setting.rates if setting.rates.is_different else None,
        placement=placement_named(setting.placement) if setting.placement else None,
        timeline=setting.timeline, decisions=setting.decisions, on_progress=on_progress,
    )  # fmt: skip
    return replace(result, summary=replace(result.summary, policy=label_of(name)))


def bound_of(workload: Workload, setting: Setting) -> Optimum:
    """The most deadlines that could be met by whoever knew the jobs and their true speeds in advance."""
    workload.check_kinds(setting.cluster)
    world = setting.uncertainty(workload.seed)
    return optimum(workload.jobs(), setting.cluster, speed=world.speed if world else lambda _: 1.0)


def _first_at(jobs: Sequence[Job]) -> float:
    return jobs[0].submitted_at if jobs else 0.0


def compare(
    names: Sequence[str],
    workload: Workload,
    setting: Setting,
    *,
    processes: int | None = None,
    on_progress: Progress | None = None,
) -> list[Result]:
    """Run all ``names`` at the same time; results come in the order of the names."""
    check_policies(names)
    workload.check_kinds(setting.cluster)
    if processes == 1 or len(names) == 1:
        return [
            run_policy(name, workload, setting, _single(on_progress, i, len(names))) for i, name in enumerate(names)
        ]
    context = multiprocessing.get_context("fork")
    counts = context.Array("q", len(names))
    pool = ProcessPoolExecutor(
        min(processes or multiprocessing.cpu_count(), len(names)), context,
        initializer=_enter, initargs=(workload, setting, counts),
    )  # fmt: skip
    try:
        futures = [pool.submit(_work, name, index) for index, name in enumerate(names)]
        _wait(futures, counts, on_progress)
        return [future.result() for future in futures]
    except BaseException:
        for process in list(pool._processes.values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _single(on_progress: Progress | None, index: int, count: int) -> Callable[[int], None] | None:
    if on_progress is None:
        return None
    return lambda done: on_progress([done if i == index else 0 for i in range(count)])


def _wait(futures: list[Future[Result]], counts: "SynchronizedArray[int]", on_progress: Progress | None) -> None:
    while not all(future.done() for future in futures):
        time.sleep(_POLL_S)
        if on_progress is not None:
            on_progress(counts[:])


_shared: dict[str, Any] = {}


def _enter(workload: Workload, setting: Setting, counts: "SynchronizedArray[int]") -> None:
    """In a worker: remember what all its runs share."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _shared.update(workload=workload, setting=setting, counts=counts)


def _work(name: str, index: int) -> Result:
    counts = _shared["counts"]

    def report(done: int) -> None:
        counts[index] = done

    return run_policy(name, _shared["workload"], _shared["setting"], report)
