"""Which worker holds the others up: what each needs of a step by itself, compared with the others, over a while.

InternEvo, the framework behind the Acme study (NSDI'24), calls a rank slow whose time is a given multiple of the mean
of all, leaving out the slowest and the fastest where there are enough. Here a worker is compared with the *median of
the others*, which works from two workers on, and has to exceed it by four times their own spread as well (the median
absolute deviation, but at least two hundredths of the median); that and the numbers below are our own. It must do so
in several comparisons in a row, and be clearly better for as many before that is taken back: so nothing flaps.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from penstock.core import StepTimes

SLOW, FINE = 1.3, 1.15
"""Times the others' median: from where a worker is slow, and below which it is not."""
SPREADS, LEAST_SPREAD = 4.0, 0.02
IN_A_ROW = 3
"""Comparisons."""
_SIGMA = 1.4826


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggling:
    """A worker that is slow (``is_over``: was), by which factor, in what, and since which step."""

    worker: str
    factor: float
    cause: str
    since: int
    own_s: float
    others_s: float
    is_over: bool = False


@dataclass(slots=True)
class _Suspicion:
    """What is known of one worker."""

    slow: int = 0
    fine: int = 0
    since: int = 0
    told: Straggling | None = None


class StragglerWatch:
    """Compares workers each time all of them have told their times anew."""

    def __init__(self) -> None:
        self._fresh: dict[str, StepTimes] = {}
        self._suspicions: dict[str, _Suspicion] = {}

    def factor_of(self, worker: str) -> float | None:
        """By how much a worker lags, if it is known to."""
        told = self._suspicions.get(worker, _Suspicion()).told
        return None if told is None else told.factor

    def begin(self) -> None:
        """A new world: other workers, other shares, perhaps other devices."""
        self._fresh.clear()
        self._suspicions.clear()

    def take(self, worker: str, times: StepTimes, workers: int) -> list[Straggling]:
        """The times of a worker, of so many; news comes back with the last of them."""
        self._fresh[worker] = times
        if len(self._fresh) < max(workers, 2):
            return []
        told, self._fresh = self._fresh, {}
        found = [self._judge(one, told) for one in sorted(told)]
        return [news for news in found if news is not None]

    def _judge(self, worker: str, told: Mapping[str, StepTimes]) -> Straggling | None:
        mine, others = told[worker], [times for name, times in told.items() if name != worker]
        suspicion = self._suspicions.setdefault(worker, _Suspicion())
        factor, is_slow = compare(mine, others)
        suspicion.slow = suspicion.slow + 1 if is_slow else 0
        suspicion.fine = suspicion.fine + 1 if factor < FINE else 0
        if suspicion.slow == 1 and suspicion.told is None:
            suspicion.since = max(mine.step - mine.steps, 0)
        if suspicion.told is None and suspicion.slow >= IN_A_ROW:
            suspicion.told = _described(worker, mine, others, factor, suspicion.since)
            return suspicion.told
        if suspicion.told is not None and suspicion.fine >= IN_A_ROW:
            over = _described(worker, mine, others, factor, suspicion.since, is_over=True)
            suspicion.told = None
            return over
        return None


def compare(mine: StepTimes, others: list[StepTimes]) -> tuple[float, bool]:
    """By what factor a worker is slower than the others, and whether that is more than they differ.

    Who has more samples takes longer: only what is slow for its share too, and not only for its share, is slow.
    """
    plain = _ratio(mine.own_s, [one.own_s for one in others])
    shares = _ratio(_for_each(mine), [_for_each(one) for one in others])
    return min(plain, shares, key=lambda found: found[0])[0], plain[1] and shares[1]


def _for_each(times: StepTimes) -> float:
    return times.own_s / max(times.samples, 1.0)


def _ratio(own: float, others: list[float]) -> tuple[float, bool]:
    middle = median(others)
    if middle <= 0.0:
        return 1.0, False
    spread = max(_SIGMA * median(abs(one - middle) for one in others), LEAST_SPREAD * middle)
    return own / middle, own >= SLOW * middle and own - middle > SPREADS * spread


def _described(
    worker: str, mine: StepTimes, others: list[StepTimes], factor: float, since: int, *, is_over: bool = False
) -> Straggling:
    """What it is slower in is what most of the difference is in."""
    in_compute = mine.compute_s - median(one.compute_s for one in others)
    in_input = mine.input_s - median(one.input_s for one in others)
    return Straggling(
        worker=worker, factor=factor, cause="input" if in_input > in_compute else "compute", since=since,
        own_s=mine.own_s, others_s=median(one.own_s for one in others), is_over=is_over,
    )  # fmt: skip
