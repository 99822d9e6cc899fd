"""Curves of metrics in a terminal: one line of eight levels, or a drawing of dots over several lines."""

import math
from collections.abc import Sequence

_LEVELS = "▁▂▃▄▅▆▇█"
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Bits of a braille character, column by column from above."""
_EMPTY = 0x2800
_ACROSS, _DOWN = 2, 4


def sparkline(steps: Sequence[int], values: Sequence[float], cells: int) -> str:
    """The course of a curve in one line; a cell without a finite value is blank."""
    means = _resampled(steps, values, cells)
    low, high = _bounds(means)
    return "".join(" " if math.isnan(mean) else _LEVELS[_level(mean, low, high, len(_LEVELS))] for mean in means)


def drawing(steps: Sequence[int], values: Sequence[float], *, cells: int, lines: int) -> list[str]:
    """A curve, line by line from above, with its bounds at the left."""
    means = _resampled(steps, values, cells * _ACROSS)
    low, high = _bounds(means)
    rows = lines * _DOWN
    canvas = [[_EMPTY] * cells for _ in range(lines)]
    for column, mean in enumerate(means):
        if not math.isnan(mean):
            row = rows - 1 - _level(mean, low, high, rows)
            canvas[row // _DOWN][column // _ACROSS] |= _DOTS[column % _ACROSS][row % _DOWN]
    labels = [figure(high), *[""] * (lines - 2), figure(low)] if lines > 1 else [figure(high)]
    return [
        f"{label:>10} {''.join(map(chr, cells_of_line))}" for label, cells_of_line in zip(labels, canvas, strict=True)
    ]


def figure(value: float) -> str:
    """A value as people read it."""
    return str(value) if not math.isfinite(value) else f"{value:.4g}"


def _resampled(steps: Sequence[int], values: Sequence[float], columns: int) -> list[float]:
    """The mean of the finite values in each of so many equal stretches of steps; NaN where there are none."""
    if not steps:
        return [math.nan] * columns
    span = max(steps[-1] - steps[0] + 1, 1)
    columns = min(columns, span)
    gathered: list[list[float]] = [[] for _ in range(columns)]
    for step, value in zip(steps, values, strict=True):
        if math.isfinite(value):
            gathered[(step - steps[0]) * columns // span].append(value)
    return [math.fsum(each) / len(each) if each else math.nan for each in gathered]


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    known = [value for value in values if not math.isnan(value)]
    return (min(known), max(known)) if known else (math.nan, math.nan)


def _level(value: float, low: float, high: float, levels: int) -> int:
    span = high - low
    if not 0.0 < span < math.inf:
        return 0
    return min(int((value - low) / span * levels), levels - 1)
