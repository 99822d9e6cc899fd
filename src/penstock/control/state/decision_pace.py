"""How often the policy is asked while very many jobs wait.

A decision looks at every job that is not over, so with tens of thousands of them it takes a while, and asking for one
with each arrival would leave no time for anything else. Decisions therefore take a bounded share of one processor:
after a long one, what arrives is recorded at once and answered together by the next. Short ones are never put off.
"""

import time
from collections.abc import Callable

LONG_S = 0.01
"""Processor time of a decision up to which the next one may follow at once."""
SHARE = 0.2
"""Of the time, at most, that long decisions take."""
LONGEST_REST_S = 2.0


class DecisionPace:
    """Rests after long decisions. One long decision among short ones is not counted: the first loads compiled code."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._took_s = 0.0
        self._rests_until = 0.0

    @property
    def resting(self) -> bool:
        """Whether what is due has to wait for a later pass."""
        return self._monotonic() < self._rests_until

    def decided(self, took_s: float) -> None:
        """A decision took so much processor time."""
        usual_s, self._took_s = min(took_s, self._took_s), took_s
        if usual_s > LONG_S:
            self._rests_until = self._monotonic() + min(usual_s * (1.0 / SHARE - 1.0), LONGEST_REST_S)
