"""Predicted time against search time as a picture: one panel per setting, one line per search."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path

WIDE, HIGH, MARGIN, TITLE = 360, 220, 46, 24
COLOURS = {"penstock": "#1f6f8b", "aceso": "#c8553d"}
EARLIEST_S = 0.02


@dataclass(frozen=True, slots=True)
class Curve:
    """What a search had reached when: (seconds of search, seconds per iteration), improvements in order."""

    setting: str
    search: str
    points: tuple[tuple[float, float], ...]


def write_picture(file: Path, curves: Sequence[Curve]) -> None:
    """Panels side by side; search time is logarithmic, because the first second matters as much as the last minute."""
    drawn = [curve for curve in curves if curve.points]
    panels = [(name, list(members)) for name, members in groupby(drawn, key=lambda curve: curve.setting)]
    body = [line for place, (name, members) in enumerate(panels) for line in _panel(place, name, members)]
    width, height = max(1, len(panels)) * (WIDE + MARGIN) + MARGIN, HIGH + 2 * MARGIN + TITLE
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">'
    background = f'<rect width="{width}" height="{height}" fill="white"/>'
    file.write_text("\n".join([head, background, *body, "</svg>", ""]), encoding="utf-8")


def _panel(place: int, name: str, curves: Sequence[Curve]) -> Iterator[str]:
    left, top = MARGIN + place * (WIDE + MARGIN), MARGIN + TITLE
    seconds = [at for curve in curves for at, _ in curve.points]
    took = [value for curve in curves for _, value in curve.points]
    latest, low, high = max(*seconds, 1.0), 0.99 * min(took), min(max(took), 1.25 * min(took))

    def x(at: float) -> float:
        return left + WIDE * math.log(max(at, EARLIEST_S) / EARLIEST_S) / math.log(latest / EARLIEST_S)

    def y(value: float) -> float:
        return top + HIGH * (1 - (min(value, high) - low) / (high - low))

    yield f'<text x="{left}" y="{top - 14}" font-size="14">{escape(name)}: s/iteration by CPU s of search</text>'
    yield f'<rect x="{left}" y="{top}" width="{WIDE}" height="{HIGH}" fill="none" stroke="#999"/>'
    for tick in (0.1, 1.0, 10.0, 100.0):
        if tick <= latest:
            yield f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{top}" y2="{top + HIGH}" stroke="#ddd"/>'
            yield f'<text x="{x(tick):.1f}" y="{top + HIGH + 16}" font-size="11" text-anchor="middle">{tick:g}</text>'
    for value in (low, (low + high) / 2, high):
        yield f'<text x="{left - 4}" y="{y(value):.1f}" font-size="11" text-anchor="end">{value:.1f}</text>'
    for number, curve in enumerate(curves):
        yield from _line(curve, [(x(at), y(value)) for at, value in curve.points], left + 12, top + 18 + 16 * number)


def _line(curve: Curve, points: list[tuple[float, float]], left: float, top: float) -> Iterator[str]:
    """A staircase: what was found last holds until something better is."""
    colour = COLOURS.get(curve.search, "#555")
    path, before = [f"M{points[0][0]:.1f},{points[0][1]:.1f}"], points[0][1]
    for across, height in points[1:]:
        path += [f"L{across:.1f},{before:.1f}", f"L{across:.1f},{height:.1f}"]
        before = height
    yield f'<path d="{" ".join(path)}" fill="none" stroke="{colour}" stroke-width="2"/>'
    label = f"{curve.search}: {curve.points[-1][1]:.2f} s, first plan after {curve.points[0][0]:.2f} s"
    place = f'x="{left + WIDE - 24:.0f}" y="{top:.0f}"'
    halo = 'stroke="white" stroke-width="4" paint-order="stroke"'
    yield f'<text {place} font-size="12" text-anchor="end" fill="{colour}" {halo}>{label}</text>'
