"""Metrics of a training run: what they may be called, and a series of values that stays small however long it grows.

A series is thinned by steps. It keeps every value until it has :data:`MOST_POINTS` of them; then neighbours become one
point that knows the last, the lowest and the highest of its values, and the width of such a group of steps doubles
whenever the series is full again. A year of steps costs what a thousand do.

A run that is restored from a checkpoint makes some of its steps again. A value of a step that the series has passed
replaces that step and everything after it, so a series is one curve across restarts and resizes.

JSON has no infinity: values that are not finite are written as "nan", "inf" and "-inf".
"""

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.core.errors import InputError
from penstock.core.limits import LATEST, MOST_STEPS, is_count

METRIC_NAME = r"[A-Za-z_][A-Za-z0-9_./@-]{0,127}"
"""What metrics are called: names of Python, and paths of them as in ``eval/loss``."""
MOST_METRICS = 200
"""Series of one run."""
MOST_POINTS = 400
"""Of one series; a full one goes on with half of them."""
NOT_METRICS = frozenset({"step", "total", "path", "blocking_s"})
"""Words of progress and checkpoints, which no metric is called."""

_NAME = re.compile(METRIC_NAME)
_STRANGE = re.compile(r"[^A-Za-z0-9_./@-]")
_LONGEST_NAME = 128
_THIN, _WHOLE = 3, 5
"""Numbers of a point that is written: one value, or several with their bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValue:
    """One value as a script tells it; without a ``step`` it is of the step that the run has reached."""

    name: str
    value: float
    step: int | None = None

    def __post_init__(self) -> None:
        if not is_metric_name(self.name):
            raise ValueError(
                f"a metric is called like a name or a path of names, at most 128 characters: {METRIC_NAME}"
            )
        if not is_count(self.step):
            raise ValueError(f"step must be a number from 0 to {MOST_STEPS}")


@dataclass(frozen=True, slots=True)
class MetricPoint:
    """One value, or a group of neighbours: ``step``, ``at`` and ``value`` are those of the last one.

    ``low`` and ``high`` are of the finite values; without any they are NaN.
    """

    step: int
    at: float
    value: float
    low: float
    high: float

    @classmethod
    def single(cls, step: int, at: float, value: float) -> "MetricPoint":
        bound = value if math.isfinite(value) else math.nan
        return cls(step, at, value, bound, bound)

    def then(self, later: "MetricPoint") -> "MetricPoint":
        """Both as one."""
        return replace(later, low=_least(self.low, later.low), high=-_least(-self.high, -later.high))


@dataclass(slots=True)
class MetricSeries:
    """The values of one metric in the order of their steps. ``count`` is how many were told, ``width`` of how many
    steps one point is, ``first`` the first step."""

    name: str
    points: list[MetricPoint] = field(default_factory=list)
    count: int = 0
    width: int = 1
    first: int = 0

    @property
    def last(self) -> MetricPoint:
        return self.points[-1]

    @property
    def low(self) -> float:
        """The least of all finite values; NaN without any."""
        return min((point.low for point in self.points if not math.isnan(point.low)), default=math.nan)

    @property
    def high(self) -> float:
        return max((point.high for point in self.points if not math.isnan(point.high)), default=math.nan)

    def add(self, step: int, at: float, value: float) -> None:
        """Take in a value; one of a step that was told before replaces that step and all after it."""
        self.count += 1
        point = MetricPoint.single(step, at, value)
        if self.points and step == self.last.step:
            self.points[-1] = point if self.width == 1 else self.last.then(point)
            return
        self._forget_from(step)
        if not self.points:
            self.first = step
        self._append(point)

    def extend(self, later: "MetricSeries") -> None:
        """Go on with the series of a later run of the same training."""
        if not later.points:
            return
        self._forget_from(later.first)
        self.first = self.first if self.points else later.first
        self.count += later.count
        self.width = max(self.width, later.width)
        self._regroup([*self.points, *later.points])

    def _append(self, point: MetricPoint) -> None:
        if self.points and self.points[-1].step // self.width == point.step // self.width:
            self.points[-1] = self.points[-1].then(point)
            return
        self.points.append(point)
        if len(self.points) > MOST_POINTS:
            self._regroup(self.points)

    def _forget_from(self, step: int) -> None:
        if self.points and step <= self.points[-1].step:
            del self.points[bisect_left(self.points, step, key=lambda point: point.step) :]

    def _regroup(self, points: list[MetricPoint]) -> None:
        """Make groups of equal width, as wide as it takes."""
        while len(groups := _grouped(points, self.width)) > MOST_POINTS:
            self.width *= 2
        self.points = groups


def is_metric_name(text: str) -> bool:
    """Whether a metric may be called so."""
    return _NAME.fullmatch(text) is not None and text not in NOT_METRICS


def metric_name(text: str) -> str:
    """A text of another tool as a metric may be called, unless it is one of :data:`NOT_METRICS`."""
    name = _STRANGE.sub("_", text).lstrip("/")
    return (name if name[:1].isalpha() else f"_{name}")[:_LONGEST_NAME]


def metric_values(values: Mapping[str, Any], step: int | None = None) -> list[MetricValue]:
    """What somebody logs; raises :class:`InputError` for a name or a value that is none.

    Anything that ``float`` takes is a value: numbers, and tensors and arrays of one element.
    """
    return [_checked(name, value, step) for name, value in values.items()]


def joined_series(runs: Iterable[Iterable[MetricSeries]]) -> list[MetricSeries]:
    """The series of a training from those of its runs, the earliest first; in the order of their names."""
    whole: dict[str, MetricSeries] = {}
    for run in runs:
        for series in run:
            if series.name in whole:
                whole[series.name].extend(series)
            elif series.points:
                whole[series.name] = series
    return [whole[name] for name in sorted(whole)]


def plain_series(series: MetricSeries) -> dict[str, Any]:
    """A series as JSON."""
    return {
        "name": series.name, "count": series.count, "width": series.width, "first": series.first,
        "points": [_plain_point(point) for point in series.points],
    }  # fmt: skip


def read_series(data: Mapping[str, Any]) -> MetricSeries:
    """The series that :func:`plain_series` wrote; raises :class:`ValueError` for anything else."""
    try:
        name, points = data["name"], [_read_point(point) for point in data["points"]]
        count, width, first = int(data["count"]), int(data["width"]), int(data["first"])
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"not a series: {error}") from None
    steps = [point.step for point in points]
    orderly = steps == sorted(set(steps)) and len(steps) <= MOST_POINTS and all(map(is_count, [*steps, first]))
    if not (isinstance(name, str) and is_metric_name(name) and orderly and count >= 0 and 1 <= width <= MOST_STEPS):
        raise ValueError(f"not a series: {str(name)[:80]!r}")
    return MetricSeries(name, points, count, width, first)


def plain_value(value: float) -> float | str:
    """A value as JSON has it."""
    return value if math.isfinite(value) else str(value)


def _grouped(points: list[MetricPoint], width: int) -> list[MetricPoint]:
    groups: list[MetricPoint] = []
    for point in points:
        if groups and groups[-1].step // width == point.step // width:
            groups[-1] = groups[-1].then(point)
        else:
            groups.append(point)
    return groups


def _checked(name: str, value: Any, step: int | None) -> MetricValue:
    if not is_metric_name(name):
        raise InputError(
            f"a metric called {name[:80]!r}", "up to 128 letters, digits and any of _./@-, a letter first",
            f"These have another meaning: {', '.join(sorted(NOT_METRICS))}",
        )  # fmt: skip
    try:
        number = float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        kind = type(value).__name__
        raise InputError(f"{name} is a {kind}", "a number, or a tensor or an array of one element") from None
    if step is not None and not (isinstance(step, int) and is_count(step)):
        raise InputError(f"step={step!r}", f"a whole number from 0 to {MOST_STEPS}")
    return MetricValue(name=name, value=number, step=step)


def _plain_point(point: MetricPoint) -> list[float | str]:
    said: list[float | str] = [point.step, round(point.at, 3), plain_value(point.value)]
    single = point.low == point.high == point.value or (math.isnan(point.low) and not math.isfinite(point.value))
    return said if single else [*said, plain_value(point.low), plain_value(point.high)]


def _read_point(data: Any) -> MetricPoint:
    if not isinstance(data, list) or len(data) not in (_THIN, _WHOLE) or not isinstance(data[0], int):
        raise ValueError("not a point")
    at, value, *bounds = map(float, data[1:])
    if not 0.0 <= at <= LATEST:
        raise ValueError("a point out of time")
    return MetricPoint(data[0], at, value, *bounds) if bounds else MetricPoint.single(data[0], at, value)


def _least(one: float, other: float) -> float:
    """The lesser of two numbers, of which one may be missing."""
    if math.isnan(one) or math.isnan(other):
        return other if math.isnan(one) else one
    return min(one, other)
