"""One job: what it was promised and what to expect, how it comes along, what happened to it, and what it says."""

import html
from collections.abc import Awaitable, Callable

import yaml
from fastapi import Request
from nicegui import ui

from penstock.control import Action
from penstock.core import counted
from penstock.web import charts
from penstock.web.format import clock, number
from penstock.web.layout import Figure, Text, ask, attempt, attempt_with_loss, badge, confirmed, empty, go_to, live
from penstock.web.metric_panel import MetricPanel
from penstock.web.pages.evaluation_list import EvaluationPanel
from penstock.web.pages.file_list import SavedFileList
from penstock.web.pages.job_changes import JobChanges
from penstock.web.pages.job_facts import (
    ending_html,
    expected,
    facts_html,
    forecast_rows,
    notices_html,
    planned_end,
    progress_html,
    speed_is_guessed,
    story_html,
    tiles_html,
    widths_of,
)
from penstock.web.pages.job_hotspots import JobHotspotsPanel
from penstock.web.pages.job_usage import JobUsagePanel
from penstock.web.pages.joblog import LogPane
from penstock.web.progress_history import speeds
from penstock.web.urls import ROOT
from penstock.web.view_models import JobOverview
from penstock.web.viewer import Viewer
from penstock.wire import OVER, MissingError

_SHORTEST_CHART_S = 2.0
_PAUSE = "M6 5h4v14H6zM14 5h4v14h-4z"
_AGAIN = "M12 5V2L7 6.5L12 11V8a5 5 0 1 1-5 5H5a7 7 0 1 0 7-8z"


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
    await page.refresh()

    async def refresh() -> None:
        page.show(await ask(viewer.job, job_id))
        await page.refresh()

    live(viewer, refresh)


