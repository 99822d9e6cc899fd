"""What real runs amounted to: promises, device time, failures, resizes, forecasts.

Everything is read from the log: jobs from the state, which is a fold over it, what was held from the grants that follow
from it, and failures and resizes from its lines. Pure: facts go in, a report comes out.
"""

import math
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import NamedTuple

from penstock.control.reports.energy import EnergyAccount, EnergyUse, overlap_s
from penstock.control.state.entries import Launched, Paused, Progressed, Resized, RunFailed, RunSuspended, WorkerLost
from penstock.control.state.platform_state import PlatformState
from penstock.control.state.promise_state import promise_state
from penstock.control.state.records import BROKEN_PROMISE, JobRecord
from penstock.control.state.store import Holding, OutcomeRow
from penstock.core import Cluster, Verdict, format_duration
from penstock.scheduler import UNEXPLAINED_BREACH
from penstock.scheduler import Entry as Note
from penstock.wire import (
    OVER,
    BrokenView,
    DayView,
    FailuresView,
    FailureView,
    ForecastView,
    JobCountsView,
    JobPhase,
    PeriodReport,
    PromisesView,
    ResizesView,
    SpreadView,
    TenantView,
    stamp,
)

TROUBLES = tuple(kind.__name__ for kind in (Resized, RunFailed, RunSuspended, WorkerLost))
"""Kinds of lines that a report counts."""
STEPS = tuple(kind.__name__ for kind in (Launched, Paused, Progressed))
"""Kinds of lines that say what a failure cost or why a promise was broken; there are many, and few are of interest."""
KINDS = (*STEPS, *TROUBLES)

Happening = Launched | Paused | Progressed | Resized | RunFailed | RunSuspended | WorkerLost
UNEXPLAINED = "nothing in the log explains it; its speed was probably believed too high"
MOST_BROKEN = 100
_SPEED_NEWS = re.compile(r"its speed on \d+ devices? is (\S+) iterations a second, not (\S+)")
"""What the scheduler says of a job whose speed was measured anew."""
_WITH_ITS_WORKER_S = 10.0
"""A run that fails so soon after a worker of it failed with it."""
_STRETCHES = 28


class JobFacts(NamedTuple):
    """One job as the state has it; a report is about thousands, so they are tuples."""

    id: str
    name: str
    tenant: str
    phase: JobPhase
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    verdict: Verdict | None
    planned_at: float
    expected_at: float | None
    deadline: float
    failures: int
    reason: str
    drawn: EnergyUse
    promise: str
    """kept, broken, open, given up, failed, refused or none."""
    late_s: float
    """Seconds after the deadline, so far if it has not ended; infinite if it ended without finishing."""

    @classmethod
    def of(cls, record: JobRecord, state: PlatformState, now: float) -> "JobFacts":
        """A job as it stands at a time."""
        quote, phase = record.quote, state.phase(record)
        verdict, deadline = quote.verdict if quote is not None else None, record.job.deadline
        promise, late_s = promise_state(verdict, phase, record.ended_at, deadline, record.reason, now)
        return cls(
            id=record.id, name=record.submission.name, tenant=record.job.tenant, phase=phase,
            submitted_at=record.submission.at, started_at=record.started_at, ended_at=record.ended_at, verdict=verdict,
            planned_at=quote.finish_at if quote is not None else math.inf, expected_at=record.expected_at,
            deadline=record.job.deadline, failures=record.failures, reason=record.reason,
            drawn=EnergyUse(record.energy_j, record.energy_estimated),
            promise=promise, late_s=late_s,
        )  # fmt: skip

    @classmethod
    def of_outcome(cls, row: OutcomeRow) -> "JobFacts":
        """A job that is over."""
        phase, verdict = _PHASES[row.state], _VERDICTS[row.verdict] if row.verdict else None
        return cls(
            row.id, row.name, row.tenant, phase, row.submitted_at, row.started_at, row.ended_at, verdict,
            row.planned_at, row.expected_at, row.deadline, row.failures, row.reason,
            EnergyUse(row.energy_j, bool(row.energy_estimated)),
            *promise_state(verdict, phase, row.ended_at, row.deadline, row.reason, math.inf),
        )  # fmt: skip

    @property
    def forecast_error(self) -> float | None:
        """How much later than first expected it ended, as a share of its life.

        Logs of older servers do not have what was expected; there the plan behind the promise has to do.
        """
        forecast_at = self.planned_at if self.expected_at is None else self.expected_at
        if self.phase is not JobPhase.FINISHED or self.ended_at is None or math.isinf(forecast_at):
            return None
        lived = self.ended_at - self.submitted_at
        return (self.ended_at - forecast_at) / lived if lived > 0 else None


