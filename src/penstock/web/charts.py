"""Pictures as ECharts options. Pure functions of plain values: what is drawn can be tested without a browser.

Colours are CSS variables, drawn as SVG, so that light and dark need no second set of options. A key that begins with
a colon holds JavaScript; the shapes of our own are drawn by ``static/charts.js``. Text that came from people is escaped
before it goes into a tooltip.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from penstock.core import format_duration
from penstock.learn import Point
from penstock.web.progress_history import Sample, speeds
from penstock.web.view_models import ForecastBand, TenantUse
from penstock.wire import MetricView, QuoteView, WhatIfReport

Options = dict[str, Any]

HUES = tuple(f"var(--job-{number})" for number in range(10))
_OTHER = "var(--job-other)"
_SOFT = {"color": "var(--soft)"}
_LABEL = _SOFT | {"fontSize": 12}
_WIDEST_SPREAD = 0.25


def frame(**parts: Any) -> Options:
    """What all charts have in common."""
    return {
        "animation": False,
        "textStyle": {"fontFamily": "system-ui, sans-serif", "color": "var(--soft)"},
        "grid": {"left": 56, "right": 16, "top": 28, "bottom": 28, "containLabel": False},
        "tooltip": {
            "confine": True, "backgroundColor": "var(--card)", "borderColor": "var(--line)",
            "textStyle": {"color": "var(--ink)", "fontSize": 13},
        },
        **parts,
    }  # fmt: skip


def time_axis(since: float, until: float, **more: Any) -> Options:
    """From ``since`` to ``until``, with as much of the date in the labels as that needs."""
    span = until - since
    form = "{HH}:{mm}:{ss}" if span < 300 else "{HH}:{mm}" if span < 2 * 86400 else "{MM}-{dd}"
    return {
        "type": "time", "min": 1e3 * since, "max": 1e3 * until, "splitNumber": 6, "splitLine": {"show": False},
        "axisLabel": _LABEL | {"hideOverlap": True, "formatter": form},
        "axisLine": {"lineStyle": {"color": "var(--line)"}}, **more,
    }  # fmt: skip


def over(samples: Sequence[Sample]) -> Options:
    """The axis of time of a job's own samples; a chart of none is not drawn."""
    return time_axis(samples[0].at, samples[-1].at) if samples else time_axis(0.0, 1.0)


def value_axis(name: str = "", **more: Any) -> Options:
    return {
        "type": "value", "name": name, "nameTextStyle": _SOFT | {"align": "left", "padding": [0, 0, 0, -40]},
        "axisLabel": _LABEL, "splitLine": {"lineStyle": {"color": "var(--line)"}}, **more,
    }  # fmt: skip


def hue(number: int) -> str:
    """A job keeps its colour on every page."""
    return HUES[number % len(HUES)] if number >= 0 else _OTHER


# --- tenants --------------------------------------------------------------------------------------------------------


def usage(lines: Sequence[TenantUse], since: float, now: float) -> Options:
    """Devices held by each tenant over time, one on top of the other."""
    parts = len(lines[0].buckets) if lines else 1
    width = (now - since) / parts
    return frame(
        grid={"left": 56, "right": 16, "top": 44, "bottom": 28},
        legend={"top": 0, "left": "center", "textStyle": _SOFT, "type": "scroll"},
        xAxis=time_axis(since, now), yAxis=value_axis("devices", min=0, minInterval=1),
        tooltip={**frame()["tooltip"], "trigger": "axis", ":valueFormatter": "v => v.toFixed(1)"},
        series=[
            {
                **_line(line.tenant, _middles(line.buckets, since, width), hue(position)), "stack": "all",
                "step": "middle", "showSymbol": False, "areaStyle": {"opacity": 0.85, "color": hue(position)},
            }
            for position, line in enumerate(lines)
        ],
    )  # fmt: skip


def _middles(values: Sequence[float], since: float, width: float) -> list[list[float]]:
    return [[1e3 * (since + (part + 0.5) * width), value] for part, value in enumerate(values)]


# --- one job --------------------------------------------------------------------------------------------------------


