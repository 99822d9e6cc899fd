"""A scaling curve from a few measured points.

A step on n devices takes ``compute / n + fixed + exchange * log2(n)`` seconds: the part that is divided among them,
the part every device does again (Amdahl), and the exchange of gradients, which grows with every doubling. None is
below 0 and the last two are bounded by the first; they are found by least squares on relative errors, pulled gently
towards what is common where the points say little. With one point the shape is all prior; with three it is nearly all
measurement. Written as a mixture of three extreme jobs the problem is linear with three unknowns that are at least 0,
so the answer is exact.

Where a point is, the curve goes through it: between and beyond points the fit is scaled by how much they disagree
with it, interpolated over doublings.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.core import CurveError
from penstock.learn.points import Point
from penstock.tools import nonnegative_least_squares

PRIOR_FIXED = 0.08
"""Share of a one-device step that does not get shorter with more devices, where nothing else is known."""

PRIOR_EXCHANGE = 0.02
"""Share of a one-device step that each doubling of devices adds, where nothing else is known.

Both were chosen so that one or two points of the throughput tables published with ElasticFlow (A100) predict the
others without a bias to either side.
"""

_PULL = 0.05
"""Weight of the prior against a point: a share that is 0.1 off costs as much as a point missed by half a percent."""

_EXTREMES = np.array([[1.0, 0.0, 0.0], [1.0, 20.0, 0.0], [1.0, 0.0, 1.0]])
"""(compute, fixed, exchange) of a job that scales perfectly, one that hardly does, and one that exchanges as long as it
computes."""

_PRIOR_SPREAD = 0.10
_SPREAD_PER_DOUBLING = 0.10
_MOST_SPREAD = 0.60
_SPREAD_OF_ONE_SECOND = 0.2

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ScalingModel:
    """Seconds of one step: ``compute_s / n + fixed_s + exchange_s * log2(n)``."""

    compute_s: float
    fixed_s: float
    exchange_s: float

    @classmethod
    def fit(cls, points: Sequence[Point]) -> "ScalingModel":
        """The model closest to the points; points watched longer and steadier weigh more."""
        if not points:
            raise CurveError("no measured rate at all", "at least one", "Profile the job first")
        rows, targets = _equations(points)
        shares = nonnegative_least_squares(rows @ _EXTREMES.T, targets)
        return cls(*map(float, shares @ _EXTREMES))

    def step_s(self, count: int) -> float:
        return self.compute_s / count + self.fixed_s + self.exchange_s * math.log2(count)

    def rate(self, count: int) -> float:
        return 1 / self.step_s(count)


class ScalingShape(Protocol):
    """How a job scales, before measured points bend it."""

    def rate(self, count: int) -> float: ...


@dataclass(frozen=True, slots=True)
class Estimate:
    """Measured points and the model through them: a rate and an uncertainty at every count."""

    points: tuple[Point, ...]
    model: "ScalingShape"

    @classmethod
    def of(cls, points: Sequence[Point], shape: "ScalingShape | None" = None) -> "Estimate":
        """Through ``shape`` where one was predicted, else through the model closest to the points."""
        return cls(tuple(sorted(points, key=lambda point: point.count)), shape or ScalingModel.fit(points))

    def rate(self, count: int) -> float:
        """Steps per second: measured, or the model bent through its neighbours."""
        doublings = [math.log2(point.count) for point in self.points]
        bends = [math.log(point.rate / self.model.rate(point.count)) for point in self.points]
        return self.model.rate(count) * math.exp(float(np.interp(math.log2(count), doublings, bends)))

    def uncertainty(self, count: int) -> float:
        """Return the relative spread to keep in reserve: :meth:`rate` less this share is the certain rate.

        At a measured count it is the measured spread, and a little more after a short look. At any other it reaches
        down to the least that the measured counts around it allow (:meth:`_least`), unless a shape was predicted: then
        the spread of predictions is enough.
        """
        near = min(self.points, key=lambda point: abs(math.log2(point.count / count)))
        own = _own_spread(near)
        if near.count == count:
            return own
        reach = max(own, 1.0 - self._least(count) / self.rate(count))
        if isinstance(self.model, ScalingModel):
            return reach
        distance = abs(math.log2(near.count / count))
        return min(reach, math.hypot(own, _PRIOR_SPREAD + _SPREAD_PER_DOUBLING * (distance - 1)), _MOST_SPREAD)

    def _least(self, count: int) -> float:
        """Return the slowest rate that can be expected on a count that was never measured.

        With more devices than at a measured count a job may be no faster, as with a fixed batch per device, and has one
        more exchange per doubling to wait for; with fewer it keeps at least its share.
        """
        below = [point for point in self.points if point.count < count]
        above = [point for point in self.points if point.count > count]
        flat = linear = 0.0
        if below:
            widest = below[-1]
            exchange = 1 + PRIOR_EXCHANGE * math.log2(count / widest.count)
            flat = widest.rate * (1 - _own_spread(widest)) / exchange
        if above:
            certain = above[0].rate * (1 - _own_spread(above[0]))
            flat, linear = min(flat, certain), certain * count / above[0].count
        return max(flat, linear)


def _own_spread(point: Point) -> float:
    short = _SPREAD_OF_ONE_SECOND / math.sqrt(max(point.seconds, 1.0))
    return min(math.hypot(point.relative_spread, short), _MOST_SPREAD)


def _equations(points: Sequence[Point]) -> tuple[Floats, Floats]:
    """Rows of (compute, fixed, exchange), one per point in units of its own step, then two that hold the prior."""
    counts = np.array([point.count for point in points], dtype=float)
    rates = np.array([point.rate for point in points])
    steady = np.array([1 / (1 + 10 * point.relative_spread) for point in points])
    watched = np.array([min(1.0, point.seconds / 30) ** 0.5 for point in points])
    weights = np.maximum(steady * watched, 0.05)
    basis = np.stack([1 / counts, np.ones_like(counts), np.log2(counts)], axis=1)  # (points, 3)
    scale = (rates / counts).max()
    prior = _PULL * scale * np.array([[-PRIOR_FIXED, 1.0, 0.0], [-PRIOR_EXCHANGE, 0.0, 1.0]])
    return np.vstack([basis * (rates * weights)[:, None], prior]), np.concatenate([weights, [0.0, 0.0]])
