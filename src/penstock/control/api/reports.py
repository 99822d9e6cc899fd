"""What real runs amounted to, for whoever may see them."""

import math
from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Query

from penstock.control.api.services import Platform, Services, Who
from penstock.control.reports.job import job_report
from penstock.control.reports.period import KINDS, Evidence, Happening, JobFacts, period_report
from penstock.control.state.records import JobRecord
from penstock.control.state.store import Principal
from penstock.core import UnitError, decode, parse_duration, parse_instant
from penstock.wire import JobReport, PeriodReport, RequestError

router = APIRouter(prefix="/v1", tags=["reports"])
_MOST_LINES = 200_000


@router.get("/report")
def report(
    platform: Platform,
    who: Who,
    since: Annotated[str, Query(description="How long ago (7d), or when it begins (2026-12-01T00:00).")] = "7d",
    until: Annotated[str | None, Query(description="When it ends; without it, now.")] = None,
    tenant: str | None = None,
) -> PeriodReport:
    """A stretch of time: promises, device time and energy by tenant, failures, resizes, forecasts."""
    now = platform.journal.now()
    end = min(_moment(until, now), now) if until else now
    start = max(0.0, _moment(since, end))
    if start >= end:
        raise RequestError(f"from {since} to {until or 'now'}", "a beginning before the end", "Try since=7d")
    only = who.sees or tenant
    if tenant is not None and not who.may_see(tenant):
        only = ""
    return period_report(_evidence(platform, start, end, only))


@router.get("/jobs/{job_id}/report")
def one(job_id: str, platform: Platform, who: Who) -> JobReport:
    """One job's life in figures and in sentences."""
    return _about(platform, platform.desk.find(job_id, who), who)


def _moment(text: str, now: float) -> float:
    """A date, or a duration before ``now``."""
    try:
        return parse_instant(text)
    except UnitError:
        pass
    try:
        return now - parse_duration(text)
    except UnitError:
        raise RequestError(
            f"{text!r} is neither a duration nor a date", "how long ago, or when", 'Try "7d", "12h" or "2026-12-01"'
        ) from None


def _evidence(platform: Services, since: float, until: float, tenant: str | None) -> Evidence:
    journal = platform.journal
    with journal.reading() as state:
        jobs = [JobFacts.of(record, state) for record in state.jobs.values() if tenant in (None, record.job.tenant)]
        cluster = state.scheduler.cluster
    holdings = journal.store.history.holdings(since, until)
    return Evidence(
        since=since, until=until, tenant=tenant, jobs=jobs, cluster=cluster,
        holdings=[holding for holding in holdings if tenant in (None, holding.tenant)],
        happenings=_happenings(platform, since, until, tenant),
    )  # fmt: skip


def _about(platform: Services, record: JobRecord, who: Principal) -> JobReport:
    journal = platform.journal
    with journal.reading() as state:
        facts, cluster = JobFacts.of(record, state), state.scheduler.cluster
    now = journal.now()
    seen = Evidence(
        since=0.0, until=now, tenant=who.sees, jobs=[facts], cluster=cluster,
        holdings=journal.store.history.holdings(-math.inf, now, job_id=record.id),
        happenings=list(_happenings_of(platform, record.id)),
    )  # fmt: skip
    return job_report(facts, seen)


def _happenings(platform: Services, since: float, until: float, tenant: str | None) -> list[Happening]:
    lines = platform.journal.store.history.lines(KINDS, since=since, tenant=tenant, limit=_MOST_LINES)
    return [decode(line.payload) for line in lines if line.at <= until]


def _happenings_of(platform: Services, job_id: str) -> Iterator[Happening]:
    log, after = platform.journal.store.log, 0
    while lines := log.page(after=after, job_id=job_id):
        yield from (decode(line.payload) for line in lines if line.kind in KINDS)
        after = lines[-1].seq