def used(lines: Sequence[tuple[str, MetricView]], *, percent: bool) -> Options:
    """What a job used over time, in percent (100 is one core) or in gigabytes."""
    since = min(metric.times[0] for _, metric in lines)
    until = max(metric.times[-1] for _, metric in lines)
    unit = 1.0 if percent else 1e9
    return frame(
        grid={"left": 56, "right": 16, "top": 36, "bottom": 28},
        legend={"show": len(lines) > 1, "top": 0, "left": "center", "textStyle": _SOFT},
        tooltip={**frame()["tooltip"], "trigger": "axis", ":valueFormatter": "v => v.toPrecision(3)"},
        xAxis=time_axis(since, until), yAxis=value_axis("%" if percent else "GB", min=0),
        series=[
            _line(label, [[1e3 * at, value / unit] for at, value in zip(metric.times, metric.values, strict=True)],
                  hue(position))
            for position, (label, metric) in enumerate(lines)
        ],
    )  # fmt: skip


def speed(samples: Sequence[Sample]) -> Options:
    """Steps per second as they were measured."""
    return frame(
        xAxis=over(samples), yAxis=value_axis("steps per second", min=0),
        tooltip={**frame()["tooltip"], "trigger": "axis", ":valueFormatter": "v => v.toFixed(2)"},
        series=[_line("steps per second", [[1e3 * at, rate] for at, rate in speeds(list(samples))], "var(--job-2)")],
    )  # fmt: skip


def scaling(predicted: Sequence[tuple[int, float]], measured: Sequence[Point], source: str = "predicted") -> Options:
    """Steps per second against the number of devices: the curve that is scheduled by, and the points behind it.

    ``source`` is what the curve rests on where it was not measured. A spread beyond a quarter of a rate says no more
    than that little is known: it is drawn as a hollow point and not as a line across the chart.
    """
    spread = [
        [p.count, p.rate * (1 - p.spread), p.rate * (1 + p.spread)] for p in measured if p.spread <= _WIDEST_SPREAD
    ]
    below = {"min": 0, "minInterval": 1, "nameLocation": "middle", "nameGap": 26, "nameTextStyle": _SOFT}
    dashed = {"lineStyle": {"type": "dashed", "color": "var(--job-0)", "width": 2}}
    return frame(
        grid={"left": 64, "right": 24, "top": 36, "bottom": 44},
        legend={"top": 0, "right": 8, "textStyle": _SOFT, "data": [source, "measured"]},
        xAxis=value_axis("devices", **below),
        yAxis=value_axis("steps per second", min=0),
        series=[
            _line(source, [list(pair) for pair in predicted], "var(--job-0)") | dashed | {"showSymbol": True},
            {
                "type": "scatter", "name": "measured", "symbolSize": 11, "z": 4,
                "itemStyle": {"color": "var(--job-1)"}, "data": [_measured_dot(point) for point in measured],
            },
            {"type": "custom", "name": "spread", ":renderItem": "penstock.spread", "data": spread, "silent": True,
             "clip": True},
        ],
    )  # fmt: skip


def _measured_dot(point: Point) -> Options:
    hollow = {"color": "var(--card)", "borderColor": "var(--job-1)", "borderWidth": 2}
    return {"value": [point.count, point.rate]} | (
        {"itemStyle": hollow} if point.relative_spread > _WIDEST_SPREAD else {}
    )


def widths(held: Sequence[tuple[float, float]], since: float, until: float) -> Options:
    """Devices held by one job over time."""
    return frame(
        xAxis=time_axis(since, until), yAxis=value_axis("devices", min=0, minInterval=1),
        tooltip={**frame()["tooltip"], "trigger": "axis"},
        series=[
            _line("devices", [[1e3 * at, width] for at, width in held], "var(--job-4)")
            | {"step": "end", "areaStyle": {"color": "var(--job-4)", "opacity": 0.18}}
        ],
    )  # fmt: skip


def forecast(now: float, band: ForecastBand | None, planned: float | None, deadline: float | None) -> Options:
    """Deadline, the end as planned, and the band of the forecast on one line of time."""
    moments = [now, *(at for at in (planned, deadline) if at is not None), *((band.early, band.late) if band else ())]
    room = 0.08 * max(max(moments) - min(moments), 1.0)
    area = [[{"xAxis": 1e3 * band.early}, {"xAxis": 1e3 * max(band.late, band.early + 0.5)}]] if band else []
    return frame(
        grid={"left": 16, "right": 28, "top": 30, "bottom": 26},
        xAxis=time_axis(min(moments) - room, max(moments) + room),
        yAxis={"type": "value", "show": False, "min": 0, "max": 1},
        series=[
            {
                "type": "scatter", "name": "most likely", "symbol": "diamond", "symbolSize": 14,
                "data": [[1e3 * band.likely, 0.5]] if band else [], "itemStyle": {"color": "var(--job-0)"},
                "markLine": {"symbol": "none", "silent": True, "data": list(_moments(now, planned, deadline))},
                "markArea": {"silent": True, "itemStyle": {"color": "var(--job-0)", "opacity": 0.25}, "data": area},
            }
        ],
    )  # fmt: skip


