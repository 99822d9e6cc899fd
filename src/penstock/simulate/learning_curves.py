"""Learning curves out of a seed: the metric of a training as nobody knows it in advance.

A curve rises from its start towards its ceiling with a shape of one family, and every evaluation has noise. Families
differ in how they flatten; those that no forecast was tuned on are told apart, so that its figures can be told for
strangers.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from penstock.core import MetricWatch, StopRule

METRIC = "val_acc"
_START, _CEILING = (0.05, 0.3), (0.6, 0.98)


class CurveFamily(StrEnum):
    """How a curve flattens."""

    POWER = "power"
    EXPONENTIAL = "exponential"
    WEIBULL = "weibull"
    TWO_PHASE = "two phases"
    LOGARITHM = "logarithm"
    ARCTANGENT = "arctangent"
    GOMPERTZ = "gompertz"
    STEPPED = "stepped"
    """An exponential that goes faster from some moment on, as after a drop of the learning rate."""
    TANGENT = "hyperbolic tangent"
    LOGISTIC = "logistic"
    ALGEBRAIC = "algebraic"
    ERROR_FUNCTION = "error function"
    COSINE = "cosine"
    """Flat at its end, as under a learning rate that falls like a cosine."""


TUNED = (
    CurveFamily.POWER,
    CurveFamily.EXPONENTIAL,
    CurveFamily.WEIBULL,
    CurveFamily.TWO_PHASE,
    CurveFamily.LOGARITHM,
    CurveFamily.GOMPERTZ,
)
"""The families that the shapes and settings of forecasts were chosen on."""
CONSULTED = (CurveFamily.ARCTANGENT, CurveFamily.STEPPED, CurveFamily.TANGENT, CurveFamily.LOGISTIC)
"""Families that nothing was fitted to, but whose figures were looked at while the settings were chosen."""
STRANGERS = (CurveFamily.ALGEBRAIC, CurveFamily.ERROR_FUNCTION, CurveFamily.COSINE)
"""Families that were added after the settings had been chosen, and changed nothing about them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningCurve:
    """A metric by step, noise included, drawn once for each evaluation; ``most`` is the last step."""

    family: CurveFamily
    most: float
    start: float
    ceiling: float
    pace: float
    bend: float
    noise: float
    evaluations: int
    seed: int

    def level(self, step: float) -> float:
        """Without noise."""
        left = _SHAPES[self.family](step / self.most, self.pace, self.bend)
        return self.ceiling - (self.ceiling - self.start) * left

    def points(self) -> list[tuple[int, float]]:
        """Every evaluation to the last step."""
        rng = np.random.default_rng(self.seed)
        steps = [max(1, round(self.most * number / self.evaluations)) for number in range(1, self.evaluations + 1)]
        return [(step, self.level(step) + self.noise * float(rng.standard_normal())) for step in steps]

    def end(self, rule: StopRule) -> float:
        """The step at which the rule ends the training, at the latest the last."""
        watch = MetricWatch(rule)
        return next((float(step) for step, value in self.points() if watch.take(step, value)), self.most)


def draw_curve(family: CurveFamily, most: float, rng: np.random.Generator, *, evaluations: int = 100) -> LearningCurve:
    """A curve of a family, of a training that may take ``most`` steps."""
    pace, bend = _DRAWN[family](rng)
    start, ceiling = float(rng.uniform(*_START)), float(rng.uniform(*_CEILING))
    noise = (ceiling - start) * float(np.exp(rng.uniform(math.log(0.002), math.log(0.02))))
    return LearningCurve(
        family=family, most=most, start=start, ceiling=ceiling, pace=pace, bend=bend, noise=noise,
        evaluations=evaluations, seed=int(rng.integers(2**31)),
    )  # fmt: skip


def target_at(curve: LearningCurve, share: float) -> StopRule:
    """The rule that a noiseless curve fulfils after this share of the most."""
    return StopRule(metric=METRIC, rising=True, target=curve.level(share * curve.most))


def _power(time: float, pace: float, bend: float) -> float:
    return float((1.0 + time / pace) ** -bend)


def _exponential(time: float, pace: float, _bend: float) -> float:
    return math.exp(-time / pace)


def _weibull(time: float, pace: float, bend: float) -> float:
    return math.exp(-((time / pace) ** bend))


