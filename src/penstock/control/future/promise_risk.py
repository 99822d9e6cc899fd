"""Promises that other rules would endanger: a copy of the scheduler lives on under them and is watched.

What is promised stays promised whatever the rules, so whoever wants other rules is told first what they would cost. The
present rules live on beside them: a job that will be late anyway is not the new rules' fault.
"""

import math
from dataclasses import dataclass

from penstock.control.future.forecast import forecast
from penstock.control.state.entries import Configured
from penstock.control.state.rules import take_up
from penstock.core import LATE_TOLERANCE_S, InputError, Verdict
from penstock.scheduler import Scheduler

_WITHIN_S = 5.0
"""Of computing, for the future under either rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseRisk:
    """A job whose promise is in danger; without ``expected_at`` nothing would be promised any more."""

    job_id: str
    deadline: float
    expected_at: float | None = None


def promised_jobs(scheduler: Scheduler) -> frozenset[str]:
    """Jobs that are not over and were promised their deadline."""
    quotes = ((job_id, scheduler.quote_of(job_id)) for job_id in scheduler.active())
    return frozenset(job_id for job_id, quote in quotes if quote is not None and quote.verdict is Verdict.PROMISED)


def endangered(present: Scheduler, settings: Configured) -> list[PromiseRisk]:
    """What the ``settings`` would endanger from now on; ``present`` is a twin, and is used up.

    Rules that fail on the jobs that are there are refused.
    """
    promised = promised_jobs(present)
    stage = present.twin()
    try:
        take_up(stage, settings)
        if not stage.policy.keeps_promises:
            stage.decide(stage.now)
            return [PromiseRisk(job_id=job_id, deadline=present.job(job_id).deadline) for job_id in sorted(promised)]
        then = forecast(stage, promised, within_s=_WITHIN_S)
    except Exception as error:
        raise InputError(
            f"{settings.policy} fails on the jobs that are here ({type(error).__name__}: {error})",
            "a policy that can decide about them", "Tell its author; nothing was changed",
        ) from error  # fmt: skip
    late = {job_id: at for job_id, at in then.items() if _is_late(at, present.job(job_id).deadline)}
    deadlines = {job_id: present.job(job_id).deadline for job_id in late}
    anyway = forecast(present, late, within_s=_WITHIN_S) if late else {}
    return [
        PromiseRisk(job_id=job_id, deadline=deadlines[job_id], expected_at=at if math.isfinite(at) else None)
        for job_id, at in sorted(late.items())
        if not _is_late(anyway.get(job_id, math.inf), deadlines[job_id])
    ]


def _is_late(at: float, deadline: float) -> bool:
    return at > deadline + LATE_TOLERANCE_S
