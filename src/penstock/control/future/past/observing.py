"""A platform's own past as an analysis sees it: what jobs waited for, held, lost, and how they ended."""

import math
from collections import defaultdict
from collections.abc import Sequence

from penstock.control.future.past.reading import read_past
from penstock.control.reports.period import steps_lost
from penstock.control.state.entries import Launched, Progressed, RunFailed
from penstock.control.state.reading import readable
from penstock.control.state.store import History, reading
from penstock.core import Source
from penstock.simulate import Ending, Hold, Observed, ObservedJob, Past, PastJob, Stretch

_TOLD = tuple(kind.__name__ for kind in (Launched, Progressed, RunFailed))
_MOST_LINES = 1_000_000

Told = Launched | Progressed | RunFailed


def observe_database(url: str, since: float, until: float) -> Observed:
    """The jobs of a time, from a database that a server may be writing meanwhile."""
    with reading(url) as database:
        history = History(database)
        past = read_past(history, since, until)
        told: dict[str, list[Told]] = defaultdict(list)
        for entry in readable(history.lines(_TOLD, since=since, limit=_MOST_LINES)):
            if isinstance(entry, Launched | Progressed | RunFailed):
                told[entry.job_id].append(entry)
    devices = sum(node.device_count for _, node in past.cluster.present())
    jobs = [_observed(job, past, told.get(job.id, ())) for job in past.jobs]
    return Observed(name="this platform", jobs=jobs, devices=devices, notes=past.left_out)


def _observed(past_job: PastJob, past: Past, told: Sequence[Told]) -> ObservedJob:
    job, real = past_job.job, past_job.real
    holds = tuple(_hold(stretch, past) for stretch in real.stretches)
    began = real.started_at if math.isfinite(real.started_at) else None
    ending = Ending.of(real.ending)
    failures = [entry for entry in told if isinstance(entry, RunFailed)]
    return ObservedJob(
        id=job.id, tenant=job.tenant, asked=max((hold.devices for hold in holds), default=1),
        submitted_at=job.submitted_at, run_s=sum(hold.until - hold.since for hold in holds), ending=ending,
        cause=failures[-1].reason if failures and ending is Ending.FAILED else "",
        waited_s=None if began is None else max(0.0, began - past_job.arrives_at),
        holds=holds, lost_s=_lost_s(failures, told, holds), wasted_s=_wasted_s(past_job),
    )  # fmt: skip


def _hold(stretch: Stretch, past: Past) -> Hold:
    return Hold(stretch.since, min(stretch.until, past.until), stretch.width)


def _lost_s(failures: Sequence[RunFailed], told: Sequence[Told], holds: Sequence[Hold]) -> float:
    """Device-seconds of the steps that were done again, at what a step cost on average."""
    lost = sum(steps_lost(entry, told) for entry in failures)
    done = max((entry.step or 0 for entry in told if not isinstance(entry, Launched)), default=0)
    held = sum(hold.device_s for hold in holds)
    return held * lost / (done + lost) if lost else 0.0


def _wasted_s(job: PastJob) -> float | None:
    """Device-seconds beyond those that the same work takes on the fewest devices measured; None for guesses."""
    total = 0.0
    for stretch in job.real.stretches:
        scaling = job.curve.scaling(stretch.kind)
        if scaling is None or scaling.source is not Source.MEASURED:
            return None
        least = min(scaling.counts)
        alone = job.curve.rate(least, stretch.kind) / least
        rate = job.curve.rate(stretch.width, stretch.kind, stretch.nodes)
        total += stretch.width * stretch.seconds * max(0.0, 1.0 - rate / (alone * stretch.width)) if alone else 0.0
    return total
