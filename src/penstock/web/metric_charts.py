"""Curves of metrics as ECharts options: one chart for each metric, one line for each job. Pure functions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from penstock.core import counted
from penstock.web.charts import Options, frame, hue, time_axis, value_axis
from penstock.web.format import number
from penstock.wire import JobMetricsView, MetricBand, MetricView

_SOFT = {"color": "var(--soft)"}
_RAW = 0.3
"""How strongly the values themselves are drawn behind a smoothed curve."""


_FIVE_DIGITS = "value => value == null ? '–' : +value.toPrecision(5)"


class MetricAxis(StrEnum):
    """What a curve is drawn over."""

    STEP = "step"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class CurveStyle:
    """How curves are drawn. ``smoothing`` is the weight of what came before, from 0 to below 1."""

    axis: MetricAxis = MetricAxis.STEP
    smoothing: float = 0.0
    logarithmic: bool = False


def metric_chart(name: str, jobs: Sequence[JobMetricsView], style: CurveStyle) -> Options:
    """One metric of some jobs. Of several jobs time is counted from the first value of each."""
    found = [(position, job, metric) for position, job in enumerate(jobs) if (metric := metric_of(job, name))]
    several = len(jobs) > 1
    series: list[Options] = []
    for position, job, metric in found:
        series += _lines(job.name if several else name, metric, hue(position), style, since=_since(metric, several))
        if job.band is not None and job.band.metric == name:
            series += _future(job.band, hue(position), style)
    return frame(
        grid={"left": 64, "right": 20, "top": 40 if several else 24, "bottom": 44},
        legend={"show": several, "top": 0, "left": "center", "textStyle": _SOFT, "type": "scroll"},
        tooltip={**frame()["tooltip"], "trigger": "axis", ":valueFormatter": _FIVE_DIGITS},
        xAxis=_x_axis([metric for _, _, metric in found], style.axis, several),
        yAxis=value_axis("", type="log" if style.logarithmic else "value", scale=True),
        series=series,
    )  # fmt: skip


def metric_words(name: str, jobs: Sequence[JobMetricsView]) -> str:
    """What a chart shows, for those who do not see it."""
    found = [(job, metric) for job in jobs if (metric := metric_of(job, name))]
    parts = [f"{job.name}: {_ends(metric)}" if len(jobs) > 1 else _ends(metric) for job, metric in found]
    odd = sum(not math.isfinite(value) for _, metric in found for value in metric.values)
    return f"{name}: {'; '.join(parts)}." + (f" {counted(odd, 'point')} not finite." if odd else "")


def metric_names(jobs: Sequence[JobMetricsView]) -> list[str]:
    """All metrics of some jobs; losses first, because they are looked at first, speeds last."""
    names = {metric.name for job in jobs for metric in job.metrics}
    return sorted(names, key=lambda name: ("loss" not in name, "per_s" in name or "per_second" in name, name))


def metric_of(job: JobMetricsView, name: str) -> MetricView | None:
    return next((metric for metric in job.metrics if metric.name == name), None)


def smoothed(values: Sequence[float], weight: float) -> list[float]:
    """A moving average whose past fades by ``weight``, without a bias to 0 at its beginning; gaps stay."""
    average, share, found = 0.0, 0.0, []
    for value in values:
        if math.isfinite(value):
            average = weight * average + (1.0 - weight) * value
            share = weight * share + (1.0 - weight)
            found.append(average / share)
        else:
            found.append(math.nan)
    return found


def _ends(metric: MetricView) -> str:
    return f"{number(metric.last)} at step {metric.steps[-1]}, from {number(metric.low)} to {number(metric.high)}"


def _since(metric: MetricView, several: bool) -> float:
    return metric.times[0] if several else 0.0


def _lines(name: str, metric: MetricView, colour: str, style: CurveStyle, *, since: float) -> list[Options]:
    drawn: Options = {"type": "line", "name": name, "showSymbol": len(metric.steps) < 3, "connectNulls": False}
    strong = {"lineStyle": {"color": colour, "width": 2}, "itemStyle": {"color": colour}}
    if not style.smoothing:
        return [{**drawn, **strong, "data": _data(metric, metric.values, style, since)}]
    faint = {"lineStyle": {"color": colour, "width": 1, "opacity": _RAW}, "itemStyle": {"color": colour}}
    raw = _data(metric, metric.values, style, since)
    smooth = _data(metric, smoothed(metric.values, style.smoothing), style, since)
    return [
        {**drawn, **faint, "data": raw, "silent": True, "tooltip": {"show": False}, "showSymbol": False},
        {**drawn, **strong, "data": smooth},
    ]


def _future(band: MetricBand, colour: str, style: CurveStyle) -> list[Options]:
    """The target as a line, and, over steps, where the metric is going: the middle of its courses and eight of ten."""
    quiet: Options = {"type": "line", "showSymbol": False, "silent": True, "tooltip": {"show": False}}
    found: list[Options] = []
    if band.target is not None:
        line = {"color": "var(--soft)", "type": "dashed"}
        mark = {"symbol": "none", "lineStyle": line, "label": {"formatter": "target", "color": "var(--soft)"}}
        found.append({**quiet, "name": "target", "data": [], "markLine": {**mark, "data": [{"yAxis": band.target}]}})
    if not band.steps or style.axis is not MetricAxis.STEP or style.logarithmic:
        return found
    shade = {"color": colour, "opacity": 0.15}
    heights = [high - low for low, high in zip(band.low, band.high, strict=True)]
    none, stack = {"opacity": 0}, f"band {colour}"
    columns = ((band.low, none, None), (heights, none, shade))
    for values, line_style, area in columns:
        data = [list(pair) for pair in zip(band.steps, values, strict=True)]
        found.append({**quiet, "name": "forecast", "stack": stack, "lineStyle": line_style, "data": data}
                     | ({"areaStyle": area} if area else {}))  # fmt: skip
    dotted = {"color": colour, "type": "dotted", "width": 2}
    middle = [list(pair) for pair in zip(band.steps, band.middle, strict=True)]
    return [*found, {**quiet, "name": "forecast", "lineStyle": dotted, "data": middle}]


def _data(metric: MetricView, values: Sequence[float], style: CurveStyle, since: float) -> list[list[float | None]]:
    by_step = style.axis is MetricAxis.STEP
    places = metric.steps if by_step else [(at - since) * (1e3 if since == 0.0 else 1 / 60) for at in metric.times]
    return [[place, _drawable(value, style)] for place, value in zip(places, values, strict=True)]


def _drawable(value: float, style: CurveStyle) -> float | None:
    return value if math.isfinite(value) and not (style.logarithmic and value <= 0.0) else None


def _x_axis(metrics: Sequence[MetricView], axis: MetricAxis, several: bool) -> dict[str, Any]:
    below: Options = {"nameLocation": "middle", "nameGap": 28, "nameTextStyle": _SOFT, "splitLine": {"show": False}}
    below["axisLine"] = {"onZero": False, "lineStyle": {"color": "var(--line)"}}
    if axis is MetricAxis.STEP:
        return value_axis("step", scale=True, **below)
    if several or not metrics:
        return value_axis("minutes since the first value", **below)
    since, until = min(metric.times[0] for metric in metrics), max(metric.times[-1] for metric in metrics)
    return time_axis(since, max(until, since + 1.0))
