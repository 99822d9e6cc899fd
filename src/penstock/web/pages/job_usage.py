"""What a job uses, over time: two charts that are there once something was measured."""

from nicegui import ui

from penstock.core import format_bytes
from penstock.web import charts
from penstock.web.format import clock
from penstock.web.layout import Figure, ask
from penstock.web.metric_charts import metric_of
from penstock.web.viewer import Viewer
from penstock.wire import JobMetricsView, MetricView

_MOST_ROWS = 50
_FEWEST_POINTS = 2
_BUSY = (("cpu_percent", "CPU"), ("device_percent", "GPU"))
_MEMORY = (("memory_bytes", "memory"), ("device_memory_bytes", "GPU memory"))


class JobUsagePanel:
    """How busy its processors and devices were, and the memory that it held; filled again and again."""

    def __init__(self, viewer: Viewer, job_id: str) -> None:
        self._viewer, self._id = viewer, job_id
        with ui.element("div").classes("ps-grid2"):
            self._busy = Figure("CPU and GPU", 200)
            self._memory = Figure("Memory", 200)

    async def refresh(self) -> None:
        used = await ask(self._viewer.usage, self._id)
        _show(self._busy, lines_of(used, _BUSY), percent=True)
        _show(self._memory, lines_of(used, _MEMORY), percent=False)


def lines_of(used: JobMetricsView, figures: tuple[tuple[str, str], ...]) -> list[tuple[str, MetricView]]:
    """What there is to draw of some figures, each with what it is called."""
    found = [(label, metric) for name, label in figures if (metric := metric_of(used, name))]
    return [(label, metric) for label, metric in found if len(metric.times) >= _FEWEST_POINTS]


def _show(figure: Figure, lines: list[tuple[str, MetricView]], *, percent: bool) -> None:
    figure.card.set_visibility(bool(lines))
    if lines:
        rows = [
            [clock(at), label, _amount(value, percent=percent)]
            for label, metric in lines
            for at, value in list(zip(metric.times, metric.values, strict=True))[-_MOST_ROWS:]
        ]
        words = "; ".join(
            f"{label}: {_amount(metric.last, percent=percent)}, {_amount(metric.high, percent=percent)} at most"
            for label, metric in lines
        )
        figure.show(charts.used(lines, percent=percent), f"{words}.", ("at", "what", "amount"), rows)


def _amount(value: float, *, percent: bool) -> str:
    return f"{value:.0f} %" if percent else format_bytes(value)
