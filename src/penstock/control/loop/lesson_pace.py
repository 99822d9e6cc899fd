"""How often all jobs of one fingerprint are told what one of them showed.

A lesson changes every job that would run the same way, while everybody else waits. With an array of a thousand short
jobs one ends every few milliseconds and shows a slightly other speed: telling each time would be all the server does.
The stores keep every measurement, so what is not told now is part of what the next run shows.
"""

import math

FEW = 100
"""So many jobs are told at once, every time."""
_REST_S = 0.001
"""For each of them, until the next time."""


class LessonPace:
    """When which fingerprint was told what."""

    def __init__(self) -> None:
        self._rests_until: dict[tuple[str, str], float] = {}

    def may_tell(self, what: str, fingerprint: str, jobs: int, now: float) -> bool:
        """Whether so many ``jobs`` may be told now; if so, they are."""
        if now < self._rests_until.get((what, fingerprint), -math.inf):
            return False
        if jobs > FEW:
            self._rests_until = {key: until for key, until in self._rests_until.items() if until > now}
            self._rests_until[what, fingerprint] = now + jobs * _REST_S
        return True
