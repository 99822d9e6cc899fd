"""When a metric will end the training it is of: a distribution, from the values so far.

Learning curves flatten. An ensemble of shapes that do (powers, exponentials that bend more or less sharply, Hill
curves, each with many rates) is fitted to the values at once, two linear coefficients each, the last values weighing
most. Shapes count by how well they fit and by how well they would have foretold the last values; curves drawn around
them count less the more they promise beyond what was seen. They may drift as far as they missed lately, and have the
noise of the past. Each drawn course is held against the rule like the real one, so the answer is a sample of steps at
which training ends. NumPy alone, a few milliseconds, the same answer for the same values.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core import MetricBest, Outlook, StopRule

Floats = NDArray[np.float64]

LEAST_POINTS = 5
"""Fewer values tell nothing about where a curve goes."""
SAFE = 0.9
"""The quantile that promises count on."""
_LARGEST = 1e100
_DRAWS = 400
_CANDIDATES = 4000
_TESTED = 0.3
"""The last part of the time so far, on which shapes are tested that were fitted to what was before."""
_MOST_AHEAD = 200
"""Evaluations ahead that are simulated; of more, some stand for several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastTuning:
    """How far curves are believed; chosen on six families of curves (``docs/promises.md`` says how).

    ``believed`` is the share of the evidence for one shape against another that counts: real curves have none of these
    shapes. ``beyond`` is how much more than it has gained so far a curve is believed to gain yet. ``recent`` is how
    fast values lose their weight in fits, in units of the time passed so far. ``drift`` is how much of what a shape
    missed lately it may miss again.
    """

    believed: float = 0.5
    beyond: float = 4.0
    recent: float = 0.15
    drift: float = 2.0


DEFAULT_TUNING = ForecastTuning()


@dataclass(frozen=True, slots=True, eq=False)
class CurveShapes:
    """Shapes that fall from 1 or more towards 0, one per row: ``kind`` 0 is a power, 1 an exponential, 2 Hill's."""

    kind: NDArray[np.int64]
    pace: Floats
    bend: Floats

    @classmethod
    def grid(cls, kinds: Sequence[int] = (0, 1, 2)) -> "CurveShapes":
        """All shapes of some kinds; times are in units of the time passed so far."""
        offsets, powers = (0.003, 0.03, 0.1, 0.3, 1.0), (0.15, 0.3, 0.5, 0.8, 1.2, 2.0)
        rates, bends = np.geomspace(0.05, 20.0, 20), (0.7, 1.0, 1.5, 2.2)
        rows = {
            0: [(offset, power) for offset in offsets for power in powers],
            1: [(rate, bend) for rate in rates for bend in (1.0, 1.5, 2.5)],
            2: [(rate, bend) for rate in rates[2:18:2] for bend in bends],
        }
        flat = [(kind, *row) for kind in kinds for row in rows[kind]]
        kind, pace, bend = zip(*flat, strict=True)
        return cls(np.array(kind, dtype=np.int64), np.array(pace), np.array(bend))

    def take(self, rows: NDArray[np.int64]) -> "CurveShapes":
        return CurveShapes(self.kind[rows], self.pace[rows], self.bend[rows])

    def at(self, times: Floats) -> Floats:
        """(shapes, times) their values."""
        found = np.empty((len(self.kind), len(times)))
        for kind, formula in enumerate((_power, _exponential, _hill)):
            rows = self.kind == kind
            found[rows] = formula(times[None, :], self.pace[rows, None], self.bend[rows, None])
        return found


def _power(times: Floats, offset: Floats, power: Floats) -> Floats:
    return np.asarray((times + offset) ** -power)


def _exponential(times: Floats, pace: Floats, bend: Floats) -> Floats:
    return np.asarray(np.exp(-((times / pace) ** bend)))


def _hill(times: Floats, pace: Floats, bend: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + (times / pace) ** bend))


