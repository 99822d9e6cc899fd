"""How fast training goes, and how long it stood still when the world changed."""

import time


class Pace:
    """Clock readings at step borders.

    Newcomers go on counting a pause others began: the monotonic clock is the same for all processes of a machine, and
    unlike the wall clock nobody sets it.
    """

    def __init__(self) -> None:
        self.stood_since = 0.0
        self.fresh = False
        self._pause_s = 0.0
        self._samples = 0
        self._rated_at = time.monotonic()

    def resume(self) -> None:
        """A new world is open; its first step comes next."""
        self.fresh = True
        self._pause_s = time.monotonic() - self.stood_since if self.stood_since else 0.0
        self._samples, self._rated_at = 0, time.monotonic()

    def end(self, samples: int) -> None:
        """A step is complete."""
        self.stood_since = time.monotonic()
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