_PHASES, _VERDICTS = {phase.value: phase for phase in JobPhase}, {verdict.value: verdict for verdict in Verdict}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything a report about ``since`` to ``until`` is made from; what nobody may see is already left out."""

    since: float
    until: float
    tenant: str | None
    jobs: Sequence[JobFacts]
    holdings: Sequence[Holding]
    happenings: Sequence[Happening]
    cluster: Cluster
    fairness: Mapping[str, float] = field(default_factory=dict)
    """Of tenants over the day before the end, where that is known."""
    stories: Mapping[str, Sequence[Note]] = field(default_factory=dict)
    """What was said of jobs whose promises were broken."""

    @property
    def account(self) -> EnergyAccount:
        """Of the energy; a job that began or ended outside the period told of more than the period."""
        inside = (job for job in self.jobs if job.phase in OVER and job.submitted_at >= self.since)
        reported = {job.id: job.drawn for job in inside if job.drawn.joules is not None and _in(job.ended_at, self)}
        return EnergyAccount(since=self.since, until=self.until, cluster=self.cluster, reported=reported)


def period_report(evidence: Evidence) -> PeriodReport:
    """The whole period in figures. O(jobs + holdings + lines)."""
    since, until, happenings = evidence.since, evidence.until, evidence.happenings
    there = [job for job in evidence.jobs if job.submitted_at <= until and (job.ended_at or math.inf) >= since]
    ended = [job for job in there if _in(job.ended_at, evidence)]
    settled = _by_promise(job for job in there if _is_settled(job, evidence))
    capacity = evidence.cluster.device_count * (until - since)
    return PeriodReport.model_validate(
        {
            "since": stamp(since), "until": stamp(until), "tenant": evidence.tenant,
            "device_seconds": sum(used_s(holding, evidence) for holding in evidence.holdings),
            "capacity_device_seconds": capacity, "jobs": _counts(there, ended, evidence),
            "promises": _promises(there, settled, evidence),
            "broken": list(_broken(settled["broken"], evidence))[:MOST_BROKEN],
            "tenants": _tenants(there, settled, evidence), "failures": failures(happenings, since),
            "resizes": resizes(happenings, since), "forecast": _forecast(ended),
            "queue_wait": _waits(there, evidence), "stretches": _stretches(settled, evidence),
        }
    )  # fmt: skip


def used_s(holding: Holding, evidence: Evidence) -> float:
    """Device-seconds of a holding that lie in the period."""
    return len(holding.devices) * overlap_s(holding, evidence.since, evidence.until)


def failures(happenings: Iterable[Happening], since: float) -> FailuresView:
    """What went wrong from ``since`` on, and what it cost."""
    entries = list(happenings)
    failed = [entry for entry in entries if isinstance(entry, RunFailed) and entry.at >= since]
    reasons: dict[str, list[RunFailed]] = defaultdict(list)
    for entry in failed:
        reasons[entry.reason].append(entry)
    by_reason = [
        FailureView(
            reason=reason, count=len(entries_of), retried=sum(entry.retry_at is not None for entry in entries_of)
        )
        for reason, entries_of in sorted(reasons.items(), key=lambda item: -len(item[1]))
    ]
    by_job = _by_job(entries)
    again = [entry for entry in _begun_again(entries) if entry.at >= since]
    return FailuresView(
        by_reason=tuple(by_reason),
        workers_lost=_survived_losses(entries, failed, since),
        lost_steps=sum(steps_lost(entry, by_job[entry.job_id]) for entry in failed),
        begun_again=len(again), begun_again_steps=sum(entry.lost_steps for entry in again),
        downtime=spread([gap for entry in failed if (gap := _downtime_s(entry, by_job[entry.job_id])) is not None]),
    )  # fmt: skip


def _survived_losses(entries: Iterable[Happening], failed: Iterable[RunFailed], since: float) -> int:
    """Workers that died under runs that went on: not those with which their run failed."""
    ends: dict[str, list[float]] = defaultdict(list)
    for each in failed:
        ends[each.run_id].append(each.at)
    lost = [entry for entry in entries if isinstance(entry, WorkerLost) and entry.at >= since]
    return sum(not any(0.0 <= at - entry.at <= _WITH_ITS_WORKER_S for at in ends[entry.run_id]) for entry in lost)


def _begun_again(entries: Iterable[Happening]) -> list[RunSuspended]:
    """Runs that were stopped and could not resume."""
    return [entry for entry in entries if isinstance(entry, RunSuspended) and entry.lost_steps]


def resizes(happenings: Iterable[Happening], since: float) -> ResizesView:
    entries = list(happenings)
    resized, by_job = [each for each in entries if isinstance(each, Resized) and each.at >= since], _by_job(entries)
    return ResizesView(
        count=len(resized), in_place=sum(bool(entry.in_place) for entry in resized),
        pauses=spread([stood_s(entry, by_job[entry.job_id]) for entry in resized if entry.pause_s is not None]),
    )  # fmt: skip


def stood_s(resized: Resized, entries: Sequence[Happening]) -> float:
    """Seconds without a step around a resize; of a restart up to the first step, or to what comes before it."""
    pause_s = resized.pause_s or 0.0
    if not resized.awaits_step:
        return pause_s
    later = (each for each in entries if each.at >= resized.at and each is not resized)
    ends = (each for each in later if isinstance(each, Progressed | Resized | RunFailed | RunSuspended))
    return pause_s + next(ends, resized).at - resized.at


def spread(values: Sequence[float]) -> SpreadView:
    if not values:
        return SpreadView()
    ordered = sorted(values)
    p95 = ordered[min(len(ordered) - 1, math.ceil(0.95 * len(ordered)) - 1)]
    return SpreadView(
        count=len(ordered), total_s=sum(ordered), p50_s=median(ordered), p95_s=p95, most_s=ordered[-1]
    )  # fmt: skip


def _by_job(happenings: Iterable[Happening]) -> dict[str, list[Happening]]:
    by_job: dict[str, list[Happening]] = defaultdict(list)
    for entry in happenings:
        by_job[entry.job_id].append(entry)
    return by_job


def steps_lost(failed: RunFailed, entries: Sequence[Happening]) -> int:
    """How far back the job was when it was next heard of, before another failure."""
    for entry in entries:
        if entry.at <= failed.at or entry is failed:
            continue
        if isinstance(entry, RunFailed):
            return 0
        if isinstance(entry, Progressed) and entry.step is not None:
            return max(0, (failed.step or 0) - entry.step)
    return 0


def _downtime_s(failed: RunFailed, entries: Sequence[Happening]) -> float | None:
    return next(
        (entry.at - failed.at for entry in entries if isinstance(entry, Launched) and entry.at > failed.at), None
    )


def _in(at: float | None, evidence: Evidence) -> bool:
    return at is not None and evidence.since <= at <= evidence.until


def _is_settled(job: JobFacts, evidence: Evidence) -> bool:
    """Whether it ended in the period, or its promise is broken and it has not ended."""
    return _in(job.ended_at, evidence) or (job.ended_at is None and job.promise == "broken")


def _by_promise(jobs: Iterable[JobFacts]) -> dict[str, list[JobFacts]]:
    settled: dict[str, list[JobFacts]] = defaultdict(list)
    for job in jobs:
        settled[job.promise].append(job)
    return settled


def _counts(jobs: Sequence[JobFacts], ended: Sequence[JobFacts], evidence: Evidence) -> JobCountsView:
    phases = Counter(job.phase for job in ended)
    return JobCountsView(
        there=len(jobs), submitted=sum(_in(job.submitted_at, evidence) for job in jobs),
        finished=phases[JobPhase.FINISHED], failed=phases[JobPhase.FAILED], cancelled=phases[JobPhase.CANCELLED],
        refused=phases[JobPhase.DECLINED],
        active=sum(job.phase not in OVER for job in jobs),
    )  # fmt: skip


def _promises(jobs: Sequence[JobFacts], settled: Mapping[str, Sequence[JobFacts]], evidence: Evidence) -> PromisesView:
    given = ("kept", "broken", "given up", "failed", "open")
    return PromisesView(
        made=sum(job.promise in given and _in(job.submitted_at, evidence) for job in jobs),
        kept=len(settled["kept"]), broken=len(settled["broken"]), given_up=len(settled["given up"]),
        failed=len(settled["failed"]), refused=len(settled["refused"]),
        open=sum(job.promise == "open" for job in jobs),
    )  # fmt: skip


def _broken(broken: Sequence[JobFacts], evidence: Evidence) -> Iterator[BrokenView]:
    """The latest first."""
    trouble = _by_job(evidence.happenings)
    for job in sorted(broken, key=lambda job: -(job.ended_at or evidence.until)):
        yield BrokenView.model_validate(
            {
                "job_id": job.id, "name": job.name, "tenant": job.tenant, "deadline": stamp(job.deadline),
                "ended_at": stamp(job.ended_at), "late_s": None if math.isinf(job.late_s) else job.late_s,
                "why": why_broken(job, trouble[job.id], evidence.stories.get(job.id, ())),
            }
        )  # fmt: skip


def why_broken(job: JobFacts, entries: Sequence[Happening], story: Sequence[Note] = ()) -> str:
    """Return the causes that the log knows of, those first on which a user can act."""
    if job.phase is JobPhase.FAILED:
        return f"it failed for good: {job.reason or 'no reason given'}"
    cause = job.reason.partition(BROKEN_PROMISE)[2]
    slower = _slower_than_planned(story)
    said_below = f"the curve of {job.id} changed" if slower else ""
    parts = [cause] if cause not in ("", UNEXPLAINED_BREACH, said_below) else []
    if failed := [entry for entry in entries if isinstance(entry, RunFailed)]:
        parts.append(f"{len(failed)} failed run{'s' if len(failed) > 1 else ''} ({failed[0].reason})")
    if lost := sum(isinstance(entry, WorkerLost) for entry in entries):
        parts.append(f"{lost} worker{'s' if lost > 1 else ''} lost")
    if again := _begun_again(entries):
        parts.append(f"it was stopped and began again {len(again)} time{'s' if len(again) > 1 else ''}")
    if paused := sum(isinstance(entry, Paused) for entry in entries):
        parts.append(f"somebody paused it {paused} time{'s' if paused > 1 else ''}")
    if slower:
        parts.append(f"it was slower than planned: {slower}; `penstock quote --measure` measures it before a promise")
    elif corrected := sum(isinstance(entry, Progressed) and not entry.again for entry in entries):
        parts.append(f"it made less progress than its speed said, {corrected} time{'s' if corrected > 1 else ''}")
    return ", ".join(parts) or UNEXPLAINED


def _slower_than_planned(story: Sequence[Note]) -> str:
    """The last measurement after the promise that found the job slower."""
    since = next((note.at for note in story if note.text.startswith(Verdict.PROMISED)), math.inf)
    found = [match for note in story if note.at >= since and (match := _SPEED_NEWS.fullmatch(note.text))]
    return next((match[0] for match in reversed(found) if float(match[1]) < float(match[2])), "")


def _tenants(
    jobs: Sequence[JobFacts], by_promise: Mapping[str, Sequence[JobFacts]], evidence: Evidence
) -> list[TenantView]:
    own = Counter(job.tenant for job in jobs)
    settled = Counter((job.tenant, promise) for promise, of_it in by_promise.items() for job in of_it)
    names = sorted(own.keys() | {holding.tenant for holding in evidence.holdings})
    account = evidence.account
    watts, tenants = account.mean_watts(evidence.holdings), []
    for name in names:
        held = [holding for holding in evidence.holdings if holding.tenant == name]
        drawn = account.of(held, watts)
        tenants.append(
            TenantView(
                tenant=name, jobs=own[name], device_seconds=sum(used_s(holding, evidence) for holding in held),
                energy_j=drawn.joules, energy_estimated=drawn.estimated, kept=settled[name, "kept"],
                broken=settled[name, "broken"], refused=settled[name, "refused"],
                fairness=evidence.fairness.get(name),
            )
        )  # fmt: skip
    return sorted(tenants, key=lambda tenant: -tenant.device_seconds)


def _forecast(ended: Sequence[JobFacts]) -> ForecastView:
    finished = [job for job in ended if job.phase is JobPhase.FINISHED]
    errors = [error for job in finished if (error := job.forecast_error) is not None]
    unknown = len(finished) - len(errors)
    if not errors:
        return ForecastView(unknown=unknown)
    return ForecastView(
        jobs=len(errors), unknown=unknown, median_error=median(errors), mean_absolute_error=fmean(map(abs, errors)),
        worst_error=max(errors, key=abs),
    )  # fmt: skip


def _waits(jobs: Sequence[JobFacts], evidence: Evidence) -> SpreadView:
    started = [job for job in jobs if _in(job.started_at, evidence)]
    return spread([max(0.0, (job.started_at or 0.0) - job.submitted_at) for job in started])


def _stretches(settled: Mapping[str, Sequence[JobFacts]], evidence: Evidence) -> list[DayView]:
    """Equal parts of the period."""
    width = (evidence.until - evidence.since) / _STRETCHES
    starts = [evidence.since + position * width for position in range(_STRETCHES)]

    def counted(moments: Iterable[float | None]) -> list[int]:
        tally = [0] * (_STRETCHES + 1)
        for at in moments:
            tally[max(0, bisect_right(starts, at or 0.0) - 1) if (at or 0.0) < evidence.until else _STRETCHES] += 1
        return tally

    failed = counted(entry.at for entry in evidence.happenings if isinstance(entry, RunFailed))
    kept, broken = (counted(job.ended_at or job.deadline for job in settled[name]) for name in ("kept", "broken"))
    held = _held(starts, width, evidence)
    return [
        DayView.model_validate(
            {"since": stamp(start), "device_seconds": held[position], "kept": kept[position],
             "broken": broken[position], "failures": failed[position]}
        )
        for position, start in enumerate(starts)
    ]  # fmt: skip


def _held(starts: Sequence[float], width: float, evidence: Evidence) -> list[float]:
    """Device-seconds in each stretch; a holding is looked at in those it reaches into."""
    held = [0.0] * len(starts)
    for holding in evidence.holdings:
        first = max(0, bisect_right(starts, holding.since) - 1)
        for position in range(first, len(starts)):
            seconds = overlap_s(holding, starts[position], starts[position] + width)
            if not seconds and position > first:
                break
            held[position] += len(holding.devices) * seconds
    return held


def late_words(late_s: float) -> str:
    if math.isinf(late_s):
        return "it never finished"
    return f"{format_duration(abs(late_s))} {'late' if late_s > 0 else 'early'}"