@dataclass(frozen=True, eq=False)
class MetricForecast:
    """What the ``points`` (step and value) of a metric say about the steps at which its ``rule`` ends the training.

    ``most`` is the last step it may take. O(shapes x points + draws x evaluations ahead).
    """

    rule: StopRule
    points: Sequence[tuple[int, float]]
    most: float
    shapes: CurveShapes
    tuning: ForecastTuning = DEFAULT_TUNING

    @cached_property
    def ends(self) -> Floats:
        """Steps at which drawn courses end, in order; ``most`` for those that are not ended before."""
        steps, courses = self.courses
        return np.sort(_ends(self.rule, _best(self.rule, self.points), steps, courses, self.most))

    @cached_property
    def outlook(self) -> Outlook:
        ends = self.ends
        median, safe = (float(each) for each in np.quantile(ends, (0.5, SAFE)))
        return Outlook(
            expected=float(ends.mean()), median=median, safe=safe, reach=float((ends < self.most).mean()),
        )  # fmt: skip

    @cached_property
    def courses(self) -> tuple[Floats, Floats]:
        """Steps ahead, and (draws, steps) values that the metric may have there, noise included."""
        curves, noise = self._drawn
        steps = self._ahead
        levels = curves.at(steps)
        random = np.random.default_rng(len(self.points))
        return steps, levels + noise * random.standard_normal(levels.shape)

    def band(self) -> tuple[Floats, Floats]:
        """Steps ahead, and (3, steps) the levels that one, five and nine of ten courses lie below; without noise."""
        curves, _ = self._drawn
        return self._ahead, np.quantile(curves.at(self._ahead), (0.1, 0.5, SAFE), axis=0)

    @property
    def _ahead(self) -> Floats:
        told = np.array([step for step, _ in self.points], dtype=float)
        last = told[-1]
        gap = max(float(np.median(np.diff(told))), (self.most - last) / _MOST_AHEAD, 1.0)
        return np.asarray(np.append(np.arange(last + gap, self.most, gap), self.most))

    @cached_property
    def _drawn(self) -> tuple["_Curves", float]:
        return _draw(np.array(self.points, dtype=float), self.shapes, self.tuning)


@dataclass(frozen=True, slots=True, eq=False)
class _Curves:
    """Level + gain x shape, of each draw; times are in units of ``scale`` steps."""

    shapes: CurveShapes
    level: Floats
    gain: Floats
    drift: Floats
    scale: float

    def at(self, steps: Floats) -> Floats:
        times = steps / self.scale
        away = self.drift[:, None] * np.maximum(times - 1.0, 0.0)[None, :] / _TESTED
        return np.asarray(self.level[:, None] + self.gain[:, None] * self.shapes.at(times) + away)


def forecast_metric(
    rule: StopRule, points: Sequence[tuple[int, float]], most: float, tuning: ForecastTuning = DEFAULT_TUNING
) -> MetricForecast | None:
    """A forecast, or nothing as long as there are too few values for one, no step is left or a value is absurd."""
    if len(points) < LEAST_POINTS or not 0 < points[-1][0] < most:
        return None
    if max(abs(value) for _, value in points) > _LARGEST:
        return None
    return MetricForecast(rule, points, most, CurveShapes.grid(), tuning)


