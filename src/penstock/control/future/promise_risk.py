"""Promises that other rules or a drained node would endanger: a copy of the scheduler lives on with them.

What is promised stays promised whatever the rules, so whoever wants other rules is told first what they would cost. The
present rules live on beside them: a job that will be late anyway is not the new rules' fault.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.control.future.forecast import forecast
from penstock.control.state.entries import Configured
from penstock.control.state.rules import take_up
from penstock.core import LATE_TOLERANCE_S, InputError, NodeClosed, NodeLost, Verdict
from penstock.scheduler import Scheduler

_MOST_NAMED = 5
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
        return _late_only(present, stage, promised)
    except Exception as error:
        raise InputError(
            f"{settings.policy} fails on the jobs that are here ({type(error).__name__}: {error})",
            "a policy that can decide about them", "Tell its author; nothing was changed",
        ) from error  # fmt: skip


def endangered_by(present: Scheduler, event: NodeLost | NodeClosed) -> list[PromiseRisk]:
    """What taking a node out of use would endanger; ``present`` is a twin, and is used up."""
    if not (promised := promised_jobs(present)):
        return []
    stage = present.twin()
    stage.handle(event)
    return _late_only(present, stage, promised)


def risk_text(risks: Sequence[PromiseRisk]) -> str:
    """How many promises are in danger, and of which jobs."""
    named = ", ".join(risk.job_id for risk in risks[:_MOST_NAMED])
    more = f" and {len(risks) - _MOST_NAMED} more" if len(risks) > _MOST_NAMED else ""
    return f"{'1 promise' if len(risks) == 1 else f'{len(risks)} promises'}: {named}{more}"


def _late_only(present: Scheduler, stage: Scheduler, promised: frozenset[str]) -> list[PromiseRisk]:
    """Promised jobs that will be late on the ``stage`` and would not be at present."""
    then = forecast(stage, promised, within_s=_WITHIN_S)
    late = {
        job_id: at for job_id in promised if _is_late(at := then.get(job_id, math.inf), present.job(job_id).deadline)
    }
    deadlines = {job_id: present.job(job_id).deadline for job_id in late}
    anyway = forecast(present, late, within_s=_WITHIN_S) if late else {}
    return [
        PromiseRisk(job_id=job_id, deadline=deadlines[job_id], expected_at=at if math.isfinite(at) else None)
        for job_id, at in sorted(late.items())
        if not _is_late(anyway.get(job_id, math.inf), deadlines[job_id])
    ]


def _is_late(at: float, deadline: float) -> bool:
    return at > deadline + LATE_TOLERANCE_S
