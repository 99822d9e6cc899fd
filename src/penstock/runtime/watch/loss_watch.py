"""Whether a loss is sane: a rule on the losses of steps, without a model and without a clock.

InternEvo (the framework behind the Acme study, NSDI'24) calls a loss that is more than 1.5 times the one of the step
before a spike. One noisy batch does that, so ours, which is our own construction, asks for more: above 1.5 times the
median of recent healthy losses *and* above it by six times their spread (the median absolute deviation, scaled to a
standard deviation). It needs some history first. A loss that is not finite needs none.

One bad batch is told. Only what *lasts* is worth going back for: a gradient scaler skips an update whose gradients are
not finite, and most spikes come back down by themselves.
"""

import math
from collections import deque
from dataclasses import dataclass
from statistics import median

from penstock.core import LossFault

SPIKE_FACTOR = 1.5
SPREADS = 6.0
HISTORY, LEAST_HISTORY = 64, 16
NOT_FINITE_STEPS, SPIKE_STEPS = 3, 5
"""In a row, for it to last."""
QUIET_STEPS = 100
"""After a fault was told, others of the same kind that do not last are not, for so many steps."""
_SIGMA = 1.4826
"""By which the median absolute deviation of normal noise is its standard deviation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossVerdict:
    """What is wrong since which step; ``usual`` is the median of the losses before it, where there were any.

    ``first_bad`` and ``last_bad`` are the steps whose batches are to blame or may be: a loss is computed before its
    batch changes the model, so the batch before the first bad loss may be what broke it.
    """

    fault: LossFault
    onset: int
    step: int
    loss: float
    usual: float | None
    lasting: bool

    @property
    def first_bad(self) -> int:
        return max(self.onset - 1, 0)

    @property
    def last_bad(self) -> int:
        """Once a model has computed a loss that is not finite, every later one is a consequence."""
        return self.onset if self.fault is LossFault.NOT_FINITE else self.step

    def __str__(self) -> str:
        usual = "" if self.usual is None else f", {self.usual:.4g} before"
        since = f" since step {self.onset}" if self.lasting else ""
        what = "is not a number" if math.isnan(self.loss) else f"is {self.loss:.4g}"
        return f"the loss of step {self.step} {what}{since}{usual}"


class LossWatch:
    """Judges one loss after the other."""

    def __init__(self) -> None:
        self._healthy: deque[float] = deque(maxlen=HISTORY)
        self._fault: LossFault | None = None
        self._onset = 0
        self._in_a_row = 0
        self._quiet_until: dict[LossFault, int] = {}

    @property
    def is_healthy(self) -> bool:
        """Whether the last loss was."""
        return self._fault is None

    def note(self, step: int, loss: float) -> LossVerdict | None:
        """The loss of a step; something comes back when there is something to say."""
        fault = self._judge(loss)
        if fault is None:
            self._fault, self._in_a_row = None, 0
            self._healthy.append(loss)
            return None
        if fault is not self._fault:
            self._fault, self._onset, self._in_a_row = fault, self._first(step), 0
        self._in_a_row += 1
        lasting = self._in_a_row == (NOT_FINITE_STEPS if fault is LossFault.NOT_FINITE else SPIKE_STEPS)
        is_news = self._in_a_row == 1 and step >= self._quiet_until.get(fault, 0)
        if not (lasting or is_news):
            return None
        self._quiet_until[fault] = step + QUIET_STEPS
        usual = median(self._healthy) if self._healthy else None
        return LossVerdict(fault=fault, onset=self._onset, step=step, loss=loss, usual=usual, lasting=lasting)

    def forget(self) -> None:
        """What comes next is another level: the state was changed, or the new one has to be lived with."""
        self._healthy.clear()
        self._fault, self._in_a_row = None, 0

    def _first(self, step: int) -> int:
        """A spike that ends in infinity began as a spike."""
        return self._onset if self._fault is not None else step

    def _judge(self, loss: float) -> LossFault | None:
        if not math.isfinite(loss):
            return LossFault.NOT_FINITE
        if len(self._healthy) < LEAST_HISTORY:
            return None
        middle = median(self._healthy)
        spread = _SIGMA * median(abs(one - middle) for one in self._healthy)
        above = max((SPIKE_FACTOR - 1.0) * abs(middle), SPREADS * spread)
        return LossFault.SPIKE if loss > middle + above and above > 0.0 else None
