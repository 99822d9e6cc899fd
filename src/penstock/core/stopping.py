"""When a training is over before it has done all the work it may do: a metric reaches a value, or stops getting better.

A :class:`StopRule` belongs to a job's work, which then is the most it may do. A :class:`MetricWatch` holds the metric
against the rule, value by value, through all runs of the job. What is expected of the rest is an :class:`Outlook`.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from penstock.core.errors import JobError
from penstock.core.metric_series import is_metric_name

UNLIKELY = 0.05
"""A target that is reached with less than this probability is called unlikely."""


class Unlikely(StrEnum):
    """What happens to a job that will probably use up its work without reaching its target; it is told in any case."""

    TELL = "tell"
    BEST_EFFORT = "best effort"
    """It gives up its deadline and runs on what is left over."""
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRule:
    """Stop when ``metric`` has reached its ``target``, or has not improved by more than ``least_gain`` for ``patience``
    iterations; exactly one of the two is given. ``rising``: larger values are better."""

    metric: str
    rising: bool
    target: float | None = None
    patience: float | None = None
    least_gain: float = 0.0
    if_unlikely: Unlikely = Unlikely.TELL

    def __post_init__(self) -> None:
        if not is_metric_name(self.metric):
            raise JobError(f"a rule about {self.metric[:80]!r}", "the name of a metric", 'Try "val_acc"')
        if (self.target is None) == (self.patience is None):
            raise JobError(f"a rule about {self.metric} with target and patience, or neither", "one of the two")
        if self.target is not None and not math.isfinite(self.target):
            raise JobError(f"a target of {self.target} for {self.metric}", "a finite number")
        if self.patience is not None and not (math.isfinite(self.patience) and self.patience > 0):
            raise JobError(f"a patience of {self.patience} iterations", "a positive, finite number")
        if not (math.isfinite(self.least_gain) and self.least_gain >= 0):
            raise JobError(f"a gain of {self.least_gain} in {self.metric}", "zero or more")

    def __str__(self) -> str:
        if self.target is not None:
            return f"{self.metric} {'>=' if self.rising else '<='} {self.target:.6g}"
        gain = f" by {self.least_gain:g}" if self.least_gain else ""
        return f"{self.metric} stops {'rising' if self.rising else 'falling'}{gain} for {self.patience:g} steps"

    def reached_by(self, value: float) -> bool:
        """Whether this value is the target or better; never where there is none."""
        return self.target is not None and (value >= self.target if self.rising else value <= self.target)

    def improves(self, value: float, best: float) -> bool:
        """Whether a value is better than the best so far by more than the least gain that counts."""
        return value > best + self.least_gain if self.rising else value < best - self.least_gain


@dataclass(frozen=True, slots=True)
class MetricBest:
    """The best value of a metric so far, and the step it is of."""

    value: float
    step: int


@dataclass(slots=True)
class MetricWatch:
    """Follows one metric; ``best`` may come from earlier runs. Steps that are made again after a restart do no harm."""

    rule: StopRule
    best: MetricBest | None = None
    met: str = ""
    """Why training is over, once it is."""

    def take(self, step: int, value: float) -> bool:
        """Take in a value; whether training is over by it. Values that are not finite say nothing."""
        if self.met or not math.isfinite(value):
            return bool(self.met)
        if self.best is None or self.rule.improves(value, self.best.value):
            self.best = MetricBest(value, step)
        if self.rule.reached_by(value):
            self.met = f"{self.rule} reached: {value:.6g} at step {step}"
        elif self.rule.patience is not None and step - self.best.step >= self.rule.patience:
            self.met = f"{self.rule}: best {self.best.value:.6g} at step {self.best.step}, now {step}"
        return bool(self.met)

    @property
    def ending(self) -> str:
        """How the training ended as far as the rule goes, once it has ended."""
        if self.met:
            return self.met
        if self.best is None:
            return f"not reached: {self.rule.metric} was never told"
        if self.rule.target is None:
            return f"did all its work: best {self.best.value:.6g} at step {self.best.step}, still improving"
        return f"not reached: best {self.best.value:.6g} at step {self.best.step}, asked for {self.rule}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """How many iterations a training takes in all before its rule ends it, as its metric tells so far.

    ``expected`` is the mean, ``median`` and ``safe`` are quantiles: in nine of ten cases it takes no more than
    ``safe``. None is more than the work it may do, which it uses up with the probability 1 - ``reach``.
    """

    expected: float
    median: float
    safe: float
    reach: float

    def __post_init__(self) -> None:
        if not (0.0 <= self.reach <= 1.0 and self.expected > 0.0 and 0.0 < self.median <= self.safe < math.inf):
            raise JobError(f"an outlook of {self.expected}, {self.median} and {self.safe} iterations, {self.reach}")

    @property
    def is_unlikely(self) -> bool:
        return self.reach < UNLIKELY
