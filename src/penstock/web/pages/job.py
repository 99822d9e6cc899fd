"""One job: what it was promised and what to expect, how it comes along, what happened to it, and what it says."""

import html
from collections.abc import Callable
from datetime import datetime

import yaml
from fastapi import Request
from nicegui import ui

from penstock.web import charts
from penstock.web.format import clock, device_time, from_now, number, percent, plural
from penstock.web.layout import Figure, Text, ask, attempt, badge, confirmed, empty, live
from penstock.web.metric_panel import MetricPanel
from penstock.web.pages.joblog import LogPane
from penstock.web.progress_history import speeds
from penstock.web.urls import ROOT
from penstock.web.view_models import JobOverview, StepFunction
from penstock.web.viewer import Viewer
from penstock.wire import NO_PROGRESS, OVER, MissingError, tells_nothing


async def build(viewer: Viewer, request: Request) -> None:
    job_id = str(request.path_params["job_id"])
    try:
        first = await ask(viewer.job, job_id)
    except MissingError:
        ui.context.client.status_code = 404
        with ui.element("div").classes("ps-card"):
            empty(
                "No such job", f'Nothing of yours is called {html.escape(job_id)}. <a href="{ROOT}/jobs">All jobs</a>'
            )
        return
    ui.page_title(f"{first.detail.name} · Penstock")
    page = _JobPage(viewer, job_id)
    page.show(first)
    await page.metrics.refresh()
    await page.log.refresh()

    async def refresh() -> None:
        page.show(await ask(viewer.job, job_id))
        await page.metrics.refresh()
        await page.log.refresh()

    live(viewer, refresh)


