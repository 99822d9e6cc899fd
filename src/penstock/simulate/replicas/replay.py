"""Runs a workload in the world of the public ElasticFlow simulator and reports it like any other run."""

import math
import time

from penstock.core import Cluster, InputError
from penstock.simulate.engine import Result
from penstock.simulate.metrics import Effort, summarise
from penstock.simulate.outcomes import Fate, JobOutcome
from penstock.simulate.replicas import elasticflow as artifact
from penstock.simulate.traces import Profiles, TraceJob
from penstock.simulate.workload import Workload


def replay(name: str, workload: Workload, cluster: Cluster, slot: int) -> Result:
    """Run one replica; CPU time is that of the replica alone."""
    sizes = {node.device_count for node in cluster.nodes}
    if len(sizes) > 1 or len(cluster.kinds) > 1:
        raise InputError(f"{name} on {cluster}", "nodes that are all alike", "The public simulator knows no others")
    family = artifact.family(workload.profiles.names)
    records = workload.records()
    jobs = [_artifact_job(i, record, workload.profiles, family) for i, record in enumerate(records)]
    started = time.process_time()
    outcomes = artifact.run(name, jobs, len(cluster.nodes), sizes.pop(), slot)
    cpu_s = time.process_time() - started
    rows = [_outcome(record, outcome) for record, outcome in zip(records, outcomes, strict=True)]
    effort = Effort(
        device_count=cluster.device_count, device_seconds=sum(row.device_seconds for row in rows), cpu_s=cpu_s
    )
    return Result(summary=summarise(name, rows, effort), outcomes=rows, timeline=None)


def _artifact_job(index: int, record: TraceJob, profiles: Profiles, family: str) -> artifact.ArtifactJob:
    _, scaling = profiles.curve(record.model, record.batch).scalings[0]
    table = dict(zip(scaling.counts, scaling.rates, strict=True))
    rates = tuple(table.get(level, 0.0) for level in artifact.LEVELS)
    seconds = record.duration_s
    if seconds is None or record.iterations is None:
        raise InputError(f"job {record.id!r} has no duration or no iterations", "both, for a replica")
    return artifact.ArtifactJob(
        index=index, id=record.id, submitted_at=int(record.submitted_at), iterations=int(record.iterations),
        deadline=None if record.deadline is None else int(record.deadline), requested=record.devices,
        duration=int(seconds), model=record.model, batch=record.batch,
        rates=rates, cap=artifact.cap(family, record.model, record.batch),
        widest=artifact.widest(rates, record.batch),
    )  # fmt: skip


def _outcome(record: TraceJob, outcome: artifact.ReplicaOutcome) -> JobOutcome:
    ended = math.nan if outcome.ended_at is None else outcome.ended_at
    return JobOutcome(
        id=record.id, fate=_fate(record, outcome), model=record.model, tenant=record.tenant,
        submitted_at=record.submitted_at, deadline=math.inf if record.deadline is None else record.deadline,
        promised=False, started_at=math.nan if outcome.started_at is None else outcome.started_at, finished_at=ended,
        requested=record.devices, device_seconds=outcome.device_seconds, rescales=outcome.rescales,
        value=math.nan if record.deadline is None else float(outcome.met and not outcome.declined),
    )  # fmt: skip


def _fate(record: TraceJob, outcome: artifact.ReplicaOutcome) -> Fate:
    """The replica's own reckoning: it forgives overhead in the last slot."""
    if outcome.declined:
        return Fate.DECLINED
    if record.deadline is None:
        return Fate.DONE
    return Fate.MET if outcome.met else Fate.LATE
