"""The cluster as SVG, drawn here: the first page shows it without a chart library, and before any script has run.

Pure functions of a timeline. Shapes live in a plot of 1000 by as many units as there are devices, stretched to whatever
room there is, so nothing is drawn anew when a window is resized; text lies beside it and is not stretched. All stays of
a job are one path, which says who it is and leads to its page (``static/charts.js`` listens). Text that came from
people is escaped.
"""

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import cycle, pairwise

from penstock.core import counted
from penstock.simulate import TimeAxis, named_rows
from penstock.web.format import clock, percent
from penstock.web.time_zone import viewer_zone
from penstock.web.urls import job_url
from penstock.web.view_models import ClusterTimeline, DeviceSpan, StepFunction, TimelineMark

HUES = 10
_WIDTH = 1000.0
_TICKS_S = (60, 120, 180, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800)
_MOST_TICKS = 6
_ROOM_FOR_TEXT_PX = 12.0
_ROOM_FOR_TEXT = 0.05 * _WIDTH
_FEW_DEVICES = 16
_MOST_TOLD = 4
_COLUMNS = 60
_TIPS = re.compile(r' data-(tip|goes)="[^"]*"')


def gantt(timeline: ClusterTimeline, height: int) -> str:
    """Devices downwards, time to the right; what is planned is pale and dashed, what went wrong is marked."""
    axis = _axis(timeline)
    rows = max(timeline.devices, 1)
    lines = "".join(f"M0 {first}H{_WIDTH:.0f}" for first, _ in _rows_named(timeline))
    jobs = "".join(_job(spans, axis) for spans in _by_job(timeline.spans))
    plot = (
        f'<svg class="ps-plot" viewBox="0 0 {_WIDTH:.0f} {rows}" preserveAspectRatio="none" height="{height}">'
        f'<path class="ps-lines" d="{lines}"/>{jobs}{_now(timeline, axis, rows)}</svg>'
    )
    over = f"{_labels(timeline, axis, height)}{''.join(_mark(mark, axis, height / rows) for mark in timeline.marks)}"
    names = "".join(_side(name, 100.0 * first / rows) for first, name in _rows_named(timeline))
    return _framed(plot + f'<svg class="ps-over" height="{height}">{over}</svg>', names, axis, height)


def levels(timeline: ClusterTimeline, steps: StepFunction, unit: str, most: float | None, hue: int, height: int) -> str:
    """An amount over the window of the cluster's timeline, up to now."""
    axis, top = (
        _axis(timeline),
        most or _round_up(max((value for _, value in steps), default=0)),
    )
    ends = [*(at for at, _ in steps[1:]), timeline.now]
    line = " ".join(
        f"{'M' if not number else 'L'}{axis.place(at):.1f} {top - value:g}H{axis.place(end):.1f}"
        for number, ((at, value), end) in enumerate(zip(steps, ends, strict=True))
    )
    area = f"{line}V{top:g}H{axis.place(steps[0][0]):.1f}Z" if steps else ""
    drawn = (
        f'<path class="ps-area" d="{area}"/><path class="ps-step" d="{line}"/>{_columns(timeline, steps, unit, top)}'
    )
    plot = (
        f'<svg class="ps-plot ps-j{hue}" viewBox="0 0 {_WIDTH:.0f} {top:g}" preserveAspectRatio="none" '
        f'height="{height}"><path class="ps-lines" d="M0 0H1000M0 {top / 2:g}H1000M0 {top:g}H1000"/>'
        f"{drawn}{_now(timeline, axis, top)}</svg>"
    )
    sides = "".join(_side(f"{value:g}", 100.0 * (1 - value / top)) for value in (top, top / 2, 0.0) if value % 1 == 0)
    return _framed(plot, sides, axis, height)


def in_words(timeline: ClusterTimeline) -> str:
    """The cluster for those who cannot see it."""
    busy = round(timeline.busy[-1][1]) if timeline.busy else 0
    jobs = len({span.bar.job_id for span in timeline.spans if not span.planned})
    planned = len({span.bar.job_id for span in timeline.spans if span.planned})
    use = percent(busy / timeline.devices) if timeline.devices else "0 %"
    return (
        f"Devices over time: {busy} of {timeline.devices} devices are held now ({use}), {jobs} jobs held some in the "
        f"window, {planned} are planned to, {sum(mark.bad for mark in timeline.marks)} failures."
    )


def _axis(timeline: ClusterTimeline) -> TimeAxis:
    return TimeAxis(timeline.since, timeline.until, _WIDTH)


