"""What was measured: a rate at one number of devices, how far it spread, and how long somebody looked."""

import math
from dataclasses import dataclass

from penstock.core import CurveError


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A measured rate in steps per second. ``seconds`` is what it weighs: time observed, old time counting less.

    ``spread`` is the standard deviation of the rate from one stretch of training to the next, not of its mean:
    promises have to hold for a stretch.
    """

    count: int
    rate: float
    spread: float
    seconds: float
    updated_at: float

    @property
    def relative_spread(self) -> float:
        return self.spread / self.rate


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileResult:
    """What came of running a job for a while on ``count`` devices of one kind."""

    fingerprint: str
    kind: str
    count: int
    rate: float
    seconds: float
    spread: float = 0.0

    def __post_init__(self) -> None:
        if self.count < 1 or not self.fingerprint or not self.kind:
            raise CurveError(
                f"a measurement of {self.fingerprint!r} on {self.count} devices of kind {self.kind!r}",
                "a fingerprint, a kind and at least one device",
            )
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise CurveError(f"a measured rate of {self.rate} steps per second", "a positive, finite rate")
        if not (math.isfinite(self.seconds) and self.seconds > 0 and math.isfinite(self.spread) and self.spread >= 0):
            raise CurveError(
                f"a rate measured for {self.seconds} s with a spread of {self.spread}",
                "a positive time and a spread of at least 0",
            )


def merged(old: Point, new: ProfileResult, half_life_s: float, at: float) -> Point:
    """Both together, the old one fading: watching for ``half_life_s`` makes what was known before weigh half.

    The spread covers the spreads of both and the distance between them, so a change of speed shows as uncertainty
    before it shows as a new rate.
    """
    weight = old.seconds * 0.5 ** (new.seconds / half_life_s)
    total = weight + new.seconds
    share = new.seconds / total
    rate = (1 - share) * old.rate + share * new.rate
    variance = (1 - share) * (old.spread**2 + (old.rate - rate) ** 2) + share * (new.spread**2 + (new.rate - rate) ** 2)
    return Point(count=old.count, rate=rate, spread=math.sqrt(variance), seconds=total, updated_at=at)
