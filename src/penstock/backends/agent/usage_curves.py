"""What a run used over time, on the disk: one thinned series for each figure, as its metrics are kept.

The steps of these series are whole seconds, so those of all runs of a job join into one curve. The file is written
rarely, because every run has one; an agent that dies loses what came since.
"""

import time
from collections.abc import Callable
from pathlib import Path

from penstock.backends.agent.metrics.metric_recorder import MetricRecorder
from penstock.core import MetricValue, Usage

FIGURES = ("cpu_percent", "memory_bytes", "device_percent", "device_memory_bytes", "power_w")
WRITE_EVERY_S = 15.0


class UsageCurves:
    """Takes in what a run uses now and then."""

    def __init__(self, path: Path, clock: Callable[[], float], remark: Callable[[str], None]) -> None:
        self._clock = clock
        self._recorder = MetricRecorder(path, clock, remark)
        self._write_at = 0.0

    def note(self, usage: Usage) -> None:
        """Nothing is noted while no process is there."""
        if not usage.memory_bytes:
            return
        at = int(self._clock())
        told = {name: value for name in FIGURES if (value := getattr(usage, name)) is not None}
        self._recorder.take(MetricValue(name=name, value=float(value), step=at) for name, value in told.items())
        if time.monotonic() >= self._write_at:
            self._write_at = time.monotonic() + WRITE_EVERY_S
            self.flush()

    def flush(self) -> None:
        self._recorder.flush()
