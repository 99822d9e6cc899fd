"""What runs and waits now, each job with its promise, its forecast and how urgent it is: the first thing people see."""

import html

from nicegui import ui

from penstock.core import counted, format_duration
from penstock.web.format import TONES, percent, short_clock
from penstock.web.layout import Text, badge, bar_html, empty
from penstock.web.urls import ROOT, job_url
from penstock.web.view_models import ActiveJob, Risk, UrgentJobs
from penstock.wire import JobGlance

_COLUMNS = ("Job", "Progress", "Devices", "Deadline", "Expected end", "Outlook")
_RISK_TONES = {
    Risk.LATE: "bad", Risk.TIGHT: "warn", Risk.UNKNOWN: "wait", Risk.ON_TIME: "good", Risk.NO_DEADLINE: "calm",
}  # fmt: skip


class ActiveJobList:
    """The list at the top of the start page."""

    def __init__(self, *, everybody: bool) -> None:
        with ui.element("section").classes("ps-card").props('aria-label="Jobs now"'):
            with ui.element("div").classes("ps-head"):
                ui.html("Jobs now", sanitize=False, tag="h2")
                self._summary = Text(classes="ps-soft")
                ui.html(f'<a href="{ROOT}/jobs">All jobs</a>', sanitize=False).classes("ps-push ps-wide")
            self._table = Text(classes="w-full")
            with ui.element("div").classes("w-full") as self._nothing:
                empty(
                    "Nothing runs or waits" if everybody else "Nothing of yours runs or waits",
                    f'<a href="{ROOT}/submit">Submit a job</a>, or type <code>penstock run</code>.',
                )

    def show(self, active: UrgentJobs) -> None:
        self._summary.show(summary_html(active))
        self._table.show(table_of(active) if active.jobs else "")
        self._nothing.set_visibility(not active.jobs)


def summary_html(active: UrgentJobs) -> str:
    """How the promises stand, and what is free."""
    risks = [job.risk for job in active.jobs]
    words = [
        f'<span class="ps-{_RISK_TONES[risk]}">{risks.count(risk)} {risk}</span>'
        for risk in (Risk.LATE, Risk.TIGHT, Risk.ON_TIME)
        if risk in risks
    ]
    return ", ".join([*words, f"{counted(active.free, 'device')} free" if active.free else "no device free"])


def table_of(active: UrgentJobs) -> str:
    """One line a job; on a phone each is a small card of its own."""
    head = "".join(f'<th scope="col">{column}</th>' for column in _COLUMNS)
    rows = "".join(_row(job, active.now) for job in active.jobs)
    more = (
        f'<p class="ps-soft"><a href="{ROOT}/jobs">{counted(active.left_out, "job")} more</a></p>'
        if active.left_out
        else ""
    )
    return f'<table class="ps-lines-now"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}'


def _row(job: ActiveJob, now: float) -> str:
    view = job.view
    look = f"ps-j{view.number % 10}"
    name = (
        f'<a href="{job_url(view.id)}"><i class="ps-key {look}"></i>{html.escape(view.name)}</a>'
        f'<div class="ps-soft">{html.escape(_standing(view))}</div>'
    )
    cells = (
        ("name", "", name),
        ("share", "", _bar(view)),
        ("devices", "Devices", str(view.devices or "–")),
        ("deadline", "Deadline", short_clock(view.deadline)),
        ("expected", "Expected end", _expected(job, now)),
        ("risk", "", _outlook(job)),
    )
    inner = "".join(f'<td class="ps-c-{key}" data-label="{label}">{cell}</td>' for key, label, cell in cells)
    return f"<tr>{inner}</tr>"


def _standing(view: JobGlance) -> str:
    """Whose it is, and what its run told last."""
    parts = [view.tenant]
    if view.step is not None:
        parts.append(f"step {view.step:,}" + (f" of {view.total:,}" if view.total else ""))
    if view.loss is not None:
        parts.append(f"loss {view.loss:.4g}")
    return " · ".join(parts)


def _bar(view: JobGlance) -> str:
    bar = bar_html(view.share_done, f"Progress of {view.name}")
    return f'<div class="ps-progress">{bar}<span class="ps-share">{percent(view.share_done)}</span></div>'


def _expected(job: ActiveJob, now: float) -> str:
    if job.band is None:
        return '<span class="ps-soft">not known yet</span>'
    left = format_duration(max(0.0, job.band.likely - now))
    return f'{short_clock(job.band.likely)} <span class="ps-soft">in {left}</span>'


def _outlook(job: ActiveJob) -> str:
    """The state of one that does not run, else how its promise stands."""
    view = job.view
    if view.state != "running":
        return badge(view.state)
    tone, slack = _RISK_TONES[job.risk], view.slack_s
    promise = "promised" if view.promised else "not promised"
    if view.deadline is None:
        return f'<span class="ps-badge ps-{TONES["best effort"]}">best effort</span>'
    words = [promise] if slack is None else [promise, _margin(slack)]
    return (
        f'<span class="ps-badge ps-{tone}">{job.risk}</span> '
        f'<span class="ps-soft">{html.escape(", ".join(words))}</span>'
    )


def _margin(slack_s: float) -> str:
    return f"{format_duration(slack_s)} to spare" if slack_s >= 0 else f"{format_duration(-slack_s)} too late"
