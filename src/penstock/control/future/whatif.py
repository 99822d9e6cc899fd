"""The same past under another policy: this server's own submissions, cancellations and lost nodes, replayed.

Speeds are those known now, not those believed then, so the comparison is about deciding and not about guessing. The
replay runs in processes of its own: a server must not stand still because somebody is curious.
"""

import math
import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace

from penstock.control.state.entries import NodeCame, NodeLeft
from penstock.control.state.platform_state import PlatformState
from penstock.control.state.reading import readable
from penstock.control.state.records import JobRecord
from penstock.control.state.store import Line
from penstock.core import Cluster, Event, InputError, Job, JobCancelled, NodeJoined, NodeLost, Overhead
from penstock.wire import JobPhase

NODE_KINDS = ("NodeLeft", "NodeCame")
_MOST_JOBS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Everything a replay needs. ``faults`` are what happened to jobs and nodes besides scheduling."""

    jobs: tuple[Job, ...]
    faults: tuple[Event, ...]
    cluster: Cluster
    slot: float
    overhead: Overhead
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOutcome:
    """What a policy made of the past, or what really became of it. Seconds; NaN where there is nothing to average."""

    policy: str
    jobs: int
    with_deadline: int
    met: int
    late: int
    refused: int
    completion_s: float
    waiting_s: float
    resizes: int
    utilisation: float
    real: bool = False


def past_of(records: Sequence[JobRecord], state: PlatformState, node_lines: Sequence[Line]) -> Past:
    """What this server has seen so far: all its jobs, and what happened to its nodes."""
    settings = state.settings
    if settings is None or not records:
        raise InputError("This server has seen no jobs yet", "at least one job", "Submit something first")
    if len(records) > _MOST_JOBS:
        raise InputError(f"{len(records)} jobs", f"at most {_MOST_JOBS} at once", "Use penstock simulate on a trace")
    gone = [JobCancelled(r.ended_at or 0.0, r.id) for r in records if r.mark in (JobPhase.CANCELLED, JobPhase.FAILED)]
    faults = sorted([*gone, *_faults(node_lines)], key=lambda event: event.at)
    return Past(
        jobs=tuple(_as_submitted(record) for record in records), faults=tuple(faults), cluster=state.scheduler.cluster,
        slot=settings.slot, overhead=settings.overhead, policy=settings.policy,
    )  # fmt: skip


def recorded_outcome(records: Sequence[JobRecord], policy: str) -> PolicyOutcome:
    """What became of the jobs under this server; those that are not over count in no column but ``jobs``."""
    done = [record for record in records if record.mark is JobPhase.FINISHED and record.ended_at is not None]
    due = [record for record in done if math.isfinite(record.submission.job.deadline)]
    met = sum((record.ended_at or math.inf) <= record.submission.job.deadline for record in due)
    return PolicyOutcome(
        policy=policy, jobs=len(records),
        with_deadline=sum(math.isfinite(record.submission.job.deadline) for record in records), met=met,
        late=len(due) - met, refused=sum(record.mark is JobPhase.DECLINED for record in records),
        completion_s=_mean([(record.ended_at or 0.0) - record.submission.at for record in done]),
        waiting_s=_mean([r.started_at - r.submission.at for r in records if r.started_at is not None]),
        resizes=sum(max(0, record.generation - record.stint) for record in records), utilisation=math.nan, real=True,
    )  # fmt: skip


def replay_past(
    past: Past, names: Sequence[str], on_done: Callable[[PolicyOutcome], None] = lambda _: None
) -> list[PolicyOutcome]:
    """Every named policy on the same past; ``on_done`` hears of each as it comes. Blocks until all are there."""
    context = multiprocessing.get_context("spawn")
    workers = min(len(names), max(1, (os.cpu_count() or 1) - 1))
    outcomes: dict[str, PolicyOutcome] = {}
    with ProcessPoolExecutor(workers, context, initializer=os.nice, initargs=(10,)) as pool:
        tasks = {pool.submit(_replay, past, name): name for name in names}
        for task in as_completed(tasks):
            outcomes[tasks[task]] = task.result()
            on_done(outcomes[tasks[task]])
    return [outcomes[name] for name in names]


def _replay(past: Past, name: str) -> PolicyOutcome:
    from penstock.policies import policy_named
    from penstock.scheduler import ExpectedCosts
    from penstock.simulate import simulate

    result = simulate(
        past.jobs, past.cluster, policy_named(name), slot=past.slot, costs=ExpectedCosts(past.overhead),
        faults=past.faults,
    )  # fmt: skip
    summary = result.summary
    return PolicyOutcome(
        policy=name, jobs=summary.jobs, with_deadline=summary.jobs - summary.best_effort, met=summary.met,
        late=summary.late, refused=summary.declined, completion_s=summary.jct_mean_s,
        waiting_s=summary.queueing_mean_s, resizes=summary.rescales, utilisation=summary.utilisation,
    )  # fmt: skip


def _as_submitted(record: JobRecord) -> Job:
    return replace(record.submission.job, curve=record.job.curve)


def _faults(lines: Sequence[Line]) -> list[Event]:
    events: list[Event] = []
    for entry in readable(lines):
        if isinstance(entry, NodeLeft):
            events.append(NodeLost(entry.at, entry.node))
        elif isinstance(entry, NodeCame):
            events.append(NodeJoined(entry.at, entry.node))
    return events


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