def _moments(now: float, planned: float | None, deadline: float | None) -> Iterator[Options]:
    lines = (("now", now, "var(--ink)"), ("deadline", deadline, "var(--bad)"), ("planned", planned, "var(--good)"))
    for name, at, colour in lines:
        if at is not None:
            label = {"formatter": name, "color": "var(--ink)", "position": "end"}
            yield {"xAxis": 1e3 * at, "lineStyle": {"color": colour, "type": "solid", "width": 2}, "label": label}


def _line(name: str, data: list[Any], colour: str) -> Options:
    drawn = {"lineStyle": {"color": colour, "width": 2}, "itemStyle": {"color": colour}}
    return {"type": "line", "name": name, "data": data, "showSymbol": len(data) < 3} | drawn


# --- before submitting, and instead ---------------------------------------------------------------------------------


def trade_off(deadlines_s: Sequence[float], quotes: Sequence[QuoteView], chosen_s: float) -> Options:
    """What other deadlines would take: devices, and how long they are held. A refused one takes nothing."""
    granted = [quote if quote.verdict != "refused" else None for quote in quotes]
    near = min(range(len(quotes)), key=lambda i: abs(deadlines_s[i] - chosen_s), default=0)
    right = {"min": 0, "position": "right", "splitLine": {"show": False}, "nameTextStyle": _SOFT | {"align": "right"}}
    return frame(
        grid={"left": 48, "right": 56, "top": 52, "bottom": 54},
        legend={"top": 0, "left": "center", "textStyle": _SOFT},
        tooltip={**frame()["tooltip"], "trigger": "axis"},
        xAxis={
            "type": "category", "name": "deadline", "nameLocation": "middle", "nameGap": 36, "nameTextStyle": _SOFT,
            "data": [_deadline(at, quote) for at, quote in zip(deadlines_s, granted, strict=True)], "axisLabel": _LABEL,
            "axisLine": {"lineStyle": {"color": "var(--line)"}},
        },
        yAxis=[value_axis("devices", min=0, minInterval=1), value_axis("device-minutes", **right)],
        series=[
            {
                "type": "bar", "name": "devices", "data": [quote.devices if quote else 0 for quote in granted],
                "itemStyle": {"color": "var(--job-0)"}, "barMaxWidth": 34,
                "markLine": _chosen(near),
            },
            _line("device-minutes", [quote.device_seconds / 60 if quote else None for quote in granted], "var(--job-1)")
            | {"yAxisIndex": 1, "showSymbol": True},
        ],
    )  # fmt: skip


def _deadline(seconds: float, quote: QuoteView | None) -> str:
    return format_duration(seconds) if quote else f"{format_duration(seconds)}\nrefused"


def _chosen(position: int) -> Options:
    line = {"color": "var(--ink)", "type": "dotted"}
    return {
        "silent": True, "symbol": "none", "label": {"show": False}, "lineStyle": line, "data": [{"xAxis": position}],
    }  # fmt: skip


def comparison(report: WhatIfReport) -> Options:
    """Promises kept and broken, and jobs refused, one bar for what was and for every replay."""
    names = ["as it was", "replayed", *(each.label for each in report.replays)]
    rows = [report.real, report.baseline.figures, *(each.figures for each in report.replays)]
    parts = (("kept", "var(--good)"), ("broken", "var(--warn)"), ("refused", "var(--bad)"))
    return frame(
        grid={"left": 110, "right": 24, "top": 36, "bottom": 28},
        legend={"top": 0, "right": 8, "textStyle": _SOFT},
        tooltip={**frame()["tooltip"], "trigger": "axis"},
        xAxis=value_axis("", min=0, minInterval=1),
        yAxis={"type": "category", "inverse": True, "data": names, "axisLabel": {"color": "var(--ink)"},
               "axisLine": {"show": False}, "axisTick": {"show": False}},
        series=[
            {"type": "bar", "stack": "all", "name": part, "itemStyle": {"color": colour}, "barMaxWidth": 26,
             "data": [getattr(row, part) for row in rows]}
            for part, colour in parts
        ],
    )  # fmt: skip