def _two_phase(time: float, pace: float, bend: float) -> float:
    return bend * math.exp(-8.0 * time / pace) + (1.0 - bend) * math.exp(-time / pace)


def _logarithm(time: float, pace: float, _bend: float) -> float:
    return 1.0 / (1.0 + math.log1p(time / pace))


def _arctangent(time: float, pace: float, _bend: float) -> float:
    return 1.0 - 2.0 / math.pi * math.atan(time / pace)


def _gompertz(time: float, pace: float, bend: float) -> float:
    first = math.exp(-bend)
    return 1.0 - (math.exp(-bend * math.exp(-time / pace)) - first) / (1.0 - first)


def _stepped(time: float, pace: float, bend: float) -> float:
    return math.exp(-(min(time, bend) + 2.5 * max(time - bend, 0.0)) / pace)


def _tangent(time: float, pace: float, _bend: float) -> float:
    return 1.0 - math.tanh(time / pace)


def _logistic(time: float, pace: float, bend: float) -> float:
    return (1.0 + math.exp(-bend)) / (1.0 + math.exp(time / pace - bend))


def _algebraic(time: float, pace: float, _bend: float) -> float:
    return 1.0 - time / math.hypot(time, pace)


def _error_function(time: float, pace: float, _bend: float) -> float:
    return math.erfc(time / pace)


def _cosine(time: float, pace: float, _bend: float) -> float:
    return 0.5 * (1.0 + math.cos(math.pi * min(time / pace, 1.0)))


_SHAPES: dict[CurveFamily, Callable[[float, float, float], float]] = {
    CurveFamily.POWER: _power,
    CurveFamily.EXPONENTIAL: _exponential,
    CurveFamily.WEIBULL: _weibull,
    CurveFamily.TWO_PHASE: _two_phase,
    CurveFamily.LOGARITHM: _logarithm,
    CurveFamily.ARCTANGENT: _arctangent,
    CurveFamily.GOMPERTZ: _gompertz,
    CurveFamily.STEPPED: _stepped,
    CurveFamily.TANGENT: _tangent,
    CurveFamily.LOGISTIC: _logistic,
    CurveFamily.ALGEBRAIC: _algebraic,
    CurveFamily.ERROR_FUNCTION: _error_function,
    CurveFamily.COSINE: _cosine,
}
_DRAWN: dict[CurveFamily, Callable[[np.random.Generator], tuple[float, float]]] = {
    CurveFamily.POWER: lambda rng: (float(rng.uniform(0.01, 0.2)), float(rng.uniform(0.3, 1.2))),
    CurveFamily.EXPONENTIAL: lambda rng: (float(rng.uniform(0.15, 0.8)), 1.0),
    CurveFamily.WEIBULL: lambda rng: (float(rng.uniform(0.15, 0.8)), float(rng.uniform(0.5, 0.9))),
    CurveFamily.TWO_PHASE: lambda rng: (float(rng.uniform(0.3, 1.0)), float(rng.uniform(0.3, 0.7))),
    CurveFamily.LOGARITHM: lambda rng: (float(rng.uniform(0.005, 0.1)), 1.0),
    CurveFamily.ARCTANGENT: lambda rng: (float(rng.uniform(0.05, 0.5)), 1.0),
    CurveFamily.GOMPERTZ: lambda rng: (float(rng.uniform(0.1, 0.4)), float(rng.uniform(0.5, 3.0))),
    CurveFamily.TANGENT: lambda rng: (float(rng.uniform(0.3, 1.2)), 1.0),
    CurveFamily.LOGISTIC: lambda rng: (float(rng.uniform(0.1, 0.4)), float(rng.uniform(0.0, 2.0))),
    CurveFamily.ALGEBRAIC: lambda rng: (float(rng.uniform(0.1, 0.8)), 1.0),
    CurveFamily.ERROR_FUNCTION: lambda rng: (float(rng.uniform(0.3, 1.2)), 1.0),
    CurveFamily.COSINE: lambda rng: (float(rng.uniform(0.8, 1.3)), 1.0),
    CurveFamily.STEPPED: lambda rng: (float(rng.uniform(0.4, 1.2)), float(rng.uniform(0.2, 0.7))),
}
