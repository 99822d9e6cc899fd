"""The metrics of a run on the disk: one file of thinned series, written by the agent and read by whoever is asked.

The file is bounded by the number of series and of their points, and written anew at most every few seconds, the rarer
the larger it is; an agent that dies loses what came since. Nothing that a job tells gets further than this: a flood of
values is cut here, and names beyond the limit are left out, with one word about it in the run's output.
"""

import json
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from penstock.core import MOST_METRICS, MOST_STEPS, MetricSeries, MetricValue, plain_series, read_series
from penstock.tools import parse_json, read_regular, write_atomically

WRITE_EVERY_S = 2.0
BYTES_PER_S = 100_000
"""How much is written on average at most; a large file is written more rarely."""
MOST_PER_S = 1_000
"""Values that are taken in from one run in the long term."""
BURST = 20_000
"""Values that may come at once."""
_LARGEST_FILE = 32 * 2**20


class ValueBudget:
    """How many values may still be taken in: so many a second, saved up to a burst."""

    def __init__(self, per_s: float = MOST_PER_S, burst: float = BURST) -> None:
        self._per_s = per_s
        self._burst = burst
        self._left = burst
        self._at = time.monotonic()

    def take(self) -> bool:
        """Whether there is room for one more."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_s)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class MetricRecorder:
    """Keeps the series of a run; ``remark`` tells its user what is left out, once for each reason.

    ``observe`` hears every value that is taken in, with its step.
    """

    def __init__(
        self,
        path: Path,
        clock: Callable[[], float],
        remark: Callable[[str], None],
        observe: Callable[[str, int, float], None] | None = None,
    ) -> None:
        self._path = path
        self._clock = clock
        self._remark = remark
        self._observe = observe
        self._budget = ValueBudget()
        self._series = {series.name: series for series in read_metrics(path)}
        self._step: int | None = None
        self._remarked: set[str] = set()
        self._changed = False
        self._write_at = 0.0

    def reached(self, step: int) -> None:
        """Values without a step are of this one from now on."""
        self._step = step

    def take(self, values: Iterable[MetricValue]) -> None:
        for value in values:
            if not self._budget.take():
                self._remark_once(f"more than {MOST_PER_S} values of metrics a second: some are left out")
            elif value.name in self._series or len(self._series) < MOST_METRICS:
                self._add(value)
            else:
                self._remark_once(f"more than {MOST_METRICS} metrics: the others are left out")

    def flush_when_due(self) -> None:
        if self._changed and time.monotonic() >= self._write_at:
            self.flush()

    def flush(self) -> None:
        """Write what is new; with a full disk again later."""
        if not self._changed:
            return
        text = "\n".join(json.dumps(plain_series(series)) for series in self._series.values())
        self._write_at = time.monotonic() + max(WRITE_EVERY_S, len(text) / BYTES_PER_S)
        with suppress(OSError):
            write_atomically(self._path, text, mode=0o600)
            self._changed = False

    def _add(self, value: MetricValue) -> None:
        series = self._series.setdefault(value.name, MetricSeries(value.name))
        step = value.step if value.step is not None else self._step
        if step is None:  # nobody counts steps: values are counted
            step = min(series.last.step + 1, MOST_STEPS) if series.points else 1
        series.add(step, self._clock(), value.value)
        self._changed = True
        if self._observe is not None:
            self._observe(value.name, step, value.value)

    def _remark_once(self, text: str) -> None:
        if text not in self._remarked:
            self._remarked.add(text)
            self._remark(text)


def read_metrics(path: Path) -> list[MetricSeries]:
    """The series in a file of metrics; a line that is none is passed over, no file is none."""
    try:
        lines = read_regular(path, _LARGEST_FILE).decode(errors="replace").splitlines()
    except OSError:
        return []
    found: list[MetricSeries] = []
    for line in lines[:MOST_METRICS]:
        with suppress(ValueError):
            data = parse_json(line, _LARGEST_FILE)
            if isinstance(data, dict):
                found.append(read_series(data))
    return found