def _draw(told: Floats, shapes: CurveShapes, tuning: ForecastTuning) -> tuple[_Curves, float]:
    """Curves around the fits of all shapes, and the noise of values around them."""
    scale = float(told[-1, 0])
    times, values = told[:, 0] / scale, told[:, 1]
    found = shapes.at(times)
    weights = np.exp((times - 1.0) / tuning.recent)
    fit, test = _fitted(found, values, weights), _misses(found, times, values, weights)
    count = float(weights.sum() ** 2 / (weights**2).sum())
    free = max(count - 2.0, 1.0)
    noise = np.sqrt(fit.errors / weights.sum() * count / free + 1e-18)
    evidence = -0.5 * tuning.believed * count * np.log(noise**2 + test**2)
    random = np.random.default_rng(len(told))
    chances = np.exp(evidence - evidence.max())
    rows = random.choice(len(chances), _CANDIDATES, p=chances / chances.sum())
    swing = random.standard_t(free, size=(2, _CANDIDATES))
    gain = fit.gains[rows] + swing[0] * noise[rows] / np.sqrt(fit.within[rows] / weights.sum() * count)
    middle = fit.mean + swing[1] * noise[rows] / np.sqrt(count)
    level = middle - gain * fit.means[rows]
    now = middle + gain * (found[rows, -1] - fit.means[rows])
    kept = _plausible(level, now, float(values[0]), noise[rows], tuning, random)
    drift = tuning.drift * test[rows[kept]] * random.standard_normal(len(kept))
    return _Curves(shapes.take(rows[kept]), level[kept], gain[kept], drift, scale), _jitter(values)


def _jitter(values: Floats) -> float:
    """The noise of single values: what is left of them beside any smooth curve."""
    return float(np.sqrt((np.diff(values, 2) ** 2).mean() / 6.0))


class _Fit(NamedTuple):
    """Least squares of values on each shape: value = mean + gain x (shape - its mean)."""

    mean: float
    means: Floats
    gains: Floats
    within: Floats
    errors: Floats


def _fitted(found: Floats, values: Floats, weights: Floats) -> _Fit:
    means, mean = found @ weights / weights.sum(), float(values @ weights / weights.sum())
    spread = found - means[:, None]
    within = np.maximum(spread**2 @ weights, 1e-12)
    gains = spread @ (weights * (values - mean)) / within
    errors = (values - mean - gains[:, None] * spread) ** 2 @ weights
    return _Fit(mean, means, gains, within, errors)


def _misses(found: Floats, times: Floats, values: Floats, weights: Floats) -> Floats:
    """By how much each shape, fitted to the values before, misses the mean of the last ones."""
    before = max(3, int(np.searchsorted(times, 1.0 - _TESTED)))
    if before >= len(values):
        return np.zeros(len(found))
    fit = _fitted(found[:, :before], values[:before], weights[:before])
    expected = fit.mean + fit.gains * (found[:, before:].mean(axis=1) - fit.means)
    return np.asarray(np.abs(values[before:].mean() - expected))


def _plausible(
    level: Floats, now: Floats, first: float, noise: Floats, tuning: ForecastTuning, random: np.random.Generator
) -> NDArray[np.int64]:
    """Draws whose end lies not much further away than they have come, chosen by how believable that is."""
    come = np.abs(now - first) + 3.0 * noise + 1e-12
    weight = 1.0 / (1.0 + (np.abs(level - now) / (tuning.beyond * come)) ** 2)
    return random.choice(len(weight), _DRAWS, p=weight / weight.sum())


def _best(rule: StopRule, points: Sequence[tuple[int, float]]) -> MetricBest:
    best = MetricBest(points[0][1], points[0][0])
    for step, value in points[1:]:
        if rule.improves(value, best.value):
            best = MetricBest(value, step)
    return best


def _ends(rule: StopRule, best: MetricBest, steps: Floats, courses: Floats, most: float) -> Floats:
    """The first step at which each course fulfils the rule, like :class:`~penstock.core.MetricWatch`."""
    if rule.target is not None:
        over = courses >= rule.target if rule.rising else courses <= rule.target
        return np.where(over.any(axis=1), steps[over.argmax(axis=1)], most)
    assert rule.patience is not None
    sign = 1.0 if rule.rising else -1.0
    ends, tops = np.full(len(courses), most), np.full(len(courses), sign * best.value)
    since = np.full(len(courses), float(best.step))
    for step, values in zip(steps, (sign * courses).T, strict=True):
        better = values > tops + rule.least_gain
        tops[better], since[better] = values[better], step
        ends = np.minimum(ends, np.where(step - since >= rule.patience, step, most))
    return ends
