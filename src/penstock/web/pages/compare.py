"""Several jobs beside each other: their curves in the same charts, last values, and what differs in their files."""

import html
from collections.abc import Sequence

from fastapi import Request
from nicegui import ui

from penstock.core import PenstockError
from penstock.tools import flat_texts
from penstock.web.format import number
from penstock.web.layout import Text, ask, empty, go_to, live, rich_table, table_html
from penstock.web.metric_charts import metric_names, metric_of
from penstock.web.metric_panel import MetricPanel
from penstock.web.urls import ROOT, compare_url, job_url
from penstock.web.viewer import Viewer
from penstock.wire import JobDetail, JobMetricsView

MOST_JOBS = 10
_SHOWN = 60


async def build(viewer: Viewer, request: Request) -> None:
    wanted = [name.strip() for name in request.query_params.get("jobs", "").split(",") if name.strip()][:MOST_JOBS]
    _chooser(wanted)
    try:
        details = [await ask(viewer.detail, name) for name in wanted]
    except PenstockError as error:
        ui.context.client.status_code = 404
        with ui.element("div").classes("ps-card"):
            empty("No such job", html.escape(str(error)))
        return
    if not details:
        with ui.element("div").classes("ps-card"):
            empty("Nothing to compare yet", f'Name some jobs above, or select them in <a href="{ROOT}/jobs">Jobs</a>.')
    else:
        await _Comparison(viewer, details).begin()


def _chooser(wanted: Sequence[str]) -> None:
    with ui.element("section").classes("ps-card ps-head").props('aria-label="Jobs to compare"'):
        field = ui.input("Jobs: names or ids, with commas between", value=", ".join(wanted))
        field.props("outlined dense").style("flex: 1; min-width: 200px")

        def compare() -> None:
            go_to(compare_url(*(str(field.value or "").replace(" ", "").split(","))))

        field.on("keydown.enter", compare)
        ui.button("Compare", on_click=compare).props("unelevated no-caps").classes("ps-primary")


class _Comparison:
    """The parts of the page, filled again and again."""

    def __init__(self, viewer: Viewer, details: Sequence[JobDetail]) -> None:
        self._viewer = viewer
        self._details = details
        with ui.element("section").classes("ps-card").props('aria-label="Last values"'):
            ui.html("Last values", sanitize=False, tag="h2")
            self._table = Text()
        self._panel = MetricPanel(viewer, [detail.id for detail in details])
        with ui.element("section").classes("ps-card").props('aria-label="Differences"'):
            ui.html("What differs in their job files", sanitize=False, tag="h2")
            Text(differences_html(details))

    async def begin(self) -> None:
        await self._refresh()
        live(self._viewer, self._refresh)

    async def _refresh(self) -> None:
        await self._panel.refresh()
        self._table.show(values_html(self._panel.found))


def values_html(jobs: Sequence[JobMetricsView]) -> str:
    """The last value of each metric, job by job; links and names are escaped."""
    rows = [[html.escape(name), *(_last(job, name) for job in jobs)] for name in metric_names(jobs)]
    return rich_table(("metric", *map(_link, jobs)), rows)


def _link(job: JobMetricsView) -> str:
    return f'<a href="{html.escape(job_url(job.job_id))}">{html.escape(job.name)}</a>'


def _last(job: JobMetricsView, name: str) -> str:
    metric = metric_of(job, name)
    return "–" if metric is None else f"{number(metric.last)} <span class='ps-soft'>at {metric.steps[-1]:,}</span>"


def differences_html(details: Sequence[JobDetail]) -> str:
    """Keys of job files that are not the same in all of them."""
    files = [flat_texts(detail.spec) for detail in details]
    keys = dict.fromkeys(key for file in files for key in file)
    rows = [
        [key, *(file.get(key, "–") for file in files)] for key in keys if len({file.get(key) for file in files}) > 1
    ]
    if not rows:
        return "<p class='ps-soft'>Nothing.</p>"
    return table_html(("key", *(detail.name for detail in details)), [[_cut(cell) for cell in row] for row in rows])


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
