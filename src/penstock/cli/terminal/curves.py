"""Curves of metrics in a terminal: one line of eight levels, or a drawing of dots over several lines."""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence

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
    """The mean of the finite values in each of so many equal stretches of steps, NaN where none is finite.

    A stretch in which no step was told lies on the line between its neighbours.
    """
    span = max(steps[-1] - steps[0], 1)
    gathered: dict[int, list[float]] = {}
    for step, value in zip(steps, values, strict=True):
        told = gathered.setdefault((step - steps[0]) * (columns - 1) // span, [])
        if math.isfinite(value):
            told.append(value)
    means = {column: math.fsum(told) / len(told) if told else math.nan for column, told in gathered.items()}
    known = sorted(means)
    found: list[float] = []
    for column in range(known[-1] + 1):
        after = bisect_left(known, column)
        found.append(_between(known[max(after - 1, 0)], known[after], column, means))
    return found


def _between(left: int, right: int, column: int, means: Mapping[int, float]) -> float:
    if column == right:
        return means[right]
    share = (column - left) / (right - left)
    return means[left] + share * (means[right] - means[left])


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    known = [value for value in values if not math.isnan(value)]
    return (min(known), max(known)) if known else (math.nan, math.nan)


def _level(value: float, low: float, high: float, levels: int) -> int:
    span = high - low
    if not 0.0 < span < math.inf:
        return 0
    return min(int((value - low) / span * levels), levels - 1)
