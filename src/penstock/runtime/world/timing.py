"""How fast training goes, and how long it stood still when the world changed."""

import math
import time
from collections.abc import Sequence


class StepTiming:
    """Clock readings at step borders.

    Workers may be on different machines, whose clocks have nothing in common: what they tell each other is for how long
    training has been standing still, never since when.
    """

    def __init__(self) -> None:
        self.fresh = False
        self._stood_since: float | None = None
        self._pause_s = 0.0
        self._samples = 0
        self._rated_at = time.monotonic()

    def stood_for(self) -> float:
        """Seconds since the last step; infinite for a worker that has made none."""
        return math.inf if self._stood_since is None else time.monotonic() - self._stood_since

    def share(self, stood_for: Sequence[float]) -> None:
        """What everyone has just said: the last step of anybody was the world's, and newcomers count on from it."""
        if math.isfinite(least := min(stood_for)):
            self._stood_since = time.monotonic() - least

    def resume(self) -> None:
        """A new world is open; its first step comes next."""
        self.fresh = True
        self._pause_s = 0.0 if self._stood_since is None else self.stood_for()
        self._samples, self._rated_at = 0, time.monotonic()

    def end(self, samples: int) -> None:
        """A step is complete."""
        self._stood_since = time.monotonic()
        self._samples += samples

    def take_pause(self) -> float:
        """Seconds between the last step of the old world and the start of the first in this one; asked once."""
        self.fresh = False
        return self._pause_s

    def take_rate(self) -> float:
        """Samples per second since the last time this was asked."""
        now = time.monotonic()
        rate = self._samples / max(now - self._rated_at, 1e-9)
        self._samples, self._rated_at = 0, now
        return rate