class _JobPage:
    """The parts of the page, made once and filled again and again."""

    def __init__(self, viewer: Viewer, job_id: str) -> None:
        self._viewer, self._id = viewer, job_id
        with ui.element("section").classes("ps-card").props('aria-label="This job"'):
            with ui.element("div").classes("ps-head"):
                self._title = Text()
                self._buttons()
            self._facts = Text()
        self._forecast = Figure("Promise and forecast", 110)
        with ui.element("div").classes("ps-grid2"):
            self._progress = Figure("Progress and loss", 230)
            self._widths = Figure("Devices held", 230)
            self._scaling = Figure("Throughput: measured and predicted", 250)
            self._speed = Figure("Speed over time", 250)
        self.metrics = MetricPanel(viewer, [job_id])
        with ui.element("div").classes("ps-grid2"):
            with ui.element("section").classes("ps-card").props('aria-label="Story"'):
                ui.html("What happened, and why", sanitize=False, tag="h2")
                self._story = Text()
            with ui.element("section").classes("ps-card").props('aria-label="Job file"'):
                ui.html("Job file", sanitize=False, tag="h2").style("margin-bottom: 8px")
                self._file = Text()
        self.log = LogPane(viewer, job_id)

    def _buttons(self) -> None:
        with ui.element("div").classes("ps-push").style("display: flex; gap: 4px"):
            self._pause = self._button("Pause", "M6 5h4v14H6zM14 5h4v14h-4z", self._viewer.pause, "paused")
            self._resume = ui.button("Resume", icon="M7 5l12 7l-12 7z", on_click=self._ask_resume, color=None)
            self._resume.props("flat dense no-caps").classes("ps-quiet")
            self._cancel = ui.button("Cancel", icon="M6 6h12v12H6z", on_click=self._ask_cancel, color=None)
            self._cancel.props("flat dense no-caps").classes("ps-danger")

    def _button(self, label: str, icon: str, action: Callable[[str], None], done: str) -> ui.button:
        async def press() -> None:
            await attempt(action, self._id, done=f"{self._id} is {done}")

        return ui.button(label, icon=icon, on_click=press, color=None).props("flat dense no-caps").classes("ps-quiet")

    async def _ask_cancel(self) -> None:
        if await confirmed("End this job for good?", "Its checkpoints and logs stay.", yes="Cancel the job"):
            await attempt(self._viewer.cancel, self._id, done=f"{self._id} is cancelled")

    async def _ask_resume(self) -> None:
        with ui.dialog() as dialog, ui.element("div").classes("ps-card").props('role="dialog" aria-label="Resume"'):
            ui.label("Resume").classes("ps-verdict")
            deadline = ui.input("New deadline, such as 6h; empty keeps the old one").props("outlined dense")
            deadline.style("min-width: 260px")
            effort = ui.checkbox("Best effort: no deadline")
            with ui.element("div").classes("ps-head"):
                ui.button("Resume it", on_click=lambda: dialog.submit(True), color=None).props("flat no-caps").classes(
                    "ps-quiet"
                )
                ui.button("Back", on_click=lambda: dialog.submit(False), color=None).props("flat no-caps").classes(
                    "ps-quiet"
                )
        if await dialog:
            how = {"deadline": (deadline.value or "").strip() or None, "best_effort": bool(effort.value)}
            await attempt(self._viewer.resume, self._id, done=f"{self._id} asks for devices again", **how)

    def show(self, overview: JobOverview) -> None:
        state = overview.detail.state
        self._title.show(f"<h2 style='font-size:1.15rem'>{html.escape(overview.detail.name)} {badge(state)}</h2>")
        self._facts.show(facts_html(overview))
        self._pause.set_visibility(state not in (*OVER, "paused"))
        self._resume.set_visibility(state == "paused")
        self._cancel.set_visibility(state not in OVER)
        self._show_charts(overview)
        self._story.show(story_html(overview))
        self._file.show(
            f"<pre class='ps-file'>{html.escape(yaml.safe_dump(overview.detail.spec, sort_keys=False))}</pre>"
        )

    def _show_charts(self, overview: JobOverview) -> None:
        chart = charts.forecast(overview.now, overview.band, _seconds(_end(overview)), overview.deadline)
        self._forecast.show(chart, expected(overview), ("what", "when"), forecast_rows(overview))
        self._forecast.card.set_visibility(overview.detail.state not in OVER)
        samples = overview.samples
        last = samples[-1] if samples else None
        latest = f"step {last.step}, loss {number(last.loss)}" if last else "nothing reported yet"
        steps = [[clock(sample.at), str(sample.step), number(sample.loss)] for sample in samples[-50:]]
        self._progress.show(charts.progress(samples), f"Progress: {latest}.", ("at", "step", "loss"), steps)
        rates = speeds(samples)
        self._speed.show(
            charts.speed(samples), f"Speed: {number(rates[-1][1], 3) if rates else 'none'} steps per second.",
            ("at", "steps per second"), [[clock(at), number(rate)] for at, rate in rates[-50:]],
        )  # fmt: skip
        held = widths_of(overview)
        now_held = len(overview.detail.devices)
        span = (held[0][0], held[-1][0]) if held else (overview.now - 60, overview.now)
        self._widths.show(
            charts.widths(held, *span), f"It holds {now_held} devices now.", ("from", "devices"),
            [[clock(at), f"{width:.0f}"] for at, width in held],
        )  # fmt: skip
        points = {point.count: point for point in overview.measured}
        rows = [
            [str(count), number(rate), number(points[count].rate) if count in points else "–"]
            for count, rate in overview.predicted
        ]
        words = f"Steps per second on {overview.kind}, {len(points)} of {len(rows)} device counts measured."
        self._scaling.show(
            charts.scaling(overview.predicted, overview.measured), words, ("devices", "predicted", "measured"), rows
        )


def _end(overview: JobOverview) -> datetime | None:
    quote = overview.detail.quote
    return quote.finish_at if quote is not None else None


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def expected(overview: JobOverview) -> str:
    """The forecast in words."""
    band = overview.band
    if overview.detail.state in OVER:
        return f"It is over: {overview.detail.state}."
    if band is None:
        quote = overview.detail.quote
        unknown = quote is not None and quote.speed == "guessed"
        return "Not known yet: its speed was never measured." if unknown else "No forecast: it is not in the plan yet."
    words = (
        f"Expected to end {from_now(band.likely, overview.now)}, between {clock(band.early)} and {clock(band.late)}."
    )
    if overview.deadline is None:
        return words
    margin = (
        "before" if band.late <= overview.deadline else "perhaps after" if band.early <= overview.deadline else "after"
    )
    return f"{words} That is {margin} its deadline at {clock(overview.deadline)}."


