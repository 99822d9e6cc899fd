"""How fast a job runs on how many devices."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache

from penstock.core.errors import CurveError
from penstock.core.parallel_plan import ParallelPlan

ANY_KIND = "*"
"""The kind of a curve that holds on every kind of device, used where a trace does not say."""


class Source(StrEnum):
    """Where a number comes from."""

    MEASURED = "measured"
    PREDICTED = "predicted"
    """By a model through what was measured."""
    GUESSED = "guessed"
    """Nothing was ever measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Iterations per second against device count on one kind of device, placed as compactly as possible.

    ``spread`` optionally holds ``(count, nodes, rate)`` for placements over more nodes than necessary; ``doubts`` the
    share by which each rate may turn out lower, for promises to allow for; ``watts`` what all devices together draw at
    each count. ``plans``: how the model is split on each count, for jobs that are trained under a parallel plan; such a
    job runs on these counts only. ``measured``: the counts of a predicted curve whose rates were measured. ``batches``:
    the global batch on each count, for a job whose batch follows its devices.
    """

    counts: tuple[int, ...]
    rates: tuple[float, ...]
    source: Source = Source.MEASURED
    spread: tuple[tuple[int, int, float], ...] = ()
    doubts: tuple[float, ...] = ()
    plans: tuple[ParallelPlan, ...] = ()
    watts: tuple[float, ...] = ()
    measured: tuple[int, ...] = ()
    batches: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.counts or len(self.counts) != len(self.rates):
            raise CurveError(f"a curve with counts {self.counts} and rates {self.rates}", "one rate per count")
        if any(b <= a for a, b in zip((0, *self.counts), self.counts, strict=False)):
            raise CurveError(f"device counts {self.counts}", "positive and increasing")
        rates = (*self.rates, *(rate for _, _, rate in self.spread))
        if not all(math.isfinite(rate) and rate > 0 for rate in rates):
            raise CurveError(f"rates {rates}", "positive and finite", "Leave out counts that cannot run")
        if len(self.doubts) not in (0, len(self.counts)) or not all(0.0 <= doubt < 1.0 for doubt in self.doubts):
            raise CurveError(f"doubts {self.doubts}", "none, or one per count from 0 to below 1")
        if len(self.watts) not in (0, len(self.counts)) or not all(0.0 <= watts < math.inf for watts in self.watts):
            raise CurveError(f"watts {self.watts}", "none, or one per count, zero or more")
        if len(self.batches) not in (0, len(self.counts)) or not all(batch >= 1 for batch in self.batches):
            raise CurveError(f"batches {self.batches}", "none, or one per count, 1 or more")
        planned = tuple(plan.devices for plan in self.plans)
        if planned not in ((), self.counts):
            raise CurveError(f"plans for {planned} devices", f"none, or one for each of {self.counts}")

    def scaled(self, factor: float) -> "Scaling":
        spread = tuple((count, nodes, rate * factor) for count, nodes, rate in self.spread)
        return replace(self, rates=tuple(rate * factor for rate in self.rates), spread=spread)

    def is_measured(self, count: int) -> bool:
        """Return whether the rate on ``count`` devices was measured; a curve may be measured as a whole."""
        return self.source is Source.MEASURED or count in self.measured

    def plan(self, count: int) -> ParallelPlan | None:
        """How the model is split on ``count`` devices, where plans decide that."""
        return next((plan for plan in self.plans if plan.devices == count), None)


@dataclass(frozen=True, slots=True)
class Curve:
    """Iterations per second as a function of (kind, count, spread).

    Between two measured counts the rate is interpolated linearly; beyond the last it stays flat, because more devices
    are never assumed to help; below the first the job cannot run at all. Several tables measured at large scale fall
    again past 8 to 32 devices, so schedulers should use :meth:`levels`, which stops where throughput stops growing.

    >>> curve = Curve.from_table({1: 10.0, 2: 18.0, 4: 30.0, 8: 29.0})
    >>> curve.rate(3), curve.rate(8), curve.levels()
    (24.0, 29.0, ((1, 10.0), (2, 18.0), (4, 30.0)))
    """

    scalings: tuple[tuple[str, Scaling], ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.scalings:
            raise CurveError("a curve without any kind of device", "at least one")
        object.__setattr__(self, "_hash", hash(self.scalings))

    def __hash__(self) -> int:
        """Computed once: schedulers look up the same few curves millions of times."""
        return self._hash

    def __reduce__(self) -> tuple[type["Curve"], tuple[tuple[tuple[str, Scaling], ...]]]:
        """Hashes of text differ between processes, so a copy in another one computes its own."""
        return Curve, (self.scalings,)

    @classmethod
    def from_table(cls, table: Mapping[int, float], kind: str = ANY_KIND, source: Source = Source.MEASURED) -> "Curve":
        """A curve from {count: iterations per second}; empty, zero or NaN cells mean "cannot run"."""
        runnable = {count: rate for count, rate in sorted(table.items()) if rate and not math.isnan(rate)}
        if not runnable:
            raise CurveError("a throughput table without a single runnable count", "at least one positive rate")
        return cls(((kind, Scaling(counts=tuple(runnable), rates=tuple(runnable.values()), source=source)),))

    def scaled(self, factor: float) -> "Curve":
        """The same curve in another unit of work: ``factor`` of ours for one of its own."""
        return self if factor == 1.0 else Curve(tuple((kind, each.scaled(factor)) for kind, each in self.scalings))

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(kind for kind, _ in self.scalings)

    def scaling(self, kind: str = ANY_KIND) -> Scaling | None:
        """The table for ``kind``, else the one that holds on any kind, else ``None``."""
        tables = dict(self.scalings)
        if kind == ANY_KIND:
            return self.scalings[0][1]
        return tables.get(kind, tables.get(ANY_KIND))

    def rate(self, count: int, kind: str = ANY_KIND, nodes: int | None = None) -> float:
        """Iterations per second on ``count`` devices, optionally spread over ``nodes`` nodes."""
        return _rate(self, count, kind, nodes)

    def doubt(self, count: int, kind: str = ANY_KIND) -> float:
        """The share by which the rate on ``count`` devices may turn out lower; 0 where nothing is said.

        Either nobody knows it better, or the devices are spread over more nodes than necessary.
        """
        return _doubt(self, count, kind)

    def watts(self, count: int, kind: str = ANY_KIND) -> float:
        """What ``count`` devices together draw while the job runs on them; 0 where nothing is said."""
        scaling = self.scaling(kind)
        if scaling is None or not scaling.watts or count < scaling.counts[0]:
            return 0.0
        return _interpolate(scaling.counts, scaling.watts, count)

    def has_watts(self, kind: str = ANY_KIND) -> bool:
        """Whether anything is said about power on this kind."""
        scaling = self.scaling(kind)
        return scaling is not None and bool(scaling.watts)

    def levels(
        self, kind: str = ANY_KIND, at_least: int = 1, at_most: int | None = None
    ) -> tuple[tuple[int, float], ...]:
        """The (count, rate) pairs worth using: inside the bounds, each faster than every smaller one."""
        return _levels(self, kind, at_least, at_most)


def _interpolate(counts: tuple[int, ...], rates: tuple[float, ...], count: int) -> float:
    if count >= counts[-1]:
        return rates[-1]
    above = next(i for i, c in enumerate(counts) if c >= count)
    if counts[above] == count:
        return rates[above]
    share = (count - counts[above - 1]) / (counts[above] - counts[above - 1])
    return rates[above - 1] + share * (rates[above] - rates[above - 1])


@lru_cache(maxsize=65536)
def _rate(curve: Curve, count: int, kind: str, nodes: int | None) -> float:
    scaling = curve.scaling(kind)
    if scaling is None or count < scaling.counts[0]:
        return 0.0
    for at, over, rate in scaling.spread:
        if at == count and over == nodes:
            return rate
    return _interpolate(scaling.counts, scaling.rates, count)


@lru_cache(maxsize=65536)
def _doubt(curve: Curve, count: int, kind: str) -> float:
    scaling = curve.scaling(kind)
    if scaling is None or not (scaling.doubts or scaling.spread) or count < scaling.counts[0]:
        return 0.0
    stated = _stated_doubt(scaling, count) if scaling.doubts else 0.0
    spread = [rate for at, _, rate in scaling.spread if at == count]
    compact = _interpolate(scaling.counts, scaling.rates, count)
    return 1.0 - (1.0 - stated) * min(spread) / compact if spread and min(spread) < compact else stated


def _stated_doubt(scaling: Scaling, count: int) -> float:
    """The doubt at a count; between two counts of a predicted curve the certain rate is that of the smaller one."""
    below = bisect_right(scaling.counts, count) - 1
    if scaling.source is not Source.PREDICTED or scaling.counts[below] == count:
        return _interpolate(scaling.counts, scaling.doubts, count)
    certain = scaling.rates[below] * (1.0 - scaling.doubts[below])
    return max(0.0, 1.0 - certain / _interpolate(scaling.counts, scaling.rates, count))


def _growing(pairs: Iterable[tuple[int, float]]) -> Iterable[tuple[int, float]]:
    best = 0.0
    for count, rate in pairs:
        if rate > best:
            best = rate
            yield count, rate


@lru_cache(maxsize=65536)
def _levels(curve: Curve, kind: str, at_least: int, at_most: int | None) -> tuple[tuple[int, float], ...]:
    scaling = curve.scaling(kind)
    if scaling is None:
        return ()
    top = at_most if at_most is not None else max(scaling.counts[-1], at_least)
    inside = {c: r for c, r in zip(scaling.counts, scaling.rates, strict=True) if at_least <= c <= top}
    if at_least > scaling.counts[0] and at_least <= top:
        inside.setdefault(at_least, _interpolate(scaling.counts, scaling.rates, at_least))
    return tuple(_growing(sorted(inside.items())))