class _JobPage:
    """The parts of the page, made once and filled again and again."""

    def __init__(self, viewer: Viewer, job_id: str) -> None:
        self._viewer, self._id = viewer, job_id
        self._failure = Text(classes="w-full")
        with ui.element("section").classes("ps-card").props('aria-label="This job"'):
            with ui.element("div").classes("ps-head"):
                self._title = Text()
                self._buttons()
            self._bar = Text()
            self._tiles = Text(classes="w-full ps-figures")
            self._facts = Text()
        self._forecast = Figure("Promise and forecast", 110)
        with ui.element("div").classes("ps-grid2"):
            self._widths = Figure("Devices held", 230)
            self._speed = Figure("Speed over time", 230)
        self._metrics = MetricPanel(viewer, [job_id])
        self._evaluations = EvaluationPanel(viewer, job_id)
        self._usage = JobUsagePanel(viewer, job_id)
        self._hotspots = JobHotspotsPanel(viewer, job_id)
        with ui.element("div").classes("ps-grid2"):
            self._scaling = Figure("Throughput: measured and predicted", 250)
        with ui.element("div").classes("ps-grid2"):
            with ui.element("section").classes("ps-card").props('aria-label="Story"'):
                ui.html("What happened, and why", sanitize=False, tag="h2")
                self._story = Text()
            with ui.element("section").classes("ps-card").props('aria-label="Job file"'):
                ui.html("Job file", sanitize=False, tag="h2").style("margin-bottom: 8px")
                self._file = Text()
        self._saved = SavedFileList(viewer, job_id)
        self._log = LogPane(viewer, job_id)

    async def refresh(self) -> None:
        """The parts that look for themselves."""
        for part in (self._metrics, self._evaluations, self._usage, self._hotspots, self._saved, self._log):
            await part.refresh()

    def _buttons(self) -> None:
        with ui.element("div").classes("ps-push ps-buttons"):
            self._clone()
            self._changes = JobChanges(self._viewer, self._id)
            self._pause = self._button("Pause", _PAUSE, self._ask_pause)
            self._pause_later = self._button("Pause at checkpoint", _PAUSE, self._pause_at_checkpoint)
            self._resume = ui.button("Resume", icon="M7 5l12 7l-12 7z", on_click=self._ask_resume, color=None)
            self._resume.props("flat dense no-caps").classes("ps-quiet")
            self._cancel = ui.button("Cancel", icon="M6 6h12v12H6z", on_click=self._ask_cancel, color=None)
            self._cancel.props("flat dense no-caps").classes("ps-danger")

    def _clone(self) -> None:
        """The form for a new job, filled in with this one's file."""
        address = f"{ROOT}/submit?from={self._id}"
        again = ui.button("Submit again", icon=_AGAIN, on_click=lambda: go_to(address), color=None)
        again.props("flat dense no-caps").classes("ps-quiet").set_visibility(self._viewer.may(Action.SUBMIT))

    def _button(self, label: str, icon: str, press: Callable[[], Awaitable[None]]) -> ui.button:
        return ui.button(label, icon=icon, on_click=press, color=None).props("flat dense no-caps").classes("ps-quiet")

    async def _ask_pause(self) -> None:
        await attempt_with_loss(self._viewer.pause, self._id, done=f"{self._id} is paused")

    async def _pause_at_checkpoint(self) -> None:
        done = f"{self._id} is paused at its next checkpoint"
        await attempt(self._viewer.pause, self._id, done=done, at_checkpoint=True)

    async def _ask_cancel(self) -> None:
        if await confirmed("End this job for good?", "Its checkpoints and logs stay.", yes="Cancel the job"):
            await attempt(self._viewer.cancel, self._id, done=f"{self._id} is cancelled")

    async def _ask_resume(self) -> None:
        with ui.dialog() as dialog, ui.element("div").classes("ps-card").props('role="dialog" aria-label="Resume"'):
            ui.label("Resume").classes("ps-verdict")
            deadline = ui.input("New deadline, such as 6h; empty keeps the old one").props("outlined dense")
            deadline.style("min-width: 260px")
            effort = ui.checkbox("Best effort: no deadline")
            scratch = ui.checkbox("From scratch: begin again at step 0; old checkpoints are kept")
            with ui.element("div").classes("ps-head"):
                ui.button("Resume it", on_click=lambda: dialog.submit(True), color=None).props("flat no-caps").classes(
                    "ps-quiet"
                )
                ui.button("Back", on_click=lambda: dialog.submit(False), color=None).props("flat no-caps").classes(
                    "ps-quiet"
                )
        if await dialog:
            how = {
                "deadline": (deadline.value or "").strip() or None, "best_effort": bool(effort.value),
                "from_scratch": bool(scratch.value),
            }  # fmt: skip
            await attempt(self._viewer.resume, self._id, done=f"{self._id} asks for devices again", **how)

    def show(self, overview: JobOverview) -> None:
        state = overview.detail.state
        self._title.show(f"<h2 style='font-size:1.15rem'>{html.escape(overview.detail.name)} {badge(state)}</h2>")
        self._failure.show(ending_html(overview.detail) + notices_html(overview.detail))
        self._bar.show(progress_html(overview))
        self._facts.show(facts_html(overview))
        self._tiles.show(tiles_html(overview))
        self._changes.button.set_visibility(state not in OVER)
        self._pause.set_visibility(state not in (*OVER, "paused", "finishing"))
        self._pause_later.set_visibility(state == "running" and overview.detail.resumable)
        self._resume.set_visibility(state == "paused")
        self._cancel.set_visibility(state not in OVER)
        self._show_charts(overview)
        self._story.show(story_html(overview))
        self._file.show(
            f"<pre class='ps-file'>{html.escape(yaml.safe_dump(overview.detail.spec, sort_keys=False))}</pre>"
        )

    def _show_charts(self, overview: JobOverview) -> None:
        """What there is to draw; a chart of nothing is not shown."""
        self._show_forecast(overview)
        self._show_speed(overview)
        self._show_widths(overview)
        self._show_scaling(overview)

    def _show_forecast(self, overview: JobOverview) -> None:
        drawn = overview.detail.state not in OVER and (overview.band is not None or overview.deadline is not None)
        self._forecast.card.set_visibility(drawn)
        if drawn:
            chart = charts.forecast(overview.now, overview.band, planned_end(overview), overview.deadline)
            self._forecast.show(chart, expected(overview), ("what", "when"), forecast_rows(overview))

    def _show_speed(self, overview: JobOverview) -> None:
        rates = speeds(overview.samples)
        self._speed.card.set_visibility(len(rates) > 1)
        if len(rates) > 1:
            words = f"Speed: {number(rates[-1][1], 3)} steps per second."
            rows = [[clock(at), number(rate)] for at, rate in rates[-50:]]
            self._speed.show(charts.speed(overview.samples), words, ("at", "steps per second"), rows)

    def _show_widths(self, overview: JobOverview) -> None:
        held = widths_of(overview)
        drawn = len(held) > 1 and held[-1][0] - held[0][0] > _SHORTEST_CHART_S
        self._widths.card.set_visibility(drawn)
        if drawn:
            words = f"It holds {counted(len(overview.detail.devices), 'device')} now."
            rows = [[clock(at), f"{width:.0f}"] for at, width in held]
            self._widths.show(charts.widths(held, held[0][0], held[-1][0]), words, ("from", "devices"), rows)

    def _show_scaling(self, overview: JobOverview) -> None:
        """Nothing of a speed that is a guess and no more."""
        points = {point.count: point for point in overview.measured}
        source = "guessed" if speed_is_guessed(overview) else "predicted"
        drawn = bool(points) or (bool(overview.predicted) and source != "guessed")
        self._scaling.card.set_visibility(drawn)
        if drawn:
            rows = [
                [str(count), number(rate), number(points[count].rate) if count in points else "–"]
                for count, rate in overview.predicted
            ]
            words = f"Steps per second on {overview.kind}, {len(points)} of {len(rows)} device counts measured."
            chart = charts.scaling(overview.predicted, overview.measured, source)
            self._scaling.show(chart, words, ("devices", source, "measured"), rows)