def forecast_rows(overview: JobOverview) -> list[list[str]]:
    band = overview.band
    rows = [("deadline", overview.deadline), ("planned end when it was answered", _seconds(_end(overview)))]
    rows += [("earliest", band.early), ("most likely", band.likely), ("latest", band.late)] if band else []
    return [[what, clock(at)] for what, at in rows]


def facts_html(overview: JobOverview) -> str:
    """The job in a few lines."""
    job, quote, progress = overview.detail, overview.detail.quote, overview.detail.progress
    facts = [
        ("Id", job.id),
        ("Tenant", job.tenant),
        ("Submitted", f"{clock(job.submitted_at)} ({from_now(job.submitted_at, overview.now)})"),
    ]
    facts.append(("Goal", f"done by {clock(overview.deadline)}" if overview.deadline else "best effort, no deadline"))
    if quote is not None:
        facts.append(("Answer", f"{quote.verdict}: {quote.reason}"))
        if quote.device_seconds:
            facts.append(("Planned", f"up to {plural(quote.devices, 'device')}, {device_time(quote.device_seconds)}"))
    facts.append(("Forecast", expected(overview)))
    if job.state not in OVER or job.started_at is not None:
        held = f"{len(job.devices)} (number {', '.join(map(str, job.devices))})" if job.devices else "none"
        facts.append(("Devices now", held))
    if progress is not None and progress.step is not None:
        total = progress.total or round(progress.work)
        facts.append(("Progress", f"step {progress.step:,} of {total:,}, loss {number(progress.loss)}"))
    elif tells_nothing(job, overview.now):
        facts.append(("Progress", NO_PROGRESS))
    if job.failures or job.reason:
        facts.append(("Failures", f"{job.failures}. {job.reason}"))
    bar = _bar(overview)
    return (
        bar
        + "<dl class='ps-facts'>"
        + "".join(f"<dt>{n}</dt><dd>{html.escape(str(v))}</dd>" for n, v in facts)
        + "</dl>"
    )


def _bar(overview: JobOverview) -> str:
    share = share_done(overview)
    return (
        f"<div class='ps-progress' style='margin-bottom:12px'><div class='ps-bar' role='progressbar' aria-valuemin='0' "
        f"aria-valuemax='100' aria-valuenow='{100 * share:.0f}' aria-label='Progress'>"
        f"<span style='width:{100 * share:.1f}%'></span></div><b>{percent(share)}</b></div>"
    )


def share_done(overview: JobOverview) -> float:
    progress = overview.detail.progress
    if overview.detail.state == "finished":
        return 1.0
    if progress is None or progress.work <= 0 or overview.detail.state in OVER:
        last = overview.samples[-1] if overview.samples else None
        return min(1.0, last.step / last.total) if last is not None and last.total else 0.0
    return min(max(1.0 - progress.remaining / progress.work, 0.0), 1.0)


def widths_of(overview: JobOverview) -> StepFunction:
    """Devices held over time, with the gaps."""
    steps: list[tuple[float, float]] = []
    for stint in overview.detail.history:
        since = stint.since.timestamp()
        if steps and since - steps[-1][0] < 1e-6:
            steps.pop()
        steps.append((since, len(stint.devices)))
        if stint.until is not None:
            steps.append((stint.until.timestamp(), 0))
    if steps and steps[-1][1]:
        steps.append((overview.now, steps[-1][1]))
    return tuple(steps)


def story_html(overview: JobOverview) -> str:
    """Newest first, so that what matters now is on top."""
    now = overview.story.now
    first = f"<li><time>now</time><span>{html.escape(now)}</span></li>" if now else ""
    rest = "".join(
        f"<li><time datetime='{note.at.isoformat()}'>{clock(note.at)}</time><span>{html.escape(note.text)}</span></li>"
        for note in reversed(overview.story.entries)
    )
    return f"<ol class='ps-story' reversed>{first}{rest}</ol>"
