"""An analysis as a page: advice first, then each question with its table and its picture."""

import math
from html import escape

from penstock.core import format_duration
from penstock.simulate.analysis.sections import Analysis, Picture, Section, Series
from penstock.simulate.report import Page, section, table

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 640, 240, 52, 34
_COLOURS = ("var(--p0)", "var(--p1)", "var(--p2)")


def analysis_page(analysis: Analysis) -> str:
    """The page as text; it loads nothing."""
    facts = [
        ("jobs", f"{analysis.jobs:,}"), ("devices", f"{analysis.devices:,}" if analysis.devices else "not known"),
        ("span", format_duration(analysis.span_s)), ("device-hours", f"{analysis.device_hours:,.0f}"),
    ]  # fmt: skip
    body = _words(analysis) + "".join(_section(each) for each in analysis.sections)
    return Page(
        title=f"{analysis.name}: an analysis", facts=facts, body=body, note=escape(" ".join(analysis.notes))
    ).html()


def _words(analysis: Analysis) -> str:
    items = "".join(
        f"<li><h3>{escape(each.title)}</h3><p>{escape(each.text)}</p><p><b>{escape(each.action)}</b></p></li>"
        for each in analysis.advice
    )
    told = f"<ul class='findings'>{items}</ul>" if items else "<p>Nothing stands out.</p>"
    return section("In a few words", "", told, "words")


def _section(each: Section) -> str:
    if each.unknown:
        return section(each.title, f"Not known here. It takes {each.unknown}.", "", each.name)
    picture = "" if each.picture is None else f"<figure>{_drawn(each.picture)}</figure>"
    return section(each.title, "", picture + table(each.columns, each.rows, each.title), each.name)


def _drawn(picture: Picture) -> str:
    least = min((x for line in picture.lines for x in line.x), default=0.0)
    most = max((x for line in picture.lines for x in line.x), default=1.0)
    axis = _Axis(least, most, log=picture.log)
    curves = "".join(_curve(line, axis, colour) for line, colour in zip(picture.lines, _COLOURS, strict=False))
    legend = " ".join(
        f"<tspan fill='{colour}'>{escape(line.name)}</tspan>"
        for line, colour in zip(picture.lines, _COLOURS, strict=False)
    )
    grid = "".join(_level(share) for share in (0.0, 0.25, 0.5, 0.75, 1.0))
    ticks = "".join(_tick(x, axis, picture.unit) for x in axis.ticks())
    return (
        f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img' aria-label='{escape(picture.title)}' "
        f"style='max-width:{_WIDTH}px'>"
        f"<text x='{_LEFT}' y='14' font-size='12' fill='currentColor'>{escape(picture.title)} … {legend}</text>"
        f"{grid}{ticks}{curves}</svg>"
    )


class _Axis:
    """Where a value lies between the left and the right edge."""

    def __init__(self, least: float, most: float, *, log: bool) -> None:
        self._log = log
        self._least = self._scaled(max(least, 1.0) if log else least)
        self._most = max(self._scaled(most), self._least + 1e-9)

    def at(self, x: float) -> float:
        share = (self._scaled(x) - self._least) / (self._most - self._least)
        return _LEFT + min(max(share, 0.0), 1.0) * (_WIDTH - _LEFT - 10)

    def ticks(self) -> list[float]:
        if not self._log:
            return [self._least + step * (self._most - self._least) / 4 for step in range(5)]
        usual = (1.0, 10.0, 60.0, 600.0, 3600.0, 6 * 3600.0, 86_400.0, 7 * 86_400.0, 30 * 86_400.0)
        return [x for x in usual if self._least - 1e-9 <= math.log10(x) <= self._most + 1e-9]

    def _scaled(self, x: float) -> float:
        return math.log10(max(x, 1.0)) if self._log else x


def _y(share: float) -> float:
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _BOTTOM - 24)


def _curve(line: Series, axis: _Axis, colour: str) -> str:
    points = " ".join(f"{axis.at(x):.1f},{_y(y):.1f}" for x, y in zip(line.x, line.y, strict=True))
    return f"<polyline points='{points}' fill='none' stroke='{colour}' stroke-width='2'/>"


def _level(share: float) -> str:
    y = _y(share)
    return (
        f"<path d='M{_LEFT} {y:.1f}H{_WIDTH - 10}' stroke='var(--faint)' stroke-width='1' opacity='.5'/>"
        f"<text x='{_LEFT - 6}' y='{y + 4:.1f}' font-size='11' text-anchor='end' fill='currentColor'>{share:.0%}</text>"
    )


def _tick(x: float, axis: _Axis, unit: str) -> str:
    told = format_duration(x) if unit == "s" else f"{x:.0f}:00" if unit == "h" else f"{x:g}"
    return (
        f"<text x='{axis.at(x):.1f}' y='{_HEIGHT - _BOTTOM + 18}' font-size='11' text-anchor='middle' "
        f"fill='currentColor'>{told}</text>"
    )
