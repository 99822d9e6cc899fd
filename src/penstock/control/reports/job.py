"""One job's life, in figures and in sentences."""

import math
from collections.abc import Iterator

from penstock.control.reports.period import Evidence, JobFacts, failures, late_words, resizes, used_s, why_broken
from penstock.core import format_duration
from penstock.wire import OVER, JobReport, stamp


def job_report(job: JobFacts, evidence: Evidence) -> JobReport:
    """``seen`` must be about this job alone, over all its life."""
    finite, account = math.isfinite(job.deadline), evidence.account
    drawn = account.of(evidence.holdings, account.mean_watts(evidence.holdings))
    figures = {
        "job_id": job.id, "name": job.name, "tenant": job.tenant, "state": job.phase.value,
        "submitted_at": stamp(job.submitted_at), "started_at": stamp(job.started_at), "ended_at": stamp(job.ended_at),
        "verdict": job.verdict.value if job.verdict is not None else None, "deadline": stamp(job.deadline),
        "promised_finish_at": stamp(job.planned_at), "promise": job.promise,
        "late_s": job.late_s if finite and math.isfinite(job.late_s) else None,
        "waited_s": None if job.started_at is None else max(0.0, job.started_at - job.submitted_at),
        "device_seconds": sum(used_s(holding, evidence) for holding in evidence.holdings),
        "energy_j": drawn.joules, "energy_estimated": drawn.estimated,
        "widest": max((len(holding.devices) for holding in evidence.holdings), default=0),
        "failures": failures(evidence.happenings, 0.0), "resizes": resizes(evidence.happenings, 0.0),
        "forecast_error": job.forecast_error,
    }  # fmt: skip
    bare = JobReport.model_validate({**figures, "words": []})
    return bare.model_copy(update={"words": list(_sentences(bare, job, evidence))})


def _sentences(report: JobReport, job: JobFacts, evidence: Evidence) -> Iterator[str]:
    yield _promise(job, evidence)
    if report.waited_s is None:
        yield "It has never run."
        return
    text = f"It waited {format_duration(report.waited_s)} for its start and used "
    text += f"{format_duration(report.device_seconds)} of device time, at most {report.widest} "
    yield text + f"device{'s' if report.widest != 1 else ''} at once."
    if report.energy_j is not None:
        how = ", estimated" if report.energy_estimated else ""
        amount = f"{report.energy_j:,.0f} J" if report.energy_j < 3600 else f"{report.energy_j / 3600:,.1f} Wh"
        yield f"It drew {amount}{how}."
    yield from _moves(report)
    if report.failures.begun_again:
        yield _begun_again(report)
    if report.failures.count or report.failures.workers_lost:
        yield _troubles(report)
    if job.forecast_error is not None:
        early = "later" if job.forecast_error > 0 else "earlier"
        what = "the plan behind its promise" if job.expected_at is None else "first expected"
        yield f"It ended {abs(100 * job.forecast_error):.0f}% of its life {early} than {what}."


def _promise(job: JobFacts, evidence: Evidence) -> str:
    sentences: dict[str, str] = {
        "none": "Nothing was promised to it.",
        "refused": f"It was refused: {job.reason}." if job.reason else "It was refused.",
        "open": f"Its deadline is promised; there are {format_duration(max(0.0, job.deadline - evidence.until))} left.",
        "given up": "Its deadline was promised, and somebody cancelled it.",
        "failed": "Its deadline was promised, and its own script failed.",
    }
    if job.promise in sentences:
        return sentences[job.promise]
    if job.promise == "kept":
        return f"Its promise was kept: it ended {late_words(job.late_s)}."
    why = why_broken(job, evidence.happenings, evidence.stories.get(job.id, ()))
    so_far = "" if job.phase in OVER else " so far"
    return f"Its promise was broken ({late_words(job.late_s)}{so_far}): {why}."


def _moves(report: JobReport) -> Iterator[str]:
    moved = report.resizes
    if moved.count:
        text = f"It changed its number of workers {moved.count} times, {moved.in_place} of them in place"
        if moved.pauses.count:
            text += f"; training stood still for {format_duration(moved.pauses.total_s)} in all"
        yield text + "."


def _begun_again(report: JobReport) -> str:
    times, steps = report.failures.begun_again, report.failures.begun_again_steps
    return (
        f"It was stopped {times} time{'s' if times != 1 else ''} for others and cannot resume: {steps} steps were lost."
    )


def _troubles(report: JobReport) -> str:
    trouble = report.failures
    reasons = ", ".join(f"{failure.count} x {failure.reason}" for failure in trouble.by_reason)
    text = f"{trouble.count} failed run{'s' if trouble.count != 1 else ''}" + (f" ({reasons})" if reasons else "")
    text += f" and {trouble.workers_lost} lost worker{'s' if trouble.workers_lost != 1 else ''}"
    text += f"; at least {trouble.lost_steps} steps were done twice"
    return text + f", and it stood still for {format_duration(trouble.downtime.total_s)}."
