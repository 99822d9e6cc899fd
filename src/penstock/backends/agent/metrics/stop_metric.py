"""The metric that a job trains until, as the agent of its run sees it: told to the server, held against the rule.

The agent decides that training is over and needs no server for it. The server is told some of the values, at first
each, then ever wider apart, so that a year of steps costs a few thousand reports.
"""

import math
import time
from collections.abc import Callable

from penstock.backends.agent.progress import RECORD_EVERY_S
from penstock.core import Launch, MetricWatch

_BEFORE_DOUBLING = 200
"""Reports after which the steps between two of them double."""


class StopMetric:
    """Hears all metrics of a run; ``report`` tells a step and a value, ``finish`` is called when training is over."""

    def __init__(self, launch: Launch, report: Callable[[int, float], None], finish: Callable[[], None]) -> None:
        self._watch = MetricWatch(launch.until, launch.best) if launch.until is not None else None
        self._report = report
        self._finish = finish
        self._gap = 1
        self._reports = 0
        self._told_step = -math.inf
        self._told_at = -math.inf
        self._untold: tuple[int, float] | None = None

    @property
    def ending(self) -> str:
        """How training ended as far as the rule goes; nothing for a run without one."""
        return "" if self._watch is None else self._watch.ending

    def take(self, name: str, step: int, value: float) -> None:
        watch = self._watch
        if watch is None or name != watch.rule.metric or not math.isfinite(value):
            return
        self._untold = step, value
        if not 0 <= step - self._told_step < self._gap:
            self.flush_when_due()
        if watch.take(step, value):
            self.flush()
            self._finish()

    def flush_when_due(self) -> None:
        if time.monotonic() - self._told_at >= RECORD_EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Tell the last value, if nobody knows it."""
        if self._untold is None:
            return
        step, value = self._untold
        self._untold, self._told_step, self._told_at = None, step, time.monotonic()
        self._reports += 1
        if self._reports % _BEFORE_DOUBLING == 0:
            self._gap *= 2
        self._report(step, value)
