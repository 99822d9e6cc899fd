"""All metrics of one run, wherever they come from."""

import time
from collections.abc import Iterable
from typing import Any

from penstock.backends.agent.metrics.event_file_watch import LOOK_EVERY_S, EventFileWatch
from penstock.backends.agent.metrics.metric_recorder import MetricRecorder
from penstock.backends.agent.progress import parse_metrics
from penstock.core import MetricValue

_FIGURES = ("loss", "samples_per_s")
"""Figures of progress that are metrics too."""


class RunMetrics:
    """Takes metrics in from lines, messages, progress and event files; writes them down now and then."""

    def __init__(self, recorder: MetricRecorder, event_files: EventFileWatch) -> None:
        self._recorder = recorder
        self._event_files = event_files
        self._looked_at = time.monotonic()

    def expect(self, pid: int) -> None:
        """Event files that this process writes are of this run."""
        self._event_files.expect(pid)

    def line(self, text: str) -> None:
        """A line of the first worker's output."""
        self._recorder.take(parse_metrics(text))

    def logged(self, values: Iterable[MetricValue]) -> None:
        self._recorder.take(values)

    def reached(self, step: int) -> None:
        """Values without a step are of this one from now on."""
        self._recorder.reached(step)

    def progress(self, said: dict[str, Any]) -> None:
        """Progress of a worker that counts its steps itself, or of its file."""
        step = said["step"]
        self.reached(step)
        told = {name: said[name] for name in _FIGURES if said.get(name) is not None}
        self.logged(MetricValue(name=name, value=float(value), step=step) for name, value in told.items())

    def tick(self) -> None:
        if time.monotonic() - self._looked_at >= LOOK_EVERY_S:
            self._look()
        self._recorder.flush_when_due()

    def flush(self) -> None:
        """Take in and write down whatever there is."""
        self._look()
        self._recorder.flush()

    def _look(self) -> None:
        self._looked_at = time.monotonic()
        self._recorder.take(self._event_files.news())
