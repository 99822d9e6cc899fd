"""When silence is a hang: a limit of the job's own, or one that is learned from how long its steps take.

The limit of a job file is simple: after so long without a sign of life the workers are looked at, and ended. What is
learned needs more care, for an evaluation, a download or a slow disk is no hang. After a silence of ten times the
longest time between two steps, and a minute at least, the workers are looked at and that is told: early enough to see
who holds up whom, before anything times out. After thirty times, and five minutes at least (the interval after which
InternEvo, the framework behind the Acme study, calls a run hung), they are looked at twice. Only if none of them has
moved in between is the run ended; else it gets twice the time. The multiples and the second look are our own. What a
script prints is a sign of life and teaches nothing: many lines at a start say nothing about the hour that follows.
"""

from collections.abc import Mapping
from enum import StrEnum

TELL_FACTOR, TELL_FLOOR_S = 10.0, 60.0
END_FACTOR, END_FLOOR_S = 30.0, 300.0
LEAST_STEPS = 5
"""Told steps before a limit is learned from them."""
AGAIN_S = 10.0
"""Between two looks at workers that may be stuck."""
LOOK_S = 6.0
"""How long a look may take before it counts as having seen nothing."""

Positions = Mapping[str, tuple[str, ...]]
"""Of each worker that could be looked at, the functions that its main thread is in."""


class HangStep(StrEnum):
    """What to do now."""

    WAIT = "wait"
    LOOK = "look"
    END = "end"


class _Stage(StrEnum):
    """How far a silence has come."""

    QUIET = "quiet"
    TOLD = "told"
    FIRST_LOOK = "first look"
    SECOND_LOOK = "second look"


class HangWatch:
    """Follows the signs of life of one run, on a clock that the caller reads."""

    def __init__(self, limit_s: float | None, *, learns: bool, now: float) -> None:
        self._limit_s = limit_s
        self._learns = learns and limit_s is None
        self._alive_at = now
        self._stepped_at = now
        self._longest_s = 0.0
        self._steps = 0
        self._extended = 1.0
        self._stage = _Stage.QUIET
        self._looking_since: float | None = None
        self._looked_at = 0.0
        self._positions: Positions = {}

    def silent_for(self, now: float) -> float:
        return now - self._alive_at

    @property
    def is_silence(self) -> bool:
        """Whether it has been quiet for long enough to look, and still is."""
        return self._stage is not _Stage.QUIET

    @property
    def usual_s(self) -> float:
        """The longest time between two steps that were told so far."""
        return self._longest_s

    def begin(self, now: float) -> None:
        """A new world: how long its first step takes says nothing, and nobody expects it soon."""
        self._alive_at, self._steps = now, 0
        self._calm()

    def alive(self, now: float) -> None:
        """A worker wrote or told something."""
        self._alive_at = now
        self._calm()

    def stepped(self, now: float) -> None:
        """A worker told how far training is."""
        if self._steps:
            self._longest_s = max(self._longest_s, now - self._stepped_at)
        self._steps += 1
        self._stepped_at = now
        self.alive(now)

    def next(self, now: float, *, may_end: bool = True) -> HangStep:
        """What the silence asks for; with ``may_end`` false a learned limit is only told."""
        if self._looking_since is not None:
            if now - self._looking_since < LOOK_S:
                return HangStep.WAIT
            self._looking_since = None
        silent_s = self.silent_for(now)
        if self._limit_s is not None:
            return self._by_own_limit(silent_s, now)
        if not self._learns or self._steps < LEAST_STEPS:
            return HangStep.WAIT
        return self._by_learned_limit(silent_s, now, may_end)

    def look_before_end(self, now: float) -> HangStep:
        """The end is certain; a look comes first."""
        if self._stage is _Stage.SECOND_LOOK:
            return HangStep.WAIT if self._is_looking(now) else HangStep.END
        return self._look(_Stage.SECOND_LOOK, now)

    def seen(self, positions: Positions) -> None:
        """What a look has found."""
        self._looking_since = None
        if self._stage is _Stage.SECOND_LOOK and self._learns and _moved(self._positions, positions):
            self._extended *= 2.0
            self._stage = _Stage.TOLD
        self._positions = positions

    def _by_own_limit(self, silent_s: float, now: float) -> HangStep:
        assert self._limit_s is not None
        return self.look_before_end(now) if silent_s > self._limit_s else HangStep.WAIT

    def _by_learned_limit(self, silent_s: float, now: float, may_end: bool) -> HangStep:
        told_s = max(TELL_FLOOR_S, TELL_FACTOR * self._longest_s)
        end_s = max(END_FLOOR_S, END_FACTOR * self._longest_s) * self._extended
        if self._stage is _Stage.SECOND_LOOK:
            return HangStep.END
        if self._stage is _Stage.FIRST_LOOK:
            return self._look(_Stage.SECOND_LOOK, now) if now - self._looked_at >= AGAIN_S else HangStep.WAIT
        if silent_s > end_s and may_end:
            return self._look(_Stage.FIRST_LOOK, now)
        return self._look(_Stage.TOLD, now) if silent_s > told_s and self._stage is _Stage.QUIET else HangStep.WAIT

    def _look(self, stage: _Stage, now: float) -> HangStep:
        self._stage, self._looking_since, self._looked_at = stage, now, now
        return HangStep.LOOK

    def _is_looking(self, now: float) -> bool:
        return self._looking_since is not None and now - self._looking_since < LOOK_S

    def _calm(self) -> None:
        self._stage, self._looking_since, self._extended, self._positions = _Stage.QUIET, None, 1.0, {}


def _moved(before: Positions, after: Positions) -> bool:
    """Whether a worker that was seen twice is somewhere else. Nobody could be seen: nobody is known to have moved."""
    return any(before[worker] != after[worker] for worker in before.keys() & after.keys())
