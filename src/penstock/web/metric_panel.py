"""The metrics of one job or of several beside each other: what to draw, over what, how smooth, and the charts."""

from collections.abc import Sequence

from nicegui import events, ui

from penstock.web.layout import Figure, Text, ask
from penstock.web.metric_charts import (
    CurveStyle,
    MetricAxis,
    metric_chart,
    metric_names,
    metric_of,
    metric_words,
)
from penstock.web.urls import compare_url
from penstock.web.viewer import Viewer
from penstock.wire import JobMetricsView

MOST_CHARTS = 12
_FIRST_CHARTS = 6
_MOST_ROWS = 50
_NOTHING = (
    "Nothing is logged yet. A script logs any number with <code>elastic.log(val_acc=0.91)</code>, or by printing "
    "<code>penstock: step=120 val_acc=0.91</code>."
)


class MetricPanel:
    """Controls, and a chart for each metric that is chosen; filled again and again."""

    def __init__(self, viewer: Viewer, jobs: Sequence[str]) -> None:
        self._viewer = viewer
        self._jobs = tuple(jobs)
        self._found: list[JobMetricsView] = []
        self._style = CurveStyle()
        self._figures: dict[str, Figure] = {}
        self._chosen: list[str] | None = None
        with ui.element("section").classes("ps-card").props('aria-label="Metrics"'):
            with ui.element("div").classes("ps-head"):
                ui.html("Metrics", sanitize=False, tag="h2")
                if len(self._jobs) == 1:
                    ui.html(f'<a href="{compare_url(*self._jobs)}">Compare with others</a>', sanitize=False)
                self._controls()
            self._empty = Text(_NOTHING, classes="ps-soft")
        self._charts = ui.element("div").classes("ps-grid2")

    @property
    def found(self) -> Sequence[JobMetricsView]:
        """What was found the last time."""
        return self._found

    async def refresh(self) -> None:
        self._found = [await ask(self._viewer.metrics, job) for job in self._jobs]
        names = metric_names(self._found)
        self._empty.element.set_visibility(not names)
        self._bar.set_visibility(bool(names))
        if names != self._names.options:
            self._names.set_options(names, value=self._wanted(names))
        self._draw()

    def _controls(self) -> None:
        with ui.element("div").classes("ps-head ps-push").style("width: auto; margin-bottom: 0") as self._bar:
            self._names = ui.select([], label="Shown", multiple=True, on_change=self._choose)
            self._names.props("outlined dense options-dense").style("min-width: 150px; max-width: 260px")
            axis = ui.toggle({MetricAxis.STEP: "Step", MetricAxis.TIME: "Time"}, value=MetricAxis.STEP)
            axis.props('no-caps unelevated dense aria-label="Drawn over"').on_value_change(self._restyle)
            ui.label("Smoothing").classes("ps-soft")
            smooth = ui.slider(min=0.0, max=0.98, step=0.02, value=0.0).props('label aria-label="Smoothing"')
            smooth.style("width: 100px").on_value_change(self._restyle)
            log = ui.checkbox("Log scale", on_change=self._restyle)
        self._axis, self._smooth, self._log = axis, smooth, log

    def _wanted(self, names: Sequence[str]) -> list[str]:
        return list(names[:_FIRST_CHARTS]) if self._chosen is None else [name for name in self._chosen if name in names]

    def _choose(self, event: events.ValueChangeEventArguments[list[str]]) -> None:
        chosen = list(event.value or ())
        if chosen != list(self._names.options[:_FIRST_CHARTS]):
            self._chosen = chosen
        self._draw()

    def _restyle(self) -> None:
        self._style = CurveStyle(MetricAxis(self._axis.value), float(self._smooth.value), bool(self._log.value))
        self._draw()

    def _draw(self) -> None:
        shown = list(self._names.value or ())[:MOST_CHARTS]
        for name in [name for name in self._figures if name not in shown]:
            self._figures.pop(name).card.delete()
        for name in shown:
            if name not in self._figures:
                with self._charts:
                    self._figures[name] = Figure(name, 240)
            self._show(name, self._figures[name])

    def _show(self, name: str, figure: Figure) -> None:
        rows = [
            [job.name, str(step), f"{value:.6g}"]
            for job in self._found
            if (metric := metric_of(job, name))
            for step, value in list(zip(metric.steps, metric.values, strict=True))[-_MOST_ROWS:]
        ]
        chart = metric_chart(name, self._found, self._style)
        figure.show(chart, metric_words(name, self._found), ("job", "step", name), rows)
