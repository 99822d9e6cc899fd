"""What real runs amounted to, for whoever may see them."""

from typing import Annotated

from fastapi import APIRouter, Query

from penstock.control.api.dependencies import Caller, JobId, Service
from penstock.wire import JobReport, PeriodReport, StorableText

router = APIRouter(prefix="/v1", tags=["reports"])


@router.get("/report")
def period_report(
    platform: Service,
    who: Caller,
    since: Annotated[
        StorableText, Query(description="How long ago (7d), or when it begins (2026-12-01T00:00).")
    ] = "7d",
    until: Annotated[StorableText | None, Query(description="When it ends; without it, now.")] = None,
    tenant: StorableText | None = None,
) -> PeriodReport:
    """A stretch of time: promises, device time and energy by tenant, failures, resizes, forecasts."""
    return platform.period_report(who, since=since, until=until, tenant=tenant)


@router.get("/jobs/{job_id}/report")
def job_report(job_id: JobId, platform: Service, who: Caller) -> JobReport:
    """One job's life in figures and in sentences."""
    return platform.job_report(job_id, who)
