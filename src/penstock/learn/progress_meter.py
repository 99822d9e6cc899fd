"""How fast is it really? Reports of steps in, a rate with its spread out.

Training pauses: for checkpoints, for a change of width, for a slow disk. A mean over everything would call each pause
a slower model; the median over recent stretches of training does not. The first steps after a start or a change of
width warm caches and are left out.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from penstock.core import InputError

_TO_DEVIATION = 1.4826
"""A median absolute deviation times this is the standard deviation, for a normal distribution."""

_OUTLIER = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A rate in steps per second, its standard deviation, and the seconds and steps it stands on."""

    rate: float
    spread: float
    seconds: float
    steps: int


@dataclass(frozen=True, slots=True)
class _Stretch:
    seconds: float
    steps: int

    @property
    def step_s(self) -> float:
        return self.seconds / self.steps


class ProgressMeter:
    """The speed of one run at one width.

    ``window`` stretches are kept, each at least ``stretch_s`` long; ``warmup_steps`` are skipped after a start or a
    change of width. Call :meth:`resized` when the width changes: nothing measured before counts after it.

    >>> meter = ProgressMeter(warmup_steps=1, stretch_s=1)
    >>> for second in range(10):
    ...     meter.report(at=float(second), step=5 * second)
    >>> meter.measured().rate
    5.0
    """

    def __init__(self, *, window: int = 64, warmup_steps: int = 3, stretch_s: float = 1.0) -> None:
        if window < 1 or warmup_steps < 0 or not stretch_s >= 0:
            raise InputError(
                f"a meter of {window} stretches of {stretch_s} s after {warmup_steps} steps", "1 or more, 0 or more"
            )
        self._warmup_steps = warmup_steps
        self._stretch_s = stretch_s
        self._stretches: deque[_Stretch] = deque(maxlen=window)
        self._warm_at: int | None = None
        self._mark: tuple[float, int] | None = None

    def report(self, at: float, step: int) -> None:
        """``step`` steps were done at time ``at``. A step number that falls back is a restart from a checkpoint."""
        if self._mark is not None and (at < self._mark[0] or step < self._mark[1]):
            self._settle()
        if self._warm_at is None:
            self._warm_at = step + self._warmup_steps
        if step < self._warm_at:
            return
        if self._mark is None:
            self._mark = (at, step)
        else:
            self._advance(self._mark, at, step)

    def resized(self) -> None:
        """The width changed: start from nothing."""
        self._stretches.clear()
        self._settle()

    def measured(self) -> Measurement | None:
        """The rate so far, or None before the first whole stretch."""
        return _measure(tuple(self._stretches))

    def drain(self) -> Measurement | None:
        """Like :meth:`measured`, and forget it: for handing each observed second to a store once."""
        found = self.measured()
        self._stretches.clear()
        return found

    def _settle(self) -> None:
        self._warm_at = self._mark = None

    def _advance(self, mark: tuple[float, int], at: float, step: int) -> None:
        seconds, steps = at - mark[0], step - mark[1]
        if steps > 0 and seconds > 0 and seconds >= self._stretch_s:
            self._stretches.append(_Stretch(seconds, steps))
            self._mark = (at, step)


def _measure(stretches: Sequence[_Stretch]) -> Measurement | None:
    if not stretches:
        return None
    middle = median(stretch.step_s for stretch in stretches)
    deviation = _TO_DEVIATION * median(abs(stretch.step_s - middle) for stretch in stretches)
    limit = middle + max(_OUTLIER * deviation, 0.5 * middle)
    usual = [stretch for stretch in stretches if stretch.step_s <= limit]
    return Measurement(
        rate=1 / middle,
        spread=deviation / middle**2,
        seconds=sum(stretch.seconds for stretch in usual),
        steps=sum(stretch.steps for stretch in usual),
    )
