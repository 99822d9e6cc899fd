"""How each job progressed: step, loss and speed over time, thinned out as it grows.

The log keeps what changes decisions, and a run's own reports go when it is tidied away; neither is a curve to look at.
A thread samples the latest figures of every live run once a second. A history has at most ``_MOST`` points: when it is
full every second one goes, and from then on half as many are taken. Histories are small files in the data directory.
"""

import json
import logging
import math
import threading
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field
from itertools import pairwise
from pathlib import Path

from penstock.control import Platform, RunFigures
from penstock.core import InputError, Report, ReportKind
from penstock.tools import write_atomically

_log = logging.getLogger(__name__)
_MOST = 400
_EVERY_S = 1.0
_SAVE_EVERY_S = 30.0


@dataclass(frozen=True, slots=True)
class Sample:
    """Where a job stood at a moment."""

    at: float
    step: int
    total: int | None = None
    loss: float | None = None
    samples_per_s: float | None = None


@dataclass(slots=True)
class ProgressHistory:
    """Samples of one job in order of time, at least ``spacing_s`` apart."""

    samples: list[Sample] = field(default_factory=list)
    spacing_s: float = 0.0
    dirty: bool = False

    def add(self, sample: Sample) -> None:
        """Take a sample in; the newest is always there, however close to the one before."""
        if self.samples and sample.at <= self.samples[-1].at:
            return
        self.dirty = True
        if len(self.samples) > 1 and self.samples[-1].at - self.samples[-2].at < self.spacing_s:
            self.samples[-1] = sample
        else:
            self.samples.append(sample)
        if len(self.samples) > _MOST:
            self.samples = [*self.samples[:-1:2], self.samples[-1]]
            span = self.samples[-1].at - self.samples[0].at
            self.spacing_s = max(2 * self.spacing_s, span / _MOST)


class ProgressSampler:
    """Records the progress of every live run in a thread, and keeps the histories of all jobs as files."""

    def __init__(self, platform: Platform, folder: Path) -> None:
        self._platform = platform
        self._folder = folder
        self._histories: dict[str, ProgressHistory] = {}
        self._known_runs: set[str] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress-sampler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(5.0)
        self._save()

    def of(self, job_id: str) -> list[Sample]:
        with self._lock:
            return list(self._history(job_id).samples)

    def sample(self) -> None:
        """Take one sample of every live run."""
        for run_id, gauge in self._platform.history.run_figures().items():
            if gauge.step is None:
                continue
            before = self._since_the_start(run_id) if run_id not in self._known_runs else []
            self._note(_job_of(run_id), [*before, _sample(gauge)])
            self._known_runs.add(run_id)

    def _run(self) -> None:
        passed = 0.0
        while not self._stop.wait(_EVERY_S):
            try:
                self.sample()
                passed += _EVERY_S
                if passed >= _SAVE_EVERY_S:
                    passed = 0.0
                    self._save()
            except Exception:
                _log.exception("the progress of runs could not be recorded; trying again")

    def _note(self, job_id: str, samples: Iterable[Sample]) -> None:
        with self._lock:
            history = self._history(job_id)
            for sample in samples:
                history.add(sample)

    def _since_the_start(self, run_id: str) -> list[Sample]:
        """What a run told before we looked, as long as its reports are there."""
        try:
            reports = self._platform.history.reports(run_id)
        except (InputError, OSError):
            return []
        return [
            _reported(report) for report in reports if report.kind is ReportKind.PROGRESS and report.step is not None
        ]

    def _history(self, job_id: str) -> ProgressHistory:
        if job_id not in self._histories:
            self._histories[job_id] = ProgressHistory(self._read(job_id))
        return self._histories[job_id]

    def _read(self, job_id: str) -> list[Sample]:
        try:
            rows = json.loads(self._file(job_id).read_text())
            return [Sample(*row) for row in rows]
        except (OSError, ValueError, TypeError):
            return []

    def _save(self) -> None:
        """Write what has changed; histories of jobs that stand still need no memory."""
        with self._lock:
            changed = {job_id: list(history.samples) for job_id, history in self._histories.items() if history.dirty}
            self._histories = {job_id: history for job_id, history in self._histories.items() if history.dirty}
            for history in self._histories.values():
                history.dirty = False
        for job_id, samples in changed.items():
            self._write(job_id, samples)

    def _write(self, job_id: str, samples: list[Sample]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self._file(job_id), json.dumps([astuple(sample) for sample in samples]))

    def _file(self, job_id: str) -> Path:
        return self._folder / f"{job_id}.json"


def speeds(samples: list[Sample]) -> list[tuple[float, float]]:
    """Steps per second between neighbouring samples, each at its end."""
    return [(b.at, (b.step - a.step) / (b.at - a.at)) for a, b in pairwise(samples) if b.at > a.at and b.step >= a.step]


def _job_of(run_id: str) -> str:
    return run_id.rpartition(".")[0]


def _sample(gauge: RunFigures) -> Sample:
    return Sample(gauge.at, gauge.step or 0, gauge.total, _finite(gauge.loss), _finite(gauge.samples_per_s))


def _reported(report: Report) -> Sample:
    return Sample(report.at, report.step or 0, report.total, _finite(report.loss), _finite(report.samples_per_s))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
