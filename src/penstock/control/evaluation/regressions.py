"""Results that got worse: a later checkpoint that is clearly below the best one before it.

Results of one training scatter, so a fall counts only when it is larger than what is usual from one checkpoint to the
next. That is known from the differences so far (their median absolute deviation, which a few jumps do not change);
where there are too few, from the size of the data set, if the metric is a share of right answers. Before either is
known nothing is called a regression. Our own rule: the papers name no other.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

_DEVIATIONS = 3.0
"""How many standard deviations a fall has to be, counted between two checkpoints."""
_NORMAL = 1.4826
"""From a median absolute deviation to a standard deviation, where differences are normal."""
_LEAST_SHARE = 0.01
"""Of the best value: a smaller fall is of no interest, however regular the results are."""
_ENOUGH = 4
"""Differences from which their scatter is known."""

Direction = Callable[[str], bool | None]
"""Whether a metric is better when it is larger; None where nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """A metric of one checkpoint that is worse than its best by more than results scatter."""

    metric: str
    value: float
    best: float
    best_step: int

    def __str__(self) -> str:
        return f"{self.metric} {self.value:.4g}, was {self.best:.4g} at step {self.best_step}"


@dataclass(frozen=True, slots=True)
class EvaluatedStep:
    """What one evaluation found."""

    step: int
    values: Mapping[str, float]


def regressions(
    earlier: Sequence[EvaluatedStep], now: EvaluatedStep, rises: Direction, samples: Mapping[str, int | None]
) -> list[Regression]:
    """What is worse ``now``, in the order of names; ``samples`` are the sizes of the data sets."""
    found: list[Regression] = []
    for metric, value in sorted(now.values.items()):
        upward = rises(metric)
        past = [(each.step, each.values[metric]) for each in earlier if _is_known(each.values.get(metric))]
        if upward is None or not past:
            continue
        sign = 1.0 if upward else -1.0
        best_step, best = max(past, key=lambda point: (sign * point[1], point[0]))
        margin = _margin([known for _, known in past], best, value, samples.get(metric.partition("/")[0]))
        if not math.isfinite(value) or (margin is not None and sign * (best - value) > margin):
            found.append(Regression(metric=metric, value=value, best=best, best_step=best_step))
    return found


def _margin(values: Sequence[float], best: float, value: float, samples: int | None) -> float | None:
    """How far below the best a value may be without meaning anything; None where that is not known yet."""
    differences = [later - before for before, later in pairwise(values)]
    scatter: list[float] = []
    if len(differences) >= _ENOUGH:
        middle = median(differences)
        scatter.append(_NORMAL * median(abs(each - middle) for each in differences))
    if samples and all(0.0 <= share <= 1.0 for share in (best, value)):
        scatter.append(math.sqrt((best * (1 - best) + value * (1 - value)) / samples))
    return max(_DEVIATIONS * max(scatter), _LEAST_SHARE * abs(best)) if scatter else None


def _is_known(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