def _ticks(axis: TimeAxis) -> Iterator[tuple[float, str]]:
    """The round times on an axis: places in percent, and what they are called."""
    step = next((s for s in _TICKS_S if axis.seconds / s <= _MOST_TICKS), _TICKS_S[-1])
    form = "%H:%M" if axis.seconds < 2 * 86400 else "%m-%d"
    zone = viewer_zone()
    ahead = int((datetime.fromtimestamp(axis.since, zone).utcoffset() or timedelta()).total_seconds())
    first = int((axis.since + ahead) // step + 1) * step - ahead
    for at in range(first, int(axis.since + axis.seconds) + 1, step):
        place = 100.0 * (at - axis.since) / axis.seconds
        if 3.0 <= place <= 97.0:
            yield place, datetime.fromtimestamp(at, zone).strftime(form)


def _framed(plot: str, sides: str, axis: TimeAxis, height: int) -> str:
    times = "".join(f'<span style="left:{place:.1f}%">{text}</span>' for place, text in _ticks(axis))
    return (
        f'<div class="ps-drawing"><div class="ps-sides" style="height:{height}px">{sides}</div>'
        f'<div class="ps-canvas" style="height:{height}px">{plot}</div><div class="ps-times">{times}</div></div>'
    )


def _side(text: str, place: float) -> str:
    return f'<span style="top:{place:.1f}%">{html.escape(text)}</span>'


def _rows_named(timeline: ClusterTimeline) -> Sequence[tuple[int, str]]:
    """Which rows have a name: every device of a small node, else the first of each node, not more than fit."""
    if timeline.devices <= _FEW_DEVICES and len(timeline.nodes) == 1:
        return [(device, f"device {device}") for device in range(timeline.devices)]
    return named_rows(timeline.nodes)


def _by_job(spans: Iterable[DeviceSpan]) -> Iterable[list[DeviceSpan]]:
    """What is drawn as one: the stays of a job, held and planned apart; of strangers' jobs all together."""
    by_job: dict[tuple[str, bool], list[DeviceSpan]] = {}
    for span in spans:
        by_job.setdefault((span.bar.job_id, span.planned), []).append(span)
    return by_job.values()


def _job(spans: Sequence[DeviceSpan], axis: TimeAxis) -> str:
    first = spans[0]
    look = f"ps-j{first.number % HUES if first.number >= 0 else 'other'}" + (" ps-planned" if first.planned else "")
    goes = f' data-goes="{html.escape(job_url(first.bar.job_id))}"' if first.bar.job_id else ""
    return f'<path class="{look}" d="{"".join(_box(span, axis) for span in spans)}"{goes}{_tip(_description(spans))}/>'


def _tip(text: str) -> str:
    """What the pointer is told; one attribute, because a page has thousands of shapes."""
    return f' data-tip="{html.escape(text)}"'


def without_tips(drawn: str) -> str:
    """The same for those who have no pointer script yet."""
    return _TIPS.sub("", drawn)


def _box(span: DeviceSpan, axis: TimeAxis) -> str:
    left, width = axis.extent(span.bar, least=1.5)
    return f"M{left:.1f} {span.bar.first_device}h{width:.1f}v{span.bar.count}h-{width:.1f}z"


def _description(spans: Sequence[DeviceSpan]) -> str:
    first, what = spans[0], "planned" if spans[0].planned else "held"
    if not first.bar.job_id:
        return f"{first.name}, {what}"
    widths = {(span.bar.start, span.bar.end): span.width for span in spans}
    shown = [
        f"{counted(width, 'device')} {clock(start)} – {clock(end)}"
        for (start, end), width in list(widths.items())[-_MOST_TOLD:]
    ]
    more = [f"and {len(widths) - _MOST_TOLD} times before"] if len(widths) > _MOST_TOLD else []
    return "\n".join([f"{first.name} {first.bar.job_id}, {what}", *shown, *more])


def _labels(timeline: ClusterTimeline, axis: TimeAxis, height: int) -> str:
    """Names on bars that are high and wide enough; each is cut off where its bar ends."""
    row = height / max(timeline.devices, 1)
    roomy = (span for span in timeline.spans if axis.extent(span.bar)[1] >= _ROOM_FOR_TEXT)
    return "".join(_label(span, axis, row) for span in roomy if span.bar.count * row >= _ROOM_FOR_TEXT_PX)


def _label(span: DeviceSpan, axis: TimeAxis, row: float) -> str:
    (left, width), tall = axis.extent(span.bar), span.bar.count * row
    look = ' class="ps-planned"' if span.planned else ""
    return (
        f'<svg x="{left / 10:.2f}%" y="{span.bar.first_device * row:.1f}" '
        f'width="{width / 10:.2f}%" height="{tall:.1f}">'
        f'<text x="6" y="{tall / 2:.1f}"{look}>{html.escape(span.name)}</text></svg>'
    )


def _mark(mark: TimelineMark, axis: TimeAxis, row: float) -> str:
    look = "ps-bad" if mark.bad else "ps-good"
    shape = "M0-6L6 5H-6Z" if mark.bad else "M-5 0A5 5 0 1 0 5 0A5 5 0 1 0-5 0Z"
    return (
        f'<svg x="{axis.place(mark.at) / 10:.2f}%" y="{(mark.row + 0.5) * row:.1f}" overflow="visible">'
        f'<path class="{look}" d="{shape}"{_tip(f"{mark.text}, {clock(mark.at)}")}/></svg>'
    )


def _now(timeline: ClusterTimeline, axis: TimeAxis, height: float) -> str:
    return f'<path class="ps-now" d="M{axis.place(timeline.now):.1f} 0V{height:g}"/>'


def _columns(timeline: ClusterTimeline, steps: StepFunction, unit: str, top: float) -> str:
    """What the pointer reads: the value at the beginning of each of so many parts of the past."""
    width = (timeline.now - timeline.since) / _COLUMNS
    edges = [timeline.since + number * width for number in range(_COLUMNS + 1)]
    axis, place, drawn = _axis(timeline), 0, []
    for start, end in pairwise(edges):
        while place + 1 < len(steps) and steps[place + 1][0] <= start:
            place += 1
        value = steps[place][1] if steps and steps[place][0] <= start else 0.0
        box = f"M{axis.place(start):.1f} 0H{axis.place(end):.1f}V{top:g}H{axis.place(start):.1f}z"
        drawn.append(f'<path d="{box}"{_tip(f"{clock(start)}: {value:g} {unit}")}/>')
    return f'<g class="ps-hover">{"".join(drawn)}</g>'


def _round_up(value: float) -> float:
    """The next of 2, 4, 10, 20, 40, 100 and so on: half of it is a whole number too."""
    size = 2.0
    for factor in cycle((2.0, 2.5, 2.0)):
        if size >= value:
            break
        size *= factor
    return size
