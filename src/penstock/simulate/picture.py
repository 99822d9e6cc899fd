"""Who ran where, as one self-contained HTML page: time to the right, devices downwards, a colour per job."""

import html
import zlib
from collections.abc import Iterator

from penstock.core import Cluster, format_duration
from penstock.simulate.engine import Result
from penstock.simulate.outcomes import Fate, JobOutcome
from penstock.simulate.timeline import Bar, TimeAxis, named_rows, node_rows

_WIDTH = 1160
_LEFT = 84
_MAX_ROW = 12.0
_HEIGHT = 640.0
_TICKS = 8

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2433; --soft: #6b7280; --paper: #ffffff; --grid: #e5e7eb; }
@media (prefers-color-scheme: dark) { :root { --ink: #e5e7eb; --soft: #9ca3af; --paper: #111827; --grid: #374151; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
       max-width: 1280px; padding: 0 1rem; }
h1 { font-size: 1.3rem; margin: 0 0 .2rem; } p { color: var(--soft); margin: 0 0 1rem; }
svg { width: 100%; height: auto; } text { fill: var(--soft); font-size: 11px; }
line { stroke: var(--grid); } rect.late { stroke: #dc2626; stroke-width: 1.5; }
rect.declined { fill: #9ca3af; fill-opacity: .55; } rect:hover { stroke: var(--ink); stroke-width: 1.5; }
""".strip()


def draw(result: Result, cluster: Cluster) -> str:
    """The page for a run that kept its timeline."""
    bars = result.timeline.bars if result.timeline is not None else []
    start, end = min((bar.start for bar in bars), default=0.0), max((bar.end for bar in bars), default=1.0)
    axis = TimeAxis(start, end, _WIDTH - _LEFT)
    row = min(_MAX_ROW, _HEIGHT / cluster.device_count)
    height = row * cluster.device_count
    outcomes = {outcome.id: outcome for outcome in result.outcomes}
    summary = result.summary
    headline = (
        f"{summary.policy}: {summary.met} of {summary.jobs - summary.best_effort - summary.cancelled} deadlines met"
    )
    body = [
        *_time_axis(axis, height),
        *_device_axis(cluster, row),
        *(_bar(bar, outcomes.get(bar.job_id), axis, row) for bar in bars),
    ]
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{html.escape(headline)}</title>"
        f"<meta name='viewport' content='width=device-width'><style>{_STYLE}</style>"
        f"<h1>{html.escape(headline)}</h1><p>{html.escape(_explanation(cluster))}</p>"
        f"<svg viewBox='0 0 {_WIDTH} {height + 28:.0f}' role='img' aria-label='{html.escape(headline)}'>"
        + "".join(body)
        + "</svg></html>\n"
    )


def _explanation(cluster: Cluster) -> str:
    return (
        f"{cluster.device_count} devices downwards, time to the right, one colour per job. A red edge: it ended after "
        "its deadline. Grey: its deadline could not be met in the end. Point at a bar for the job."
    )


def _time_axis(axis: TimeAxis, height: float) -> Iterator[str]:
    for tick in range(_TICKS + 1):
        at = (axis.until - axis.since) * tick / _TICKS
        x = _LEFT + axis.place(axis.since + at)
        yield f"<line x1='{x:.1f}' x2='{x:.1f}' y1='0' y2='{height:.1f}'/>"
        anchor = "end" if tick == _TICKS else "start" if tick == 0 else "middle"
        yield f"<text x='{x:.1f}' y='{height + 16:.1f}' text-anchor='{anchor}'>{format_duration(at)}</text>"


def _device_axis(cluster: Cluster, row: float) -> Iterator[str]:
    for first, name in named_rows(node_rows(cluster)):
        y = first * row
        yield f"<line x1='{_LEFT}' x2='{_WIDTH}' y1='{y:.1f}' y2='{y:.1f}'/>"
        yield f"<text x='{_LEFT - 8}' y='{y + 10:.1f}' text-anchor='end'>{html.escape(name)}</text>"


def _bar(bar: Bar, outcome: JobOutcome | None, axis: TimeAxis, row: float) -> str:
    fate = outcome.fate if outcome is not None else Fate.UNFINISHED
    look = f"class='{fate}'" if fate in (Fate.LATE, Fate.DECLINED) else ""
    hue = zlib.crc32(bar.job_id.encode()) % 360
    left, width = axis.extent(bar, least=0.4)
    title = f"{bar.job_id}: {bar.count} devices for {format_duration(bar.end - bar.start)}, {fate}"
    return (
        f"<rect {look} x='{_LEFT + left:.2f}' y='{bar.first_device * row:.2f}' "
        f"width='{width:.2f}' height='{bar.count * row:.2f}' "
        f"fill='hsl({hue} 62% 58%)'><title>{html.escape(title)}</title></rect>"
    )
